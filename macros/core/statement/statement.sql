{#-
    Run a statement of a barrier and return the JSON objects in the first column of its result. The results are JSON, because dbt's tables guess
    types: a key `007` becomes a number, and binary values are not possible.

    Arguments:
      step (string): what the statement does. The statement begins with this text as a comment, for the Spark UI and dbt's log.
      sql (string): the statement, or a script (`begin … end`) whose last statement is a query.
      mv (relation): the MV, if another model or an operation is running.
-#}
{% macro run_json(step, sql, mv=none) %}
    {%- set rows = [] -%}
    {%- for row in dbt_backfill.run_table(step, sql, mv) -%} {%- do rows.append(fromjson(row[0])) -%} {%- endfor -%}
    {{ return(rows) }}
{% endmacro %}


{#- Run a statement and return its result as dbt's table, which is empty if the statement has no result. A run-operation has no `this`. -#}
{% macro run_table(step, sql, mv=none) %}
    {%- call statement('dbt_backfill_' ~ step, fetch_result=true, auto_begin=false) -%}
        /* {{ mv or (this if this is defined else 'dbt_backfill') }}: {{ step }} */
        {{ sql }}
    {%- endcall -%}
    {{ return(load_result('dbt_backfill_' ~ step).table) }}
{% endmacro %}


{#- Run a statement that may fail. Return {'table': its result, none if it failed, 'error': the text of Spark's error, or none}. Without the adapter,
    an error ends the run, because Jinja cannot catch it. -#}
{% macro try_table(step, sql) %}
    {%- if adapter.type() == 'spark_backfill' -%}
        {{ return(adapter.attempt('/* ' ~ (this if this is defined else 'dbt_backfill') ~ ': ' ~ step ~ ' */\n' ~ sql)) }}
    {%- endif -%}
    {{ return({'table': dbt_backfill.run_table(step, sql), 'error': none}) }}
{% endmacro %}


{#- Return a statement of a script that executes `sql`, in which each key of `literals` is replaced by the value of its SQL expression. -#}
{% macro get_execute_with_literals_sql(sql, literals) -%}
    {%- set parts = [dbt_backfill.string_literal(sql)] -%}
    {%- for placeholder, value in literals.items() -%} {%- do parts.append(", '" ~ placeholder ~ "', " ~ value ~ ')') -%} {%- endfor -%}
    {{ return('execute immediate ' ~ 'replace(' * literals | length ~ parts | join) }}
{%- endmacro %}


{#- Return a statement of a script that executes `sql`, but ignores a conflict with another statement that writes the same table at the same time.
    This works on Delta only; on Iceberg the conflict raises an error. `noted`: a statement that the script executes after such a conflict, or ''. -#}
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


{#- Return `name` as a quoted Spark identifier; a backtick in it is doubled. -#}
{% macro identifier(name) -%}
    {{ return('`' ~ name | replace('`', '``') ~ '`') }}
{%- endmacro %}


{#- Return `names` as quoted identifiers, comma separated, each with `prefix` in front (such as `t.`). -#}
{% macro identifiers(names, prefix='') -%}
    {%- set quoted = [] -%}
    {%- for name in names -%} {%- do quoted.append(prefix ~ dbt_backfill.identifier(name)) -%} {%- endfor -%}
    {{ return(quoted | join(', ')) }}
{%- endmacro %}


{#- Return `text` as a Spark string literal; `null` for none. A `${…}` in the text is escaped, because Spark would substitute it. -#}
{% macro string_literal(text) -%}
    {%- if text is none -%} {{ return('null') }} {%- endif -%}
    {{ return("'" ~ text | string | replace('\\', '\\\\') | replace("'", "\\'") | replace('$', '\\u0024') ~ "'") }}
{%- endmacro %}


{#- Return `texts` as an array of strings; `null` for none. -#}
{% macro string_array_literal(texts) -%}
    {%- if texts is none -%} {{ return('null') }} {%- endif -%}
    {%- set literals = [] -%}
    {%- for text in texts -%} {%- do literals.append(dbt_backfill.string_literal(text)) -%} {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{%- endmacro %}


{#- Return options with which to_json writes times with microseconds. By default to_json cuts times to milliseconds. -#}
{% macro whole_json_options() %}
    {{ return("map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')") }}
{% endmacro %}


{#- Return SQL for a type that Spark has printed. A printed `timestamp` has a time zone. In SQL the setting spark.sql.timestampType decides if the
    word `timestamp` means a type without a time zone. So this macro writes `timestamp_ltz`. The names of fields do not change. -#}
{% macro type_sql(type) -%}
    {%- set parts = [] -%}
    {%- for part in modules.re.split('(`[^`]*`)', type) -%}
        {%- do parts.append(part if part.startswith('`') else modules.re.sub('(?:^|(?<=[<,:]))timestamp(?=[,>]|$)', 'timestamp_ltz', part)) -%}
    {%- endfor -%}
    {{ return(parts | join) }}
{%- endmacro %}


{#- Return the column definitions of a CREATE TABLE, comma separated. `columns`: a list of {'name', 'type'}. -#}
{% macro column_definitions(columns) -%}
    {%- set definitions = [] -%}
    {%- for column in columns -%}
        {%- do definitions.append(dbt_backfill.identifier(column.name) ~ ' ' ~ dbt_backfill.type_sql(column.type)) -%}
    {%- endfor -%}
    {{ return(definitions | join(', ')) }}
{%- endmacro %}


{#- Return a number, or its text, with commas between its thousands, and with its noun: `12,345`, `1,234.5`, `1 row` or `12,345 rows`. It has at most
    three digits after the point. -#}
{% macro get_count_text(count, noun=none) %}
    {%- set text = modules.re.sub('(?<=[0-9])(?=([0-9]{3})+([.]|$))', ',', count | string) -%}
    {{ return(text if noun is none else text ~ ' ' ~ noun ~ ('' if count == 1 else 's')) }}
{% endmacro %}
