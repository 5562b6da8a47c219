{#-
    Read what is committed and what is planned, in one statement. Return {
      'epoch', 'row_count', 'upstream_version', 'dirty', 'finished', 'any_finished': of the progress table,
      'rows', 'last_epoch': how many rows it has, and the highest epoch on one,
      'uniform': true if all vnodes have one position, or all have finished,
      'committed': the plan of that epoch, with its outcome,
      'planned': the plan of the next epoch, or none; its kind is `abandon` once it was given up,
      'position': the literals of the one position, none if NotStarted or not uniform; of a committed plan that was given up (`dirty`)
        where its range would have begun,
      'settings': the session's, see get_result_settings; none if they were not given,
      'lag_seconds': the age of the version that the MV shows; absent if that is not known,
      'log': see log_sql, of the table whose changes are followed; absent if its kind has none,
      'control': what people have set for it, see get_control_sql; {} where nothing is, or nobody asked,
      'written': the last epoch that the history is known to have, -1 if none; none if there is no history,
      'executed': see get_state_sql
    }

    Arguments:
      settings (dict): the session's, see read_settings; none if nobody compares them.
      history_of (string): the id of the MV if its history exists and is to be read; else none.
      controls_of (string): the id of the MV whose control is to be read; else none.
-#}
{% macro read_state(relations, settings=none, history_of=none, controls_of=none) %}
    {%- set controlled = controls_of is not none -%}
    {%- set sql = dbt_backfill.get_state_sql(
        relations, history_of=history_of, followed=relations.get('feed') or relations.get('upstream'), control=controlled,
        settings=settings is not none
    ) -%}
    {%- if controlled -%}
        {%- set sql = 'begin\n    declare __bf_control string;\n    ' ~ dbt_backfill.get_control_statement(relations, controls_of)
            ~ '\n    ' ~ sql ~ ';\nend' -%}
    {%- endif -%}
    {%- set read = dbt_backfill.run_json('observe the state', sql, relations.mv)[0] -%}
    {%- set written = -1 if read.get('written') is none else read.written -%}
    {%- set state = dbt_backfill.parse_state(
        read, written if history_of else none, dbt_backfill.get_result_settings(settings, read.settings) if settings is not none else none
    ) -%}
    {%- do dbt_backfill.check_controls_are_ours(relations, state) -%}
    {{ return(state) }}
{% endmacro %}


{#-
    Return a select of the state as JSON, for parse_state: of what the rows of the vnodes have in common, and of the row of vnode 0.

    Arguments:
      plan (dict or none): `executed` says if it was committed with its own kind.
      followed (dict or none): the table whose log is to be read.
      control (boolean): true if the script has such a variable, to be returned with it.
      settings (boolean): true to ask for the session's common ones; a run asks once.
-#}
{% macro get_state_sql(
    relations, history_of=none, plan=none, followed=none, control=false, settings=false
) -%}
    {%- set log = dbt_backfill.ask(followed, 'log_sql')(followed)
        if followed and dbt_backfill.upstream_traits(followed).log_in_state else none -%}
    select to_json(struct(
        progress.*,
        {{ dbt_backfill.get_lag_sql("get_json_object(progress.last, '$.sources[0].committed_at')") }} as lag_seconds
        {{- ',\n        ' ~ dbt_backfill.common_settings_sql() ~ ' as settings' if settings }}
        {{- ',\n        ' ~ log ~ ' as log' if log }}
        {{- ',\n        __bf_control as control' if control }}
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
            max(plan) as plan, max(plan_kind) as plan_kind, max(last) as last
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


{#- Return the age in seconds of a version that was committed at `at`, which a kind of upstream gave as text; null if it gave none. -#}
{% macro get_lag_sql(at) -%}
    timestampdiff(second, try_cast({{ at }} as timestamp_ltz), current_timestamp())
{%- endmacro %}


{#- The one constructor of a state, from what such a statement returned; `written`, `settings`: see read_state. -#}
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


{#- True if anything has been backfilled. -#}
{% macro has_started(state) %}
    {{ return(not state.uniform or state.any_finished or state.get('position') is not none) }}
{% endmacro %}


{#- True if the MV has earlier rows above the position, which a sweep has not reached. -#}
{% macro is_sweeping(state) %}
    {{ return((state.committed.get('kind') == 'sweep' or state.committed.get('sweeps', false)) and not state.finished) }}
{% endmacro %}


{#- Return the plan whose version the changes are read from: that of the last barrier that was executed, none if there is none. -#}
{% macro get_feed_start(state) %}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {{ return((state.committed.get('given_up') or {}).get('since') if state.dirty else state.committed) }}
{% endmacro %}


{#-
    Return columns that are being filled, of the rows that existed already: {
      'columns': a list of {'name', 'type', 'was': the type that it had in the MV, where it is to be widened}: they are new, or
        widened, or their definition was changed while they were filled,
      'position': the literals of the second position: up to there they hold what the query gives; none at the beginning,
      'row_count': how many rows of the upstream were read for them,
      'drops': the names of columns that the next plan has to drop
    }

    Above the second position nothing is promised of these columns: they are null, or of a row that has changed since, or, where the
    definition of a column was changed while it was filled, or its type, of the previous one.
-#}
{% macro new_filling(columns, position=none, row_count=0, drops=[]) %}
    {{ return({'columns': columns, 'position': position, 'row_count': row_count, 'drops': drops}) }}
{% endmacro %}


{#- Return those of a committed state; none if all columns hold up to the position of the MV. -#}
{% macro get_filling(state) %}
    {%- set plan = state.committed or {} -%}
    {%- if not plan.get('fills') or plan.get('last_fill') and not state.dirty -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(
        plan.fills, plan.get('fill_low' if state.dirty else 'fill_high'), plan.get('filled_row_count') or 0
    )) }}
{% endmacro %}


{#- Return get_filling with the columns that a given-up plan was to drop, also where none is being filled. -#}
{% macro get_open_filling(state) %}
    {%- set filling, drops = dbt_backfill.get_filling(state), state.committed.get('drops') or [] -%}
    {%- if not state.dirty or not drops -%} {{ return(filling) }} {%- endif -%}
    {{ return(dict(filling or dbt_backfill.new_filling([]), drops=drops)) }}
{% endmacro %}


{#- Return what is being filled, and to be dropped, before a plan is executed; none of a plan that does neither. -#}
{% macro get_filling_of_plan(plan) %}
    {%- if not plan.get('fills') and not plan.get('drops') -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(plan.get('fills') or [], plan.get('fill_low'), drops=plan.get('drops') or [])) }}
{% endmacro %}


{#- Return what a plan records that drops the columns and fills them all: it compares all of the MV at once, or the ranges after it do. -#}
{% macro end_filling(filling) %}
    {%- if not filling -%} {{ return({}) }} {%- endif -%}
    {%- if not filling.columns -%} {{ return({'drops': filling.drops}) }} {%- endif -%}
    {{ return({
        'fills': filling.columns, 'fill_low': filling.position, 'fill_high': none, 'last_fill': true,
        'next_bounds': [], 'bounds_complete': false, 'drops': filling.drops,
    }) }}
{% endmacro %}


{#-
    What people have set for an MV while it is backfilled, `<mv>__controls`: one row each time, and the newest one applies. The table is made
    when something is first set, and a barrier only reads it: to set it is an INSERT, which conflicts with nothing, so that a run that
    commits just then goes on.

    `control` is `rate_limit`, and its value a number of rows, 0 for a pause, or `default`. Earlier versions wrote `pause`, with `true` or
    `false`, beside it. Rows of another `backfill_id` are of an earlier MV.
-#}


{#- Return the value of such a row as the rate limit that it sets, also of a row of before. -#}
{% macro get_control_value_sql() %}
    {{ return("if(control = 'pause', if(value = 'true', '0', 'default'), value)") }}
{% endmacro %}


{#- Return a select of the newest row of an MV, as JSON: {'value', 'set_by', 'set_at'}; null if there is none. -#}
{% macro get_control_sql(relations, backfill_id) -%}
    select to_json(max_by(
        struct({{ dbt_backfill.get_control_value_sql() }} as value, set_by, date_format(set_at, 'yyyy-MM-dd HH:mm') as set_at), set_at
    ))
    from {{ relations.controls.render() }}
    where backfill_id = {{ dbt_backfill.string_literal(backfill_id) }}
{%- endmacro %}


{#-
    Return a statement of a script that reads it into its variable `__bf_control`, null where there is no such table. The table may appear at
    any time, also during a run, so each barrier looks for it. Spark finds before any job that it is missing, or that it has other columns,
    which check_controls_are_ours refuses.
-#}
{% macro get_control_statement(relations, backfill_id) -%}
    begin
        declare exit handler for sqlstate '42P01' begin end;
        declare exit handler for sqlstate '42703' begin set __bf_control = '{"foreign": true}'; end;
        set __bf_control = ({{ dbt_backfill.get_control_sql(relations, backfill_id) }});
    end;
{%- endmacro %}


{#- True if there are controls of ours to be read, by the list of tables that dbt keeps. -#}
{% macro has_own_controls(relations) %}
    {%- set existing = dbt_backfill.load_table(relations.controls) -%}
    {{ return('dbt_backfill.format' in dbt_backfill.read_listed_properties(existing, relations.controls)) }}
{% endmacro %}


{#- Refuse a table of their name that is not ours, as what was read of it shows. -#}
{% macro check_controls_are_ours(relations, state) %}
    {%- if state.control.get('foreign') -%} {%- do dbt_backfill.refuse_foreign_controls(relations) -%} {%- endif -%}
{% endmacro %}


{% macro refuse_foreign_controls(relations) %}
    {%- do dbt_backfill.refuse(
        relations.controls.render() ~ ' exists, and has no controls of ours', 'Rename it, or give the model another alias',
        mv=relations.get('name')
    ) -%}
{% endmacro %}


{#-
    Return a script that sets a rate limit, and returns what is set then. When, and by whom, are literals in it: sent twice, the second
    row says what the first one does.

    Arguments:
      setting (dict): {'value', 'by', 'at': microseconds since 1970}.
      location (string): the clause of the place where the table is made, empty for the catalog's own.
-#}
{% macro get_set_control_script(operated, backfill_id, setting, location='') -%}
    {%- set format, text = operated.options.file_format, dbt_backfill.string_literal -%}
    begin
        create table if not exists {{ operated.controls.render() }}
            (control string, value string, set_by string, set_at timestamp_ltz, backfill_id string)
        using {{ format }}
        {{ location }}
        tblproperties {{ dbt_backfill.property_list(dict(
            dbt_backfill.exact_table_properties(format), **{'dbt_backfill.format': dbt_backfill.state_format()}
        )) }};
        insert into {{ operated.controls.render() }}
        select
            'rate_limit', {{ text(setting.value) }}, {{ text(setting.by) }}, timestamp_micros({{ setting.at }}),
            {{ text(backfill_id) }};
        {{ dbt_backfill.get_control_sql(operated, backfill_id) }};
    end
{%- endmacro %}
