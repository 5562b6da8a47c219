{#- Sort, offset and limit go to the database, which walks its index. -#}
{% macro postgres_bounds_sql(upstream, keys, window, counts) -%}
    {%- set order = [] -%}
    {%- for column in dbt_backfill.upstream_columns(keys) -%}
        {%- do order.append(column ~ (' desc nulls first' if dbt_backfill.is_descending(keys) else ' asc nulls last')) -%}
    {%- endfor -%}
    select to_json(named_struct('bounds', array(
        {%- for rows in counts %}
        (
            select max({{ dbt_backfill.literals_expression(keys) }})
            from (
                select {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
                from {{ upstream.relation.render() }}
                where {{ window }}
                order by {{ order | join(', ') }}
                limit 1 offset {{ rows - 1 }}
            )
        ){{ ',' if not loop.last }}
        {%- endfor %}
    )))
{%- endmacro %}


{#-
    A script that reads a range from the live table, once, into the table of staged ranges, and tells {
      'stage': the id of this execution of it: one that is sent twice stages under two,
      'snapshot': what of PostgreSQL's transactions whoever reads after it sees at least, see postgres_snapshot_query,
      'reached': the position of the WAL after the range was read: what it may show was committed up to there,
      'rows': how many were staged under this id,
      'stands': whether no other execution has replaced them since,
      'landed': up to where the feed has landed
    }

    Arguments:
      scan (string): a select of the rows.
      staged (dict): {'relation', 'columns': of {'name', 'type'}, 'clauses': of its CREATE TABLE, 'anew': whether to drop it before}.

    Spark takes a column of the table for a variable of the same name, so the names of these are ones that no column has.
-#}
{% macro postgres_stage_script(upstream, scan, staged) -%}
    {%- set catalog, table = dbt_backfill.get_catalog(upstream.relation), staged.relation.render() -%}
    {%- set mark = dbt_backfill.get_stage_mark('') -%}
    begin
        declare __bf_id string;
        declare __bf_snapshot string;
        declare __bf_reached bigint;
        set __bf_id = uuid();
        {%- if staged.anew %}
        drop table if exists {{ table }};
        {%- endif %}
        create table if not exists {{ table }} ({{ dbt_backfill.column_definitions(staged.columns) }}, __bf_stage string)
        {{ staged.clauses }};
        set __bf_snapshot = ({{ dbt_backfill.get_postgres_query_sql(catalog, dbt_backfill.postgres_snapshot_query()) }});
        insert overwrite table {{ table }}
        select {{ dbt_backfill.identifiers(staged.columns | map(attribute='name')) }}, __bf_id
        from (
            {{ scan }}
        )
        union all
        select {{ 'null, ' * staged.columns | length }}concat('{{ mark }}', __bf_id);
        set __bf_reached = (select cast(value_1 as bigint) from ({{ dbt_backfill.get_postgres_query_sql(
            catalog, "select (pg_current_wal_insert_lsn() - '0/0')::text as value_1"
        ) }}));
        select to_json(named_struct(
            'stage', __bf_id, 'snapshot', __bf_snapshot, 'reached', __bf_reached,
            'rows', kept.rows, 'stands', kept.stands,
            'landed', {{ dbt_backfill.get_feed_landed_sql(upstream.feed) }}
        ))
        from (
            select count_if(__bf_stage = __bf_id) as rows, count_if(__bf_stage = concat('{{ mark }}', __bf_id)) = 1 as stands
            from {{ table }}
        ) as kept;
    end
{%- endmacro %}


{#-
    A script that waits until the feed has landed what was reached, for so many seconds at most, which pass in the database, and tells {
      'landed': up to where it has,
      'broken': whether something stands between that an overlay cannot tell: a table that was emptied, events that may be missing,
        a value that the feed does not tell,
      'notes': those that differ, of the marks since the rows were read, see get_landing_note,
      'recovered': whether the server has crashed since before that: what it had committed and not flushed may have been read, and be gone,
      'stands': whether the rows that were staged are there,
      'altered': a column of them with a value that the reader has altered, see get_altered_column_sql; null if there is none
    }

    Arguments:
      noted (dict): {'snapshot', 'reached', 'columns', 'since', 'renewed'}: all such up to the position `since` were seen before the rows
        were read; see unseen_predicate.
      stage (dict): as a source of the plan.
-#}
{% macro postgres_wait_script(upstream, observed, noted, stage, seconds) -%}
    {%- set catalog, names = dbt_backfill.get_catalog(upstream.relation), noted.columns | map(attribute='name') | list -%}
    {%- set altered = dbt_backfill.get_altered_column_sql(noted.columns, observed.facts) -%}
    {%- set mark = dbt_backfill.string_literal(dbt_backfill.get_stage_mark(stage.id)) -%}
    {%- set recovered = dbt_backfill.get_postgres_query_sql(catalog, 'select ' ~ dbt_backfill.get_postgres_recovered() ~ ' as value_1') -%}
    begin
        declare __bf_landed bigint;
        declare turns int default 0;
        declare paused string;
        set __bf_landed = {{ dbt_backfill.get_feed_landed_sql(upstream.feed) }};
        while __bf_landed < {{ noted.reached }} and turns < {{ seconds * 2 }} do
            set paused = ({{ dbt_backfill.get_postgres_query_sql(catalog, 'select pg_sleep(0.5)::text as value_1') }});
            set __bf_landed = {{ dbt_backfill.get_feed_landed_sql(upstream.feed) }};
            set turns = turns + 1;
        end while;
        select to_json(named_struct(
            'landed', __bf_landed, 'stands', kept.stands, 'altered', kept.altered, 'broken', told.broken, 'notes', told.notes,
            'recovered', ({{ recovered }}) <> {{ dbt_backfill.string_literal(noted.snapshot.split(':')[4:] | join) }}
        ))
        from (
            select coalesce(bool_or(__bf_op in ('t', 'g') or arrays_overlap(__bf_unchanged, {{ dbt_backfill.string_array_literal(names) }})), false) as broken,
                collect_set(__bf_note) as notes
            from (
                {{ dbt_backfill.get_feed_rows_sql(dict(upstream.feed, notes=observed.followed.get('notes')), names) }}
            )
            where __bf_position <= __bf_landed and (__bf_position > {{ noted.since }} or {{ dbt_backfill.unseen_predicate(upstream.feed, noted) }})
        ) as told
        cross join (
            select count_if(__bf_stage = {{ mark }}) = 1 as stands, max({{ altered }}) as altered
            from {{ dbt_backfill.get_kept_read(stage) }}
            where __bf_stage in ({{ dbt_backfill.string_literal(stage.id) }}, {{ mark }})
        ) as kept;
    end
{%- endmacro %}


{#- As the end of a sentence; none if it is clear. -#}
{% macro postgres_staged_doubt(observed, plan, waited) %}
    {%- if waited.broken -%} {{ return('the feed told something that is no event of a row while its range was read') }} {%- endif -%}
    {{ return(dbt_backfill.find_untold(waited.get('notes') or [], plan.key | map(attribute='upstream') | list, observed)) }}
{% endmacro %}


{#- Refuse a database whose WAL, after a range of it was read, is not where its feed has come to before. -#}
{% macro postgres_check_stage_reached(upstream, observed, read, name) %}
    {%- if read.reached < observed.landed -%}
        {%- do dbt_backfill.refuse_other_database(upstream.feed.relation, read.reached, observed.landed, name) -%}
    {%- endif -%}
{% endmacro %}


{% macro refuse_other_database(change_table, position, landed, name) %}
    {%- do dbt_backfill.refuse(
        'the WAL of its database is at ' ~ position ~ ', and its change_feed ' ~ change_table.render() ~ ' has landed up to ' ~ landed
            ~ ', so it is another database, or one that was put back',
        'Drop ' ~ change_table.render() ~ ': it is landed anew, and what reads it begins anew', mv=name
    ) -%}
{% endmacro %}


{% macro postgres_check_staged(upstream, observed, plan, columns, name) %}
    {%- do dbt_backfill.check_postgres_table(
        observed.facts, columns | map(attribute='name') | list, plan.key | map(attribute='upstream') | list, name
    ) -%}
    {%- do dbt_backfill.check_feed_table(upstream.feed, columns) -%}
    {%- do dbt_backfill.check_postgres_key_zone(observed, plan.key, name) -%}
{% endmacro %}
