{#-
    What a barrier needs beside its plan, made once the plan stands, and gone with the barrier: {
      'guarded': whether a statement of it that fails gives the plan up, see run_merge,
      'staged': its changes, if they were staged while it was planned, as stage_changes tells them; else none,
      'views': the temporary views that it has cached or will cache, which the commit drops,
      'columns': of the MV, if this run has looked at them because it creates or replaces it; else none
    }

    Arguments:
      planned (dict): the plan that stands, as adopt_plan or plan_barrier returned it.
-#}
{% macro new_work(backfill, state, planned, columns=none) %}
    {%- set views = planned.get('views', []) -%}
    {%- if dbt_backfill.has_changes(state, planned.plan) -%}
        {%- set views = views + dbt_backfill.get_stage_views(backfill, state, planned.plan, planned.plan.key) -%}
    {%- endif -%}
    {{ return({
        'guarded': planned.get('guarded', false), 'staged': planned.get('staged'), 'views': views, 'columns': columns,
    }) }}
{% endmacro %}
