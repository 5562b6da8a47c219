{#- The columns of the position for these keys, quoted. -#}
{% macro position_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.position)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The columns of the upstream's key, quoted, each with `prefix` in front. -#}
{% macro upstream_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.upstream)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The columns of the MV that carry the key, quoted, each with `prefix` in front. -#}
{% macro mv_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.name)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The key as the MV names it, for macros that take the upstream's names. -#}
{% macro get_mv_keys(keys) %}
    {%- set renamed = [] -%}
    {%- for key in keys -%} {%- do renamed.append(dict(key, upstream=key.name)) -%} {%- endfor -%}
    {{ return(renamed) }}
{% endmacro %}
