{#-
    Merge the difference: rows that differ are updated, missing ones inserted, unexpected ones deleted. Of a key that
    stands more than once in the MV, or has to, all rows are deleted and the promised ones inserted.

    It is no barrier: the epoch stays, and the MV gets what this epoch promises. Sent twice it finds no difference the
    second time. Of it and the MERGE of a barrier that begins meanwhile one loses the conflict, unless they write other keys, or
    that barrier drops a row that the MV lacks, and so writes none.
-#}
{% macro run_repair(verified, selection, found) %}
    {%- set kept = dbt_backfill.get_kept_predicate(verified, verified.columns, '__bf_write.row.') -%}
    {%- set sql -%}
        merge into {{ verified.mv.render() }} as mv
        using (
            {{ dbt_backfill.get_repair_rows_sql(verified, selection, found) }}
            where {{ dbt_backfill.get_fence_of_epoch(verified, verified.state.epoch) }}
                {{- ' and ' ~ kept if kept }}
        ) as repair
        on {{ dbt_backfill._repair_condition(verified, selection) }}
        when matched and repair.__bf_action = 'delete' then delete
        when matched then update set *
        when not matched and repair.__bf_action != 'delete' then insert *
    {%- endset -%}
    {%- do dbt_backfill.run_table('repair the MV', sql, verified.mv) -%}
{% endmacro %}


{#-
    A select of the rows to write: the key, `__bf_action`, and the MV's columns, null where the action is `delete`.
    A row to `insert` matches nothing: the row that deletes its key does.
-#}
{% macro get_repair_rows_sql(verified, selection, found) -%}
    {%- set keys = dbt_backfill.staged_key_names(verified.key) -%}
    select {{ keys | join(', ') }}, __bf_write.action as __bf_action, __bf_write.row.*
    from (
        select {{ keys | join(', ') }}, explode(if(
            size(promised) = 1 and size(present) <= 1,
            transform(promised, row -> named_struct('action', 'put', 'row', row)),
            concat(
                {#- A row of nulls has the struct's type beyond the end of the array. #}
                filter(array(named_struct('action', 'delete', 'row', get(promised, -1))), write -> size(present) > 0),
                transform(promised, row -> named_struct('action', 'insert', 'row', row))
            )
        )) as __bf_write
        from (
            {{ dbt_backfill.get_differences_sql(verified, selection, found) }}
        )
    )
{%- endmacro %}


{#- The key, as equal where both are null, and the range of the keys that differ, which prunes the MV's files. -#}
{% macro _repair_condition(verified, selection) -%}
    {%- set names, parts = dbt_backfill.staged_key_names(verified.key, 'repair.'), ["repair.__bf_action != 'insert'"] -%}
    {%- for column in dbt_backfill.mv_columns(verified.key, 'mv.') -%}
        {%- do parts.append(column ~ ' <=> ' ~ names[loop.index0]) -%}
    {%- endfor -%}
    {%- set range = dict(selection, vnodes=none, unsettled=none) -%}
    {{ return((parts + [dbt_backfill.selection_predicate(range, verified.key, 'mv.')]) | reject('equalto', 'true') | join(' and ')) }}
{%- endmacro %}
