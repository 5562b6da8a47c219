{#-
    In the mode `snapshot` one version is read until the backfill, or a sweep, has finished. The upstream is asked to keep it:
    by the barrier that begins to read a version, be it again, or with which the mode begins; and to let it go by the first one
    that leaves that version, or the mode. Whether it is held is asked of the upstream, so that what a run that died left
    behind is let go by the next run. To hold a version lets the one before go.

    Returns whether this barrier has held one, so that it has nothing to let go.
-#}
{% macro hold_upstream(backfill, state, plan) %}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {%- if plan.backfill_mode == 'snapshot' and dbt_backfill.get_traits(plan).follows
            and (not state.finished or plan.kind == 'sweep') and not plan.last_range
            and [source.version, plan.backfill_mode] != [state.get('upstream_version'), state.committed.get('backfill_mode')] -%}
        {{ return(dbt_backfill.hold_version(backfill.upstream, source, dbt_backfill._hold_name(plan))) }}
    {%- endif -%}
    {{ return(false) }}
{% endmacro %}


{#- `plan` is what was committed last; `observed`, see observe_upstream. -#}
{% macro release_upstream(backfill, observed, plan) %}
    {%- set source, name = dbt_backfill.get_source(plan), dbt_backfill._hold_name(plan) -%}
    {%- set held = dbt_backfill.get_held_version(backfill.upstream, observed, name) -%}
    {%- if held is not none and not (plan.backfill_mode == 'snapshot' and source.get('version') == held) -%}
        {%- do dbt_backfill.release_version(backfill.upstream, source, name) -%}
    {%- endif -%}
{% endmacro %}


{% macro _hold_name(plan) %}
    {{ return('dbt_backfill_' ~ plan.backfill_id) }}
{% endmacro %}
