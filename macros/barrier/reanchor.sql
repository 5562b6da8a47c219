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
    {{ return(dbt_backfill.get_merge_counts(dbt_backfill.run_table('re-anchor in the barrier ' ~ plan.epoch, sql))) }}
{% endmacro %}


{#- Whether two rows of the MV's columns differ. Maps cannot be compared, their sorted entries can. -#}
{% macro _rows_differ(mv, left, right) -%}
    {%- set different = [] -%}
    {%- for column in adapter.get_columns_in_relation(mv) -%}
        {%- set name = dbt_backfill.identifier(column.name) -%}
        {%- if column.dtype.startswith('map<') -%}
            {%- do different.append('not (array_sort(map_entries(' ~ left ~ '.' ~ name ~ ')) <=> array_sort(map_entries(' ~ right ~ '.' ~ name ~ ')))') -%}
        {%- elif 'map<' in column.dtype or column.dtype == 'variant' -%}
            {%- do different.append('not (to_json(struct(' ~ left ~ '.' ~ name ~ ')) <=> to_json(struct(' ~ right ~ '.' ~ name ~ ')))') -%}
        {%- else -%}
            {%- do different.append('not (' ~ left ~ '.' ~ name ~ ' <=> ' ~ right ~ '.' ~ name ~ ')') -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return('(' ~ different | join(' or ') ~ ')') }}
{%- endmacro %}
