{#-
    In the mode `snapshot` one version is read until the backfill has finished. A tag of the upstream keeps Iceberg
    from expiring it: set by the barrier that begins to read a version, and dropped once all of it has been read.
-#}
{% macro hold_upstream(backfill, state, plan) %}
    {%- if backfill.upstream.kind == 'iceberg' and plan.backfill_mode == 'snapshot' and plan.kind in ['advance', 'reanchor']
            and not plan.last_range and plan.upstream_version not in [state.get('upstream_version'), '0'] -%}
        {%- do dbt_backfill.run_table('hold the snapshot of the upstream', 'alter table ' ~ plan.upstream ~ ' create or replace tag '
            ~ dbt_backfill._hold_name(plan) ~ ' as of version ' ~ plan.upstream_version) -%}
    {%- endif -%}
{% endmacro %}


{% macro release_upstream(backfill, state, plan, committed) %}
    {%- if backfill.upstream.kind == 'iceberg' and plan.backfill_mode == 'snapshot' and committed.finished and not state.finished -%}
        {%- do dbt_backfill.run_table('release the snapshot of the upstream', 'alter table ' ~ plan.upstream ~ ' drop tag if exists '
            ~ dbt_backfill._hold_name(plan)) -%}
    {%- endif -%}
{% endmacro %}


{% macro _hold_name(plan) %}
    {{ return('dbt_backfill_' ~ plan.backfill_id) }}
{% endmacro %}
