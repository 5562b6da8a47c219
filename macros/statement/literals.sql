{#- `name` as a quoted Spark identifier; a backtick in it is doubled. -#}
{% macro identifier(name) -%}
    {{ return('`' ~ name | replace('`', '``') ~ '`') }}
{%- endmacro %}


{#- `names` as quoted identifiers, comma separated, each with `prefix` in front (such as `t.`). -#}
{% macro identifiers(names, prefix='') -%}
    {%- set quoted = [] -%}
    {%- for name in names -%}
        {%- do quoted.append(prefix ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {{ return(quoted | join(', ')) }}
{%- endmacro %}


{#- `text` as a Spark string literal; `null` for none. Spark would substitute a raw `${…}`, hence the escape. -#}
{% macro string_literal(text) -%}
    {%- if text is none -%} {{ return('null') }} {%- endif -%}
    {{ return("'" ~ text | string | replace('\\', '\\\\') | replace("'", "\\'") | replace('$', '\\u0024') ~ "'") }}
{%- endmacro %}


{#- `texts` as an array of strings; `null` for none. -#}
{% macro string_array_literal(texts) -%}
    {%- if texts is none -%} {{ return('null') }} {%- endif -%}
    {%- set literals = [] -%}
    {%- for text in texts -%}
        {%- do literals.append(dbt_backfill.string_literal(text)) -%}
    {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{%- endmacro %}


{#-
    A type as Spark prints it, as SQL that means it: for a `timestamp` in it Spark's DDL has another name where
    spark.sql.timestampType says that this one has no zone. Names of fields stay.
-#}
{% macro type_sql(type) -%}
    {%- set parts = [] -%}
    {%- for part in modules.re.split('(`[^`]*`)', type) -%}
        {%- do parts.append(part if part.startswith('`') else modules.re.sub('(?:^|(?<=[<,:]))timestamp(?=[,>]|$)', 'timestamp_ltz', part)) -%}
    {%- endfor -%}
    {{ return(parts | join) }}
{%- endmacro %}


{#- `columns` (list of {'name', 'type'}) as a statement defines them, comma separated. -#}
{% macro column_definitions(columns) -%}
    {%- set definitions = [] -%}
    {%- for column in columns -%}
        {%- do definitions.append(dbt_backfill.identifier(column.name) ~ ' ' ~ dbt_backfill.type_sql(column.type)) -%}
    {%- endfor -%}
    {{ return(definitions | join(', ')) }}
{%- endmacro %}
