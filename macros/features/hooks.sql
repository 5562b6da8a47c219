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
