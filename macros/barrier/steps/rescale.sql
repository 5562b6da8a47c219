{#-
    A select of the vnodes that a rescale makes, one row for each: {
      '__bf_vnode': its number,
      '__bf_finished', '__bf_position', '__bf_row_count': what it begins with
    }. It has no row once the plan has been committed or given up.

    With g the smaller one of the two numbers of vnodes, the keys of a vnode are among those of the vnodes that have the same
    remainder by g. The sum of the counts is kept: of a parent's children the first one, whose number is the parent's, gets its
    count. Only where positions differ fewer rows count as read: as many of each vnode as of the one that has the lowest
    position.
-#}
{% macro get_rescaled_vnodes_sql(backfill, state, plan) -%}
    {%- set former_count = state.committed.vnode_count -%}
    {%- set shared = [former_count, plan.vnode_count] | min -%}
    {%- set positions = dbt_backfill.position_columns(plan.key, 'former.') -%}
    {%- set descending = dbt_backfill.is_descending(plan.key) -%}
    {%- set least_by = 'max_by' if descending else 'min_by' -%}
    {#- Nulls are the least: of a vnode that has not begun where the greatest is the least advanced, this has to be said. -#}
    {%- set begins = 'not former.backfill_finished and ' ~ positions[0] ~ ' is null' -%}
    {%- set order = ['not former.backfill_finished', begins] if descending else ['former.backfill_finished'] -%}
    {#- A vnode that has finished keeps the key at which it did. -#}
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
    where {{ dbt_backfill.plan_of_kind_stands_predicate(plan, 'former.') }}
    group by numbers.id
{%- endmacro %}


{#-
    The statement that commits a rescale: one MERGE gives the progress table the rows of the new vnodes. Each of its branches
    finds nothing to do once the plan has been committed.
-#}
{% macro get_rescale_statement(backfill, state, plan) -%}
    {%- set columns = dbt_backfill.get_committed_columns(state, plan) -%}
    {%- set stands = dbt_backfill.plan_of_kind_stands_predicate(plan, 'progress.') -%}
    {%- set assignments = [] -%}
    {%- for column, value in columns.items() -%} {%- do assignments.append(column ~ ' = ' ~ value) -%} {%- endfor -%}
    {%- set new = dict(
        {
            'vnode': 'vnodes.__bf_vnode', 'epoch': plan.epoch, 'dirty': 'false',
            'upstream_version': dbt_backfill.string_literal(state.get('upstream_version')),
        },
        **dbt_backfill.of_kind(plan.kind, 'columns')(state, plan)
    ) -%}
    {%- set sql -%}
        merge into {{ backfill.progress.render() }} as progress
        using (
            {{ dbt_backfill.get_rescaled_vnodes_sql(backfill, state, plan) }}
        ) as vnodes
        on progress.vnode = vnodes.__bf_vnode
        when matched and {{ stands }} then update set {{ assignments | join(', ') }}
        when not matched then insert ({{ new.keys() | join(', ') }}) values ({{ new.values() | join(', ') }})
        when not matched by source and {{ stands }} then delete
    {%- endset -%}
    {{ dbt_backfill.get_guarded_update_sql(backfill, sql, dbt_backfill.outcome_literal()) }}
{%- endmacro %}
