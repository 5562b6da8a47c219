{#-
    The step of a re-anchor: the whole MV, also above the position, is compared with
    Q(upstream @ S where pk <= current_pos), and the difference merged. Returns {'changed', 'deleted'}.
-#}
{% macro run_reanchor(backfill, state, plan) %}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set read = dbt_backfill.get_upstream_read(backfill.upstream, plan.upstream_version) -%}
    {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, backfill, keys) -%}
    {%- set sql -%}
        merge into {{ backfill.mv.render() }} as mv
        using (
            {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, scan) }}
            where {{ dbt_backfill.get_fence(backfill, plan) }}
        ) as prefix
        on {{ dbt_backfill.equal_keys(keys, 'mv.', 'prefix.') }}
        when matched and {{ dbt_backfill._rows_differ(backfill.mv, 'mv', 'prefix') }} then update set *
        when not matched then insert *
        when not matched by source then delete
    {%- endset -%}
    {{ return(dbt_backfill.get_merge_counts(
        backfill, plan, dbt_backfill.run_table('re-anchor in the barrier ' ~ plan.epoch, sql)
    )) }}
{% endmacro %}


{#- Whether two rows of the MV's columns differ. -#}
{% macro _rows_differ(mv, left, right) -%}
    {%- set rights = dbt_backfill.comparable_columns(mv, right ~ '.') -%}
    {%- set different = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(mv, left ~ '.').items() -%}
        {%- do different.append('not (' ~ column ~ ' <=> ' ~ rights[name] ~ ')') -%}
    {%- endfor -%}
    {{ return('(' ~ different | join(' or ') ~ ')') }}
{%- endmacro %}
