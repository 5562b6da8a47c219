{#-
    In the mode `snapshot` one version is read until the backfill has finished. A tag of the upstream keeps Iceberg
    from expiring it: set by the barrier that begins to read a version, or with which the mode begins, and dropped by
    the first one after the backfill, which has read the changes since then, or with another mode.
-#}
{% macro hold_upstream(backfill, state, plan) %}
    {%- if backfill.upstream.kind == 'iceberg' and plan.backfill_mode == 'snapshot' and plan.kind in ['advance', 'reanchor']
            and not state.finished and not plan.last_range and plan.upstream_version != '0'
            and [plan.upstream_version, plan.backfill_mode] != [state.get('upstream_version'), state.committed.get('backfill_mode')] -%}
        {%- do dbt_backfill.run_table('hold the snapshot of the upstream', 'alter table ' ~ plan.upstream
            ~ ' create or replace tag ' ~ dbt_backfill._hold_name(plan) ~ ' as of version ' ~ plan.upstream_version) -%}
    {%- endif -%}
{% endmacro %}


{% macro release_upstream(backfill, state, plan) %}
    {%- set held = state.committed.get('backfill_mode') == 'snapshot' -%}
    {%- set needed = plan.backfill_mode == 'snapshot' and not (state.finished and state.committed.last_range) -%}
    {%- if backfill.upstream.kind == 'iceberg' and held and not needed -%}
        {%- do dbt_backfill.run_table('release the snapshot of the upstream', 'alter table ' ~ plan.upstream
            ~ ' drop tag if exists ' ~ dbt_backfill._hold_name(plan)) -%}
    {%- endif -%}
{% endmacro %}


{% macro _hold_name(plan) %}
    {{ return('dbt_backfill_' ~ plan.backfill_id) }}
{% endmacro %}
