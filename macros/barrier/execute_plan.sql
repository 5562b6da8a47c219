{#- Steps 3 and 4: what a plan does to the MV. Every step is a pure function of the plan and of the state. -#}
{% macro execute_plan(backfill, state, plan) %}
    {%- if plan.kind == 'reset' -%}
        {%- do dbt_backfill.run_reset(backfill, plan) -%}
        {%- do backfill.update({'created': true}) -%}
    {%- elif plan.kind == 'abandon' -%}
        {%- do dbt_backfill.run_abandon(backfill, plan) -%}
    {%- elif plan.kind == 'reanchor' and plan.get('touched') is none -%}
        {{ return(dbt_backfill.run_reanchor(backfill, state, plan)) }}
    {%- else -%}
        {{ return(dbt_backfill.execute_steps(backfill, state, plan)) }}
    {%- endif -%}
    {{ return({}) }}
{% endmacro %}


{#- The changes, and the range or, of a limited re-anchor, what given-up plans left above the position. -#}
{% macro execute_steps(backfill, state, plan) %}
    {%- set counts = {} -%}
    {%- if not backfill.staged and dbt_backfill.has_changes(state, plan) -%}
        {%- do backfill.update({'staged': dbt_backfill.stage_changes(backfill, state, plan)}) -%}
    {%- endif -%}
    {%- set staged = backfill.staged -%}
    {%- if not backfill.failed and staged and staged.upserts + staged.drops -%}
        {%- if plan.at_once -%} {{ return(dbt_backfill.run_changes_and_range(backfill, state, plan, staged)) }} {%- endif -%}
        {%- set counts = dbt_backfill.run_changes(backfill, plan, staged) -%}
    {%- endif -%}
    {%- if not backfill.failed and plan.get('range_row_count') -%}
        {%- do dbt_backfill.run_range(backfill, state, plan) -%}
    {%- elif not backfill.failed and plan.get('touched') -%}
        {%- do dbt_backfill.run_removal(backfill, plan) -%}
    {%- endif -%}
    {{ return(counts) }}
{% endmacro %}
