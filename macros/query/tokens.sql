{#-
    The query's text as a list of `{'kind', 'text'}`: `string`, `comment`, `quoted` (an identifier in
    backticks), `upstream` (the relation of that name) or `code`, in order; joined they are the text again.

    What is looked for in a query is looked for in the right kind only: the name of a table also stands in
    strings and comments, and inside the names of other tables.

    Arguments:
      query (string): Spark SQL.
      upstream (relation or none): the relation whose name is a token of its own.
-#}
{% macro tokens(query, upstream=none) %}
    {%- set kinds = [
        "(?P<string>\\br(?:'[^']*'|\"[^\"]*\")|'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\")",
        '(?P<comment>--[^\\n]*|' ~ dbt_backfill._comment_pattern() ~ ')',
    ] -%}
    {%- if upstream is not none -%}
        {%- do kinds.append(
            '(?P<upstream>(?<![\\w`.])(?:(?:spark_catalog|`spark_catalog`)\\s*\\.\\s*)?'
                ~ dbt_backfill._name_pattern(upstream.schema) ~ '\\s*\\.\\s*'
                ~ dbt_backfill._name_pattern(upstream.identifier) ~ ')'
        ) -%}
    {%- endif -%}
    {%- do kinds.append('(?P<quoted>`(?:[^`]|``)*`)') -%}
    {%- set found = [] -%}
    {%- set at = namespace(end=0) -%}
    {%- for match in modules.re.finditer('(?is)' ~ kinds | join('|'), query) -%}
        {%- if match.start() > at.end -%}
            {%- do found.append({'kind': 'code', 'text': query[at.end:match.start()]}) -%}
        {%- endif -%}
        {%- do found.append({'kind': match.lastgroup, 'text': match.group()}) -%}
        {%- set at.end = match.end() -%}
    {%- endfor -%}
    {%- do found.append({'kind': 'code', 'text': query[at.end:]}) -%}
    {{ return(found) }}
{% endmacro %}


{#- A regular expression for a name, bare or in backticks. -#}
{% macro _name_pattern(name) %}
    {{ return('(?:`' ~ modules.re.escape(name) ~ '`|' ~ modules.re.escape(name) ~ '(?!\\w))') }}
{% endmacro %}


{#- A regular expression for a bracketed comment. Spark nests them; here they may be eight deep. -#}
{% macro _comment_pattern() %}
    {%- set pattern = namespace(inner='(?!)') -%}
    {%- for _ in range(8) -%}
        {%- set pattern.inner = '/\\*(?:(?!/\\*|\\*/).|' ~ pattern.inner ~ ')*\\*/' -%}
    {%- endfor -%}
    {{ return(pattern.inner) }}
{% endmacro %}
