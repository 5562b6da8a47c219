{#-
    Columns that were added to the MV and are being filled, of the rows that were there already: {
      'columns': a list of {'name', 'type'},
      'position': the literals of the second position: up to there they hold what the query gives; none at the beginning,
      'row_count': how many rows of the upstream were read for them
    }

    Above the second position nothing is promised of these columns: they are null, or of a row that has changed since, or, where
    the definition of a column was changed while it was filled, of the one before.
-#}
{% macro new_filling(columns, position=none, row_count=0) %}
    {{ return({'columns': columns, 'position': position, 'row_count': row_count}) }}
{% endmacro %}


{#- Those of a committed state; none if all columns hold up to the position of the MV. -#}
{% macro get_filling(state) %}
    {%- set plan = state.committed or {} -%}
    {%- if not plan.get('fills') or plan.get('last_fill') and not state.dirty -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(
        plan.fills, plan.get('fill_low' if state.dirty else 'fill_high'), plan.get('filled_row_count') or 0
    )) }}
{% endmacro %}


{#- What is being filled before a plan that fills is executed; none of a plan that does not. -#}
{% macro get_filling_of_plan(plan) %}
    {%- if not plan.get('fills') -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(plan.fills, plan.get('fill_low'))) }}
{% endmacro %}


{#- What a plan notes that fills them all by comparing all of the MV, at once or by the ranges after it. -#}
{% macro end_filling(filling) %}
    {%- if not filling -%} {{ return({}) }} {%- endif -%}
    {{ return({
        'fills': filling.columns, 'fill_low': filling.position, 'fill_high': none, 'last_fill': true,
        'next_bounds': [], 'bounds_complete': false,
    }) }}
{% endmacro %}
