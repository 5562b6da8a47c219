{#- Of these names of columns those that the code of a query has in it, all of them where it has a star. Their case does not matter. -#}
{% macro get_named_columns(query, names) %}
    {%- set code = dbt_backfill.tokens(query) | rejectattr('kind', 'equalto', 'comment') | map(attribute='text') | join(' ') -%}
    {%- if '*' in code -%} {{ return(names) }} {%- endif -%}
    {%- set found = [] -%}
    {%- for name in names if modules.re.search('(?i)(?<!\\w)' ~ modules.re.escape(name) ~ '(?!\\w)', code) -%}
        {%- do found.append(name) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
