{#-
    Columns as they can be compared: {name: expression over `prefix`}. Spark compares neither maps nor variants, but it
    does compare the sorted entries of a map of comparable values, and the JSON of what holds one of these.

    Arguments:
      columns (list of {'name', 'type'}): as get_query_columns returned them.
-#}
{% macro comparable_columns(columns, prefix='') %}
    {%- set comparable = {} -%}
    {%- for column in columns -%}
        {%- set name = prefix ~ dbt_backfill.identifier(column.name) -%}
        {%- set is_map = column.type.startswith('map<') -%}
        {%- if modules.re.search('map<|variant', column.type[4 if is_map else 0:]) -%}
            {%- set name = 'to_json(struct(' ~ name ~ '), ' ~ dbt_backfill.whole_json_options() ~ ')' -%}
        {%- elif is_map -%}
            {%- set name = 'array_sort(map_entries(' ~ name ~ '))' -%}
        {%- endif -%}
        {%- do comparable.update({column.name: name}) -%}
    {%- endfor -%}
    {{ return(comparable) }}
{% endmacro %}


{#- These columns under their own names, comma separated. -#}
{% macro get_compared_columns(columns) -%}
    {%- set compared = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns).items() -%}
        {%- do compared.append(column ~ ' as ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {{ return(compared | join(', ')) }}
{%- endmacro %}


{#- Options of to_json with which it shortens no time: its default is the millisecond. -#}
{% macro whole_json_options() %}
    {{ return("map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')") }}
{% endmacro %}
