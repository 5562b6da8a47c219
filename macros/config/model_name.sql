{#- What dbt itself calls a model in its output and takes in --select: `orders`, or `orders.v2` of one with versions. -#}
{% macro get_model_name(node) %}
    {%- set version = node.version if node.version is defined else none -%}
    {{ return(node.name ~ ('' if version is none else '.v' ~ version)) }}
{% endmacro %}


{#- The same of the model of an MV, also outside of a run of it. -#}
{% macro get_name_of(backfill) %}
    {{ return(backfill.get('name') or dbt_backfill.get_model_name(model)) }}
{% endmacro %}
