{#-
    Columns as they can be compared: {name: expression over `prefix`}. Spark does not compare maps, but it does compare
    their sorted entries, and the JSON of what holds a map.

    Arguments:
      columns (list of {'name', 'type'}): as get_query_columns returned them.
-#}
{% macro comparable_columns(columns, prefix='') %}
    {%- set comparable = {} -%}
    {%- for column in columns -%}
        {%- set name = prefix ~ dbt_backfill.identifier(column.name) -%}
        {%- if column.type.startswith('map<') -%}
            {%- set name = 'array_sort(map_entries(' ~ name ~ '))' -%}
        {%- elif 'map<' in column.type or column.type == 'variant' -%}
            {%- set name = 'to_json(struct(' ~ name ~ '))' -%}
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
