{#-
    Create what is missing of the state, in the order barriers, progress, MV; each step can be repeated.

    `plan` is the plan of epoch 0, of the kind `create`: no rows, all vnodes NotStarted. The id in it stands
    in all three tables, in the MV as the table property `dbt_backfill.id`. Returns the id.
-#}
{% macro create_state(relations, plan, columns) %}
    {%- set properties = dbt_backfill.state_table_properties(plan.key) -%}
    {%- set sql -%}
        begin
            create table if not exists {{ relations.barriers.render() }}
            {{ dbt_backfill.table_clauses(relations.barriers, dbt_backfill.state_table_properties([])) }}
            as
            {{ dbt_backfill.get_plan_row_sql(plan) }};
            create table if not exists {{ relations.progress.render() }}
            {{ dbt_backfill.table_clauses(relations.progress, properties) }}
            as
            {{ dbt_backfill.get_not_started_sql(plan.key, plan.vnode_count,
                0, '(select min(backfill_id) from ' ~ relations.barriers.render() ~ ' where epoch = 0)') }};
            select to_json(named_struct('backfill_id', min(backfill_id))) from {{ relations.barriers.render() }} where epoch = 0;
        end
    {%- endset -%}
    {%- set backfill_id = dbt_backfill.run_json('create the state tables', sql)[0].backfill_id -%}
    {%- do dbt_backfill.run_table(
        'create the MV', dbt_backfill.get_create_mv_sql(relations.mv, columns, backfill_id)
    ) -%}
    {{ return(backfill_id) }}
{% endmacro %}


{#- One row per vnode, NotStarted: no position, not finished, no rows. -#}
{% macro get_not_started_sql(keys, vnode_count, epoch, backfill_id) -%}
    select
        cast(id as int) as vnode,
        {%- for key in keys %}
        cast(null as {{ key.type }}) as {{ dbt_backfill.identifier(dbt_backfill.position_column(key.upstream)) }},
        {%- endfor %}
        false as backfill_finished,
        cast(0 as bigint) as row_count,
        cast({{ epoch }} as bigint) as epoch,
        cast(null as string) as upstream_version,
        false as dirty,
        cast({{ backfill_id }} as string) as backfill_id
    from range(0, {{ vnode_count }}, 1, 1)
{%- endmacro %}
