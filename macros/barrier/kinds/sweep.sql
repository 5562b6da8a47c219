{#-
    The beginning of a sweep, where no feed leads from the committed version to the one that is read, and the MV is to be put
    right in slices. Its rows stay; the position goes back to the start, at the new version. The ranges of the barriers after
    it are compared with what the MV has, see run_swept_range. Until the last of them the MV promises what is up to the
    position; above it are rows of before, see is_sweeping.
-#}
{% macro sweep_traits() %}
    {{ return({'follows': true, 'reads_range': false, 'replaces_mv': false, 'gives_up': false, 'rescales': false}) }}
{% endmacro %}


{#- The ranges that follow check their keys. -#}
{% macro sweep_scan(backfill, state, plan) %}
    {{ return(none) }}
{% endmacro %}


{% macro sweep_follows_feed(plan) %}
    {{ return(false) }}
{% endmacro %}


{#- Nothing yet but a line that says what is to come. -#}
{% macro sweep_execute(backfill, state, plan, work) %}
    {%- do dbt_backfill.run_alterations(backfill, plan) -%}
    {%- do dbt_backfill.report_comparison(state, plan, dbt_backfill.get_slices_text(plan.get('backfill_rate_limit'))) -%}
    {{ return({'failed': none, 'counts': {}}) }}
{% endmacro %}


{% macro sweep_columns(state, plan) %}
    {{ return(dbt_backfill.get_not_started_columns(plan)) }}
{% endmacro %}


{% macro sweep_report(barrier) %}
    {{ return(['sweeps from the start: ' ~ barrier.plan.reason, 'version ' ~ dbt_backfill.get_source(barrier.plan).version]) }}
{% endmacro %}


{#-
    Step 4 of a barrier in a sweep, or of a fill: one MERGE of the rows by which the MV differs from Q(upstream @ S) in a range of
    keys. Returns the step if it failed, see run_merge.

    Arguments:
      window (dict): the range, as a plan has it; that of the plan by default.
-#}
{% macro run_swept_range(backfill, state, plan, work, window=none) %}
    {%- set rows = dbt_backfill.get_swept_rows_sql(backfill, state, plan, window) -%}
    {%- set bounds = dbt_backfill.window_predicate(plan.key, dbt_backfill.mv_columns(plan.key, 'mv.'), window or plan) -%}
    {%- set sql = dbt_backfill.get_changes_merge_sql(backfill, plan, rows, bounds) -%}
    {{ return(dbt_backfill.run_merge(backfill, work, 'merge the range of the barrier ' ~ plan.epoch, sql).failed) }}
{% endmacro %}


{#- A select like that of the stage: the query's rows that the MV has not, and the keys that only the MV has. -#}
{% macro get_swept_rows_sql(backfill, state, plan, window=none) -%}
    {%- set keys, names, coalesced = plan.key, dbt_backfill.mv_columns(plan.key), [] -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {%- set present = dbt_backfill.get_range_scan_sql(
        backfill.mv.render(), window or plan, state, backfill, dbt_backfill.get_mv_keys(keys)
    ) -%}
    {%- for name in names -%}
        {%- do coalesced.append('coalesce(query.' ~ name ~ ', present.' ~ name ~ ') as ' ~ name) -%}
    {%- endfor -%}
    select
        query.* except ({{ names | join(', ') }}),
        {{ coalesced | join(',\n        ') }},
        query.{{ names[0] }} is null as __bf_dropped
    from (
        {{ dbt_backfill.get_range_rows_sql(backfill, state, plan, window) }}
        {#- Also rows that the table has already, from who wrote it before. #}
        {%- set kept = dbt_backfill.get_kept_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns), '__bf_row.') %}
        {{ 'where ' ~ kept if kept }}
    ) as query
    full outer join (
        {{ dbt_backfill.as_new_columns(present) }}
    ) as present
    on {{ dbt_backfill.equal_keys(keys, 'query.', 'present.') }}
    where query.{{ names[0] }} is null or present.{{ names[0] }} is null
        or {{ dbt_backfill.rows_differ(columns, 'present', 'query') }}
{%- endmacro %}
