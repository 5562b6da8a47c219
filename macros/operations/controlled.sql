{#-
    The nodes whose controls an operation sets, of its arguments: of `model`, `models` and `all` one names them. Refuses arguments
    that are unknown or of the wrong type.

    Arguments:
      given (dict): the arguments, with those of the operation's own.
      unknown: the names that were given beside them.
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
            ('more than one' if ways else 'none') ~ ' of model, models and all is given',
            "Name one model, several or all: --args '{model: my_mv}', '{models: [my_mv, other_mv]}' or '{all: true}'", mv=operation
        ) -%}
    {%- endif -%}
    {%- set names, nodes = dbt_backfill.as_list(given.model or given.models or []), [] -%}
    {%- if given.models is mapping or names | reject('string') | list or not names and not given['all'] -%}
        {%- set argument = 'model' if given.model is not none else 'models' -%}
        {%- do dbt_backfill.refuse_argument(operation, argument, given[argument], 'the name of one model' if argument == 'model' else 'a list of names of models') -%}
    {%- endif -%}
    {%- for name in names | unique -%} {%- do nodes.append(dbt_backfill.find_backfilled_mv(name, operation)) -%} {%- endfor -%}
    {{ return(nodes if names else dbt_backfill.find_backfilled_mvs()) }}
{% endmacro %}


{#-
    Set a control of MVs, or, where it says already what it would, only tell what rules. All of them are looked at before
    anything is written. Where all are meant, one that has never run is passed over.

    Arguments:
      given (dict): see find_controlled_nodes.
      control (string), value (string): see controls_columns.
      rest (string): the value that rules as long as the control was never set.
-#}
{% macro run_controls(operation, given, unknown, control, value, rest) %}
    {%- set nodes, controlled = dbt_backfill.find_controlled_nodes(operation, given, unknown), [] -%}
    {%- for node in nodes -%}
        {%- if given['all'] and dbt_backfill.load_table(dbt_backfill.get_operated(node).progress) is none -%}
            {%- do log(dbt_backfill.get_model_name(node) ~ ': it has never run', info=true) -%}
        {%- else -%}
            {%- do controlled.append({'node': node, 'operated': dbt_backfill.observe_operated(node)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set setter = dbt_backfill.read_setter(controlled[0].operated) if controlled else none -%}
    {%- for one in controlled -%}
        {%- set controls = one.operated.state.controls -%}
        {%- if (controls.get(control) or {}).get('value', rest) != value -%}
            {%- set setting = {'control': control, 'value': value, 'by': given.by or setter.user, 'at': setter.now} -%}
            {%- set controls = dbt_backfill.set_control(one.operated, setting) -%}
        {%- endif -%}
        {%- do dbt_backfill.report_controls(one.node, one.operated, controls) -%}
    {%- endfor -%}
{% endmacro %}


{#- Who sets them, as Spark knows, and when: {'user', 'now': microseconds since 1970}. -#}
{% macro read_setter(operated) %}
    {{ return(dbt_backfill.run_json(
        'ask who sets it', "select to_json(named_struct('user', current_user(), 'now', unix_micros(current_timestamp())))", operated.mv
    )[0]) }}
{% endmacro %}


{#- Returns what is set then. -#}
{% macro set_control(operated, setting) %}
    {%- set location = dbt_backfill.location_root_clause(operated.location_root, operated.controls) -%}
    {{ return(dbt_backfill.run_json(
        'set ' ~ setting.control,
        dbt_backfill.get_set_control_script(operated, operated.state.committed.backfill_id, setting, location), operated.mv
    )[0]) }}
{% endmacro %}


{#- One line: what rules now. -#}
{% macro report_controls(node, operated, controls) %}
    {%- set limit = dbt_backfill.get_option_of(node, 'backfill_rate_limit') -%}
    {%- set ruling = dbt_backfill.get_ruling_allowance(limit, controls) -%}
    {%- if ruling.ruled_by == 'config' -%}
        {%- set words = 'its config rules, with ' ~ (
            'no backfill_rate_limit' if limit is none else 'backfill_rate_limit ' ~ '{:,}'.format(limit)
        ) -%}
    {%- else -%}
        {%- set words = dbt_backfill.get_ruling_text(ruling) ~ ('; changes are still merged' if ruling.rows == 0 else '') -%}
    {%- endif -%}
    {%- do log(operated.name ~ ': ' ~ words, info=true) -%}
{% endmacro %}
