{#-
    Read the state of an MV in one statement. Return {
      'epoch', 'row_count', 'upstream_version', 'dirty', 'finished', 'any_finished': from the progress table,
      'rows', 'last_epoch': the number of rows of the progress table, and the highest epoch in these rows,
      'uniform': true if all vnodes have the same position, or if all vnodes have finished,
      'committed': the plan of the committed epoch, with its outcome,
      'planned': the plan of the next epoch, or none; its kind is `abandon` if it was given up,
      'position': the literals of the position that all vnodes have; none if the vnodes have not started or have different positions. If the committed
        plan was given up (`dirty`), this is the beginning of that plan's range,
      'settings': the settings of the session, see get_result_settings; none if the argument `settings` is none,
      'lag_seconds': the age in seconds of the upstream version that the MV shows; absent if it is not known,
      'log': the log of the table whose changes are read, see log_sql; absent if that table's kind has no log,
      'control': the control that users have set for the MV, see get_control_statement; {} if no control is set or if the control was not read,
      'written': the last epoch that the history is known to have; -1 if the history has no epoch; none if there is no history,
      'executed': see get_state_sql,
      'mv_columns', 'mv_moved': only with `of_mv`: the names of the MV's columns; and, on Delta, true if the MV has another version than the last
        barrier has recorded, none if no version was recorded
    }

    Arguments:
      settings (dict): the session's settings, see read_settings; none if they are not compared. history_of (string): the id of the MV, if its history
      exists and is to be read; else none. controls_of (string): the id of the MV whose control is to be read; else none.
      of_mv (boolean): true to read the columns of the MV and, on Delta, to compare its version with the recorded version.
-#}
{% macro read_state(relations, settings=none, history_of=none, controls_of=none, of_mv=false) %}
    {%- set sql = dbt_backfill.get_state_sql(
        relations, history_of=history_of, followed=relations.get('feed') or relations.get('upstream'), control=controls_of is not none,
        settings=settings is not none, of_mv=of_mv
    ) -%}
    {%- set probes = of_mv and relations.options.file_format == 'delta' -%}
    {%- if controls_of is not none or probes -%}
        {%- set sql -%}
            begin
                declare __bf_control string;
                {%- if probes %}
                declare __bf_state string;
                declare __bf_version bigint;
                declare __bf_moved boolean;
                {%- endif %}
                {%- if controls_of is not none %}
                {{ dbt_backfill.get_control_statement(relations, controls_of) }}
                {%- endif %}
                {%- if probes %}
                set __bf_state = ({{ sql }});
                set __bf_version = cast(get_json_object(get_json_object(__bf_state, '$.last'), '$.mv_version') as bigint);
                if __bf_version is not null then
                    {{ dbt_backfill.get_probe_statements(relations.mv, '__bf_version + 1') }}
                end if;
                select concat(left(__bf_state, length(__bf_state) - 1), coalesce(concat(',"mv_moved":', __bf_moved), ''), '}');
                {%- else %}
                {{ sql }};
                {%- endif %}
            end
        {%- endset -%}
    {%- endif -%}
    {%- set read = dbt_backfill.run_json('observe the state', sql, relations.mv)[0] -%}
    {%- set written = none if not history_of else -1 if read.get('written') is none else read.written -%}
    {%- if settings is not none -%}
        {%- set settings = dbt_backfill.get_result_settings(dict(settings, **read.settings), read.settings) -%}
    {%- endif -%}
    {%- set state = dbt_backfill.parse_state(read, written, settings) -%}
    {%- if state.control.get('foreign') -%} {%- do dbt_backfill.refuse_foreign_controls(relations) -%} {%- endif -%}
    {{ return(state) }}
{% endmacro %}


{#-
    Return a select of the state as JSON, for parse_state. The state has the values that the rows of all vnodes have in common, and the values that
    only the row of vnode 0 has.

    Arguments:
      plan (dict or none): the plan to look for. `executed` is true if this plan was committed with its own kind.
      followed (dict or none): the table whose log is to be read.
      control (boolean): true to return the value of the script's variable `__bf_control`.
      settings (boolean): true to read the session's common settings, see common_settings_sql; a run reads them once.
      of_mv (boolean): true to read the names of the MV's columns. No row of the MV is read.
-#}
{% macro get_state_sql(relations, history_of=none, plan=none, followed=none, control=false, settings=false, of_mv=false) -%}
    {%- set log = dbt_backfill.ask(followed, 'log_sql')(followed)
        if followed and dbt_backfill.upstream_traits(followed).log_in_state else none -%}
    select to_json(struct(
        progress.*,
        timestampdiff(
            second, try_cast(get_json_object(progress.last, '$.sources[0].committed_at') as timestamp_ltz), current_timestamp()
        ) as lag_seconds
        {{- ',\n        ' ~ dbt_backfill.common_settings_sql() ~ ' as settings' if settings }}
        {{- ',\n        ' ~ log ~ ' as log' if log }}
        {{- ',\n        __bf_control as control' if control }}
        {%- if of_mv %},
        (
            {#- An Iceberg MV may have no columns, see get_reset_steps. #}
            select array_remove(json_object_keys(to_json(struct(*), map('ignoreNullFields', 'false'))), '__bf_row')
            from (select 1 as __bf_row) left join {{ relations.mv.render() }} as mv on false
        ) as mv_columns
        {%- endif %}
        {%- if history_of %},
        (
            select max(if(backfill_id = {{ dbt_backfill.string_literal(history_of) }}, epoch, null))
            from {{ relations.barriers.render() }}
        ) as written
        {%- endif %}
    ))
    from (
        select
            min(epoch) as epoch, max(epoch) as last_epoch, cast(sum(row_count) as bigint) as row_count,
            max(upstream_version) as upstream_version, bool_or(dirty) as dirty,
            bool_and(backfill_finished) as finished, bool_or(backfill_finished) as any_finished, count(*) as rows,
            bool_and(backfill_finished) or min(__bf_position) <=> max(__bf_position) as uniform,
            max(plan) as plan, max(last) as last
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
    ) as progress
{%- endmacro %}


{#- Return a state from the result of get_state_sql. `written`, `settings`: see read_state. (observe_missing makes the state of epoch 0.) -#}
{% macro parse_state(read, written=none, settings=none) %}
    {%- set committed = fromjson(read.last) if read.get('last') else none -%}
    {{ return(dict(
        read,
        committed=committed,
        planned=fromjson(read.plan) if read.get('plan') else none,
        position=(committed or {}).get('range_low' if read.dirty else 'range_high') if read.uniform else none,
        control=fromjson(read.control) if read.get('control') else {},
        written=written,
        settings=settings,
    )) }}
{% endmacro %}


{#-
    Return a statement of a script that reads the control of an MV into the script's variable `__bf_control`, as JSON: {'value', 'set_by', 'set_at'};
    null if users have set no control. `value` is the rate limit, 0 for a pause, or `default`.

    The newest row of `<mv>__controls` counts; rows with another `backfill_id` belong to an earlier MV. Earlier versions of the package also wrote a
    control `pause`, with the value `true` or `false`. The table is created when a user first sets a control. This may happen during a run, so each
    barrier looks for the table. Spark needs no job to find that the table is missing or has other columns. If the table has other columns, the value
    is `foreign`, and the run is refused.
-#}
{% macro get_control_statement(relations, backfill_id) -%}
    begin
        declare exit handler for sqlstate '42P01' begin end;
        declare exit handler for sqlstate '42703' begin set __bf_control = '{"foreign": true}'; end;
        set __bf_control = (
            select to_json(max_by(
                struct(
                    if(control = 'pause', if(value = 'true', '0', 'default'), value) as value, set_by,
                    date_format(set_at, 'yyyy-MM-dd HH:mm') as set_at
                ),
                set_at
            ))
            from {{ relations.controls.render() }}
            where backfill_id = {{ dbt_backfill.string_literal(backfill_id) }}
        );
    end;
{%- endmacro %}


{#- True if dbt's list of tables has a controls table of this package. -#}
{% macro has_own_controls(relations) %}
    {%- set existing = dbt_backfill.load_table(relations.controls) -%}
    {{ return('dbt_backfill.format' in dbt_backfill.read_listed_properties(existing, relations.controls)) }}
{% endmacro %}


{% macro refuse_foreign_controls(relations) %}
    {%- do dbt_backfill.refuse(relations.controls.render() ~ ' has the name of its controls table, but was not created by this package',
        'Rename that table, or give the model another alias', mv=relations.get('name'), id='controls-name-taken') -%}
{% endmacro %}
