{#-
    Under `--empty` and `--sample` dbt renders the upstream as a filtered subquery. Its plain name is put back:
    nothing is read in such a run, but the query that it creates the tables for is the real one.

    Only dbt's own forms are taken out, each once and the inner one first; a filter of the user's own may stand around them.
-#}
{% macro get_unsampled_sql(sql, empty, sampled) %}
    {%- set name = '((?:`[^`]+`|[^\\s()`])+)' -%}
    {%- set plain = namespace(sql=sql) -%}
    {%- if empty -%}
        {%- set limited = '\\(select \\* from ' ~ name ~ ' where false limit 0\\)(?: _dbt_limit_subq_\\w+)?' -%}
        {%- set plain.sql = modules.re.sub(limited, '\\1', plain.sql) -%}
    {%- endif -%}
    {%- if sampled -%}
        {%- set time = "'\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?[+-]\\d\\d:\\d\\d'" -%}
        {%- set filter = '(?:' ~ name ~ ' >= ' ~ time ~ '(?: and \\2 < ' ~ time ~ ')?|' ~ name ~ ' < ' ~ time ~ ')' -%}
        {%- set filtered = '\\(select \\* from ' ~ name ~ ' where ' ~ filter ~ '\\)(?: _dbt_et_filter_subq_\\w+)?' -%}
        {%- set plain.sql = modules.re.sub(filtered, '\\1', plain.sql) -%}
    {%- endif -%}
    {{ return(plain.sql) }}
{% endmacro %}
