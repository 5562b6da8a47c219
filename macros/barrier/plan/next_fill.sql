{#-
    A plan of the kind `fill` with its next range, as get_plan_with_range returns one.

    Arguments:
      filling (dict): as it is before, see new_filling.
-#}
{% macro get_plan_with_fill(backfill, state, plan, filling) %}
    {%- set rate = backfill.options.backfill_rate_limit -%}
    {%- set begun = dict(
        plan, fills=filling.columns, fill_low=filling.position, fill_high=filling.position, last_fill=false,
        filled_row_count=filling.row_count, next_bounds=[], bounds_complete=false, drops=filling.drops,
    ) -%}
    {%- if rate == 0 -%} {{ return({'plan': begun, 'most_rows': none}) }} {%- endif -%}
    {%- if rate is none -%}
        {{ return({'plan': dict(begun, **dbt_backfill._fill_bounds_of_plan(state, [], true)), 'most_rows': none}) }}
    {%- endif -%}
    {%- set last = state.committed -%}
    {%- if last.kind == 'fill' and filling.position is not none and last.get('backfill_rate_limit') == rate
            and (last.next_bounds or last.bounds_complete) -%}
        {{ return({
            'plan': dict(begun, **dbt_backfill._fill_bounds_of_plan(state, last.next_bounds, last.bounds_complete)),
            'most_rows': (rate * 1.25) | int,
        }) }}
    {%- endif -%}
    {{ return({'plan': dict(begun, **dbt_backfill.find_fill_bounds(backfill, state, begun)), 'most_rows': none}) }}
{% endmacro %}


{#- The bounds of the next ranges up to the position, by one pass over their keys. -#}
{% macro find_fill_bounds(backfill, state, plan) %}
    {%- set remaining = {
        'range_low': plan.fill_low, 'range_high': state.get('position'), 'last_range': state.finished, 'vnodes': none,
    } -%}
    {%- set found = dbt_backfill.run_bounds(backfill, state, plan, remaining, state.row_count, plan.filled_row_count) -%}
    {{ return(dbt_backfill._fill_bounds_of_plan(state, found.bounds, found.complete)) }}
{% endmacro %}


{#- The last range ends where the MV does. -#}
{% macro _fill_bounds_of_plan(state, bounds, complete) %}
    {{ return({
        'fill_high': bounds[0] if bounds else (none if state.finished else state.position),
        'last_fill': not bounds,
        'next_bounds': bounds[1:],
        'bounds_complete': complete and bounds != [],
    }) }}
{% endmacro %}
