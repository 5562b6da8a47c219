{#-
    One MERGE of Q(upstream @ S where P_k < pk <= P_k+1). A row that is there already was written by this same plan. The
    literals in ON prune the target to nothing.
-#}
{% macro get_range_merge_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        {{ dbt_backfill.get_range_rows_sql(backfill, state, plan) }}
        where {{ dbt_backfill.get_fence(backfill, plan) }} {{ dbt_backfill.and_kept(backfill, plan, '__bf_row.') }}
    ) as range
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'range.') }}
        and {{ dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), plan) }}
    {{ dbt_backfill.get_matched_clause('update set *') }}
    when not matched then insert *
{%- endmacro %}


{#- The query's rows of the plan's range, or of another one. -#}
{% macro get_range_rows_sql(backfill, state, plan, window=none) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(
        dbt_backfill.get_range_read(backfill, plan), window or plan, state, backfill, plan.key
    ) -%}
    {{ dbt_backfill.get_merged_query_sql(plan.query, backfill.upstream.relation, scan) }}
{%- endmacro %}


{#- The query as the source of a MERGE. -#}
{% macro get_merged_query_sql(query, upstream, scan) -%}
    {{ dbt_backfill.as_new_columns(dbt_backfill.get_query_sql(query, upstream, scan)) }}
{%- endmacro %}


{#-
    A select for the source of a MERGE, whose columns are taken out of a struct, so that they are new ones: over a relation
    with char(n) columns Spark puts a projection that pads them, with other columns, when Delta has already resolved the
    clauses of its MERGE. The optimizer takes the struct away.
-#}
{% macro as_new_columns(rows) -%}
    select __bf_row.*
    from (
        select struct(*) as __bf_row
        from (
            {{ rows }}
        )
    )
{%- endmacro %}
