{#-
    The step of a re-anchor: the whole MV, also above the position, is compared with
    Q(upstream @ S where pk <= current_pos), and the difference merged. Returns {'changed', 'deleted'}.
-#}
{% macro run_reanchor(backfill, state, plan) %}
    {%- set keys = plan.key -%}
    {%- set read = dbt_backfill.get_planned_read(backfill, plan) -%}
    {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, backfill, keys) -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {#- Not in the query: where Spark sees that the prefix is empty, it drops it with all its conditions. -#}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- set sql -%}
        merge into {{ backfill.mv.render() }} as mv
        using (
            {{ dbt_backfill.get_merged_query_sql(plan.query, backfill.upstream.relation, scan) }}
            union all
            {{ dbt_backfill.get_no_row_sql(columns, fence) }}
        ) as prefix
        on {{ dbt_backfill.equal_keys(keys, 'mv.', 'prefix.') }}
        when matched and {{ dbt_backfill._rows_differ(columns, 'mv', 'prefix') }} then update set *
        when not matched then insert *
        when not matched by source then delete
    {%- endset -%}
    {{ return(dbt_backfill.get_reanchor_counts(
        backfill, plan, dbt_backfill.run_merge(backfill, 're-anchor in the barrier ' ~ plan.epoch, sql)
    )) }}
{% endmacro %}


{#-
    The other step of a re-anchor that is limited to what given-up plans could touch: no row of the MV is above the
    position. What they could touch below it are changes like any other.
-#}
{% macro run_removal(backfill, plan) %}
    {%- set keys = plan.key -%}
    {%- set sql -%}
        merge into {{ backfill.mv.render() }} as mv
        using (
            select {{ dbt_backfill.mv_columns(keys) | join(', ') }}
            from {{ backfill.mv.render() }} as mv
            where ({{ dbt_backfill.touched_predicate(keys, plan) }}) and {{ dbt_backfill.get_fence(backfill, plan) }}
        ) as touched
        on {{ dbt_backfill.equal_keys(keys, 'mv.', 'touched.') }} and ({{ dbt_backfill.touched_predicate(keys, plan) }})
        when matched then delete
    {%- endset -%}
    {%- do dbt_backfill.run_merge(backfill, 'remove what was given up in the barrier ' ~ plan.epoch, sql) -%}
{% endmacro %}


{#- The ranges above the position that given-up plans could write to, over the MV's columns as `mv`. -#}
{% macro touched_predicate(keys, plan) -%}
    {%- set windows = [] -%}
    {%- for high in plan.touched -%}
        {%- set window = {'range_low': plan.get('range_low'), 'range_high': high, 'last_range': high == []} -%}
        {%- do windows.append(dbt_backfill.window_predicate(dbt_backfill.mv_columns(keys, 'mv.'), window)) -%}
    {%- endfor -%}
    {{ return(windows | join(' or ')) }}
{%- endmacro %}


{#- Whether two rows of these columns differ. -#}
{% macro _rows_differ(columns, left, right) -%}
    {%- set rights = dbt_backfill.comparable_columns(columns, right ~ '.') -%}
    {%- set different = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns, left ~ '.').items() -%}
        {%- do different.append('not (' ~ column ~ ' <=> ' ~ rights[name] ~ ')') -%}
    {%- endfor -%}
    {{ return('(' ~ different | join(' or ') ~ ')') }}
{%- endmacro %}
