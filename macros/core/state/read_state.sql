{#-
    What is committed and what is planned, in one statement: {
      'epoch', 'row_count', 'upstream_version', 'dirty', 'finished', 'any_finished': of the progress table,
      'rows', 'last_epoch': how many rows it has, and the highest epoch on one,
      'uniform': whether all vnodes have one position, or all have finished,
      'committed': the plan of that epoch, with what became of it,
      'planned': the plan of the next epoch, none if there is none; its kind is `abandon` once it was given up,
      'position': the literals of the one position, none if NotStarted or not uniform; of a committed plan that was
        given up (`dirty`) where its range would have begun,
      'settings': the session's, see session_settings,
      'txn_app_id': a setting of the session's, as Spark puts it into a statement's text; empty if it is not set,
      'refused_setting': see get_refused_setting_statements; absent if none is, or it is not asked,
      'lag_seconds': for how long the version that the MV shows has been there; absent if that is not known,
      'log': see get_upstream_log_sql, of the table whose changes are followed; absent if its kind has none,
      'caches': see get_catalog_cache_statements; absent if nothing is asked,
      'controls': what is set for it, see get_controls_sql; {} where nothing is, or nobody asked,
      'written': the last epoch that the history is known to have, -1 if none; none if there is no history,
      'executed': see get_state_sql
    }

    Arguments:
      uncached (list): the relations whose catalogs are asked whether they cache.
      history_of (string): the id of the MV if its history is there and is to be looked at; none if not.
      controls_of (string): the id of the MV whose controls are to be read, and the session's settings with them; none for neither.
-#}
{% macro read_state(relations, uncached=[], history_of=none, controls_of=none) %}
    {%- set sql = dbt_backfill.get_state_sql(
        relations, caches=uncached != [], history_of=history_of, followed=relations.get('feed') or relations.get('upstream'),
        controls=controls_of is not none, refuses=controls_of is not none
    ) -%}
    {%- if uncached or controls_of is not none -%}
        {%- set sql = dbt_backfill._get_state_script(relations, sql, uncached, controls_of) -%}
    {%- endif -%}
    {%- set read = dbt_backfill.run_json('observe the state', sql, relations.mv)[0] -%}
    {%- set written = -1 if read.get('written') is none else read.written -%}
    {%- set state = dbt_backfill.parse_state(read, written if history_of else none) -%}
    {%- do dbt_backfill.check_controls_are_ours(relations, state) -%}
    {{ return(state) }}
{% endmacro %}


{% macro _get_state_script(relations, sql, uncached, controls_of) -%}
    begin
        {{ dbt_backfill.declare_refused_setting() if controls_of is not none }}
        {{ dbt_backfill.declare_controls() if controls_of is not none }}
        {{ dbt_backfill.get_catalog_cache_statements(uncached) if uncached }}
        {{ dbt_backfill.get_refused_setting_statements() if controls_of is not none }}
        {{ dbt_backfill.get_controls_statement(relations, controls_of) if controls_of is not none }}
        {{ sql }};
    end
{%- endmacro %}


{#-
    Arguments:
      plan (dict or none): one of which to tell whether it was committed as what it is, `executed`.
      followed (dict or none): the table whose log is to be read.
      caches, controls, refuses (boolean): whether the script has such a variable, to be returned with it.
      settings (boolean): whether to ask for the session's; a run asks once.
-#}
{% macro get_state_sql(
    relations, caches=false, history_of=none, plan=none, followed=none, controls=false, refuses=false, settings=true
) -%}
    {%- set log = dbt_backfill.ask(followed, 'log_sql')(followed)
        if followed and dbt_backfill.upstream_traits(followed).log_in_state else none -%}
    select to_json(struct(
        progress.*,
        {{ dbt_backfill.get_lag_sql("get_json_object(progress.last, '$.sources[0].committed_at')") }} as lag_seconds,
        {%- if settings %}
        {{ dbt_backfill.settings_expression() }} as settings,
        {%- endif %}
        '${spark.databricks.delta.write.txnAppId}' as txn_app_id
        {%- if log %},
        {{ log }} as log
        {%- endif %}
        {%- if caches %},
        caches
        {%- endif %}
        {%- if controls %},
        controls
        {%- endif %}
        {%- if refuses %},
        __bf_refused_setting as refused_setting
        {%- endif %}
        {%- if history_of %},
        (
            select max(if(backfill_id = {{ dbt_backfill.string_literal(history_of) }}, epoch, null))
            from {{ relations.barriers.render() }}
        ) as written
        {%- endif %}
    ))
    from (
        {{ dbt_backfill._get_progress_sql(relations, plan) }}
    ) as progress
{%- endmacro %}


{#- For how long a version has been there that was committed at `at`, which a kind of upstream gave as text; null if it gave none. -#}
{% macro get_lag_sql(at) -%}
    timestampdiff(second, try_cast({{ at }} as timestamp_ltz), current_timestamp())
{%- endmacro %}


{#- One row of what the rows of the vnodes have in common, and of those whose vnode is 0. -#}
{% macro _get_progress_sql(relations, plan) -%}
    select
        min(epoch) as epoch,
        max(epoch) as last_epoch,
        cast(sum(row_count) as bigint) as row_count,
        max(upstream_version) as upstream_version,
        bool_or(dirty) as dirty,
        bool_and(backfill_finished) as finished,
        bool_or(backfill_finished) as any_finished,
        count(*) as rows,
        bool_and(backfill_finished) or min(__bf_position) <=> max(__bf_position) as uniform,
        max(plan) as plan,
        max(plan_kind) as plan_kind,
        max(last) as last
        {%- if plan %},
        coalesce(bool_or(exists(
            array_append(coalesce(unwritten, array()), last),
            barrier -> get_json_object(barrier, '$.plan_id') = {{ dbt_backfill.string_literal(plan.plan_id) }}
                and get_json_object(barrier, '$.kind') = {{ dbt_backfill.string_literal(plan.kind) }}
        )), false) as executed
        {%- endif %}
    from (
        select *, struct(* except (vnode, row_count, plan, last, unwritten)) as __bf_position
        from {{ relations.progress.render() }}
    )
{%- endmacro %}


{#- The one constructor of a state, of what such a statement returned; `written` as read_state has it. -#}
{% macro parse_state(read, written=none) %}
    {%- set committed = fromjson(read.last) if read.get('last') else none -%}
    {{ return(dict(
        read,
        committed=committed,
        planned=fromjson(read.plan) if read.get('plan') else none,
        position=(committed or {}).get('range_low' if read.dirty else 'range_high') if read.uniform else none,
        controls=fromjson(read.controls) if read.get('controls') else {},
        written=written,
    )) }}
{% endmacro %}


{#- Whether anything has been backfilled. -#}
{% macro has_started(state) %}
    {{ return(not state.uniform or state.any_finished or state.get('position') is not none) }}
{% endmacro %}


{#- Whether the MV has rows of before above the position, which a sweep has not come to. -#}
{% macro is_sweeping(state) %}
    {%- set begun = state.committed.get('kind') == 'sweep' or state.committed.get('sweeps', false) -%}
    {{ return(begun and not state.finished) }}
{% endmacro %}


{#- The plan whose version the changes are read from: that of the last barrier that was executed, none if there is none. -#}
{% macro get_feed_start(state) %}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {%- if state.dirty -%} {{ return((state.committed.get('given_up') or {}).get('since')) }} {%- endif -%}
    {{ return(state.committed) }}
{% endmacro %}
