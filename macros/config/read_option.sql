{#- One option of the model: from its config, or from config.meta where an engine warns of unknown names. -#}
{% macro read_option(name) %}
    {%- set options = dbt_backfill.get_config() -%}
    {{ return(options.get(name, (options.get('meta') or {}).get(name))) }}
{% endmacro %}


{#- The config of the model: of one that a run-operation speaks for, see speak_for, as the graph has it. -#}
{% macro get_config() %}
    {%- if invocation_args_dict.get('which') == 'run-operation' and model.get('resource_type') == 'model' -%} {{ return(model.config) }} {%- endif -%}
    {{ return(config) }}
{% endmacro %}


{% macro refuse_option(name, value, expected) %}
    {%- do dbt_backfill.refuse(name ~ ' is ' ~ tojson(value, value | string), 'Set it to ' ~ expected) -%}
{% endmacro %}


{% macro read_integer(name, least, most=none, default=none) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(default) }} {%- endif -%}
    {%- if value is not integer or value < least or (most is not none and value > most) -%}
        {%- do dbt_backfill.refuse_option(
            name, value,
            'a whole number of ' ~ least ~ (' to ' ~ most if most is not none else ' or more')
                ~ (', or leave it out' if default is none else '')
        ) -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{% macro read_boolean(name, default) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(default) }} {%- endif -%}
    {%- if value is not boolean -%}
        {%- do dbt_backfill.refuse_option(name, value, 'true or false') -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- One of `choices`, of which the first is the default. -#}
{% macro read_choice(name, choices) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(choices[0]) }} {%- endif -%}
    {%- if value not in choices -%}
        {%- do dbt_backfill.refuse_option(name, value, choices | join(' or ')) -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- A column or a list of columns, always as a list; none if the option is not given. -#}
{% macro read_columns(name, required=false) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is string and value -%} {%- set value = [value] -%} {%- endif -%}
    {%- if not value and required -%}
        {%- do dbt_backfill.refuse(
            name ~ ' is missing',
            "Name the model's columns that carry the primary key of the upstream, such as unique_key=['id']"
        ) -%}
    {%- elif value is none -%}
        {{ return(none) }}
    {%- elif value is string or value is mapping or value is not iterable or not value
            or value | reject('string') | list or value | unique | list | length != value | length -%}
        {%- do dbt_backfill.refuse_option(name, value, 'a column or a list of different columns') -%}
    {%- endif -%}
    {{ return(value | list) }}
{% endmacro %}


{#- A number above 0, whole or not; none if the option is not given. -#}
{% macro read_number(name) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(none) }} {%- endif -%}
    {%- if value is not number or value is boolean or value <= 0 -%}
        {%- do dbt_backfill.refuse_option(name, value, 'a number above 0, or leave it out') -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- The number of barriers of one run; none for `all`, as by default where a budget ends the run. -#}
{% macro read_barriers_per_run() %}
    {%- set value = dbt_backfill.read_option('barriers_per_run') -%}
    {%- if value is none -%}
        {%- set has_budget = dbt_backfill.read_option('run_minutes') is not none or dbt_backfill.read_option('run_rows') is not none -%}
        {{ return(none if has_budget else 1) }}
    {%- endif -%}
    {%- if value == 'all' -%} {{ return(none) }} {%- endif -%}
    {%- if value is not integer or value < 1 -%}
        {%- do dbt_backfill.refuse_option('barriers_per_run', value, "a whole number of 1 or more, or 'all'") -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- The vnodes whose ranges are read, ascending; none for all of them. As text such as `0-15,32`, or as a list. -#}
{% macro read_vnodes() %}
    {%- set value = dbt_backfill.read_option('backfill_vnodes') -%}
    {%- if value is none -%} {{ return(none) }} {%- endif -%}
    {%- set vnodes = dbt_backfill._parse_vnodes(value) if value is string else value -%}
    {%- if vnodes is mapping or vnodes is not iterable or not vnodes
            or vnodes | reject('integer') | list or vnodes | select('lt', 0) | list -%}
        {%- do dbt_backfill.refuse_option(
            'backfill_vnodes', value, "a list of vnode numbers, or text such as '0-15,32', or leave it out"
        ) -%}
    {%- endif -%}
    {{ return(vnodes | unique | sort) }}
{% endmacro %}


{#- The numbers of a text such as `0-15,32`; [] of any other. -#}
{% macro _parse_vnodes(text) %}
    {%- set vnodes = [] -%}
    {%- for part in text.split(',') -%}
        {%- set ends = modules.re.fullmatch('\\s*([0-9]{1,5})\\s*(?:-\\s*([0-9]{1,5})\\s*)?', part) -%}
        {%- if not ends or (ends.group(2) or ends.group(1)) | int < ends.group(1) | int -%} {{ return([]) }} {%- endif -%}
        {%- do vnodes.extend(range(ends.group(1) | int, (ends.group(2) or ends.group(1)) | int + 1)) -%}
    {%- endfor -%}
    {{ return(vnodes) }}
{% endmacro %}


{% macro get_file_format() %}
    {{ return(dbt_backfill.read_choice('file_format', ['delta', 'iceberg'])) }}
{% endmacro %}
