{#-
    The statement that lands the events of one table up to a position, with the watermark of it, in one commit. Sent twice it adds
    nothing, and of two at once the second conflicts. It adds nothing either where the slot does not tell any more all that came after
    `from`, see get_events_query.

    Arguments:
      table (dict): see find_landings, prepare_landing and note_tables.
      from, to (integer): positions; the first is up to where it has landed.
      at (string): the time of the watermark, see get_batch_query.
-#}
{% macro get_land_sql(landing, table, from, to, at) -%}
    {{ dbt_backfill._get_land_merge(table) }}
    using (
        {{ dbt_backfill._get_told_events_sql(landing, table, to, from, at) }}
        where lsn > {{ from }}
    ) as event
    {{ dbt_backfill._get_land_condition(table, from) }}
{%- endmacro %}


{#- The same of nothing but a mark: `w` where a change table begins, `g` where events before it may be missing. -#}
{% macro get_land_mark_sql(table, op, position) -%}
    {#- A mark has a time too: who deletes events by it, and leaves a mark of before, would leave no sign that some are missing. -#}
    {%- set marks = {
        '_op': dbt_backfill.string_literal(op), '_lsn': position, '_seq': -2, '_committed_at': 'current_timestamp()',
        '_timeline': table.facts.timeline, '_note': dbt_backfill.string_literal(table.note),
    } -%}
    {{ dbt_backfill._get_land_merge(table) }}
    using (select {{ dbt_backfill._get_mark_columns(table, marks) }}) as event
    {{ dbt_backfill._get_land_condition(table, none) }}
{%- endmacro %}


{#- What the slot tells of a table in the commits up to a position, see get_landed_events_sql; with `from` and `at` also the watermark, see get_events_query. -#}
{% macro _get_told_events_sql(landing, table, to, from=none, at=none) -%}
    {%- set query = dbt_backfill.get_postgres_query_sql(
        landing.catalog, dbt_backfill.get_events_query(landing.slot, table.table, to, from, at), 4
    ) -%}
    {{ dbt_backfill.get_landed_events_sql(table, query) | trim }}
{%- endmacro %}


{#- Whether what the slot tells from where it stands up to a position is other than what has landed of it: {'differs'}. -#}
{% macro get_told_otherwise_sql(landing, table, landed) -%}
    select to_json(named_struct('differs', count(*) > 0))
    from (
        select _lsn, _seq, _op
        from (
            select _lsn, _seq, _op
            from (
                {{ dbt_backfill._get_told_events_sql(landing, table, landed) }}
            )
            union all
            select _lsn, _seq, _op
            from {{ table.relation.render() }}
            where _op in ('i', 'u', 'd', 't')
        )
        where _lsn > {{ landing.confirmed }} and _lsn <= {{ landed }}
        group by _lsn, _seq, _op
        having count(*) <> 2
    )
{%- endmacro %}


{#-
    On Delta one of two at once gives way: it lands nothing, and what the other one has landed is read before the slot moves on.
    On Iceberg it ends with an error.
-#}
{% macro get_land_script(sql, kind) -%}
    {%- if kind != 'delta' -%} {{ return(sql) }} {%- endif -%}
    begin
        {{ dbt_backfill.get_yielding_sql(sql, kind) }}
    end
{%- endmacro %}


{% macro _get_land_merge(table) -%}
    merge into {{ table.relation.render() }} as landed
{%- endmacro %}


{% macro _get_land_condition(table, from) -%}
    {%- set names = table.columns | map(attribute='name') | list + dbt_backfill.landed_columns() | map(attribute='name') | list -%}
    on {% if from is not none %}landed._lsn > {{ from }} and {% endif %}landed._lsn = event._lsn and landed._seq = event._seq
    {{ dbt_backfill.get_matched_clause('update set _seq = landed._seq', table.kind) }}
    when not matched then insert ({{ dbt_backfill.identifiers(names) }}) values ({{ dbt_backfill.identifiers(names, 'event.') }})
{%- endmacro %}


{#- What a change table has beside the columns of its table. -#}
{% macro landed_columns() %}
    {{ return([
        {'name': '_op', 'type': 'string'}, {'name': '_lsn', 'type': 'bigint'}, {'name': '_seq', 'type': 'bigint'},
        {'name': '_xid', 'type': 'bigint'}, {'name': '_committed_at', 'type': 'timestamp'},
        {'name': '_unchanged', 'type': 'array<string>'}, {'name': '_timeline', 'type': 'int'},
        {'name': '_note', 'type': 'string'},
    ]) }}
{% endmacro %}


{% macro _get_mark_columns(table, marks) -%}
    {%- set values = [] -%}
    {%- for column in table.columns + dbt_backfill.landed_columns() -%}
        {%- do values.append(
            'cast(' ~ marks.get(column.name, 'null') ~ ' as ' ~ dbt_backfill.type_sql(column.type) ~ ') as ' ~ dbt_backfill.identifier(column.name)
        ) -%}
    {%- endfor -%}
    {{ values | join(', ') }}
{%- endmacro %}


{#-
    The events that wal2json tells, as rows of the change table, and `lsn`. `new` and `old` are what it tells of the row after and
    before, by column, as texts. A value that is not told was not changed: where REPLICA IDENTITY is full, it is that of before. An update
    that changes the key is a delete and an insert, and `W` the watermark. A null of a column that may not be null was a NaN or an infinity,
    or it was told before that was so: it counts as not told.
-#}
{% macro get_landed_events_sql(table, query) -%}
    {%- set names, doubtful, moved, values = [], [], [], [] -%}
    {%- for column in table.columns if column.told -%} {%- do names.append(column.name) -%} {%- endfor -%}
    {%- for column in table.columns if column.doubtful -%} {%- do doubtful.append(column.name) -%} {%- endfor -%}
    {%- for name in table.key_columns -%}
        {%- set text = dbt_backfill.string_literal(name) -%}
        {%- do moved.append('map_contains_key(old, ' ~ text ~ ') and map_contains_key(new, ' ~ text ~ ') and not old[' ~ text ~ '] <=> new[' ~ text ~ ']') -%}
    {%- endfor -%}
    {%- for column in table.columns -%} {%- do values.append(dbt_backfill.get_landed_value_sql(table, column)) -%} {%- endfor -%}
    select
        {{ values | join(',\n        ') }},
        op as _op, lsn as _lsn, if(op = 'w', -1, place * 2 + half) as _seq, __bf_xid as _xid, to_timestamp_ltz(told.timestamp) as _committed_at,
        case when op in ('i', 'u') then nullif(filter(
            {{ dbt_backfill.string_array_literal(names) if names else 'cast(array() as array<string>)' }},
            name -> not map_contains_key(new, name) and not map_contains_key(old, name)
            {%- if doubtful %} or array_contains({{ dbt_backfill.string_array_literal(doubtful) }}, name) and map_contains_key(new, name) and new[name] is null{% endif %}
        ), cast(array() as array<string>)) end as _unchanged,
        {{ table.facts.timeline }} as _timeline, if(op = 'w', {{ dbt_backfill.string_literal(table.note) }}, null) as _note
    from (
        select *, inline(case when told.action = 'U' and ({{ moved | join(' or ') or 'false' }})
            then array(named_struct('op', 'd', 'half', 0), named_struct('op', 'i', 'half', 1))
            else array(named_struct('op', lower(told.action), 'half', 0)) end)
        from (
            select told, lsn, place, __bf_xid,
                map_from_entries(transform(coalesce(told.columns, array()), c -> struct(c.name, c.value))) as new,
                map_from_entries(transform(coalesce(told.identity, array()), c -> struct(c.name, c.value))) as old
            from (
                select from_json({{ dbt_backfill._get_quoted_numbers_sql('value_1') }}, {{ dbt_backfill.string_literal(dbt_backfill._wal2json_schema()) }},
                        map('mode', 'FAILFAST', 'maxStringLen', '2000000000')) as told,
                    cast(value_2 as bigint) as lsn, cast(value_3 as bigint) as place, cast(value_4 as bigint) as __bf_xid
                from (
                    {{ query }}
                )
            )
        )
    )
{%- endmacro %}


{#- Spark would take a number for a double before it makes a text of it. Within a text the quotes around `value` are escaped. -#}
{% macro _get_quoted_numbers_sql(text) -%}
    regexp_replace({{ text }}, '"value":(-?[0-9][^,}]*)', {{ dbt_backfill.string_literal('"value":"$1"') }})
{%- endmacro %}


{% macro _wal2json_schema() -%}
    action string, timestamp string, columns array<struct<name: string, value: string>>, identity array<struct<name: string, value: string>>
{%- endmacro %}


{#- The value of a column in such a row. What Spark cannot convert ends the statement: null would be another value. -#}
{% macro get_landed_value_sql(table, column) -%}
    {%- set name = dbt_backfill.string_literal(column.name) -%}
    {%- set text = "(case when op <> 'd' and map_contains_key(new, " ~ name ~ ') then new[' ~ name ~ '] else old[' ~ name ~ '] end)' -%}
    {%- set converted = dbt_backfill.get_converted_sql(column, text) -%}
    {%- set failed = 'raise_error(concat(' ~ dbt_backfill.string_literal(
        'land_changes cannot convert a value of the column ' ~ column.name ~ ' of ' ~ table.table ~ ' to ' ~ column.type ~ ', in the commit that ends at '
    ) ~ ', lsn))' -%}
    {%- set sql = text -%}
    {%- if converted != text -%}
        {%- set sql = 'case when ' ~ text ~ ' is not null then coalesce(' ~ converted ~ ', cast(' ~ failed ~ ' as ' ~ dbt_backfill.type_sql(column.type) ~ ')) end' -%}
    {%- endif -%}
    {{ sql }} as {{ dbt_backfill.identifier(column.name) }}
{%- endmacro %}


{#- A text as PostgreSQL writes it in its ISO style, as a value; null if it is none of the type. -#}
{% macro get_converted_sql(column, text) %}
    {%- if column.type == 'string' -%} {{ return(text) }} {%- endif -%}
    {%- if column.type == 'binary' -%} {{ return('unhex(regexp_replace(' ~ text ~ ", '^\\\\\\\\x', ''))") }} {%- endif -%}
    {#- Spark would read a date before Christ as one after. -#}
    {%- if column.type == 'date' -%} {{ return('case when ' ~ text ~ " not like '% BC' then try_cast(" ~ text ~ ' as date) end') }} {%- endif -%}
    {#- Who reads it takes it in UTC, see check_postgres_table. An event of before the column lost its zone has one. -#}
    {%- if column.type == 'timestamp' and column.source_type == 'timestamp' -%}
        {{ return('try_cast(concat(' ~ text ~ ', if(' ~ text ~ " rlike ':.*[+-]', '', ' UTC')) as timestamp_ltz)") }}
    {%- endif -%}
    {%- set value = 'try_cast(' ~ text ~ ' as ' ~ dbt_backfill.type_sql(column.type) ~ ')' -%}
    {%- if column.type.startswith('decimal') -%}
        {%- set scale = column.type[:-1].split(',')[-1] | int -%}
        {{ return('case when ' ~ text ~ " not rlike '[.][0-9]{" ~ scale ~ "}[0-9]*[1-9]' then " ~ value ~ ' end') }}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}
