{#- The command of a run-operation as a user types it; `arguments` as YAML. -#}
{% macro get_operation_text(operation, arguments) %}
    {{ return('dbt run-operation ' ~ operation ~ " --args '" ~ arguments ~ "'") }}
{% endmacro %}


{#-
    Stop the model with one sentence that names it, what is wrong, and what to change.

    Every refusal of this package goes through here, so that users can rely on its form:
    `backfilled_mv <model>: <fact>. <change>.`

    Arguments:
      fact (string): what was found, without the final full stop.
      change (string): what the user can do about it, without the final full stop.
      mv (string): the model's name, where it is not the model that is running.
-#}
{% macro refuse(fact, change, mv=none) %}
    {%- set message = 'backfilled_mv ' ~ (mv or dbt_backfill.get_model_name(model)) ~ ': ' ~ fact ~ '. ' ~ change ~ '.' -%}
    {#- dbt adds a line to a compiler error for each macro that it passes through; the adapter's has none. -#}
    {%- if adapter.type() == 'spark_backfill' -%} {%- do adapter.refuse(message) -%} {%- endif -%}
    {%- do exceptions.raise_compiler_error(message) -%}
{% endmacro %}


{% macro refuse_option(name, value, expected) %}
    {%- do dbt_backfill.refuse(name ~ ' is ' ~ tojson(value, value | string), 'Set it to ' ~ expected) -%}
{% endmacro %}
