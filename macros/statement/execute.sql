{#-
    A statement of a script that executes `sql` with some texts in it replaced by the values of variables.

    Arguments:
      literals (dict): text in `sql` -> SQL expression of what stands there instead.
-#}
{% macro get_execute_with_literals_sql(sql, literals) -%}
    {%- set text = namespace(sql=dbt_backfill.string_literal(sql)) -%}
    {%- for placeholder, value in literals.items() -%}
        {%- set text.sql = 'replace(' ~ text.sql ~ ", '" ~ placeholder ~ "', " ~ value ~ ')' -%}
    {%- endfor -%}
    {{ return('execute immediate ' ~ text.sql) }}
{%- endmacro %}


{#-
    A statement of a script that gives way to another one which wrote the same table meanwhile, on Delta without an error.

    Arguments:
      noted (string): what is done then, a statement of the script; empty for nothing.
-#}
{% macro get_yielding_sql(sql, file_format, noted='') -%}
    {%- if file_format == 'delta' -%}
    begin
        declare exit handler for sqlstate '2D521' begin {{ noted ~ '; ' if noted }}end;
        {{ sql }};
    end;
    {%- else -%}
    {{ sql }};
    {%- endif -%}
{%- endmacro %}
