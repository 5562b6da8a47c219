{#-
    Return the events of a feed in the same form for every format: a select of flat rows over the whole change table, with `columns` and
      __bf_op         `i` insert, `u` update, `d` delete of a row; `t` the table was truncated; `g` a gap: events before the gap may be missing; `w` a
                      watermark, which only shows the position that the feed has reached
      __bf_position   bigint: a barrier reads the events whose position is above the committed version, up to the version of the barrier
      __bf_sequence   orders the events of a key within a position
      __bf_xid        the id of the transaction, with its epoch or in 32 bits, see unseen_predicate; null if the row does not contain the id, as in
                      marks and in some rows of the format `declared`
      __bf_unchanged array<string>: the columns whose value the event does not contain: the value was not changed, or is in doubt. Null if no value is
        missing
      __bf_note       the note of a mark, see get_landing_note; null if the feed records no note, or if `notes` is false
    A delete contains the columns of the key. All other columns of a delete may have any value.

    Of a table that land_changes writes, the select returns `columns`, `__bf_position` and `__bf_xid` unchanged. So Spark can push conditions on these
    columns down to the scan. The other formats convert some of these columns.

    Arguments:
      feed (dict): the result of postgres_needed_feed. `notes`: true if the change table has the column `_note` and the column is read. `key`: the
        columns of the key, quoted, for a reader of rows: a message (`m`) without a key is not a row; absent for a reader of positions only.
      columns (list): names.
-#}
{% macro get_feed_rows_sql(feed, columns) %}
    {{ return(dbt_backfill[feed.format ~ '_feed_rows'](feed, columns)) }}
{% endmacro %}


{#- Return a scalar subquery of the position up to which all events have landed; null if the feed does not show this position yet. -#}
{% macro get_feed_landed_sql(feed) -%}
    (
        select {{ dbt_backfill.get_feed_places(feed).landed }}
        from (
            {{ dbt_backfill.get_feed_rows_sql(feed, []) }}
        )
    )
{%- endmacro %}


{#-
    Return a scalar subquery that returns JSON, with one pass over the change table: {
      'landed': the result of get_feed_landed_sql,
      'floor': the lowest position that the feed still has; null if the feed has no position,
      'renewed': the last position at which the events changed to another history of the database, or to another slot. A reader that begins after this
        position sees all earlier commits. Null if there is no such position, or if the position is not known,
      'breaks': the first ten positions after `since` at which the table was truncated, or before which events may be missing. Null if there are no
        such positions, or if `since` is none,
      'note': the note of the last mark with a note, see get_landing_note; null if no mark has a note,
      `notes`: the distinct `_note` of the marks after `since`
    }. `since`: a position or none.
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
    Return the expressions 'landed' and 'renewed' over the rows, see get_feed_place_sql. With Debezium, 'landed' is the latest commit position that an
    event contains. During the first transaction after a snapshot, 'landed' is null: only the events of the next transaction contain the commit
    position of the first transaction. For other formats, 'renewed' is the position of the last mark `g`. A landing first waits until all running
    transactions have ended, and then writes this mark, see begin_change_tables.
-#}
{% macro get_feed_places(feed) %}
    {{ return({'landed': "nullif(max(__bf_position) filter (where __bf_op <> 'g') - 1, 0)", 'renewed': 'cast(null as bigint)'}
        if feed.format == 'debezium' else
        {'landed': 'max(__bf_position)', 'renewed': "max(__bf_position) filter (where __bf_op = 'g')"}) }}
{% endmacro %}


{#- Return the rows that land_changes wrote: whole transactions, each with the position of its commit. -#}
{% macro landed_feed_rows(feed, columns) -%}
    select
        {{ dbt_backfill.identifiers(columns) ~ ',' if columns }}
        _op as __bf_op, _lsn as __bf_position, _seq as __bf_sequence, _xid as __bf_xid, _unchanged as __bf_unchanged,
        {{ '_note' if feed.get('notes') else 'cast(null as string)' }} as __bf_note
    from {{ feed.relation.render() }}
{%- endmacro %}


{#- Return the rows of a change table whose columns are named in the model's config. An update that changes the key has two events with the same
    position and sequence. So for such events, an insert or update comes after a delete or before-image. A row without an operation is a tombstone or
    a heartbeat. -#}
{% macro declared_feed_rows(feed, columns) -%}
    {%- set operation = 'lower(trim(cast(' ~ dbt_backfill.identifier(feed.operation) ~ ' as string)))' -%}
    {%- set cases = ['when ' ~ operation ~ " = 'm' and " ~ feed.key | join(' is null and ') ~ " is null then 'w'"] if feed.get('key') else [] -%}
    {%- for op, values in [
        ('d', feed.deletes + feed.before_images), ('t', ['t', 'truncate']), ('g', ['g', 'gap']), ('w', ['w', 'watermark']),
    ] -%}
        {%- set literals = [] -%}
        {%- for value in values -%} {%- do literals.append(dbt_backfill.string_literal(value)) -%} {%- endfor -%}
        {%- do cases.append('when ' ~ operation ~ ' in (' ~ literals | join(', ') ~ ") then '" ~ op ~ "'") -%}
    {%- endfor -%}
    {%- set op = 'case ' ~ cases | join(' ') ~ ' when ' ~ operation ~ " is null then 'w' else 'u' end" -%}
    select
        {{ dbt_backfill.identifiers(columns) ~ ',' if columns }}
        {{ op }} as __bf_op,
        cast({{ dbt_backfill.identifier(feed.position) }} as bigint) as __bf_position,
        struct({{ dbt_backfill.identifiers(feed.sequence) }}, {{ op }} = 'u' as __bf_is_upsert) as __bf_sequence,
        {{ 'cast(' ~ dbt_backfill.identifier(feed.xid) ~ ' as bigint) % 4294967296' if feed.xid else 'cast(null as bigint)' }} as __bf_xid,
        cast(null as array<string>) as __bf_unchanged, cast(null as string) as __bf_note
    from {{ feed.relation.render() }}
{%- endmacro %}


{#-
    Return Debezium's events from a table that stores them with Debezium's envelope: `op`, `before`, `after` and `source`.

    An event does not contain the commit position of its own transaction. Its `source.sequence` contains the commit position of the previous
    transaction, so the position of an event is that number plus one. The feed is complete up to the latest commit position that any event contains.
    Within a position, `source.lsn` orders the events of a key: a transaction that changes a row waits until the previous transaction has released its
    lock on the row. Rows without an operation are tombstones and heartbeats. Rows of other tables only show the position that the feed has reached.
    Spark may evaluate conditions in any order. So each expression that may fail checks its own condition.

    A row that was read by a snapshot (`r`) is not a change. Changes before a snapshot may be missing, unless the snapshot is incremental and runs
    while the changes are streamed.

    If a large value (TOAST) was not changed, Debezium writes a mark instead of the value. The mark is a string, the bytes of this string, or an array
    of one of them.
-#}
{% macro debezium_feed_rows(feed, columns) -%}
    {%- set mark, codes, read, values, unchanged = '__debezium_unavailable_value', [], [], [], [] -%}
    {%- for character in mark -%}
        {%- do codes.append(95 if character == '_' else 97 + 'abcdefghijklmnopqrstuvwxyz'.index(character)) -%}
    {%- endfor -%}
    {%- set marks = [mark, '[' ~ mark ~ ']', '[' ~ codes | join(', ') ~ ']'] | join("', '") -%}
    {%- for column in columns -%}
        {%- set name, conversion = dbt_backfill.identifier(column), (feed.get('conversions') or {}).get(column | lower) -%}
        {%- set untold = 'coalesce(cast(' ~ name ~ " as string) in ('" ~ marks ~ "'), false)" -%}
        {%- do read.append("if(op = 'd', before." ~ name ~ ', after.' ~ name ~ ') as ' ~ name ~ ',') -%}
        {%- do values.append((dbt_backfill._debezium_value(name, untold, conversion) if conversion
            else 'if(' ~ untold ~ ', null, ' ~ name ~ ')') ~ ' as ' ~ name ~ ',') -%}
        {%- do unchanged.append('if(' ~ untold ~ ', ' ~ dbt_backfill.string_literal(column) ~ ', null)') -%}
    {%- endfor -%}
    {%- set is_of_table = "coalesce(concat(source.`schema`, '.', source.`table`) = " ~ dbt_backfill.string_literal(feed.table) ~ ', false)' -%}
    select
        {{ values | join('\n        ') }}
        __bf_op, __bf_position, __bf_sequence, __bf_xid,
        {{ "if(__bf_op in ('i', 'u'), nullif(array_compact(array(" ~ unchanged | join(', ') ~ ')), array()), null)'
            if unchanged else 'cast(null as array<string>)' }} as __bf_unchanged,
        cast(null as string) as __bf_note
    from (
        select
            {{ read | join('\n            ') }}
            case
                when not {{ is_of_table }} then 'w'
                when op in ('u', 'd', 't') then op
                when op = 'c' then 'i'
                when op = 'r' then 'g'
                else 'w'
            end as __bf_op,
            case
                when op = 'r' then source.lsn
                when op is not null and source.sequence is null then cast(raise_error('backfilled_mv: an event of the change feed has no source.sequence. Use a version of Debezium that writes it, and let Debezium fill an empty change table, beginning with a snapshot.') as bigint)
                else coalesce(cast(get_json_object(source.sequence, '$[0]') as bigint), 0) + 1
            end as __bf_position,
            source.lsn as __bf_sequence,
            cast(source.`txId` as bigint) % 4294967296 as __bf_xid
        from {{ feed.relation.render() }}
        where op <> 'r' or ({{ is_of_table }} and source.snapshot <> 'incremental')
    )
{%- endmacro %}


{#- Return a value in the type of the upstream's column. A value that cannot be converted raises an error, because null would be another value. -#}
{% macro _debezium_value(name, untold, conversion) %}
    {%- set type, read = 'date' if conversion == 'days' else conversion, 'try_cast(' ~ name ~ ' as ' ~ dbt_backfill.type_sql(conversion) ~ ')' -%}
    {%- set converted = {
        'days': 'if(' ~ name ~ ' between -719162 and 2932896, date_from_unix_date(cast(' ~ name ~ ' as int)), null)',
        'date': "try_cast(rtrim('Z', " ~ name ~ ') as date)',
        'timestamp': 'if(' ~ name ~ " rlike '(Z|[+-][0-9:]+)$', " ~ read ~ ', null)',
    }.get(conversion, read) -%}
    {%- set error = "concat('backfilled_mv: a value of the change feed is no " ~ type ~ ": ', cast(" ~ name ~ " as string), '. Correct the row in PostgreSQL and "
        ~ "its event in the change table. Or leave the column out of the query, and rebuild the MV with --full-refresh.')" -%}
    {{ return('coalesce(' ~ converted ~ ', if(' ~ name ~ ' is null or ' ~ untold ~ " or __bf_op not in ('i', 'u'), null, cast(raise_error(" ~ error
        ~ ') as ' ~ dbt_backfill.type_sql(type) ~ ')))') }}
{% endmacro %}
