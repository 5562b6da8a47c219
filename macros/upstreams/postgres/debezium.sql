{#-
    Debezium's events as they lie in a table, with their envelope: `op`, `before`, `after` and `source` as it writes them.

    An event does not tell the commit of its own transaction, but `source.sequence` that of the transaction before, so its position is
    the one after that: what is not greater than the latest commit that some event tells has been told as a whole. Within a
    position `source.lsn` orders the events of a key, because a transaction waits for the lock of the one before. Rows without an
    operation are tombstones and heartbeats, and rows of other tables tell how far the feed has come. An expression that may fail asks
    for itself whether it has to, because Spark evaluates conditions in any order.

    A row that a snapshot read (`r`) is no change. Where Debezium takes a snapshot, changes before it may have gone unseen, unless the
    snapshot runs beside the stream.
-#}
{% macro debezium_feed_rows(feed, columns) -%}
    {%- set read, values, unchanged = [], [], [] -%}
    {%- for column in columns -%}
        {%- set name, untold = dbt_backfill.identifier(column), dbt_backfill._is_untold(column) -%}
        {%- do read.append("if(op = 'd', before." ~ name ~ ', after.' ~ name ~ ') as ' ~ name ~ ',') -%}
        {%- do values.append(dbt_backfill._debezium_value(column, (feed.get('conversions') or {}).get(column | lower)) ~ ' as ' ~ name ~ ',') -%}
        {%- do unchanged.append('if(' ~ untold ~ ', ' ~ dbt_backfill.string_literal(column) ~ ', null)') -%}
    {%- endfor -%}
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
                when not {{ dbt_backfill._is_of_table(feed) }} then 'w'
                when op in ('u', 'd', 't') then op
                when op = 'c' then 'i'
                when op = 'r' then 'g'
                else 'w'
            end as __bf_op,
            case
                when op = 'r' then source.lsn
                when op is not null and source.sequence is null then cast(raise_error('backfilled_mv: an event of the change feed has no source.sequence') as bigint)
                else coalesce(cast(get_json_object(source.sequence, '$[0]') as bigint), 0) + 1
            end as __bf_position,
            source.lsn as __bf_sequence,
            cast(source.`txId` as bigint) % 4294967296 as __bf_xid
        from {{ feed.relation.render() }}
        where op <> 'r' or ({{ dbt_backfill._is_of_table(feed) }} and source.snapshot <> 'incremental')
    )
{%- endmacro %}


{#- The change's own place in the WAL. Its position is 1 in the first transaction after a snapshot. -#}
{% macro debezium_feed_written() %}
    {{ return('__bf_sequence') }}
{% endmacro %}


{% macro debezium_feed_tells_epochs() %}
    {{ return(false) }}
{% endmacro %}


{% macro debezium_feed_untold(feed, version, noted) %}
    {{ return(none) }}
{% endmacro %}


{% macro _is_of_table(feed) %}
    {{ return("coalesce(concat(source.`schema`, '.', source.`table`) = " ~ dbt_backfill.string_literal(feed.table) ~ ', false)') }}
{% endmacro %}


{#- Debezium writes a mark in place of a value that is stored apart (TOAST) and was not changed: a text, its bytes, or an array of either. -#}
{% macro _is_untold(column) %}
    {%- set mark, codes = '__debezium_unavailable_value', [] -%}
    {%- for character in mark -%}
        {%- do codes.append(95 if character == '_' else 97 + 'abcdefghijklmnopqrstuvwxyz'.index(character)) -%}
    {%- endfor -%}
    {%- set marks = [mark, '[' ~ mark ~ ']', '[' ~ codes | join(', ') ~ ']'] -%}
    {{ return('coalesce(cast(' ~ dbt_backfill.identifier(column) ~ " as string) in ('" ~ marks | join("', '") ~ "'), false)") }}
{% endmacro %}


{#- A value in the type of the upstream's column. What cannot be converted fails: null would be another value. -#}
{% macro _debezium_value(column, conversion) %}
    {%- set name, untold = dbt_backfill.identifier(column), dbt_backfill._is_untold(column) -%}
    {%- if not conversion -%} {{ return('if(' ~ untold ~ ', null, ' ~ name ~ ')') }} {%- endif -%}
    {%- set type, read = 'date' if conversion == 'days' else conversion, 'try_cast(' ~ name ~ ' as ' ~ dbt_backfill.type_sql(conversion) ~ ')' -%}
    {%- set converted = {
        'days': 'if(' ~ name ~ ' between -719162 and 2932896, date_from_unix_date(cast(' ~ name ~ ' as int)), null)',
        'date': "try_cast(rtrim('Z', " ~ name ~ ') as date)',
        'timestamp': 'if(' ~ name ~ " rlike '(Z|[+-][0-9:]+)$', " ~ read ~ ', null)',
    }.get(conversion, read) -%}
    {%- set error = "concat('backfilled_mv: a value of the change feed is no " ~ type ~ ": ', cast(" ~ name ~ ' as string))' -%}
    {{ return('coalesce(' ~ converted ~ ', if(' ~ name ~ ' is null or ' ~ untold ~ " or __bf_op not in ('i', 'u'), null, cast(raise_error(" ~ error
        ~ ') as ' ~ dbt_backfill.type_sql(type) ~ ')))') }}
{% endmacro %}
