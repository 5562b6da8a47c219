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
    {%- call statement('dbt_backfill_' ~ step, fetch_result=true, auto_begin=false) -%}
        {{ dbt_backfill._with_step(step, sql, mv) }}
    {%- endcall -%}
    {{ return(load_result('dbt_backfill_' ~ step).table) }}
{% endmacro %}


{#-
    Run a statement on which nothing depends: {'table': its result, none if it failed, 'error': the text of Spark's error, none if
    there was none}. With the plain package, an error ends the run as that of any statement does: Jinja cannot catch it.
-#}
{% macro try_table(step, sql, mv=none) %}
    {%- if adapter.type() == 'spark_backfill' -%} {{ return(adapter.attempt(dbt_backfill._with_step(step, sql, mv))) }} {%- endif -%}
    {{ return({'table': dbt_backfill.run_table(step, sql, mv), 'error': none}) }}
{% endmacro %}


{#- The statement behind the comment that says whose it is and what it does. A run-operation has no `this`. -#}
{% macro _with_step(step, sql, mv) -%}
    /* {{ mv or (this if this is defined else 'dbt_backfill') }}: {{ step }} */
    {{ sql }}
{%- endmacro %}
