{#-
    Stop the MVs from reading more rows of the upstream. This applies from the next barrier on, even in a running dbt run. Barriers still merge
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
    {%- set given = {'model': model, 'models': models, 'all': all, 'by': by} -%}
    {%- do dbt_backfill.run_controls('pause_backfill', given, kwargs, '0') -%}
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
        {%- do dbt_backfill.refuse_argument(
            'throttle_backfill', 'rows', rows, 'a whole number of 1 or more, or default. To read none: pause_backfill'
        ) -%}
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
    {%- set given = {'model': model, 'models': models, 'all': all, 'by': by} -%}
    {%- do dbt_backfill.run_controls('resume_backfill', given, kwargs, 'default') -%}
{% endmacro %}


{#-
    Return the nodes that one of the arguments `model`, `models` and `all` names. Refuse arguments that are unknown or of the wrong type.
    `given`: all known arguments with their values; `unknown`: the names of other arguments that were given.
-#}
{% macro find_controlled_nodes(operation, given, unknown) %}
    {%- do dbt_backfill.check_argument_names(operation, unknown, given.keys() | list, operation) -%}
    {%- if given['all'] is not boolean -%}
        {%- do dbt_backfill.refuse_argument(operation, 'all', given['all'], 'true or false') -%}
    {%- elif given.by is not none and (given.by is not string or not given.by) -%}
        {%- do dbt_backfill.refuse_argument(operation, 'by', given.by, 'a name, or leave it out') -%}
    {%- endif -%}
    {%- set ways = [given.model, given.models, given['all'] or none] | reject('none') | list -%}
    {%- if ways | length != 1 -%}
        {%- do dbt_backfill.refuse(
            ('more than one' if ways else 'none') ~ ' of the arguments model, models and all is given',
            "Name one model, several or all: --args '{model: my_mv}', '{models: [my_mv, other_mv]}' or '{all: true}'", mv=operation
        ) -%}
    {%- endif -%}
    {%- set names, nodes = dbt_backfill.as_list(given.model or given.models or []), [] -%}
    {%- if given.models is mapping or names | reject('string') | list or not names and not given['all'] -%}
        {%- set argument = 'model' if given.model is not none else 'models' -%}
        {%- do dbt_backfill.refuse_argument(
            operation, argument, given[argument], 'the name of one model' if argument == 'model' else 'a list of names of models'
        ) -%}
    {%- endif -%}
    {%- for name in names | unique -%} {%- do nodes.append(dbt_backfill.find_backfilled_mv(name, operation)) -%} {%- endfor -%}
    {{ return(nodes if names else dbt_backfill.find_backfilled_mvs()) }}
{% endmacro %}


{#-
    Set the rate limit of each MV to `value`, unless the MV already has this limit. Then print the setting that applies to the MV. Check all MVs
    before anything is written. With `all`, skip MVs that have never run.

    Arguments:
      given (dict): see find_controlled_nodes.
      value (string): a number of rows, or `default`.
-#}
{% macro run_controls(operation, given, unknown, value) %}
    {%- set controlled = [] -%}
    {%- for node in dbt_backfill.find_controlled_nodes(operation, given, unknown) -%}
        {%- if given['all'] and dbt_backfill.load_table(dbt_backfill.get_operated(node).progress) is none -%}
            {%- do log(dbt_backfill.get_model_name(node) ~ ': it has never run', info=true) -%}
        {%- else -%}
            {%- do controlled.append(dict(dbt_backfill.observe_operated(node), limit=dbt_backfill.get_option_of(node, 'backfill_rate_limit'))) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not controlled -%} {{ return(none) }} {%- endif -%}
    {#- The control records who set it and when. -#}
    {%- set setter = dbt_backfill.run_json(
        'ask who sets it', "select to_json(named_struct('user', current_user(), 'now', unix_micros(current_timestamp())))",
        controlled[0].mv
    )[0] -%}
    {%- for operated in controlled -%}
        {%- set control, limit = operated.state.control, operated.limit -%}
        {%- set now = control.get('value', 'default') -%}
        {#- resume_backfill ends a pause, but not a throttle. -#}
        {%- if now != value and (operation != 'resume_backfill' or now == '0') -%}
            {%- set setting = {'value': value, 'by': given.by or setter.user, 'at': setter.now} -%}
            {%- set location = dbt_backfill.location_root_clause(operated.location_root, operated.controls) -%}
            {%- set control = dbt_backfill.run_json(
                'set the rate limit',
                dbt_backfill.get_set_control_script(operated, operated.state.committed.backfill_id, setting, location), operated.mv
            )[0] -%}
        {%- endif -%}
        {%- set ruling = dbt_backfill.get_ruling_allowance(limit, control) -%}
        {%- if ruling.ruled_by == 'config' -%}
            {%- set words = 'its config applies, with '
                ~ ('no backfill_rate_limit' if limit is none else 'backfill_rate_limit {:,}'.format(limit)) -%}
        {%- else -%}
            {%- set words = dbt_backfill.get_ruling_text(ruling) ~ ('; changes are still merged' if ruling.rows == 0 else '') -%}
        {%- endif -%}
        {%- do log(operated.name ~ ': ' ~ words, info=true) -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Return a script that sets a rate limit, and returns the resulting setting. The script only inserts a row, so it does not conflict with a barrier.
    The time and the user are literals in the script: if the script is sent twice, both rows are equal.

    Arguments:
      setting (dict): {'value', 'by', 'at': microseconds since 1970}.
      location (string): the LOCATION clause of the table; empty for the catalog's default location.
-#}
{% macro get_set_control_script(operated, backfill_id, setting, location='') -%}
    {%- set format, text = operated.options.file_format, dbt_backfill.string_literal -%}
    begin
        declare __bf_control string;
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
        {{ dbt_backfill.get_control_statement(operated, backfill_id) }}
        select __bf_control;
    end
{%- endmacro %}
