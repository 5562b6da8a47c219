{#-
    What landing asks a replication slot, in PostgreSQL's own words, see get_postgres_query_sql. Each of these waits for any other
    that asks the same slot, which PostgreSQL would refuse: it has one reader at a time. wal2json takes the bytes of a `bytea` for hex.
-#}
{% macro _get_slot_lock(slot) -%}
    (
        select pg_advisory_xact_lock(hashtext('dbt_backfill landing'), hashtext({{ dbt_backfill.postgres_literal(slot) }}))::text as locked,
            set_config('bytea_output', 'hex', true) as bytes
        offset 0
    ) as l
{%- endmacro %}


{% macro get_postgres_lsn(position) %}
    {%- set number = position | int -%}
    {{ return("'%X/%X'::pg_lsn" | format(number // 4294967296, number % 4294967296)) }}
{% endmacro %}


{#- Makes the slot, unless another landing has made it meanwhile. -#}
{% macro get_create_slot_query(slot) -%}
    {%- set name = dbt_backfill.postgres_literal(slot) -%}
    select (
        select (lsn - '0/0')::bigint::text
        from pg_create_logical_replication_slot(case when l.locked = '' then {{ name }} end, 'wal2json')
        where not exists (select 1 from pg_replication_slots where slot_name = {{ name }} and l.locked = '')
    ) as value_1
    from {{ dbt_backfill._get_slot_lock(slot) }}
{%- endmacro %}


{% macro get_drop_slot_query(slot) -%}
    select pg_drop_replication_slot(slot_name)::text as value_1
    from pg_replication_slots
    where slot_name = {{ dbt_backfill.postgres_literal(slot) }} and wal_status = 'lost'
{%- endmacro %}


{#-
    Makes a slot that ends with the connection, which waits until every transaction has ended that runs now: what was committed before is
    then visible to whoever reads the table, also if its commit waited for a standby.
-#}
{% macro get_temporary_slot_query(name) -%}
    select (lsn - '0/0')::bigint::text as value_1
    from pg_create_logical_replication_slot({{ dbt_backfill.postgres_literal(name) }}, 'wal2json', true)
{%- endmacro %}


{#-
    The same as a block whose error `get_attempt_query` tells in the same connection. PostgreSQL lists the output plugins that it has to
    nobody, so only an attempt to load one tells, and Spark's scripts catch no error of a database.
-#}
{% macro get_attempt_block(name) -%}
    do $$ begin
        perform pg_create_logical_replication_slot({{ dbt_backfill.postgres_literal(name) }}, 'wal2json', true);
    exception when others then
        perform set_config('dbt_backfill.error', sqlerrm, false);
    end $$
{%- endmacro %}


{#- JSON: {'error': null if there was none}. -#}
{% macro get_attempt_query() -%}
    select jsonb_build_object('error', nullif(current_setting('dbt_backfill.error', true), ''))::text as value_1
{%- endmacro %}


{#- Of this invocation. -#}
{% macro get_temporary_slot_name(slot) %}
    {{ return('dbt_backfill_' ~ local_md5(invocation_id ~ slot)[:20]) }}
{% endmacro %}


{#-
    Has what was written and not yet flushed flushed, which alone a slot tells; writes nothing if there is none. Its own commit does not
    wait for a synchronous standby, which may be away.
-#}
{% macro get_flush_query() -%}
    select case when pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()
        then concat(set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'dbt_backfill', '')) end as value_1
{%- endmacro %}


{#-
    JSON of the next batch: {
      'flushed': how far the WAL had been flushed before,
      'changes': how many the slot told, with the marks of transactions; less than `rows` if it told all until then,
      'reached': the end of the last commit among them, null if there is none,
      'at': the time of that commit, or of the query; no commit that is told later is older, but by what clocks go back,
      'held': bytes of WAL that the slot keeps,
      'confirmed': from where on the slot has told them: what was before may have been told to another reader
    }
-#}
{% macro get_batch_query(slot, tables, rows) -%}
    {%- set name = dbt_backfill.postgres_literal(slot) -%}
    select jsonb_build_object(
        'flushed', (f.flushed - '0/0')::bigint, 'changes', p.changes, 'reached', (p.reached - '0/0')::bigint, 'at', coalesce(p.at, now()),
        'held', (pg_current_wal_insert_lsn() - s.restart_lsn)::bigint, 'confirmed', (s.confirmed_flush_lsn - '0/0')::bigint
    )::text as value_1
    from {{ dbt_backfill._get_slot_lock(slot) }}
    cross join lateral (select case when l.locked = '' then pg_current_wal_flush_lsn() end as flushed offset 0) as f
    cross join lateral (
        select count(*) as changes, max(case when substr(data, 12, 1) = 'C' then (data::jsonb ->> 'nextlsn')::pg_lsn end) as reached,
            max(case when substr(data, 12, 1) = 'C' then (data::jsonb ->> 'timestamp')::timestamptz end) as at
        from pg_logical_slot_peek_changes({{ name }}, f.flushed, {{ rows }}, {{ dbt_backfill.get_wal2json_options(tables) }})
    ) as p
    cross join lateral (
        select restart_lsn, confirmed_flush_lsn
        from pg_replication_slots
        where slot_name = {{ name }} and p.changes >= 0
        offset 0
    ) as s
{%- endmacro %}


{#-
    The events of a table in the commits up to a position: value_1 is wal2json's text, value_2 the end of its commit, value_3 its place
    within the transaction, value_4 the transaction with its epoch. The slot tells the same whenever it is asked.

    With `from`, up to where the table has landed, there is one row more, of the action `W` and the time `at`, which says that the slot told
    all that came after. There is none at all where the slot has been moved further meanwhile: what another reader has taken is not
    told again. That is looked at after the events were read, because a slot only moves on.
-#}
{% macro get_events_query(slot, table, to, from=none, at=none) -%}
    {%- set name = dbt_backfill.postgres_literal(slot) -%}
    {%- set moved = '(select confirmed_flush_lsn from stands) > ' ~ dbt_backfill.get_postgres_lsn(from) if from is not none -%}
    with peeked as materialized (
        select p.*
        from {{ dbt_backfill._get_slot_lock(slot) }}
        cross join lateral (
            select *
            from pg_logical_slot_peek_changes(
                {{ name }}, case when l.locked = '' then {{ dbt_backfill.get_postgres_lsn(to) }} end, null,
                {{ dbt_backfill.get_wal2json_options([table]) }}
            ) with ordinality as peeked (lsn, xid, data, number)
        ) as p
    ),
    stands as materialized (
        select confirmed_flush_lsn, {{ dbt_backfill.get_postgres_next_id() }} as next_id
        from pg_replication_slots
        where slot_name = {{ name }} and (select count(*) from peeked) >= 0
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
    where substr(data, 12, 1) in ('I', 'U', 'D', 'T') and ended <= {{ dbt_backfill.get_postgres_lsn(to) }}
    {%- if moved %} and not {{ moved }}
    union all
    select '{"action":"W","timestamp":"{{ at }}"}', '{{ to }}', '0', null
    where not {{ moved }}
    {%- endif %}
{%- endmacro %}


{#- Lets go of the WAL up to a position, unless it has already: a slot does not go back. -#}
{% macro get_advance_query(slot, to) -%}
    {%- set lsn = dbt_backfill.get_postgres_lsn(to) -%}
    select (
        select (select end_lsn::text from pg_replication_slot_advance(s.slot_name, {{ lsn }}))
        from pg_replication_slots as s
        where s.slot_name = {{ dbt_backfill.postgres_literal(slot) }} and l.locked = '' and s.confirmed_flush_lsn < {{ lsn }}
    ) as value_1
    from {{ dbt_backfill._get_slot_lock(slot) }}
{%- endmacro %}


{#- Its option for numbers as texts came with 2.6; check_postgres_table refuses columns for which they make a difference. -#}
{% macro get_wal2json_options(tables) -%}
    {%- set names = [] -%}
    {%- for table in tables -%}
        {%- set parts = table.split('.') -%}
        {%- do names.append(dbt_backfill._wal2json_name(parts[0]) ~ '.' ~ dbt_backfill._wal2json_name(parts[1:] | join('.'))) -%}
    {%- endfor -%}
    'format-version', '2', 'include-xids', '1', 'include-lsn', '1', 'include-timestamp', '1', 'include-types', '0',
    'add-tables', {{ dbt_backfill.postgres_literal(names | join(',')) }}
{%- endmacro %}


{% macro _wal2json_name(name) %}
    {{ return(modules.re.sub("([ ',.*\\\\])", '\\\\\\1', name)) }}
{% endmacro %}
