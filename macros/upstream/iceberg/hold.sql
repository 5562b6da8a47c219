{#-
    In the mode `snapshot` one version is read until the backfill has finished. A tag of the upstream keeps Iceberg
    from expiring it: set by the barrier that begins to read a version, or with which the mode begins, and dropped by
    the first one that leaves that version, or the mode. Whether it stands is read off the upstream's log, so that one
    which a run that died left behind is dropped by the next run.
-#}
{% macro hold_upstream(backfill, state, plan) %}
    {%- if backfill.upstream.kind == 'iceberg' and plan.backfill_mode == 'snapshot' and plan.kind in ['advance', 'reanchor']
            and not state.finished and not plan.last_range and dbt_backfill.get_source(plan).version != '0'
            and [dbt_backfill.get_source(plan).version, plan.backfill_mode] != [state.get('upstream_version'), state.committed.get('backfill_mode')] -%}
        {%- do dbt_backfill.run_table('hold the snapshot of the upstream', 'alter table ' ~ dbt_backfill.get_source(plan).relation
            ~ ' create or replace tag ' ~ dbt_backfill._hold_name(plan) ~ ' as of version ' ~ dbt_backfill.get_source(plan).version) -%}
    {%- endif -%}
{% endmacro %}


{#- `plan` is what was committed last. -#}
{% macro release_upstream(backfill, plan) %}
    {%- if backfill.upstream.kind != 'iceberg' -%} {{ return(none) }} {%- endif -%}
    {%- set held = backfill.observed.get('holds', {}).get(dbt_backfill._hold_name(plan)) -%}
    {%- set needed = plan.backfill_mode == 'snapshot' and dbt_backfill.get_source(plan).get('version') == held | string -%}
    {%- if held is not none and not needed -%}
        {%- do dbt_backfill.run_table('release the snapshot of the upstream', 'alter table ' ~ dbt_backfill.get_source(plan).relation
            ~ ' drop tag if exists ' ~ dbt_backfill._hold_name(plan)) -%}
    {%- endif -%}
{% endmacro %}


{% macro _hold_name(plan) %}
    {{ return('dbt_backfill_' ~ plan.backfill_id) }}
{% endmacro %}
