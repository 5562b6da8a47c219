{#-
    Return the change table of a model: a Delta or Iceberg table of events that the user provides. With a change table, the upstream needs no feed of
    its own. Each event has an operation and a sequence. A barrier reads the events that were added to the change table after the last barrier. The
    sequence does not decide this: it only orders events.

    The version of the change table is read before the upstream's version is chosen. So the upstream may be ahead of the events, and later events may
    repeat changes that the upstream already has. The user must make sure that the upstream contains every change whose event can be read. Then the
    upstream is never behind the events.
-#}
{% macro get_change_table(feed, upstream, sql) %}
    {%- set relation = dbt_backfill.get_read_relation(feed.node, sql) -%}
    {%- set found = dbt_backfill.load_table(relation, reads=true) -%}
    {%- set format = dbt_backfill.get_table_format(found, relation) if found and not found.is_view else none -%}
    {%- if format not in ['delta', 'iceberg'] -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ relation.render() ~ (' is neither a Delta nor an Iceberg table' if found else ' does not exist'),
            ('Set' if found else 'Create it, or set') ~ " 'relation' in change_feed to a Delta or Iceberg table", id='change-table-unusable') -%}
    {%- endif -%}
    {{ return({
        'relation': relation, 'kind': format, 'upstream': upstream, 'operation': feed.operation, 'sequence': feed.sequence,
        'deletes': feed.deletes, 'before_images': feed.before_images, 'ordered_texts': feed.ordered_texts,
    }) }}
{% endmacro %}


