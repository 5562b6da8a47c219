{#- The step of a reset (a full refresh): the MV is replaced by an empty one with the plan's columns. -#}
{% macro run_reset(backfill, plan) %}
    {#- Known where this run has planned it. -#}
    {%- set columns = (backfill.get('columns') if plan.query == backfill.query else none)
        or dbt_backfill.get_query_columns(dbt_backfill.get_query_sql(
            plan.query, backfill.upstream.relation, 'select * from ' ~ plan.upstream
        )) -%}
    {%- set sql = dbt_backfill.get_replace_mv_sql(
        backfill.mv, columns, plan.backfill_id, dbt_backfill.get_fence(backfill, plan)
    ) -%}
    {%- do dbt_backfill.run_table('empty the MV in the barrier ' ~ plan.epoch, sql) -%}
    {%- do persist_constraints(backfill.mv, model) -%}
{% endmacro %}
