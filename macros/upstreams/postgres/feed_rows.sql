{#-
    The events of a feed in one shape, whatever its format: a select of flat rows over the whole change table, with the columns
    that are asked for and
      __bf_op         `i` insert, `u` update, `d` delete of a row; `t` the table was truncated; `g` a gap: events before it may be
                      missing; `w` nothing but how far the feed has come
      __bf_position   bigint: a barrier reads the events whose position is greater than its version, up to the next
      __bf_sequence   orders the events of a key within a position
      __bf_xid        the transaction, with its epoch or in 32 bits, see get_feed_places; null where the feed does not tell it, which is
                      only so in rows of `declared`, and of marks
      __bf_unchanged  array<string>: the columns whose value the event does not tell, because it was not changed; null if none
      __bf_note       of a mark: what was noted of the table, see get_landing_note; null where the feed has none, or `notes` was not asked
    A delete tells the columns of the key; its others may be anything.

    Where the format has a column for it, `__bf_position`, `__bf_xid` and the columns stand as they are, so that conditions on them
    reach the scan.

    Arguments:
      feed (dict): as postgres_needed_feed makes it; with `notes` where they are read, which the change table then has.
      columns (list): names.
-#}
{% macro get_feed_rows_sql(feed, columns) %}
    {{ return(dbt_backfill[feed.format ~ '_feed_rows'](feed, columns)) }}
{% endmacro %}


{#- A scalar subquery: the position up to which every event has landed; null if the feed does not tell it yet. -#}
{% macro get_feed_landed_sql(feed) -%}
    (
        select {{ dbt_backfill.get_feed_places(feed).landed }}
        from (
            {{ dbt_backfill.get_feed_rows_sql(feed, []) }}
        )
    )
{%- endmacro %}


{#-
    A scalar subquery of JSON, by one pass over the change table: {
      'landed': as get_feed_landed_sql,
      'floor': the least position that the feed still has; null if it has none,
      'renewed': the last position from which on its events are those of another history of the database, or of another slot;
        whoever reads the table after that sees all that was committed before; null if there is none, or it cannot be told,
      'breaks': the first ten positions greater than `since` at which the table was truncated or events may be missing before;
        null if there is none, or without `since`,
      'note': the last one, see get_landing_note; null if there is none,
      'notes': those that differ, of the marks at positions greater than `since`
    }

    Arguments:
      since (text or none): a position.
-#}
{% macro get_feed_place_sql(feed, since) -%}
    {%- set breaks = 'nullif(slice(sort_array(collect_set(__bf_position) filter ('
        ~ "where __bf_op in ('t', 'g') and __bf_position > " ~ since ~ ')), 1, 10), array())' -%}
    (
        select to_json(named_struct(
            'landed', {{ dbt_backfill.get_feed_places(feed).landed }},
            'floor', min(__bf_position),
            'renewed', {{ dbt_backfill.get_feed_places(feed).renewed }},
            'breaks', {{ breaks if since is not none else 'cast(null as array<bigint>)' }},
            'note', max_by(__bf_note, __bf_position) filter (where __bf_note is not null),
            'notes', {{ 'collect_set(__bf_note) filter (where __bf_position > ' ~ since ~ ')' if since is not none else 'cast(null as array<string>)' }}
        ), map('ignoreNullFields', 'false'))
        from (
            {{ dbt_backfill.get_feed_rows_sql(feed, []) }}
        )
    )
{%- endmacro %}


{#-
    What get_feed_place_sql takes of the rows: 'landed' and 'renewed'. Of Debezium 'landed' is the latest commit that an event has; null in the
    first transaction after a snapshot, which the next one's events have. A mark `g` lands after all transactions have ended that ran before, see
    begin_change_tables and what docs/postgres.md asks of such a row.
-#}
{% macro get_feed_places(feed) %}
    {{ return({'landed': "nullif(max(__bf_position) filter (where __bf_op <> 'g') - 1, 0)", 'renewed': 'cast(null as bigint)'}
        if feed.format == 'debezium' else
        {'landed': 'max(__bf_position)', 'renewed': "max(__bf_position) filter (where __bf_op = 'g')"}) }}
{% endmacro %}


{#- What land_changes wrote: whole transactions, each with the position of its commit. -#}
{% macro landed_feed_rows(feed, columns) -%}
    select
        {{ dbt_backfill.identifiers(columns) ~ ',' if columns }}
        _op as __bf_op, _lsn as __bf_position, _seq as __bf_sequence, _xid as __bf_xid, _unchanged as __bf_unchanged,
        {{ '_note' if feed.get('notes') else 'cast(null as string)' }} as __bf_note
    from {{ feed.relation.render() }}
{%- endmacro %}


{#- Of a column: in each event of a transaction that begins from now on it is greater than what has landed by now. -#}
{% macro landed_feed_written() %}
    {{ return('__bf_position') }}
{% endmacro %}


{#- Whether `__bf_xid` has the epoch. -#}
{% macro landed_feed_tells_epochs() %}
    {{ return(true) }}
{% endmacro %}


{#-
    A predicate: the events that do not tell their transaction, and that whoever read a stage may not have seen; none where each event of
    a row tells it. See unseen_predicate for the arguments.
-#}
{% macro landed_feed_untold(feed, version, noted) %}
    {{ return(none) }}
{% endmacro %}


{#-
    A change table with columns that the model's config names. At the same position and sequence an insert or update comes after a
    delete or before-image, which is how an update that changes the key shows.
-#}
{% macro declared_feed_rows(feed, columns) -%}
    {%- set op = dbt_backfill._declared_op(feed) -%}
    select
        {{ dbt_backfill.identifiers(columns) ~ ',' if columns }}
        {{ op }} as __bf_op,
        cast({{ dbt_backfill.identifier(feed.position) }} as bigint) as __bf_position,
        struct({{ dbt_backfill.identifiers(feed.sequence) }}, {{ op }} = 'u') as __bf_sequence,
        {{ 'cast(' ~ dbt_backfill.identifier(feed.xid) ~ ' as bigint) % 4294967296' if feed.xid else 'cast(null as bigint)' }} as __bf_xid,
        cast(null as array<string>) as __bf_unchanged, cast(null as string) as __bf_note
    from {{ feed.relation.render() }}
{%- endmacro %}


{% macro declared_feed_tells_epochs() %}
    {{ return(false) }}
{% endmacro %}


{% macro declared_feed_written() %}
    {{ return('__bf_position') }}
{% endmacro %}


{#-
    Where any transaction was running, one of its events may lie anywhere in the feed, but not before the table was emptied: that waits
    for all who wrote to it. What is before a gap says nothing of the rows after it.
-#}
{% macro declared_feed_untold(feed, version, noted) %}
    {%- set later = '__bf_position > ' ~ noted.since -%}
    {#- A transaction was running when the rows of a stage were read, so something that has landed may not be seen yet. -#}
    {%- set parts = noted.snapshot.split(':') -%}
    {%- if parts[2] != '' or parts[3] | int > parts[1] | int -%}
        {%- set later -%}
            coalesce(struct(__bf_position, __bf_sequence) > (
                select max(struct(__bf_position, if(__bf_op = 't', __bf_sequence, null)))
                from (
                    {{ dbt_backfill.get_feed_rows_sql(feed, []) }}
                )
                where __bf_op in ('t', 'g') and __bf_position <= {{ version }}
            ), true)
        {%- endset -%}
    {%- endif -%}
    {{ return('__bf_xid is null and ' ~ later) }}
{% endmacro %}


{% macro _declared_op(feed) -%}
    {%- set ops = {'d': feed.deletes + feed.before_images, 't': ['t', 'truncate'], 'g': ['g', 'gap'], 'w': ['w', 'watermark']} -%}
    {%- set cases = [] -%}
    {%- for op, values in ops.items() -%}
        {%- set literals = [] -%}
        {%- for value in values -%} {%- do literals.append(dbt_backfill.string_literal(value)) -%} {%- endfor -%}
        {%- do cases.append(' when lower(cast(' ~ dbt_backfill.identifier(feed.operation) ~ ' as string)) in (' ~ literals | join(', ') ~ ") then '" ~ op ~ "'") -%}
    {%- endfor -%}
    {{ return('case' ~ cases | join ~ " else 'u' end") }}
{%- endmacro %}
