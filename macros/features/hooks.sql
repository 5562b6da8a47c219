{#-
    What features do before a plan is chosen. Returns a copy of the upstream from which ranges ahead can be read, as a source of a plan;
    none if there is none.
-#}
{% macro before_choice(backfill, state, observed, learned) %}
    {{ return(dbt_backfill.find_replica(backfill, state, observed, learned.copy_id)) }}
{% endmacro %}


{#-
    What features do before a chosen plan is stored. Returns the choice, with 'copy' if its range is to be read from one.

    Arguments:
      copy (dict or none): as before_choice returned it.
-#}
{% macro before_plan(backfill, state, choice, copy) %}
    {{ return(dbt_backfill.choose_replica(backfill, state, choice, copy)) }}
{% endmacro %}


{#- What features do before the steps of a stored plan. Returns true if the barrier has held the version that it reads. -#}
{% macro before_steps(backfill, state, plan) %}
    {{ return(dbt_backfill.hold_upstream(backfill, state, plan)) }}
{% endmacro %}


{#-
    What features do right after a commit, or if there was nothing to do. Returns what the run has learned.

    Arguments:
      plan (dict): that was committed last.
      result (dict or none): of the script that planned it, see get_plan_script; none if this run did not plan it.
      holds (boolean): as before_steps returned it.
-#}
{% macro after_commit(backfill, observed, learned, plan, result=none, holds=false) %}
    {%- set outgrown = dbt_backfill.let_go_of_outgrown_replica(backfill, result or {}) -%}
    {%- if not holds -%} {%- do dbt_backfill.release_upstream(backfill, observed, plan) -%} {%- endif -%}
    {{ return(dict(learned, copy_id=none) if outgrown else learned) }}
{% endmacro %}


{#- What features do after each barrier was committed, in this order; `before` is the state before it. -#}
{% macro after_barrier(backfill, before, state) %}
    {%- do dbt_backfill.compact_mv(backfill, before, state) -%}
    {%- do dbt_backfill.run_live_view(backfill, state) -%}
{% endmacro %}


{#- What features do at the end of a run; `plan` is that of its last barrier, none if it had none, and `waits` see run_barriers. -#}
{% macro after_run(backfill, state, plan, waits) %}
    {%- if not waits -%} {%- do dbt_backfill.release_staged(backfill, state, plan) -%} {%- endif -%}
    {%- if not state.get('missing') -%} {%- do dbt_backfill.release_replica(backfill, state) -%} {%- endif -%}
{% endmacro %}
