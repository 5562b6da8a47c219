{#-
    Stop the MVs from reading more rows of the upstream. The pause applies from the next barrier on, even in a running dbt run. Barriers still merge
    changes, so the rows of each MV stay exact.

    Usage:
      dbt run-operation pause_backfill --args '{model: my_mv}'
      dbt run-operation pause_backfill --args '{models: [my_mv, other_mv]}'
      dbt run-operation pause_backfill --args '{all: true}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
      models (list): the names of several models.
      all (boolean): all enabled MVs of the project.
      by (string): the name that is recorded; by default Spark's current user.
-#}
{% macro pause_backfill(model=none, models=none, all=false, by=none) %}
    {%- do dbt_backfill.run_controls('pause_backfill', {'model': model, 'models': models, 'all': all, 'by': by}, kwargs, '0') -%}
{% endmacro %}


{#-
    Set how many rows of the upstream each barrier of the MVs reads at most. The setting applies from the next barrier on, even in a running dbt run.
    The setting replaces `backfill_rate_limit` until somebody lifts the setting.

    Usage:
      dbt run-operation throttle_backfill --args '{model: my_mv, rows: 10000}'
      dbt run-operation throttle_backfill --args '{model: my_mv, rows: default}'

    Arguments:
      rows (integer or string): the number of rows, or `default` to lift the setting.
      model, models, all, by: see pause_backfill.
-#}
{% macro throttle_backfill(model=none, models=none, all=false, rows=none, by=none) %}
    {%- if rows != 'default' and (rows is not integer or rows < 1) -%}
        {%- set expected = 'a whole number of 1 or more, or default. To read none: pause_backfill' -%}
        {%- do dbt_backfill.refuse_option('rows', rows, expected, 'throttle_backfill') -%}
    {%- endif -%}
    {%- set given = {'model': model, 'models': models, 'all': all, 'rows': rows, 'by': by} -%}
    {%- do dbt_backfill.run_controls('throttle_backfill', given, kwargs, rows | string) -%}
{% endmacro %}


{#-
    Lift a pause, so that the config applies again. If the pause has replaced a throttle, this throttle does not apply again. A throttle of an MV that
    is not paused stays.

    Usage:
      dbt run-operation resume_backfill --args '{model: my_mv}'

    Arguments: see pause_backfill.
-#}
{% macro resume_backfill(model=none, models=none, all=false, by=none) %}
    {%- do dbt_backfill.run_controls('resume_backfill', {'model': model, 'models': models, 'all': all, 'by': by}, kwargs, 'default') -%}
{% endmacro %}


{#- Set the rate limit of each MV to `value`, unless the MV already has this limit. Then print the setting that applies to the MV. Check all arguments
    and MVs before the first write. With `all`, skip MVs that have never run. `given`, `unknown`: see check_arguments. -#}
{% macro run_controls(operation, given, unknown, value) %}
    {%- do dbt_backfill.check_arguments(operation, given, unknown, {
        'all': [given['all'] is boolean, 'true or false'],
        'by': [given.by is none or given.by is string and given.by, 'a name, or leave it out'],
    }) -%}
    {%- set ways = [given.model, given.models, given['all'] or none] | reject('none') | list -%}
    {%- if ways | length != 1 -%}
        {%- do dbt_backfill.refuse(('more than one' if ways else 'none') ~ ' of the arguments model, models and all is given',
            "Name one model, several or all: --args '{model: my_mv}', '{models: [my_mv, other_mv]}' or '{all: true}'", mv=operation,
            id='model-arguments') -%}
    {%- endif -%}
    {%- set names = dbt_backfill.as_list(given.model or given.models or []) -%}
    {%- set are_names = given['all'] or names and given.models is not mapping and not names | reject('string') | list -%}
    {%- do dbt_backfill.check_arguments(operation, given, [], {
        'model': [given.model is none or are_names, 'the name of one model'],
        'models': [given.models is none or are_names, 'a list of names of models'],
    }) -%}
    {%- set nodes, controlled = [] if names else dbt_backfill.find_backfilled_mvs(), [] -%}
    {%- for name in names | unique -%} {%- do nodes.append(dbt_backfill.find_backfilled_mv(name, operation)) -%} {%- endfor -%}
    {%- for node in nodes -%}
        {%- if given['all'] and dbt_backfill.load_table(dbt_backfill.get_operated(node).progress) is none -%}
            {%- do log(dbt_backfill.get_model_name(node) ~ ': it has never run', info=true) -%}
        {%- else -%}
            {%- do controlled.append(dict(dbt_backfill.observe_operated(node), limit=dbt_backfill.get_option_of(node, 'backfill_rate_limit'))) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not controlled -%} {{ return(none) }} {%- endif -%}
    {%- set setter = dbt_backfill.run_json(
        'ask who sets it', "select to_json(named_struct('user', current_user(), 'now', unix_micros(current_timestamp())))",
        controlled[0].mv
    )[0] -%}
    {%- for operated in controlled -%}
        {%- set control, limit = operated.state.control, operated.limit -%}
        {%- set now = control.get('value', 'default') -%}
        {#- resume_backfill ends a pause, but not a throttle. -#}
        {%- if now != value and (operation != 'resume_backfill' or now == '0') -%}
            {%- set format, text, backfill_id = operated.options.file_format, dbt_backfill.string_literal, operated.state.committed.backfill_id -%}
            {#- The script only inserts a row, so it does not conflict with a barrier. The user and the time are literals: if the script is sent
                twice, both rows are equal. -#}
            {%- set sql -%}
            begin
                declare __bf_control string;
                create table if not exists {{ operated.controls.render() }}
                    (control string, value string, set_by string, set_at timestamp_ltz, backfill_id string)
                using {{ format }}
                {{ dbt_backfill.location_root_clause(operated.location_root, operated.controls) }}
                tblproperties {{ dbt_backfill.property_list(dict(
                    dbt_backfill.exact_table_properties(format), **{'dbt_backfill.format': dbt_backfill.state_format()}
                )) }};
                insert into {{ operated.controls.render() }}
                select
                    'rate_limit', {{ text(value) }}, {{ text(given.by or setter.user) }}, timestamp_micros({{ setter.now }}), {{ text(backfill_id) }};
                {{ dbt_backfill.get_control_statement(operated, backfill_id) }}
                select __bf_control;
            end
            {%- endset -%}
            {%- set control = dbt_backfill.run_json('set the rate limit', sql, operated.mv)[0] -%}
        {%- endif -%}
        {%- set ruling = dbt_backfill.get_ruling_allowance(limit, control) -%}
        {%- set words = dbt_backfill.get_ruling_text(ruling) ~ ('; changes are still merged' if ruling.rows == 0 else '')
            if ruling.ruled_by != 'config' else 'its config applies, with '
                ~ ('no backfill_rate_limit' if limit is none else 'backfill_rate_limit ' ~ dbt_backfill.get_count_text(limit)) -%}
        {%- do log(operated.name ~ ': ' ~ words, info=true) -%}
    {%- endfor -%}
{% endmacro %}
