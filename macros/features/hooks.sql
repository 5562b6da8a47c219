{#-
    What features do around a barrier and at the end of a run. Each is called only if an option, the mode or what was recorded asks for it, so
    that a reader of an ordinary barrier can stop here.
-#}


{#-
    What features do before a plan is chosen. Returns a copy of the upstream from which ranges ahead can be read, as a source of a plan;
    none if there is none.
-#}
{% macro before_choice(backfill, state, observed, learned) %}
    {%- set recorded = dbt_backfill.get_source(state.committed, 'replica') -%}
    {{ return(dbt_backfill.find_replica(backfill, state, observed, learned.copy_id) if recorded else none) }}
{% endmacro %}


{#-
    What features do before a chosen plan is stored. Returns the choice, with 'copy' if its range is to be read from one.

    Arguments:
      copy (dict or none): as before_choice returned it.
-#}
{% macro before_plan(backfill, state, choice, copy) %}
    {#- `auto` makes one only by what was counted with the bounds of the ranges, now or before. -#}
    {%- set asks = backfill.options.replicate == 'always' or choice.plan.get('evidence') or dbt_backfill.get_source(state.committed, 'replica') -%}
    {{ return(dbt_backfill.choose_replica(backfill, state, choice, copy) if asks else choice) }}
{% endmacro %}


{#- What features do before the steps of a stored plan. Returns true if the barrier has held the version that it reads. -#}
{% macro before_steps(backfill, state, plan) %}
    {{ return(plan.backfill_mode == 'snapshot' and dbt_backfill.hold_upstream(backfill, state, plan)) }}
{% endmacro %}


{#-
    What features do right after a commit, or if there was nothing to do. Returns what the run has learned.

    Arguments:
      plan (dict): that was committed last.
      result (dict or none): of the script that planned it, see get_plan_script; none if this run did not plan it.
      holds (boolean): as before_steps returned it.
-#}
{% macro after_commit(backfill, observed, learned, plan, result=none, holds=false) %}
    {%- set outgrown = (result or {}).get('overlaid') and dbt_backfill.let_go_of_outgrown_replica(backfill, result) -%}
    {%- if not holds and dbt_backfill.upstream_traits(backfill.upstream).holds_versions -%}
        {%- do dbt_backfill.release_upstream(backfill, observed, plan) -%}
    {%- endif -%}
    {{ return(dict(learned, copy_id=none) if outgrown else learned) }}
{% endmacro %}


{#- What features do after each barrier was committed, in this order; `before` is the state before it. -#}
{% macro after_barrier(backfill, before, state) %}
    {%- set options = backfill.options -%}
    {%- if options.get('compact_every') or options.get('sort_when_finished') -%} {%- do dbt_backfill.compact_mv(backfill, before, state) -%} {%- endif -%}
    {%- if options.get('live_view') -%} {%- do dbt_backfill.run_live_view(backfill, state) -%} {%- endif -%}
{% endmacro %}


{#- What features do at the end of a run; `plan` is that of its last barrier, none if it had none, and `waits` see run_barriers. -#}
{% macro after_run(backfill, state, plan, waits) %}
    {%- if not waits and dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%}
        {%- do dbt_backfill.release_staged(backfill, state, plan) -%}
    {%- endif -%}
    {%- if not state.get('missing') -%} {%- do dbt_backfill.release_replica(backfill, state) -%} {%- endif -%}
{% endmacro %}
