{#-
    The order of a backfill is that of its positions. They go up; or down, where the columns of the key say `order` `descending`:
    all of them together, the order of the tuples turned around. Where plans, states and comments speak of a position, its range
    and what is above or below it, `low` and `high` are meant in this order. The bounds of staged changes, of files and of a
    selection are in that of the keys.
-#}
{% macro is_descending(keys) %}
    {{ return(keys[0].get('order') == 'descending') }}
{% endmacro %}


{% macro get_order(keys) %}
    {{ return('descending' if dbt_backfill.is_descending(keys) else 'ascending') }}
{% endmacro %}


{#- The keys of a backfill in this order; nothing is noted with those of an ascending one. -#}
{% macro with_order(keys, order) %}
    {%- set ordered = [] -%}
    {%- for key in keys -%}
        {%- set ascending = {} -%}
        {%- for name, value in key.items() if name != 'order' -%} {%- do ascending.update({name: value}) -%} {%- endfor -%}
        {%- do ordered.append(dict(ascending, order=order) if order == 'descending' else ascending) -%}
    {%- endfor -%}
    {{ return(ordered) }}
{% endmacro %}


{#-
    tuple_predicate in the order of the backfill, where `<` is what comes before.

    Arguments:
      columns (list): of the key, under any of their names.
-#}
{% macro ordered_predicate(keys, columns, op, values) -%}
    {%- set turned = {'>': '<', '>=': '<=', '<': '>', '<=': '>='} -%}
    {{ return(dbt_backfill.tuple_predicate(columns, turned[op] if dbt_backfill.is_descending(keys) else op, values)) }}
{%- endmacro %}


{#- An expression of the least advanced one of several positions; `positions`: their columns, none of them null. -#}
{% macro least_advanced_expression(keys, positions) -%}
    {{ return(('max' if dbt_backfill.is_descending(keys) else 'min') ~ '(struct(' ~ positions | join(', ') ~ '))') }}
{%- endmacro %}
