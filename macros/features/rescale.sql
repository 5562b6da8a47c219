{#-
    Return a select of the vnodes that a rescale creates, one row per vnode, with its number `__bf_vnode` and its initial state `__bf_finished`,
    `__bf_position` and `__bf_row_count`. The select returns no row once the plan has been committed or given up.

    Let g be the smaller of the old and new numbers of vnodes. A new vnode gets its keys from the old vnodes with the same remainder modulo g. If a
    vnode is split, the new vnode with the old number keeps the count of rows, and the other new vnodes count 0. So the sum of the counts stays the
    same. If vnodes with different positions are merged, each of them counts at most as many rows as the vnode with the lowest position.
-#}
{% macro get_rescaled_vnodes_sql(backfill, state, plan) -%}
    {%- set former_count, shared = state.committed.vnode_count, [state.committed.vnode_count, plan.vnode_count] | min -%}
    {%- set positions = dbt_backfill.position_columns(plan.key, 'former.') -%}
    {%- set descending = dbt_backfill.is_descending(plan.key) -%}
    {%- set least_by = 'max_by' if descending else 'min_by' -%}
    {#- A vnode that has not begun has the position null and is the least advanced vnode. In ascending order, nulls sort first, so no term is needed.
        In descending order the greatest position is the least advanced, so this term sorts such a vnode last. -#}
    {%- set begins = 'not former.backfill_finished and ' ~ positions[0] ~ ' is null' -%}
    {%- set order = ['not former.backfill_finished', begins] if descending else ['former.backfill_finished'] -%}
    {#- A finished vnode keeps its last key as its position. Ignore that position here. -#}
    {%- for column in positions -%} {%- do order.append('if(former.backfill_finished, null, ' ~ column ~ ')') -%} {%- endfor -%}
    {%- set order = 'struct(' ~ order | join(', ') ~ ')' -%}
    select
        cast(numbers.id as int) as __bf_vnode,
        bool_and(former.backfill_finished) as __bf_finished,
        {{ least_by }}(struct({{ positions | join(', ') }}), {{ order }}) as __bf_position,
        cast(case
            when numbers.id >= {{ former_count }} then 0
            when min({{ order }}) <=> max({{ order }}) then sum(former.row_count)
            else least(sum(former.row_count), count(*) * {{ least_by }}(former.row_count, {{ order }}))
        end as bigint) as __bf_row_count
    from range(0, {{ plan.vnode_count }}, 1, 1) as numbers
    join {{ backfill.progress.render() }} as former
        on former.vnode % {{ shared }} = numbers.id % {{ shared }}
    where {{ dbt_backfill.executable_plan_predicate(plan, 'former.') }}
    group by numbers.id
{%- endmacro %}


{% macro get_rescale_statement(backfill, state, plan) -%}
    {%- set version = dbt_backfill.string_literal(state.get('upstream_version')) -%}
    {%- set columns = dbt_backfill.get_committed_columns(state, plan) -%}
    {%- set new = {'vnode': 'vnodes.__bf_vnode', 'epoch': plan.epoch, 'dirty': 'false', 'upstream_version': version} -%}
    {%- for name in dbt_backfill.position_columns(plan.key) + ['backfill_finished', 'row_count'] -%}
        {%- do new.update({name: columns[name]}) -%}
    {%- endfor -%}
    {{ dbt_backfill.get_vnodes_statement(
        backfill, plan, dbt_backfill.get_rescaled_vnodes_sql(backfill, state, plan), '__bf_vnode', columns, new
    ) }}
{%- endmacro %}


{#- Return a MERGE that removes the rows of the MV above the new position of their vnode. -#}
{% macro get_lowering_sql(backfill, state, plan) -%}
    {%- set keys, columns = plan.key, dbt_backfill.mv_columns(plan.key, 'mv.') -%}
    {%- set positions = dbt_backfill.position_columns(keys, 'vnodes.__bf_position.') -%}
    {#- `range_high` is the lowest position of all vnodes, so only rows above this position have to be removed. -#}
    {%- set bounds = dbt_backfill.window_predicate(keys, columns, {'range_low': plan.get('range_high'), 'last_range': true}) -%}
    {%- set mark = dbt_backfill.get_mark(backfill, plan.plan_id, 'removed') -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select {{ columns | join(', ') }}{{ mark.column }}
        from {{ backfill.mv.render() }} as mv
        join (
            {{ dbt_backfill.get_rescaled_vnodes_sql(backfill, state, plan) }}
        ) as vnodes
        on vnodes.__bf_vnode = {{ dbt_backfill.vnode_expression(dbt_backfill.get_mv_keys(keys), plan.vnode_count, 'mv.') }}
        where not vnodes.__bf_finished
            and ({{ positions[0] }} is null or {{ dbt_backfill.ordered_predicate(keys, columns, '>', positions) }})
            and {{ bounds }} and {{ dbt_backfill.get_fence(backfill, plan) }}
    ) as removed
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'removed.') }} and {{ bounds }}
    when matched{{ mark.condition }} then delete
{%- endmacro %}
