{#-
    Of these names of columns those that the code of a query has in it; all of them where it takes columns without naming them. Their
    case does not matter.
-#}
{% macro get_named_columns(query, names) %}
    {%- set tokens = dbt_backfill.tokens(query) | rejectattr('kind', 'equalto', 'comment') | list -%}
    {%- if dbt_backfill._have_star(tokens) or dbt_backfill._read_without_select(tokens) or dbt_backfill._rename_columns(tokens) -%}
        {{ return(names) }}
    {%- endif -%}
    {%- set code, found = tokens | map(attribute='text') | join(' '), [] -%}
    {%- for name in names if modules.re.search('(?i)(?<!\\w)' ~ modules.re.escape(name) ~ '(?!\\w)', code | replace('``', '`')) -%}
        {%- do found.append(name) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Whether a star of a query stands for columns: the others multiply what is before them. `tokens` are without comments. -#}
{% macro _have_star(tokens) %}
    {%- set texts = [] -%}
    {%- for token in tokens -%}
        {%- do texts.append("''" if token.kind == 'string' else token.text) -%}
    {%- endfor -%}
    {{ return(modules.re.search('(?i)(?:[,.(]|\\b(?:select|distinct|all))\\s*[*]', texts | join(' ')) is not none) }}
{% endmacro %}


{#- Whether a bracket behind this word, '' for none, holds the arguments of a function. -#}
{% macro _is_call(word) %}
    {{ return(word | lower not in [
        '', 'select', 'from', 'join', 'in', 'as', 'and', 'or', 'not', 'where', 'on', 'exists', 'except',
    ]) }}
{% endmacro %}


{#- Whether a query has TABLE, a pipe, or a FROM without a SELECT before it, all of which take all columns; rather one too many. -#}
{% macro _read_without_select(tokens) %}
    {%- set code = tokens | selectattr('kind', 'equalto', 'code') | map(attribute='text') | join(' ') -%}
    {#- Whether what each open bracket holds, and the query itself, may have a FROM: after a SELECT, or of a function. -#}
    {%- set brackets = [false] -%}
    {%- set signs = '(\\w*)\\s*[(]|[)]|\\bdistinct\\s+from\\b|\\b(select|from|table)\\b|[|]>' -%}
    {%- for match in modules.re.finditer(signs, code | lower) -%}
        {%- if match.group().endswith('(') -%}
            {%- do brackets.append(dbt_backfill._is_call(match.group(1))) -%}
        {%- elif match.group() == ')' -%}
            {%- do brackets.pop() if brackets | length > 1 -%}
        {%- elif match.group() == 'select' -%}
            {%- do brackets.pop() -%}
            {%- do brackets.append(true) -%}
        {%- elif match.group() in ['table', '|>'] or match.group() == 'from' and not brackets[-1] -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Whether a query gives the columns of a table other names, as in `from orders as t(k, v)`, or spells a name by IDENTIFIER; rather one
    too many. What stands in brackets before such a list has a SELECT, or is found as what reads without.
-#}
{% macro _rename_columns(tokens) %}
    {%- set texts = [] -%}
    {%- for token in tokens -%} {%- do texts.append('string' if token.kind == 'string' else token.text) -%} {%- endfor -%}
    {%- set code = texts | join(' ') -%}
    {%- if modules.re.search('(?i)\\bidentifier\\s*[(]', code) -%} {{ return(true) }} {%- endif -%}
    {%- set name = '(?:\\w+|`(?:[^`]|``)*`)' -%}
    {%- set table = '\\bfrom\\b[(\\s]*(?!(?:select|with)\\b)' ~ name ~ '(?:\\s*[.]\\s*' ~ name ~ ')*' -%}
    {#- In brackets it may have another name before. -#}
    {%- set within = '(?:[)\\s]*(?<!\\w)(?:as\\s+)?' ~ name ~ '\\s*[)])*[)\\s]*' -%}
    {%- for match in modules.re.finditer('(?i)' ~ table ~ within ~ '(?<!\\w)(as\\s+)?(' ~ name ~ ')\\s*[(]', code) -%}
        {%- if match.group(1) or dbt_backfill._is_call(match.group(2)) -%} {{ return(true) }} {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}
