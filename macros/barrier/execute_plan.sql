{#- Steps 3 and 4: what a plan does to the MV. Every step is a pure function of the plan and of the state. -#}
{% macro execute_plan(backfill, state, plan, work) %}
    {{ return(dbt_backfill.of_kind(plan.kind, 'execute')(backfill, state, plan, work)) }}
{% endmacro %}
