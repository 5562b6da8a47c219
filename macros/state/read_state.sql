{#-
    What is committed and what is planned, in one statement: {
      'epoch', 'backfill_id', 'row_count', 'upstream_version', 'dirty', 'finished': of the progress table,
      'rows', 'vnode_rows': its rows, and how many the committed plan gives it,
      'uniform': whether all vnodes have one position,
      'committed': the plan of that epoch,
      'planned': the plan of the next epoch, absent if there is none,
      'position': the literals of the one position, absent if NotStarted or not uniform; of a committed plan that was
        given up (`dirty`) where its range would have begun,
      'settings': the session's, see session_settings,
      'txn_app_id': a setting of the session's, as Spark puts it into a statement's text; empty if it is not set,
      'log': see get_upstream_log_sql, of the table whose changes are followed; absent if its kind has none,
      'caches': see get_catalog_cache_statements; absent if nothing is asked
    }

    Arguments:
      uncached (list): the relations whose catalogs are asked whether they cache.
-#}
{% macro read_state(relations, uncached=[]) %}
    {%- set sql = dbt_backfill.get_state_sql(relations, caches=uncached != []) -%}
    {%- if uncached -%}
        {%- set sql = 'begin\n' ~ dbt_backfill.get_catalog_cache_statements(uncached) ~ '\n' ~ sql ~ ';\nend' -%}
    {%- endif -%}
    {{ return(dbt_backfill.run_json('observe the state', sql, relations.mv)[0]) }}
{% endmacro %}


{% macro get_state_sql(relations, caches=false) -%}
    {%- set followed = relations.get('feed') or relations.get('upstream') -%}
    {%- set log = dbt_backfill.get_upstream_log_sql(followed) if followed else none -%}
    select to_json(struct(
        progress.*,
        committed,
        planned,
        case
            when not progress.uniform then null
            when progress.dirty then committed.range_low
            else committed.range_high
        end as position,
        {{ dbt_backfill.settings_expression() }} as settings,
        '${spark.databricks.delta.write.txnAppId}' as txn_app_id
        {%- if log %},
        {{ log }} as log
        {%- endif %}
        {%- if caches %},
        caches
        {%- endif %}
    ))
    from (
        select
            progress,
            any_value(plan) filter (where plans.epoch = progress.epoch) as committed,
            any_value(plan) filter (where plans.epoch = progress.epoch + 1) as planned
        from (
            select struct(
                min(epoch) as epoch,
                max(epoch) as last_epoch,
                min(backfill_id) as backfill_id,
                cast(sum(row_count) as bigint) as row_count,
                max(upstream_version) as upstream_version,
                bool_or(dirty) as dirty,
                bool_and(backfill_finished) as finished,
                bool_or(backfill_finished) as any_finished,
                count(*) as rows,
                min(__bf_position) <=> max(__bf_position) as uniform
            ) as progress
            from (
                select *, struct(* except (vnode, row_count)) as __bf_position
                from {{ relations.progress.render() }}
            )
        )
        left join (select epoch, struct(*) as plan from {{ relations.barriers.render() }}) as plans
            on plans.epoch between progress.epoch and progress.epoch + 1
        group by progress
    )
{%- endmacro %}


{#- Whether anything has been backfilled. -#}
{% macro has_started(state) %}
    {{ return(not state.uniform or state.any_finished or state.get('position') is not none) }}
{% endmacro %}
