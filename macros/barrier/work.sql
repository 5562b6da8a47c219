{#-
    What a barrier needs beside its plan, made once the plan stands, and gone with the barrier: {
      'guarded': whether a statement of it that fails gives the plan up, see run_merge,
      'staged': its changes, if they were staged while it was planned, as stage_changes tells them; else none,
      'changes': how they are read, see get_changes, if they are still to be staged; none if not, or if it has none,
      'views': the temporary views that it has cached or will cache, which the commit drops,
      'columns': of the MV, if this run has looked at them because it creates or replaces it; else none,
      'learned': what the run has learned of its query by now, see new_learned
    }

    Arguments:
      observed (dict): as observe_upstream returned it.
      planned (dict): the plan that stands, as adopt_plan or plan_barrier returned it.
-#}
{% macro new_work(backfill, state, observed, learned, planned, columns=none) %}
    {%- set plan, staged = planned.plan, planned.get('staged') -%}
    {%- set views, changes = planned.get('views', []), none -%}
    {%- if not staged and dbt_backfill.has_changes(state, plan) -%}
        {%- set learned = dbt_backfill.learn_feed_columns(backfill, learned) -%}
        {%- set changes = dbt_backfill.get_changes(
            backfill, state, observed, dbt_backfill.learn_columns_of_plan(backfill, learned, plan), plan
        ) -%}
        {%- set views = views + dbt_backfill.get_stage_views(backfill, plan, changes) -%}
    {%- endif -%}
    {{ return({
        'guarded': planned.get('guarded', false), 'staged': staged, 'changes': changes, 'views': views, 'columns': columns,
        'learned': learned,
    }) }}
{% endmacro %}
