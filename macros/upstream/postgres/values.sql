{#-
    Over a row that Spark's JDBC reader gave: the name of the first column that may have another value than in PostgreSQL, which the
    reader altered without an error; null if none may. Infinity becomes the last day of the year 9999, which is doubted where no check
    keeps it out, the ten days that no calendar of Java has become others, and years before the first one are not what the text of
    the WAL says; other time zones than UTC alter what was before 1900.

    Arguments:
      columns (list of {'name', 'type'}): those that were read, with Spark's types.
      facts (dict): of get_postgres_facts_query.
-#}
{% macro get_altered_column_sql(columns, facts) -%}
    {%- set cases = [] -%}
    {%- for column in columns -%}
        {%- set predicate = dbt_backfill._get_altered_predicate(column, facts) -%}
        {%- if predicate -%} {%- do cases.append('when ' ~ predicate ~ ' then ' ~ dbt_backfill.string_literal(column.name)) -%} {%- endif -%}
    {%- endfor -%}
    {{ return('case ' ~ cases | join(' ') ~ ' end' if cases else 'cast(null as string)') }}
{%- endmacro %}


{#- None of a type that is always read right. Literals do not depend on the session's time zone. -#}
{% macro _get_altered_predicate(column, facts) -%}
    {%- set name = dbt_backfill.identifier(column.name) -%}
    {%- set finite = facts.columns | selectattr('name', 'equalto', column.name) | selectattr('finite') | list -%}
    {%- if column.type == 'date' -%}
        {%- set days = [name ~ " < date'0001-01-04'", name ~ " between date'1582-10-15' and date'1582-10-24'"] -%}
        {{ return('(' ~ (days + ([] if finite else [name ~ " = date'9999-12-31'"])) | join(' or ') ~ ')') }}
    {%- elif column.type in ['timestamp', 'timestamp_ntz'] -%}
        {%- set zone = 'Z' if column.type == 'timestamp' else '' -%}
        {%- set times = [
            name ~ ' < ' ~ column.type ~ "'0001-01-04 00:00:00" ~ zone ~ "'",
            name ~ ' >= ' ~ column.type ~ "'1582-10-15 00:00:00" ~ zone ~ "' and " ~ name ~ ' < ' ~ column.type ~ "'1582-10-25 00:00:00" ~ zone ~ "'",
        ] if dbt_backfill.is_postgres_utc(facts) else [name ~ ' < ' ~ column.type ~ "'1900-01-01 00:00:00" ~ zone ~ "'"] -%}
        {%- set last = [] if finite else [name ~ ' = ' ~ column.type ~ "'9999-12-31 23:59:59.999" ~ zone ~ "'"] -%}
        {{ return('(' ~ (times + last) | join(' or ') ~ ')') }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}
