{#- Call the features around a barrier and at the end of a run. Each feature is called only if an option, the mode or the state requires the feature.
    An ordinary barrier calls none of them, except release_upstream if its upstream is an Iceberg table. -#}


{#- Call the features before a plan is chosen. Return the replica for the next ranges, as a source of a plan; none if there is none. -#}
{% macro before_choice(backfill, state, observed, analysis) %}
    {%- set recorded = dbt_backfill.get_source(state.committed, 'replica') -%}
    {{ return(dbt_backfill.find_replica(backfill, state, observed, analysis.copy_id) if recorded else none) }}
{% endmacro %}


{#- Call the features before a chosen plan is stored. Return the choice, see choose_replica. `copy`: as before_choice returned it. -#}
{% macro before_plan(backfill, state, choice, copy) %}
    {#- `replicate: auto` makes a replica only if this run or an earlier run has counted the rows together with the bounds of the ranges. -#}
    {%- set asks = backfill.options.replicate == 'always' or choice.plan.get('evidence') or dbt_backfill.get_source(state.committed, 'replica') -%}
    {{ return(dbt_backfill.choose_replica(backfill, state, choice, copy) if asks else choice) }}
{% endmacro %}


{#- Call the features before the steps of a stored plan. Return true if the barrier has held the version that it reads. -#}
{% macro before_steps(backfill, state, plan) %}
    {#- If dbt may not create the tag, the user may remove the mode from the config. Then the stored plan is executed without the tag. -#}
    {%- set holds = plan.backfill_mode == 'snapshot' and backfill.options.backfill_mode == 'snapshot' -%}
    {{ return(holds and dbt_backfill.hold_upstream(backfill, state, plan)) }}
{% endmacro %}


{#- Call the features right after a commit, or after the run has found that there is nothing to do. Return the analysis with everything that the run
    knows after the barrier, see new_analysis. `plan`: the plan that was committed last. `result`: the result of the script that planned it, see
    get_plan_script; none if another run planned it. `holds`: as before_steps returned it. -#}
{% macro after_commit(backfill, observed, analysis, plan, result=none, holds=false) %}
    {%- set outgrown = (result or {}).get('overlaid') and dbt_backfill.run_release_of_outgrown(backfill, result) -%}
    {%- if not holds and dbt_backfill.upstream_traits(backfill.upstream).holds_versions -%}
        {%- do dbt_backfill.release_upstream(backfill, observed, plan) -%}
    {%- endif -%}
    {{ return(dict(analysis, copy_id=none) if outgrown else analysis) }}
{% endmacro %}


{#- Call the features after each committed barrier, in this order. `before` is the state before the barrier. -#}
{% macro after_barrier(backfill, before, state) %}
    {%- set options = backfill.options -%}
    {%- if options.compact_every or options.sort_when_finished -%} {%- do dbt_backfill.compact_mv(backfill, before, state) -%} {%- endif -%}
    {%- if options.live_view -%} {%- do dbt_backfill.run_live_view(backfill, state) -%} {%- endif -%}
{% endmacro %}


{#-
    Call the features at the end of a run; `plan` is the plan of the run's last barrier; none if the run had no barrier. `waits`: see run_barriers.
-#}
{% macro after_run(backfill, state, plan, waits) %}
    {%- if not waits and dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%}
        {%- do dbt_backfill.release_staged(backfill, state, plan) -%}
    {%- endif -%}
    {#- Drop the replica if no range will be read from it any more. A run that died may not have dropped its replica. -#}
    {%- set source = dbt_backfill.get_source(state.committed, 'replica') -%}
    {%- set is_used = state.get('planned') or source and source.get('version') is not none and not state.finished -%}
    {%- if not state.get('missing') and not is_used and (source or dbt_backfill.is_listed(backfill.replica)) -%}
        {%- do dbt_backfill.drop_own_replica(backfill) -%}
    {%- endif -%}
{% endmacro %}
