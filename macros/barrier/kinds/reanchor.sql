{#-
    A re-anchor, where no feed leads from the committed version to the one that is read: the MV is put right at the same
    position. As a rule the whole of it is compared with its definition. After plans that were given up, and where the feed
    still tells the changes, it is limited to what these plans could touch: `plan.touched`, see find_touched.
-#}
{% macro reanchor_traits() %}
    {{ return({'follows': true, 'reads_range': false, 'replaces_mv': false, 'gives_up': false, 'rescales': false}) }}
{% endmacro %}


{#- The prefix, unless it is limited: its keys are checked again. -#}
{% macro reanchor_scan(backfill, state, plan) %}
    {%- if plan.get('touched') is not none -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.get_prefix_scan_sql(
        dbt_backfill.get_planned_read(backfill, plan), state, backfill, plan.key,
        with_null_keys=not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys
    )) }}
{% endmacro %}


{% macro reanchor_follows_feed(plan) %}
    {{ return(plan.get('touched') is not none) }}
{% endmacro %}


{#- Limited: the changes, and the removal of what given-up plans left above the position. -#}
{% macro reanchor_execute(backfill, state, plan, work) %}
    {%- if plan.get('touched') is none -%} {%- do dbt_backfill.report_comparison(state, plan) -%} {%- endif -%}
    {%- do dbt_backfill.run_alterations(backfill, plan) -%}
    {%- if plan.get('touched') is none -%}
        {{ return(dbt_backfill.run_reanchor(backfill, state, plan, work)) }}
    {%- endif -%}
    {%- set changes = dbt_backfill.take_staged_changes(backfill, state, plan, work) -%}
    {%- set done = dbt_backfill.run_taken_changes(backfill, plan, work, changes) -%}
    {%- if not done.failed and plan.touched -%}
        {%- set done = {'failed': dbt_backfill.run_removal(backfill, plan, work), 'counts': done.counts} -%}
    {%- endif -%}
    {{ return(done) }}
{% endmacro %}


{#- The position stays. -#}
{% macro reanchor_columns(state, plan) %}
    {{ return({'upstream_version': dbt_backfill.string_literal(dbt_backfill.get_source(plan).get('version'))}) }}
{% endmacro %}


{% macro reanchor_report(barrier) %}
    {%- set limited = ', only what it could touch' if barrier.plan.get('touched') is not none else '' -%}
    {{ return(dbt_backfill.get_report_of_merges(barrier, ['re-anchored: ' ~ barrier.plan.reason ~ limited])) }}
{% endmacro %}


{#-
    Its step: the whole MV, also above the position, is compared with
    Q(upstream @ S where pk <= current_pos), and the difference merged. Returns what run_changes does.
-#}
{% macro run_reanchor(backfill, state, plan, work) %}
    {%- set keys = plan.key -%}
    {%- set read = dbt_backfill.get_planned_read(backfill, plan) -%}
    {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, backfill, keys) -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {#- Not in the query: where Spark sees that the prefix is empty, it drops it with all its conditions. -#}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- set kept = dbt_backfill.get_kept_predicate(backfill, columns) -%}
    {%- set sql -%}
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
    {%- endset -%}
    {%- set merged = dbt_backfill.run_merge(backfill, work, 're-anchor in the barrier ' ~ plan.epoch, sql) -%}
    {{ return({'failed': merged.failed, 'counts': dbt_backfill.get_reanchor_counts(backfill, plan, merged)}) }}
{% endmacro %}


{#-
    The other step of one that is limited to what given-up plans could touch: no row of the MV is above the
    position. What they could touch below it are changes like any other.
-#}
{% macro run_removal(backfill, plan, work) %}
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
    {{ return(dbt_backfill.run_merge(backfill, work, 'remove what was given up in the barrier ' ~ plan.epoch, sql).failed) }}
{% endmacro %}


{#- The ranges above the position that given-up plans could write to, over the MV's columns as `mv`. -#}
{% macro touched_predicate(keys, plan) -%}
    {%- set windows = [] -%}
    {%- for high in plan.touched -%}
        {%- set window = {'range_low': plan.get('range_low'), 'range_high': high, 'last_range': high == []} -%}
        {%- do windows.append(dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), window)) -%}
    {%- endfor -%}
    {{ return(windows | join(' or ')) }}
{%- endmacro %}
