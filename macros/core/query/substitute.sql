{#-
    Return the query as a list of tokens `{'kind', 'text'}`. The joined texts are the query again. The kinds are `string`, `comment`, `quoted` (an
    identifier in backticks) and `code`. If the argument `upstream` (a relation) is given, the name of this relation has the kind `upstream`.

    A macro that searches for the name of a table must skip strings and comments, which may also contain such a name.
-#}
{% macro tokens(query, upstream=none) %}
    {%- set at, found, names = namespace(comment='(?!)', upstream='(?!)'), [], [] -%}
    {#- Spark allows bracketed comments inside bracketed comments; this pattern finds up to eight levels. If a comment that begins with `--` ends with
        a backslash, it continues on the next line. -#}
    {%- for _ in range(8) -%} {%- set at.comment = '/\\*(?:(?!/\\*|\\*/).|' ~ at.comment ~ ')*\\*/' -%} {%- endfor -%}
    {%- set string = "\\br(?:'[^']*'|\"[^\"]*\")|(?:'(?:[^'\\\\]|\\\\.)*')+|(?:\"(?:[^\"\\\\]|\\\\.)*\")+" -%}
    {%- set comment = '--(?:\\\\\\n|[^\\r\\n])*|' ~ at.comment -%}
    {%- if upstream is not none -%}
        {%- for name in [upstream.schema, upstream.identifier] -%}
            {%- set pattern = modules.re.escape(name) -%} {%- do names.append('(?:`' ~ pattern ~ '`|' ~ pattern ~ '(?!\\w))') -%}
        {%- endfor -%}
        {%- set catalog = '(?:(?:spark_catalog|`spark_catalog`)\\s*\\.\\s*)?' -%}
        {%- set at.upstream = '(?<![\\w`.])' ~ catalog ~ names | join('\\s*\\.\\s*') -%}
    {%- endif -%}
    {#- The parts of the query: code, and then a token of one of four kinds, which is a group of the pattern. -#}
    {%- set pattern = '(?is)(' ~ [string, comment, at.upstream, '`(?:[^`]|``)*`'] | join(')|(') ~ ')' -%}
    {%- for parts in modules.re.split(pattern, query) | batch(5) -%}
        {%- for text in parts -%}
            {%- if text -%} {%- do found.append({'kind': ['code', 'string', 'comment', 'upstream', 'quoted'][loop.index0], 'text': text}) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Return the words and signs of a query in order, without comments. A string literal is one word, and a name in backticks is one word. If `spaced`,
    a word begins with the white space before it, so the joined words are the query again. White space replaces each comment. -#}
{% macro get_words(query, spaced=false) %}
    {%- set words, space = [], '\\s*' if spaced else '' -%}
    {%- for token in dbt_backfill.tokens(query | trim | trim(';')) if token.kind != 'comment' -%}
        {#- A number or a name with points in it is one word: `1 .5` is not `1.5`, and `1e - 5` is not `1e-5`. -#}
        {%- set text = ' ' ~ token.text if spaced else token.text -%}
        {%- do words.extend(
            modules.re.findall(space ~ '(?:[\\w.]+(?:(?<=[eE])[+-]\\w+)?|[^\\w\\s])', text) if token.kind == 'code' else [text]
        ) -%}
    {%- endfor -%}
    {{ return(words) }}
{% endmacro %}


{#-
    Return the parts of a query (`words`: see get_words) in order, as a list of {'is_entry', 'words'}: the entries of its SELECT lists, without the
    commas between them, and the texts between the lists. A bracket within an entry, or that does not begin with a query, is only text: `hash(id,
    cast(1 as bigint))` is one entry.

    `levels` has an item for each open bracket: `query` before and after a SELECT list, `list` in this list, and `text`. A list ends at the clause
    after it. In `a is distinct from b` and in `1 as from, …` the word FROM begins no clause.
-#}
{% macro get_segments(words) %}
    {%- set levels, segments, keys = ['query'], [{'is_entry': false, 'words': []}], words | map('trim') | map('lower') | list -%}
    {%- for word in words -%}
        {%- set key, level, next = keys[loop.index0], levels[-1], keys[loop.index] | default('') -%}
        {%- set is_clause = loop.previtem | default('') | trim | lower != 'distinct' and next not in ['from', 'where', ',', ')', '|', ''] -%}
        {%- if level == 'list' and (key == ')' or key in ['from', 'where'] and is_clause or key == '|' and next == '>') -%}
            {%- do levels.pop() -%} {%- do levels.append('query') -%}
            {%- do segments.append({'is_entry': false, 'words': []}) -%}
        {%- endif -%}
        {%- if level == 'list' and key == ',' -%}
            {%- do segments.append({'is_entry': true, 'words': []}) -%}
        {%- else -%}
            {%- do segments[-1].words.append(word) -%}
        {%- endif -%}
        {%- if key == '(' -%}
            {%- do levels.append('query' if level == 'query' and next in ['select', 'with', 'from'] else 'text') -%}
        {%- elif key == ')' and levels | length > 1 -%}
            {%- do levels.pop() -%}
        {%- elif key == 'select' and level == 'query' -%}
            {%- do levels.pop() -%} {%- do levels.append('list') -%}
            {%- do segments.append({'is_entry': true, 'words': []}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(segments) }}
{% endmacro %}


{#-
    Return the query with another expression for each column that the option `volatile_columns` names (`volatile`, none without the option). The
    result is the same for two queries that differ only in these expressions. The new expression is not a constant, so the optimized plan of the
    result shows where else the query uses the column, see explain_lasting_query. The result has no comments.

    Only an entry of a SELECT list that ends with `as` and the name is changed. Other text that may define the column stays, so a change of this text
    is a changed query.
-#}
{% macro get_lasting_query(query, volatile) %}
    {%- if not volatile -%} {{ return(query) }} {%- endif -%}
    {%- set names, parts = volatile | map('lower') | list, [] -%}
    {%- for segment in dbt_backfill.get_segments(dbt_backfill.get_words(query, spaced=true)) -%}
        {%- set words = segment.words | map('trim') | list -%}
        {%- set is_volatile = segment.is_entry and words[-2:-1] | join | lower == 'as' and words[-1].strip('`') | lower in names -%}
        {%- do parts.append(',' if segment.is_entry and loop.previtem.is_entry else '') -%}
        {%- do parts.append(" nullif(uuid(), '__bf_volatile') as " ~ words[-1] if is_volatile else segment.words | join) -%}
    {%- endfor -%}
    {{ return(parts | join) }}
{% endmacro %}


{#-
    Return the model's query with its upstream replaced by a name that `get_query_sql` defines, and without comments at its end.

    The new name is the identifier of the upstream's table. So `flights.carrier` and an import CTE with the table's name keep their meaning.
    check_query makes sure that the query reads a table only by this name.

    Refuse a query that does not have the upstream's name. Refuse a query that reads the upstream at a version or with options. After the replacement,
    the name is a common table expression, for which Spark ignores versions and options. Refuse a query with a point after the upstream's full name:
    such a text might name fields of a struct.
-#}
{% macro substitute_upstream(query, upstream) %}
    {%- set tokens, pieces, at = dbt_backfill.tokens(query, upstream), [], namespace(end=0, found=false) -%}
    {%- for token in tokens -%}
        {%- if token.kind == 'upstream' -%}
            {%- set rest = tokens[loop.index:] | rejectattr('kind', 'equalto', 'comment') | map(attribute='text') | join(' ') -%}
            {%- set next = rest.lower().split()[:5] | join(' ') -%}
            {%- do dbt_backfill.refuse_first([
                {'id': 'upstream-name-before-point', 'when': next.startswith('.'),
                 'fact': "its query contains '" ~ token.text ~ ".', which is the full name of the upstream followed by a point",
                 'change': 'Give the upstream an alias in FROM, such as u, and write u. in front of its columns'},
                {'when': ' as of ' in (' ' ~ next).split('(')[0], 'fact': 'its query reads the upstream at a fixed version, which never changes',
                 'id': 'query-fixed-version', 'change': 'Remove the AS OF clause; each barrier reads the version that it needs'},
                {'when': next == 'with' or next.startswith(('with ', 'with(')),
                 'id': 'query-read-options', 'fact': 'its query reads the upstream with options, but barriers read it without them',
                 'change': 'Remove the WITH clause behind its name'},
            ]) -%}
            {%- set at.found = true -%}
        {%- endif -%}
        {%- do pieces.append(dbt_backfill.identifier(upstream.identifier) if token.kind == 'upstream' else token.text) -%}
        {%- if token.kind != 'comment' and token.text.strip('; \t\r\n') -%} {%- set at.end = loop.index -%} {%- endif -%}
    {%- endfor -%}
    {%- if not at.found -%}
        {%- do dbt_backfill.refuse('its query does not contain the name ' ~ upstream.render() ~ ' of its upstream',
            "Read the upstream by ref() or source() in the query's FROM clause", id='upstream-name-missing') -%}
    {%- endif -%}
    {{ return((pieces[:at.end] | join).strip('; \t\r\n')) }}
{% endmacro %}


{#-
    Return a query (a result of `substitute_upstream`) that reads `scan` instead of the upstream. `scan` is a select with the upstream's columns.

    Without `scan`, the query reads all rows of the upstream's current version with a LIMIT; this form is used for EXPLAIN. Spark pushes no filter
    through the LIMIT. Without the LIMIT, the plan would not show the filters that the source evaluates. With Iceberg these are filters on whole
    partitions; with PostgreSQL these are nearly all filters.
-#}
{% macro get_query_sql(query, upstream, scan=none) -%}
with {{ dbt_backfill.identifier(upstream.identifier) }} as (
    {{ scan or 'select * from ' ~ upstream.render() ~ ' limit 2147483647' }}
)
select * from (
{{ query }}
)
{%- endmacro %}


{#- Return those of the upstream's columns (`names`) that a query names, in upper or lower case. The argument `query` is a result of
    `substitute_upstream`. Return all columns if the query may read columns that it does not name. -#}
{% macro get_named_columns(query, names) %}
    {%- set words, named, found = dbt_backfill.get_words(query), {}, [] -%}
    {#- After one of these words, a bracket does not begin a list of column aliases as in `from orders as t(k, v)`. -#}
    {%- set no_names = 'and as between char dec decimal else from in like not numeric on or then varchar when where'.split() -%}
    {%- for word in words -%}
        {%- set before, last = words[loop.index0 - 2] | lower if loop.index0 > 1 else '', loop.previtem | default('') | lower -%}
        {%- set lists_names = word == '(' and (last[-1:].isalnum() or last[-1:] in ['_', '`', '"']) and last not in no_names
            and (before in ['as', ')'] or before[-1:] == '`') -%}
        {#- The following parts of a query read columns that the query does not name: a star for columns (not a star that multiplies), IDENTIFIER,
            TABLE, a pipe, and a FROM without a SELECT. -#}
        {%- set is_star = word == '*' and (last[-1:] in [',', '.', '('] or last in ['select', 'distinct', 'all']) -%}
        {%- if lists_names or is_star or word | lower in ['identifier', 'table'] or word == '>' and last == '|' -%} {{ return(names) }} {%- endif -%}
        {#- Double quotes may enclose a name. -#}
        {%- set parts = [word[1:-1] | replace('``', '`')] if word[0] in ['`', '"'] else word.split('.') -%}
        {%- for name in parts -%} {%- do named.update({name | lower: true}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set lower = words | map('lower') | list -%}
    {%- if lower.count('from') > lower.count('select') -%} {{ return(names) }} {%- endif -%}
    {%- for name in names if name | lower in named -%} {%- do found.append(name) -%} {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
