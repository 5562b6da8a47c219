{#-
    Step 3 of a barrier: one MERGE of the staged changes. A key whose row Q no longer returns is deleted. Returns
    get_merge_counts.

    Arguments:
      staged (dict): as stage_changes returned it.
-#}
{% macro run_changes(backfill, plan, staged) %}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set columns = dbt_backfill.mv_columns(keys, 'mv.') -%}
    {%- set upstream_columns = dbt_backfill.upstream_columns(keys, 'stage.') -%}
    {%- set staged_keys, matched = [], [] -%}
    {%- for column in upstream_columns -%}
        {%- do staged_keys.append(column ~ ' as __bf_key_' ~ loop.index) -%}
        {%- do matched.append(columns[loop.index0] ~ ' = changes.__bf_key_' ~ loop.index) -%}
    {%- endfor -%}
    {%- set present = 'changes.' ~ dbt_backfill.mv_columns(keys)[0] ~ ' is not null' -%}
    {%- set sql -%}
        merge into {{ backfill.mv.render() }} as mv
        using (
            select query.*, {{ staged_keys | join(', ') }}
            from {{ staged.name }} as stage
            left join (
                {{ dbt_backfill.get_last_rows_sql(backfill, plan, staged, keys) }}
            ) as query
            on {{ dbt_backfill.carried_keys(keys, 'stage.', 'query.') }}
            where not {{ dbt_backfill.null_key_predicate(upstream_columns) }}
                and {{ dbt_backfill.get_fence(backfill, plan) }}
        ) as changes
        on {{ matched | join(' and ') }}
            and {{ dbt_backfill.tuple_predicate(columns, '>=', staged.low) }}
            and {{ dbt_backfill.tuple_predicate(columns, '<=', staged.high) }}
        when matched and {{ present }} then update set *
        when matched then delete
        when not matched and {{ present }} then insert *
    {%- endset -%}
    {%- set result = dbt_backfill.run_merge(backfill, 'merge the changes of the barrier ' ~ plan.epoch, sql) -%}
    {{ return(dbt_backfill.get_merge_counts(backfill, plan, result)) }}
{% endmacro %}


{#- What Q makes of the last rows of the staged keys: those of the feed, but of keys in doubt those that were read again. -#}
{% macro get_last_rows_sql(backfill, plan, staged, keys) -%}
    {%- set again, doubtful = dbt_backfill.get_reread_names(backfill, plan) -%}
    {%- set rows -%}
        select stage.* except (__bf_deleted, __bf_inserted, __bf_gone, __bf_unclear)
        from {{ staged.name }} as stage
        {%- if staged.reread.count %}
        left anti join {{ doubtful }} as doubtful
        on {{ dbt_backfill.equal_columns(dbt_backfill.upstream_columns(keys), 'stage.', 'doubtful.') }}
        {%- endif %}
        where not __bf_deleted
    {%- endset -%}
    {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, rows) }}
    {%- if staged.reread.count %}
    union all
    select * from (
        {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, 'select * from ' ~ again) }}
    )
    {%- endif %}
{%- endmacro %}
