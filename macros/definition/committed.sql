{#-
    Refuse to compare an MV whose barrier has begun: it may stand between two definitions. The same after a plan that
    was abandoned, whose changes may have been merged.
-#}
{% macro check_barrier_is_committed(state, mv, change) %}
    {%- if state.get('planned') or state.dirty -%}
        {%- do dbt_backfill.refuse('its barrier ' ~ (state.epoch + 1) ~ ' has begun and is not committed', change, mv=mv) -%}
    {%- endif -%}
{% endmacro %}
