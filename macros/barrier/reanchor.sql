{#-
    The step of a re-anchor: the whole MV, also above the position, is compared with
    Q(upstream @ S where pk <= current_pos), and the difference merged. Returns {'changed', 'deleted'}.
-#}
{% macro run_reanchor(backfill, state, plan) %}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set read = dbt_backfill.get_upstream_read(backfill.upstream, plan.upstream_version) -%}
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
    {{ return(dbt_backfill.get_merge_counts(
        backfill, plan, dbt_backfill.run_table('re-anchor in the barrier ' ~ plan.epoch, sql)
    )) }}
{% endmacro %}


{#- Whether two rows of these columns differ. -#}
{% macro _rows_differ(columns, left, right) -%}
    {%- set rights = dbt_backfill.comparable_columns(columns, right ~ '.') -%}
    {%- set different = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns, left ~ '.').items() -%}
        {%- do different.append('not (' ~ column ~ ' <=> ' ~ rights[name] ~ ')') -%}
    {%- endfor -%}
    {{ return('(' ~ different | join(' or ') ~ ')') }}
{%- endmacro %}
