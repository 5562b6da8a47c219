{#-
    Run a statement of a barrier and return the JSON objects in the first column of its result.

    Results come back as JSON text that Spark renders: dbt's tables guess types, which turns a key `007`
    into a number and cannot hold binary values.

    Arguments:
      step (string): what the statement does; it stands as a comment in front, for the Spark UI and dbt's log.
      sql (string): the statement, or a script (`begin … end`) whose last statement is a query.
      mv (relation): the MV, where it is not the model that is running.
-#}
{% macro run_json(step, sql, mv=none) %}
    {%- set rows = [] -%}
    {%- for row in dbt_backfill.run_table(step, sql, mv) -%}
        {%- do rows.append(fromjson(row[0])) -%}
    {%- endfor -%}
    {{ return(rows) }}
{% endmacro %}


{#- Run a statement and return its result as dbt's table, empty if it has none. -#}
{% macro run_table(step, sql, mv=none) %}
    {#- A run-operation has no `this`. -#}
    {%- set owner = mv or (this if this is defined else 'dbt_backfill') -%}
    {%- call statement('dbt_backfill_' ~ step, fetch_result=true, auto_begin=false) -%}
        /* {{ owner }}: {{ step }} */
        {{ sql }}
    {%- endcall -%}
    {{ return(load_result('dbt_backfill_' ~ step).table) }}
{% endmacro %}
