{#-
    The columns of the MV as they can be compared: {name: expression over `prefix`}. Spark does not compare maps,
    but it does compare their sorted entries, and the JSON of what holds a map.
-#}
{% macro comparable_columns(mv, prefix='') %}
    {%- set columns = {} -%}
    {%- for column in adapter.get_columns_in_relation(mv) -%}
        {%- set name = prefix ~ dbt_backfill.identifier(column.name) -%}
        {%- if column.dtype.startswith('map<') -%}
            {%- set name = 'array_sort(map_entries(' ~ name ~ '))' -%}
        {%- elif 'map<' in column.dtype or column.dtype == 'variant' -%}
            {%- set name = 'to_json(struct(' ~ name ~ '))' -%}
        {%- endif -%}
        {%- do columns.update({column.name: name}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}
