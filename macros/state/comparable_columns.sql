{#-
    The columns of the MV as they can be compared: {name: expression over `prefix`}. Spark does not compare maps,
    but it does compare their sorted entries, and the JSON of what holds a map.
-#}
{% macro comparable_columns(mv, prefix='') %}
    {{ return(dbt_backfill.comparable_expressions(adapter.get_columns_in_relation(mv), prefix)) }}
{% endmacro %}


{#- The same of columns that were read before, as get_columns_in_relation returns them. -#}
{% macro comparable_expressions(columns, prefix='') %}
    {%- set comparable = {} -%}
    {%- for column in columns -%}
        {%- set name = prefix ~ dbt_backfill.identifier(column.name) -%}
        {%- if column.dtype.startswith('map<') -%}
            {%- set name = 'array_sort(map_entries(' ~ name ~ '))' -%}
        {%- elif 'map<' in column.dtype or column.dtype == 'variant' -%}
            {%- set name = 'to_json(struct(' ~ name ~ '))' -%}
        {%- endif -%}
        {%- do comparable.update({column.name: name}) -%}
    {%- endfor -%}
    {{ return(comparable) }}
{% endmacro %}


{#- These columns under their own names, comma separated. -#}
{% macro get_compared_columns(columns) -%}
    {%- set compared = [] -%}
    {%- for name, column in dbt_backfill.comparable_expressions(columns).items() -%}
        {%- do compared.append(column ~ ' as ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {{ return(compared | join(', ')) }}
{%- endmacro %}
