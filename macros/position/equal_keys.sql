{#- A condition that the key of two rows is the same, where both have the MV's names of its columns. -#}
{% macro equal_keys(keys, left, right) -%}
    {{ return(dbt_backfill.equal_columns(dbt_backfill.mv_columns(keys), left, right)) }}
{%- endmacro %}


{#- The same where `left` has the upstream's names of the columns and `right` the MV's. -#}
{% macro carried_keys(keys, left, right) -%}
    {%- set pairs = [] -%}
    {%- for column in dbt_backfill.upstream_columns(keys, left) -%}
        {%- do pairs.append(column ~ ' = ' ~ dbt_backfill.mv_columns(keys, right)[loop.index0]) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}


{#- A condition that two rows are equal in columns of the same names. -#}
{% macro equal_columns(columns, left, right) -%}
    {%- set pairs = [] -%}
    {%- for column in columns -%}
        {%- do pairs.append(left ~ column ~ ' = ' ~ right ~ column) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}
