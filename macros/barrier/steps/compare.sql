{#-
    One MERGE of the rows by which the MV differs from Q(upstream @ S) in a window of keys: the range of a barrier in a sweep, or the
    window of a fill.

    Arguments:
      window (dict): the bounds, as a plan has those of its range.
-#}
{% macro get_compared_range_sql(backfill, state, plan, window) -%}
    {%- set bounds = dbt_backfill.window_predicate(plan.key, dbt_backfill.mv_columns(plan.key, 'mv.'), window) -%}
    {{ dbt_backfill.get_changes_merge_sql(backfill, plan, dbt_backfill.get_swept_rows_sql(backfill, state, plan, window), bounds) }}
{%- endmacro %}


{#- A select like that of the stage: the query's rows that the MV has not, and the keys that only the MV has. -#}
{% macro get_swept_rows_sql(backfill, state, plan, window) -%}
    {%- set keys, names, coalesced = plan.key, dbt_backfill.mv_columns(plan.key), [] -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {%- set present = dbt_backfill.get_range_scan_sql(
        backfill.mv.render(), window, state, backfill, dbt_backfill.get_mv_keys(keys)
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


{#-
    One MERGE that compares the whole MV, also above the position, with Q(upstream @ S where pk <= current_pos), and merges the
    difference.
-#}
{% macro get_reanchor_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    {%- set read = dbt_backfill.get_planned_read(backfill, plan) -%}
    {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, backfill, keys) -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {#- Not in the query: where Spark sees that the prefix is empty, it drops it with all its conditions. -#}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- set kept = dbt_backfill.get_kept_predicate(backfill, columns) -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        {#- Columns that were added to the MV are its last ones, wherever the query has them. #}
        select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }}
        from (
            {{ dbt_backfill.get_merged_query_sql(plan.query, backfill.upstream.relation, scan) }}
        )
        {%- if kept %}
        where {{ kept }}
        {%- endif %}
        union all
        {{ dbt_backfill.get_no_row_sql(columns, fence) }}
    ) as prefix
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'prefix.') }}
    when matched and {{ dbt_backfill.rows_differ(columns, 'mv', 'prefix') }} then update set *
    when not matched then insert *
    when not matched by source then delete
{%- endmacro %}


{#-
    One MERGE that removes the rows of the MV above the position that plans which were given up may have written. What they could
    write below it are changes like any other.
-#}
{% macro get_removal_sql(backfill, plan) -%}
    {%- set keys = plan.key -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select {{ dbt_backfill.mv_columns(keys) | join(', ') }}
        from {{ backfill.mv.render() }} as mv
        where ({{ dbt_backfill.touched_predicate(keys, plan) }}) and {{ dbt_backfill.get_fence(backfill, plan) }}
    ) as touched
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'touched.') }} and ({{ dbt_backfill.touched_predicate(keys, plan) }})
    when matched then delete
{%- endmacro %}


{#- The ranges above the position that given-up plans could write to, over the MV's columns as `mv`. -#}
{% macro touched_predicate(keys, plan) -%}
    {%- set windows = [] -%}
    {%- for high in plan.touched -%}
        {%- set window = {'range_low': plan.get('range_low'), 'range_high': high, 'last_range': high == []} -%}
        {%- do windows.append(dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), window)) -%}
    {%- endfor -%}
    {{ return(windows | join(' or ')) }}
{%- endmacro %}
