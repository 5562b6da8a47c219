{#-
    A rescale: the MV gets more vnodes, a multiple of those it has, or fewer, a divisor. It reads nothing upstream, and is
    planned by rescale_backfill.

    The vnode of a key is its hash modulo their number. So where there are more, the keys of one are shared out to several, its
    children, and where there are fewer, those of several come together. Children have the position of their parent. Of vnodes
    that come together the lowest position is that of all, which promises no row of the others above it: these rows are removed
    before, and a later range reads them again. Positions differ only where some vnodes were read before others.
-#}
{% macro rescale_traits() %}
    {{ return({'follows': false, 'reads_range': false, 'replaces_mv': false, 'gives_up': false, 'rescales': true}) }}
{% endmacro %}


{% macro rescale_scan(backfill, state, plan) %}
    {{ return(none) }}
{% endmacro %}


{% macro rescale_follows_feed(plan) %}
    {{ return(false) }}
{% endmacro %}


{#- In a sweep nothing is promised above the position, and the rows that stand there are compared once it has come to them. -#}
{% macro rescale_execute(backfill, state, plan, work) %}
    {%- if state.uniform or plan.sweeps or plan.vnode_count > state.committed.vnode_count -%}
        {{ return({'failed': none, 'counts': {}}) }}
    {%- endif -%}
    {%- set merged = dbt_backfill.run_merge(
        backfill, work, 'remove what is read again after the barrier ' ~ plan.epoch,
        dbt_backfill.get_lowering_sql(backfill, state, plan)
    ) -%}
    {{ return({
        'failed': merged.failed,
        'counts': {'changed': 0, 'deleted': dbt_backfill.count_of_merge(backfill, plan, merged, 'deleted')},
    }) }}
{% endmacro %}


{#- Of a vnode that stays; its commit also adds and takes away some, see get_rescale_statement. -#}
{% macro rescale_columns(state, plan) %}
    {%- set columns = {
        'backfill_finished': 'vnodes.__bf_finished',
        'row_count': 'vnodes.__bf_row_count',
    } -%}
    {%- for column in dbt_backfill.position_columns(plan.key) -%}
        {%- do columns.update({column: 'vnodes.__bf_position.' ~ column}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{% macro rescale_report(barrier) %}
    {%- set removed = barrier.counts.get('deleted') -%}
    {{ return(['rescaled ' ~ barrier.plan.reason] + (['{:,} rows are read again'.format(removed)] if removed else [])) }}
{% endmacro %}


{#- A MERGE that removes the rows of the MV above the position that their vnode will have. -#}
{% macro get_lowering_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    {%- set columns = dbt_backfill.mv_columns(keys, 'mv.') -%}
    {%- set positions = dbt_backfill.position_columns(keys, 'vnodes.__bf_position.') -%}
    {#- No vnode has a lower position than this. -#}
    {%- set bounds = dbt_backfill.window_predicate(columns, {'range_low': plan.get('range_high'), 'last_range': true}) -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select {{ columns | join(', ') }}
        from {{ backfill.mv.render() }} as mv
        join (
            {{ dbt_backfill.get_rescaled_vnodes_sql(backfill, state, plan) }}
        ) as vnodes
        on vnodes.__bf_vnode = {{ dbt_backfill.vnode_expression(dbt_backfill.get_mv_keys(keys), plan.vnode_count, 'mv.') }}
        where not vnodes.__bf_finished
            and ({{ positions[0] }} is null or {{ dbt_backfill.tuple_predicate(columns, '>', positions) }})
            and {{ bounds }} and {{ dbt_backfill.get_fence(backfill, plan) }}
    ) as removed
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'removed.') }} and {{ bounds }}
    when matched then delete
{%- endmacro %}
