{#- The settings of the session on which a query's values depend, among those that are compared only then. -#}
{% macro find_used_settings(explained, query) %}
    {%- set used = [] -%}
    {%- if dbt_backfill.uses_time_zone(explained, query) -%} {%- do used.append('spark.sql.session.timeZone') -%} {%- endif -%}
    {%- if dbt_backfill.uses_ansi_mode(explained) -%} {%- do used.append('spark.sql.ansi.enabled') -%} {%- endif -%}
    {%- if dbt_backfill.has_double_quotes(query) -%} {%- do used.append('spark.sql.ansi.doubleQuotedIdentifiers') -%} {%- endif -%}
    {{ return(used) }}
{% endmacro %}


{#- Whether a query has something in double quotes: a text, or a name, as the session says. -#}
{% macro has_double_quotes(query) %}
    {%- for token in dbt_backfill.tokens(query) if token.kind == 'string' and token.text.endswith('"') -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Whether a query's values may depend on the session's time zone. Spark prints the zone of some of the expressions that
    use it, as `Some(UTC)`, and not of a comparison with a literal or of arithmetic. So any column of a type with a zone
    counts unless the query only passes it on, and so does whatever makes such a value of something else. To count one
    too many costs little: the zone is noted, and may then not change.
-#}
{% macro uses_time_zone(explained, query) %}
    {#- A timestamp literal is printed bare, and so is one without a zone. -#}
    {%- set makes = 'Some\\(|TimestampType|\\btimestamp\\b(?!#)|timestamp\\w*\\(|\\b(extract|date_part|datepart)\\('
        ~ '|\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d' -%}
    {%- set plan = dbt_backfill.mask_names(explained, query) -%}
    {%- set items = dbt_backfill.plan_expressions(plan, query) -%}
    {%- if modules.re.search(makes, items | join('\n') ~ dbt_backfill._optimized_expressions(explained)) -%} {{ return(true) }} {%- endif -%}
    {%- set attributes = dbt_backfill.plan_attributes(plan) -%}
    {%- set zoned = {} -%}
    {%- for column in explained.upstream_columns if modules.re.search('\\b(timestamp|variant|unknown)\\b', column.type) -%}
        {%- for attribute in attributes if attribute.id == column.id -%} {%- do zoned.update({column.id: attribute.name}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set zoned = dbt_backfill.follow_columns(plan, items, zoned) -%}
    {%- for item in items if not dbt_backfill.passed_column(item) -%}
        {%- for id in modules.re.findall('#(\\d+)', item) if id in zoned -%} {{ return(true) }} {%- endfor -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Functions that stand for others hide in the analyzed plan what these cast; where nothing is constant, this one shows it. -#}
{% macro _optimized_expressions(explained) %}
    {%- set lines = [] -%}
    {%- for line in explained.optimized
            if dbt_backfill.plan_operator(line, line == explained.optimized[0]) not in dbt_backfill.reading_operators() -%}
        {%- do lines.append(line) -%}
    {%- endfor -%}
    {{ return('\n' ~ lines | join('\n')) }}
{% endmacro %}


{#-
    Whether a query's values may depend on spark.sql.ansi.enabled: on casts, arithmetic, elements, and the functions that
    then fail or return another value. dbt-spark turns it off in a session, and cannot on a Thrift server.
-#}
{% macro uses_ansi_mode(explained) %}
    {%- set functions = 'cast|size|cardinality|element_at|elt|conv|abs|negative|pmod|mod|div|round|bround|ceil|floor|next_day'
        ~ '|parse_url|to_\\w+|make_\\w+|unix_\\w+|gettimestamp|date_\\w+|add_months|months_\\w+' -%}
    {%- set expressions = [] -%}
    {%- for line in explained.analyzed if '+- Relation' not in line -%} {%- do expressions.append(line) -%} {%- endfor -%}
    {%- do expressions.append(dbt_backfill._optimized_expressions(explained)) -%}
    {{ return(modules.re.search('(?i)\\b(' ~ functions ~ ')\\(| [-+*/%] |[\\w)]\\[|(?<!\\w)-[a-z_(]', expressions | join('\n')) is not none) }}
{% endmacro %}
