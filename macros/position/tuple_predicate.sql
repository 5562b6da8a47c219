{#-
    `(columns) <op> (values)` as tuples, with op one of >, >=, <, <=.

    Written out as `a >= x and (a > x or (a = x and b > y))`, which prunes files of Parquet, Delta and Iceberg;
    comparing structs prunes nothing.

    Arguments:
      columns, values (lists of string): SQL expressions of equal length; literals as values, or columns.
-#}
{% macro tuple_predicate(columns, op, values) -%}
    {%- set tuple = dbt_backfill._tuple_comparison(columns, op, values) -%}
    {%- if columns | length == 1 -%}
        {{ return(tuple) }}
    {%- endif -%}
    {{ return('(' ~ columns[0] ~ ' ' ~ op[0] ~ '= ' ~ values[0] ~ ' and ' ~ tuple ~ ')') }}
{%- endmacro %}


{% macro _tuple_comparison(columns, op, values) -%}
    {%- if columns | length == 1 -%}
        {{ return(columns[0] ~ ' ' ~ op ~ ' ' ~ values[0]) }}
    {%- endif -%}
    {%- set rest = dbt_backfill._tuple_comparison(columns[1:], op, values[1:]) -%}
    {{ return('(' ~ columns[0] ~ ' ' ~ op[0] ~ ' ' ~ values[0]
        ~ ' or (' ~ columns[0] ~ ' = ' ~ values[0] ~ ' and ' ~ rest ~ '))') }}
{%- endmacro %}


{#- True where any column of the key is null. Null keys have no order: ranges and feeds refuse them. -#}
{% macro null_key_predicate(columns) -%}
    {{ return('(' ~ columns | join(' is null or ') ~ ' is null)') }}
{%- endmacro %}
