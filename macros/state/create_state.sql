{#-
    The statements, each with its semicolon, that create what is missing of the state, in the order barriers,
    progress, MV; each can be repeated. They stand in a script with the variables of `declare_creation`, and leave
    the id of the backfill in `created_id` and the plan of epoch 1 as JSON in `standing`, null if there is none.

    `creation` is the plan of epoch 0, of the kind `create`: no rows, all vnodes NotStarted. The id in it stands in
    all three tables, in the MV as the table property `dbt_backfill.id`. Of two first runs at once one creates the
    table of barriers, with both plans in it; so the other takes id and plan from there.

    Arguments:
      first (dict): the plan of the first barrier, none if there is to be no barrier.
-#}
{% macro get_create_statements(relations, creation, columns, first=none) -%}
    {%- if creation.get('replaces') -%} {{ dbt_backfill._get_give_way_statements(relations, creation, first) }} {%- endif %}
    create table if not exists {{ relations.barriers.render() }}
    {{ dbt_backfill.table_clauses(relations.barriers, dbt_backfill.state_table_properties([])) }}
    as
    {{ dbt_backfill._get_first_plans_sql(creation, first) }};
    set (created_id, standing) = (
        select min(backfill_id), max(to_json(struct(*))) filter (where epoch = 1)
        from {{ relations.barriers.render() }}
        where epoch <= 1
    );
    create table if not exists {{ relations.progress.render() }}
    {{ dbt_backfill.table_clauses(relations.progress, dbt_backfill.state_table_properties(creation.key)) }}
    as
    {{ dbt_backfill.get_not_started_sql(creation.key, creation.vnode_count, 0, 'created_id') }};
    set create_mv = replace(
        {{ dbt_backfill.string_literal(dbt_backfill.get_create_mv_sql(relations.mv, columns, creation.backfill_id)) }},
        {{ dbt_backfill.string_literal(creation.backfill_id) }},
        created_id
    );
    execute immediate create_mv;
{%- endmacro %}


{% macro _get_first_plans_sql(creation, first) -%}
    {{ dbt_backfill.get_plan_row_sql(creation) }}
    {%- if first %}
    union all
    {{ dbt_backfill.get_plan_row_sql(first) }}
    {%- endif %}
{%- endmacro %}


{#-
    Statements that put away the state which a first run of another model has left, and nothing else: they look for its id.
    Dropping a Delta table in a location of the user's leaves its files, so there it is replaced; Iceberg tables are
    dropped, because a Hive metastore does not let a column be replaced by one of another type.
-#}
{% macro _get_give_way_statements(relations, creation, first) -%}
    if (
        select count(*) from {{ relations.barriers.render() }}
        where backfill_id = {{ dbt_backfill.string_literal(creation.replaces) }}
    ) > 0 then
    {%- if dbt_backfill.get_file_format() == 'iceberg' %}
        drop table if exists {{ relations.progress.render() }};
        drop table if exists {{ relations.barriers.render() }};
    {%- else %}
        create or replace table {{ relations.progress.render() }}
        {{ dbt_backfill.table_clauses(relations.progress, dbt_backfill.state_table_properties(creation.key)) }}
        as
        {{ dbt_backfill.get_not_started_sql(
            creation.key, creation.vnode_count, 0, dbt_backfill.string_literal(creation.backfill_id)
        ) }};
        create or replace table {{ relations.barriers.render() }}
        {{ dbt_backfill.table_clauses(relations.barriers, dbt_backfill.state_table_properties([])) }}
        as
        {{ dbt_backfill._get_first_plans_sql(creation, first) }};
    {%- endif %}
    end if;
{%- endmacro %}


{#- The variables of a script with these statements. -#}
{% macro declare_creation() -%}
    declare created_id string;
    declare standing string;
    declare create_mv string;
{%- endmacro %}


{#-
    One row per vnode, NotStarted: no position, not finished, no rows. The columns of the position come last, see
    get_narrowed_progress_sql.
-#}
{% macro get_not_started_sql(keys, vnode_count, epoch, backfill_id) -%}
    select
        cast(id as int) as vnode,
        false as backfill_finished,
        cast(0 as bigint) as row_count,
        cast({{ epoch }} as bigint) as epoch,
        cast(null as string) as upstream_version,
        false as dirty,
        cast({{ backfill_id }} as string) as backfill_id
        {%- for key in keys %},
        cast(null as {{ key.type }}) as {{ dbt_backfill.identifier(dbt_backfill.position_column(key.upstream)) }}
        {%- endfor %}
    from range(0, {{ vnode_count }}, 1, 1)
{%- endmacro %}
