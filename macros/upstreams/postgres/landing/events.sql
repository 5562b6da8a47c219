{#- Return the statement that writes `events`, a select, into the change table in one commit. A second execution adds no row. Of two executions at the
    same time, one fails with a conflict. `from`: a position before all `events`; rows of the change table up to this position are skipped. -#}
{% macro get_land_sql(table, events, from=none) -%}
    {%- set names = (table.columns + dbt_backfill.landed_columns()) | map(attribute='name') | list -%}
    merge into {{ table.relation.render() }} as landed
    using (
        {{ events }}
    ) as event
    on {% if from is not none %}landed._lsn > {{ from }} and {% endif %}landed._lsn = event._lsn and landed._seq = event._seq
    {{ dbt_backfill.get_iceberg_matched_clause('update set _seq = landed._seq', table.kind) }}
    when not matched then insert ({{ dbt_backfill.identifiers(names) }}) values ({{ dbt_backfill.identifiers(names, 'event.') }})
{%- endmacro %}


{#- Return the columns that landing adds to a change table, beside the columns of the PostgreSQL table. -#}
{% macro landed_columns() %}
    {{ return([
        {'name': '_op', 'type': 'string'}, {'name': '_lsn', 'type': 'bigint'}, {'name': '_seq', 'type': 'bigint'},
        {'name': '_xid', 'type': 'bigint'}, {'name': '_committed_at', 'type': 'timestamp'}, {'name': '_unchanged', 'type': 'array<string>'},
        {'name': '_timeline', 'type': 'int'}, {'name': '_note', 'type': 'string'},
    ]) }}
{% endmacro %}


{#-
    Return a select of the slot's events of a table up to `to`, as rows of the change table. With `from` and `at`, return only the events after
    `from`, and a watermark, see get_events_query. In the select, `new` and `old` map a column to the text of its value after and before the change.
    If neither has a column, its value was not changed. An update of a key becomes a delete and an insert. In a NOT NULL column, a null is a NaN or an
    infinity, or is older than the constraint. So this value counts as missing.
-#}
{% macro get_landed_events_sql(landing, table, to, from=none, at=none) -%}
    {%- set told = table.columns | selectattr('told') | map(attribute='name') | list -%}
    {%- set doubtful = table.columns | selectattr('doubtful') | map(attribute='name') | list -%}
    {%- set keys, moved = [], [] -%}
    {%- for key in dbt_backfill.get_postgres_told_keys(table.facts) -%} {%- do keys.extend(key) -%} {%- endfor -%}
    {%- for name in told if name in keys -%}
        {%- set text = dbt_backfill.string_literal(name) -%}
        {%- do moved.append('map_contains_key(old, ' ~ text ~ ') and map_contains_key(new, ' ~ text ~ ') and not old[' ~ text ~ '] <=> new[' ~ text ~ ']') -%}
    {%- endfor -%}
    select
        {%- for column in table.columns %}
        {{ dbt_backfill.get_landed_value_sql(table, column) }} as {{ dbt_backfill.identifier(column.name) }},{% endfor %}
        op as _op, lsn as _lsn, if(op = 'w', -1, place * 2 + half) as _seq, __bf_xid as _xid, to_timestamp_ltz(told.timestamp) as _committed_at,
        case when op in ('i', 'u') then nullif(filter(
            {{ dbt_backfill.string_array_literal(told) if told else 'cast(array() as array<string>)' }},
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
                {#- Quote numbers, which Spark would read as doubles. The pattern matches nothing in a JSON string: quotes are escaped there. #}
                select from_json(
                        regexp_replace(value_1, '"value":(-?[0-9][^,}]*)', {{ dbt_backfill.string_literal('"value":"$1"') }}),
                        'action string, timestamp string, columns array<struct<name: string, value: string>>, identity array<struct<name: string, value: string>>',
                        map('mode', 'FAILFAST', 'maxStringLen', '2000000000')
                    ) as told,
                    cast(value_2 as bigint) as lsn, cast(value_3 as bigint) as place, cast(value_4 as bigint) as __bf_xid
                from ({{ dbt_backfill.get_postgres_query_sql(landing.catalog, dbt_backfill.get_events_query(landing.slot, table.table, to, from, at), 4) }})
            )
        )
    )
    {%- if from is not none %} where lsn > {{ from }}{% endif %}
{%- endmacro %}


{#-
    Return an expression for a column of the change table. It converts the text that PostgreSQL writes in its ISO style. If Spark cannot convert a
    text, the statement fails: null would be another value. A plain cast would read a date before Christ as one after Christ, and would round a
    decimal. A timestamp without a time zone is converted as UTC, as Spark's JDBC reader does. Texts from before a change of the type may have a zone.
-#}
{% macro get_landed_value_sql(table, column) %}
    {%- set name, type = dbt_backfill.string_literal(column.name), dbt_backfill.type_sql(column.type) -%}
    {%- set text = "(case when op <> 'd' and map_contains_key(new, " ~ name ~ ') then new[' ~ name ~ '] else old[' ~ name ~ '] end)' -%}
    {%- if column.type == 'string' -%} {{ return(text) }} {%- endif -%}
    {%- set cast = 'try_cast(' ~ text ~ ' as ' ~ type ~ ')' -%}
    {%- set converted = {
        'binary': 'unhex(regexp_replace(' ~ text ~ ", '^\\\\\\\\x', ''))",
        'date': 'case when ' ~ text ~ " not like '% BC' then " ~ cast ~ ' end',
        'decimal': 'case when ' ~ text ~ " not rlike '[.][0-9]{" ~ column.type.split(',')[-1] | replace(')', '') ~ "}[0-9]*[1-9]' then " ~ cast ~ ' end',
        'timestamp': 'try_cast(concat(' ~ text ~ ', if(' ~ text ~ " rlike ':.*[+-]', '', ' UTC')) as timestamp_ltz)"
            if column.get('source_type') == 'timestamp' else cast,
    }.get(column.type.split('(')[0], cast) -%}
    {%- set error = dbt_backfill.string_literal('land_changes cannot convert a value of the column ' ~ column.name ~ ' of ' ~ table.table ~ ' to '
        ~ column.type ~ ', in the commit that ends at ') -%}
    {%- set change = dbt_backfill.string_literal('. Correct the row, drop the slot ' ~ table.slot ~ ' in PostgreSQL, and land again.') -%}
    {{ return('case when ' ~ text ~ ' is not null then coalesce(' ~ converted ~ ', cast(raise_error(concat(' ~ error ~ ', lsn, ' ~ change ~ ')) as ' ~ type ~ ')) end') }}
{% endmacro %}


{#-
    Return a query in PostgreSQL's SQL for the events of a table in the commits up to `to`: value_1, the text of wal2json; value_2, the end of the
    commit; value_3, the number of the event within its transaction; value_4, the transaction's id with its epoch. The slot stays where it is.

    `from`: the position up to which the table has landed. With `from`, the query also returns a row with the action `W` and the time `at`, which says
    that the result has all events after `from`. If another reader has moved the slot beyond `from`, the query returns no row. To see each such move,
    the query reads the slot's position after the events.
-#}
{% macro get_events_query(slot, table, to, from=none, at=none) -%}
    {%- set name, end = dbt_backfill.postgres_literal(slot), dbt_backfill.get_postgres_lsn(to) -%}
    {%- set moved = '(select confirmed_flush_lsn from stands) > ' ~ dbt_backfill.get_postgres_lsn(from) if from is not none -%}
    with peeked as materialized (
        select p.*
        from {{ dbt_backfill.get_slot_lock(slot) }}
        cross join lateral (
            select * from pg_logical_slot_peek_changes({{ name }}, case when l.locked = '' then {{ end }} end, null, 
                {{ dbt_backfill.get_wal2json_options([table]) }}) with ordinality as peeked (lsn, xid, data, number)
        ) as p
    ),
    stands as materialized (
        select confirmed_flush_lsn, {{ dbt_backfill.get_postgres_next_id() }} as next_id
        from pg_replication_slots where slot_name = {{ name }} and (select count(*) from peeked) >= 0
    )
    select data as value_1, (ended - '0/0')::bigint::text as value_2, place::text as value_3,
        (next_id - (next_id - xid::text::bigint) % 4294967296)::text as value_4
    from (
        select data, xid,
            max(case when substr(data, 12, 1) = 'C' then (data::jsonb ->> 'nextlsn')::pg_lsn end) over (partition by xid::text) as ended,
            row_number() over (partition by xid::text order by number) as place
        from peeked
    ) as told
    cross join stands
    where substr(data, 12, 1) in ('I', 'U', 'D', 'T') and ended <= {{ end }}{% if moved %} and not {{ moved }}
    union all
    select '{"action":"W","timestamp":"{{ at }}"}', '{{ to }}', '0', null where not {{ moved }}
    {%- endif %}
{%- endmacro %}


{#-
    Return a query in PostgreSQL's SQL that describes the next batch as JSON: {
      'flushed': how far the WAL was flushed before the batch was read, 'held': bytes of WAL that the slot keeps,
      'changes': the number of changes and marks of transactions; less than `rows` if the batch has all changes up to `flushed`,
      'reached': the end of the last commit; null if there is no commit, 'at': its time, or the time of the query,
      'confirmed': the position from which the slot continues. Another reader may have consumed the earlier changes
    }
-#}
{% macro get_batch_query(slot, tables, rows) -%}
    {%- set name = dbt_backfill.postgres_literal(slot) -%}
    select jsonb_build_object(
        'flushed', (f.flushed - '0/0')::bigint, 'changes', p.changes, 'reached', (p.reached - '0/0')::bigint, 'at', coalesce(p.at, now()),
        'held', (pg_current_wal_insert_lsn() - s.restart_lsn)::bigint, 'confirmed', (s.confirmed_flush_lsn - '0/0')::bigint
    )::text as value_1
    from {{ dbt_backfill.get_slot_lock(slot) }}
    cross join lateral (select case when l.locked = '' then pg_current_wal_flush_lsn() end as flushed offset 0) as f
    cross join lateral (
        select count(*) as changes, max(case when substr(data, 12, 1) = 'C' then (data::jsonb ->> 'nextlsn')::pg_lsn end) as reached,
            max(case when substr(data, 12, 1) = 'C' then (data::jsonb ->> 'timestamp')::timestamptz end) as at
        from pg_logical_slot_peek_changes({{ name }}, f.flushed, {{ rows }}, {{ dbt_backfill.get_wal2json_options(tables) }})
    ) as p
    cross join lateral (select restart_lsn, confirmed_flush_lsn from pg_replication_slots where slot_name = {{ name }} and p.changes >= 0 offset 0) as s
{%- endmacro %}


{#- Return a relation `l` that makes a query wait until no other query reads the same slot: PostgreSQL would refuse a second reader. The relation also
    sets `bytea_output`, because wal2json expects the bytes of a `bytea` in hex. -#}
{% macro get_slot_lock(slot) -%}
    (
        select pg_advisory_xact_lock(hashtext('dbt_backfill landing'), hashtext({{ dbt_backfill.postgres_literal(slot) }}))::text as locked,
            set_config('bytea_output', 'hex', true) as bytes
        offset 0
    ) as l
{%- endmacro %}


{% macro get_postgres_lsn(position) %}
    {%- set digits = [] -%}
    {%- for place in range(15, -1, -1) -%} {%- do digits.append('0123456789ABCDEF'[(position | int) // 16 ** place % 16]) -%} {%- endfor -%}
    {{ return("'" ~ ((digits[:8] | join).lstrip('0') or '0') ~ '/' ~ ((digits[8:] | join).lstrip('0') or '0') ~ "'::pg_lsn") }}
{% endmacro %}


{#- Return the options of wal2json. Numbers as texts need version 2.6, so they are off; check_postgres_table refuses columns that need them. -#}
{% macro get_wal2json_options(tables) -%}
    {%- set names, special = [], "([ ',.*\\\\])" -%}
    {%- for table in tables -%} {%- do names.append(modules.re.sub(special, '\\\\\\1', table) | replace('\\.', '.', 1)) -%} {%- endfor -%}
    'format-version', '2', 'include-xids', '1', 'include-lsn', '1', 'include-timestamp', '1', 'include-types', '0',
    'add-tables', {{ dbt_backfill.postgres_literal(names | join(',')) }}
{%- endmacro %}
