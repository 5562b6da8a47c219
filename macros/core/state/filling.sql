{#-
    Columns that are being filled, of the rows that were there already: {
      'columns': a list of {'name', 'type', 'was': the type that it had in the MV, where it is to be widened}: they are new, or
        widened, or their definition was changed while they were filled,
      'position': the literals of the second position: up to there they hold what the query gives; none at the beginning,
      'row_count': how many rows of the upstream were read for them,
      'drops': the names of columns that the next plan has to drop
    }

    Above the second position nothing is promised of these columns: they are null, or of a row that has changed since, or, where
    the definition of a column was changed while it was filled, or its type, of the one before.
-#}
{% macro new_filling(columns, position=none, row_count=0, drops=[]) %}
    {{ return({'columns': columns, 'position': position, 'row_count': row_count, 'drops': drops}) }}
{% endmacro %}


{#- Those of a committed state; none if all columns hold up to the position of the MV. -#}
{% macro get_filling(state) %}
    {%- set plan = state.committed or {} -%}
    {%- if not plan.get('fills') or plan.get('last_fill') and not state.dirty -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(
        plan.fills, plan.get('fill_low' if state.dirty else 'fill_high'), plan.get('filled_row_count') or 0
    )) }}
{% endmacro %}


{#- The same, with the columns that a plan was to drop which was given up, also where none is being filled. -#}
{% macro get_open_filling(state) %}
    {%- set filling, drops = dbt_backfill.get_filling(state), state.committed.get('drops') or [] -%}
    {%- if not state.dirty or not drops -%} {{ return(filling) }} {%- endif -%}
    {{ return(dict(filling or dbt_backfill.new_filling([]), drops=drops)) }}
{% endmacro %}


{#- What is being filled, and to be dropped, before a plan is executed; none of a plan that does neither. -#}
{% macro get_filling_of_plan(plan) %}
    {%- if not plan.get('fills') and not plan.get('drops') -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(plan.get('fills') or [], plan.get('fill_low'), drops=plan.get('drops') or [])) }}
{% endmacro %}


{#- What a plan notes that drops the columns and, by comparing all of the MV at once or by the ranges after it, fills them all. -#}
{% macro end_filling(filling) %}
    {%- if not filling -%} {{ return({}) }} {%- endif -%}
    {%- if not filling.columns -%} {{ return({'drops': filling.drops}) }} {%- endif -%}
    {{ return({
        'fills': filling.columns, 'fill_low': filling.position, 'fill_high': none, 'last_fill': true,
        'next_bounds': [], 'bounds_complete': false, 'drops': filling.drops,
    }) }}
{% endmacro %}
