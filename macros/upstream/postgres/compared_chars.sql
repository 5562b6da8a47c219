{#-
    Refuse a query that compares a `char(n)`: Spark pads what it is compared with, in the table and not in its events. A function of it,
    such as rtrim, gives the same in both.
-#}
{% macro postgres_check_query(explained, query) %}
    {%- set name = dbt_backfill.find_compared_char(explained, query) -%}
    {%- if name is not none -%}
        {%- do dbt_backfill.refuse(
            'its query compares ' ~ name ~ ', which is a char(n) in PostgreSQL, and Spark pads a text with blanks for that in the table and not in its events',
            'Compare rtrim(' ~ name ~ ') with the text without blanks at its end'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    The name of such a column that a query does more with than pass it on, or hand it to a function that gives a text or a number; none
    if there is none. Spark's analyzed plan has a projection over the table that pads its columns to their length.
-#}
{% macro find_compared_char(explained, query) %}
    {%- set plan, chars = dbt_backfill.mask_names(explained, query), {} -%}
    {%- set items, padded = dbt_backfill.plan_expressions(plan, query), 'readSidePadding\\((?:@|\\w+)#(\\d+).*\\) AS (@|\\w+)#(\\d+)$' -%}
    {#- What a function such as nullif is called with is printed as it was before. -#}
    {%- for item in items -%}
        {%- set match = modules.re.search(padded, item) -%}
        {%- if match -%} {%- do chars.update({match.group(1): match.group(2), match.group(3): match.group(2)}) -%} {%- endif -%}
    {%- endfor -%}
    {%- if not chars -%} {{ return(none) }} {%- endif -%}
    {%- set chars = dbt_backfill.follow_columns(plan, items, chars) -%}
    {%- set column = '(?:@|\\w+)#\\d+' -%}
    {%- set taken = '(?i)(?<!\\w)(?:' ~ dbt_backfill._char_functions() | join('|') ~ ')\\(' ~ column ~ '|' ~ column ~ ' LIKE ' -%}
    {%- for item in items if not dbt_backfill.passed_column(item) and not modules.re.search(padded, item) -%}
        {%- for id in modules.re.findall('#(\\d+)', modules.re.sub(taken, '', item)) if id in chars -%} {{ return(chars[id]) }} {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Whose value no longer counts as a `char(n)`. -#}
{% macro _char_functions() %}
    {{ return([
        'rtrim', 'ltrim', 'trim', 'btrim', 'upper', 'lower', 'length', 'substring', 'left', 'right', 'concat', 'cast', 'md5', 'sha1', 'sha2',
        'coalesce', 'isnull', 'isnotnull', 'rlike',
    ]) }}
{% endmacro %}