{#- Return the text that a plan records about the option change_feed. A later run compares this text to find out if the option was changed. -#}
{% macro describe_change_table(feed) %}
    {{ return(feed.relation.render() ~ ' (operation ' ~ feed.operation ~ '; sequence ' ~ feed.sequence | join(', ')
        ~ '; deletes ' ~ feed.deletes | join(', ') ~ ')') }}
{% endmacro %}


{#-
    Return the events in (from_version, to_version] of the change table, in the form of the question upstream_changes. The sequence orders the events
    of a key. An event is late if an earlier barrier has read an event of the same key with the same or a later sequence. Late events are left out. To
    find late events, the select reads from_version of the change table for the keys of events that may be late.

    A row without an operation is not an event: it is a tombstone or a heartbeat of the program that writes the change table. The same holds for a
    message without a key (`m`). Any other row without a key may be a TRUNCATE, or a delete that does not say which row was deleted, so it leads to a
    re-anchor. `columns`: as get_feed_columns returned them.
-#}
{% macro get_change_table_events(feed, observed, from_version, to_version, keys, columns, view) %}
    {%- set added = dbt_backfill.ask(feed, 'upstream_changes')(observed, from_version, to_version, none, view) -%}
    {%- set operation = 'lower(trim(cast(' ~ dbt_backfill.identifier(feed.operation) ~ ' as string)))' -%}
    {%- set key, sequence = dbt_backfill.upstream_columns(keys), 'struct(' ~ dbt_backfill.identifiers(feed.sequence) ~ ')' -%}
    {%- set no_upserts = [] -%}
    {%- for value in feed.deletes + feed.before_images -%} {%- do no_upserts.append(dbt_backfill.string_literal(value)) -%} {%- endfor -%}
    {%- set is_event = dbt_backfill.identifier(feed.operation) ~ ' is not null and (' ~ key | join(' is not null or ') ~ ' is not null or '
        ~ operation ~ " <> 'm')" -%}
    {%- set events -%}
    with events as (
        select
            {{ dbt_backfill.identifiers(columns) }},
            {{ sequence }} as __bf_version,
            {{ operation }} not in ({{ no_upserts | join(', ') }}) as __bf_is_upsert
        from (
            {{ added.events }}
        )
        where __bf_is_upsert and {{ is_event }}
    ),
    before as (
        select {{ key | join(', ') }}, {{ sequence }} as __bf_version
        from {{ dbt_backfill.ask(feed, 'upstream_read')(feed, from_version) }}
        where {{ is_event }}
    ),
    late as (
        select distinct {{ key | join(', ') }}
        from events
        where __bf_version <= (select max(__bf_version) from before)
    ),
    earlier as (
        select {{ key | join(', ') }}, max(__bf_version) as __bf_version
        from before
        left semi join late using ({{ key | join(', ') }})
        group by {{ key | join(', ') }}
    )
    select event.*
    from events as event
    left join earlier on {{ dbt_backfill.equal_keys(keys, 'earlier.', 'event.', 'upstream', 'upstream') }}
    where earlier.__bf_version is null or event.__bf_version > earlier.__bf_version
    {%- endset -%}
    {{ return(dict(added, events=events, may_repeat=true, tells_before=false)) }}
{% endmacro %}


{#- Return the names of the upstream's columns. Refuse a change table that lacks one of them, or has it with another type. -#}
{% macro get_feed_columns(feed) %}
    {%- set own, upstream = dbt_backfill.get_table_columns(feed.relation), dbt_backfill.get_table_columns(feed.upstream) -%}
    {%- set types = dbt_backfill.types_by_name(own) -%}
    {%- do dbt_backfill.check_hidden_columns(feed.relation, own, dbt_backfill.upstream_traits(feed).get('metadata_columns', [])) -%}
    {%- for column in feed.sequence + [feed.operation] if column | lower not in types -%}
        {%- do dbt_backfill.refuse('its change_feed ' ~ feed.relation.render() ~ " has no column '" ~ column ~ "'",
            'Set operation and sequence to columns of this table: ' ~ types.keys() | join(', '), id='change-table-column-missing') -%}
    {%- endfor -%}
    {%- do dbt_backfill.check_sequence(feed, types) -%}
    {%- set texts = [] -%}
    {%- for column in upstream if 'string' in column.type and 'string' in types.get(column.name | lower, '') -%}
        {%- do texts.append(column.name) -%}
    {%- endfor -%}
    {%- set chars = dbt_backfill.find_char_columns([feed.relation, feed.upstream]) if texts else [{}, {}] -%}
    {%- for column in upstream -%}
        {%- set name = column.name | lower -%}
        {%- set type = dbt_backfill.type_with_char(types.get(name), chars[0].get(name)) -%}
        {%- set wanted = dbt_backfill.type_with_char(column.type, chars[1].get(name)) -%}
        {%- if type != wanted -%}
            {%- do dbt_backfill.refuse(
                'its change_feed ' ~ feed.relation.render()
                    ~ (' has ' ~ column.name ~ ' as ' ~ type if type else ' has no column ' ~ column.name)
                    ~ ', but its upstream ' ~ feed.upstream.render() ~ ' has it as ' ~ wanted,
                'Give the change table the columns of the upstream, with their names and types'
                    ~ ('; or make the char(n) a string in both tables' if type and 'char(' in type ~ wanted else ''), id='change-table-column-type'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(upstream | map(attribute='name') | list) }}
{% endmacro %}


{#- Refuse texts as the sequence of events, unless the user declares that these texts are in order. `types`: see types_by_name. -#}
{% macro check_sequence(feed, types) %}
    {%- for column in feed.sequence
            if not feed.ordered_texts and modules.re.search('(^|[<:])(string|char|varchar)', types[column | lower]) -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ feed.relation.render() ~ ' has the sequence ' ~ column ~ ' as ' ~ types[column | lower]
                ~ ', and texts are ordered letter by letter: 1000 comes before 999',
            "Set sequence to a column with a number, a timestamp or a date. Or set 'ordered_texts': true in change_feed, if the texts always have the "
                ~ 'same length, such as mysql-bin.000042', id='sequence-of-texts') -%}
    {%- endfor -%}
{% endmacro %}
