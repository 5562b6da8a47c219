{#-
    The query's text as a list of `{'kind', 'text'}`: `string`, `comment`, `quoted` (an identifier in
    backticks), `upstream` (the relation of that name, where a table is read), `qualifier` (its name in front of a
    column's) or `code`, in order; joined they are the text again.

    What is looked for in a query is looked for in the right kind only: the name of a table also stands in
    strings and comments, inside the names of other tables, and may be that of a struct and its field.

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
    {{ return(found if upstream is none else dbt_backfill.tell_references(found)) }}
{% endmacro %}


{#-
    The tokens, with `upstream` left only where a table is read: behind FROM, JOIN or a comma of a FROM clause. In front
    of a point it is a `qualifier`, and else it is `code`.
-#}
{% macro tell_references(tokens) %}
    {#- A frame is what a bracket holds; the text itself is the first one. -#}
    {%- set at = namespace(frames=[{'first': true, 'is_query': true, 'in_from': false}], table_is_next=false, last='') -%}
    {%- for token in tokens if token.kind != 'comment' -%}
        {%- if token.kind == 'code' -%}
            {%- for word in modules.re.findall('\\w+|[^\\w\\s]', token.text | lower) -%}
                {%- do dbt_backfill._read_word(at, word) -%}
                {%- set at.last = word -%}
            {%- endfor -%}
        {%- else -%}
            {%- set goes_on = not loop.last and modules.re.match('\\s*[.]', loop.nextitem.text) -%}
            {%- if token.kind == 'upstream' and (goes_on or not at.table_is_next) -%}
                {%- do token.update({'kind': 'qualifier' if goes_on and not at.table_is_next else 'code'}) -%}
            {%- endif -%}
            {%- set at.table_is_next = false -%}
            {%- do at.frames[-1].update({'first': false}) -%}
            {%- set at.last = '' -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(tokens) }}
{% endmacro %}


{#- One word or sign of the code. FROM is also part of `extract(year from x)` and of `a is distinct from b`. -#}
{% macro _read_word(at, word) %}
    {%- set frame = at.frames[-1] -%}
    {%- if word == '(' -%}
        {%- do at.frames.append({'first': true, 'is_query': false, 'in_from': at.table_is_next}) -%}
    {%- elif word == ')' -%}
        {%- do at.frames.pop() if at.frames | length > 1 -%}
        {%- do at.frames[-1].update({'first': false}) -%}
        {%- set at.table_is_next = false -%}
    {%- else -%}
        {%- if frame.first and word in ['select', 'with', 'from', 'table', 'values'] -%}
            {%- do frame.update({'is_query': true, 'in_from': false}) -%}
        {%- endif -%}
        {%- set opens_from = word == 'from' and frame.is_query and at.last != 'distinct' -%}
        {%- set at.table_is_next = opens_from or word in ['join', ','] and frame.in_from or word == 'table' and frame.first -%}
        {%- set ends_from = word in [
            'select', 'where', 'group', 'having', 'order', 'sort', 'cluster', 'distribute', 'window', 'limit', 'offset',
            'union', 'intersect', 'except', 'minus', '|',
        ] -%}
        {%- do frame.update({'first': false, 'in_from': opens_from or frame.in_from and not ends_from}) -%}
    {%- endif -%}
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
