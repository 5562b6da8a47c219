{#-
    Return the query's text as a list of `{'kind', 'text'}`, which joined are the text again: `string`, `comment`, `quoted` (an identifier in
    backticks), `code`, and where `upstream`, a relation, is given, `upstream`, its name.

    Look for a thing in tokens of the right kind only: the name of a table also occurs in strings and comments.
-#}
{% macro tokens(query, upstream=none) %}
    {%- set at, found, names = namespace(end=0, comment='(?!)'), [], [] -%}
    {#- Spark nests bracketed comments; here they may be eight deep. A backslash at the end of a line continues a comment
        that begins with `--` on the next one. -#}
    {%- for _ in range(8) -%} {%- set at.comment = '/\\*(?:(?!/\\*|\\*/).|' ~ at.comment ~ ')*\\*/' -%} {%- endfor -%}
    {%- set kinds = [
        "(?P<string>\\br(?:'[^']*'|\"[^\"]*\")|(?:'(?:[^'\\\\]|\\\\.)*')+|(?:\"(?:[^\"\\\\]|\\\\.)*\")+)",
        '(?P<comment>--(?:\\\\\\n|[^\\r\\n])*|' ~ at.comment ~ ')',
    ] -%}
    {%- if upstream is not none -%}
        {%- for name in [upstream.schema, upstream.identifier] -%}
            {%- set pattern = modules.re.escape(name) -%} {%- do names.append('(?:`' ~ pattern ~ '`|' ~ pattern ~ '(?!\\w))') -%}
        {%- endfor -%}
        {%- set catalog = '(?:(?:spark_catalog|`spark_catalog`)\\s*\\.\\s*)?' -%}
        {%- do kinds.append('(?P<upstream>(?<![\\w`.])' ~ catalog ~ names | join('\\s*\\.\\s*') ~ ')') -%}
    {%- endif -%}
    {%- do kinds.append('(?P<quoted>`(?:[^`]|``)*`)') -%}
    {%- for match in modules.re.finditer('(?is)' ~ kinds | join('|'), query) -%}
        {%- if match.start() > at.end -%} {%- do found.append({'kind': 'code', 'text': query[at.end:match.start()]}) -%} {%- endif -%}
        {%- do found.append({'kind': match.lastgroup, 'text': match.group()}) -%}
        {%- set at.end = match.end() -%}
    {%- endfor -%}
    {{ return(found + [{'kind': 'code', 'text': query[at.end:]}]) }}
{% endmacro %}


{#- Return the words and signs of a query in order, without comments; a text, and a name in backticks, is one word. -#}
{% macro get_words(query) %}
    {%- set words = [] -%}
    {%- for token in dbt_backfill.tokens(query | trim | trim(';')) if token.kind != 'comment' -%}
        {#- A number is one word, as a name with points in it: `1 .5` is not `1.5`, and `1e - 5` is not `1e-5`. -#}
        {%- do words.extend(
            modules.re.findall('[\\w.]+(?:(?<=[eE])[+-]\\w+)?|[^\\w\\s]', token.text) if token.kind == 'code' else [token.text]
        ) -%}
    {%- endfor -%}
    {{ return(words) }}
{% endmacro %}


{#-
    Return the model's query with its upstream replaced by a name that `get_query_sql` defines, and without comments at its end.

    The name is the upstream's identifier, so that `flights.carrier` goes on to mean what it meant, and so do import CTEs that are called
    like the table. check_query makes sure that nothing but this name reads a table.

    Raises: the query does not have the upstream's name, reads it at a version or with options (Spark reads a name that a query defines
      without them), or has it in front of another name, which might also be a field of a struct.
-#}
{% macro substitute_upstream(query, upstream) %}
    {%- set tokens, pieces, at = dbt_backfill.tokens(query, upstream), [], namespace(end=0, found=false) -%}
    {%- for token in tokens -%}
        {%- if token.kind == 'upstream' -%}
            {%- set rest = tokens[loop.index:] | rejectattr('kind', 'equalto', 'comment') | map(attribute='text') | join(' ') -%}
            {%- set next = rest.lower().split()[:5] | join(' ') -%}
            {%- if next.startswith('.') -%}
                {%- do dbt_backfill.refuse(
                    "its query has '" ~ token.text ~ ".', the upstream's whole name in front of another one",
                    'Give the upstream an alias in FROM, such as u, and write u. in front of its columns'
                ) -%}
            {%- elif ' as of ' in (' ' ~ next).split('(')[0] -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream at a fixed version, which never changes',
                    'Remove the AS OF clause; each barrier reads the version that it needs'
                ) -%}
            {%- elif next == 'with' or next.startswith(('with ', 'with(')) -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream with options, which barriers read it without', 'Remove the WITH clause behind its name'
                ) -%}
            {%- endif -%}
            {%- set at.found = true -%}
        {%- endif -%}
        {%- do pieces.append(dbt_backfill.identifier(upstream.identifier) if token.kind == 'upstream' else token.text) -%}
        {%- if token.kind != 'comment' and token.text.strip('; \t\r\n') -%} {%- set at.end = loop.index -%} {%- endif -%}
    {%- endfor -%}
    {%- if not at.found -%}
        {%- do dbt_backfill.refuse(
            'its query does not read ' ~ upstream.render() ~ ' by that name',
            "Read the upstream by ref() or source() in the query's FROM clause"
        ) -%}
    {%- endif -%}
    {{ return((pieces[:at.end] | join).strip('; \t\r\n')) }}
{% endmacro %}


{#-
    Return a query, as `substitute_upstream` returned it, over another relation than the upstream: `scan`, a select with its columns.

    Without `scan` it reads all rows of today, to be explained. Through the LIMIT no filter is pushed down: else a plan would not show those
    that the source evaluates itself, Iceberg those that select whole partitions, PostgreSQL nearly all.
-#}
{% macro get_query_sql(query, upstream, scan=none) -%}
with {{ dbt_backfill.identifier(upstream.identifier) }} as (
    {{ scan or 'select * from ' ~ upstream.render() ~ ' limit 2147483647' }}
)
select * from (
{{ query }}
)
{%- endmacro %}


{#-
    Return those of these names of the upstream's columns that a query, as `substitute_upstream` returned it, has in it, in any case; all of them
    where it may read others too, rather once too often.
-#}
{% macro get_named_columns(query, names) %}
    {%- set words, named, found = dbt_backfill.get_words(query), {}, [] -%}
    {#- Between a name and a bracket these make no list of other names for the columns of a table, as in `from orders as t(k, v)`. -#}
    {%- set no_names = 'and as between char dec decimal else from in like not numeric on or then varchar when where'.split() -%}
    {%- for word in words -%}
        {%- set before, last = words[loop.index0 - 2] | lower if loop.index0 > 1 else '', loop.previtem | default('') | lower -%}
        {%- set lists_names = word == '(' and (last[-1:].isalnum() or last[-1:] in ['_', '`', '"']) and last not in no_names
            and (before in ['as', ')'] or before[-1:] == '`') -%}
        {#- A star for columns (others multiply what is before them), IDENTIFIER, TABLE, a pipe, or a FROM without a SELECT. -#}
        {%- set is_star = word == '*' and (last[-1:] in [',', '.', '('] or last in ['select', 'distinct', 'all']) -%}
        {%- if lists_names or is_star or word | lower in ['identifier', 'table'] or word == '>' and last == '|' -%} {{ return(names) }} {%- endif -%}
        {#- Double quotes may hold a name. -#}
        {%- set parts = [word[1:-1] | replace('``', '`')] if word[0] in ['`', '"'] else word.split('.') -%}
        {%- for name in parts -%} {%- do named.update({name | lower: true}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set lower = words | map('lower') | list -%}
    {%- if lower.count('from') > lower.count('select') -%} {{ return(names) }} {%- endif -%}
    {%- for name in names if name | lower in named -%} {%- do found.append(name) -%} {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
