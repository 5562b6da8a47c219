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


{#-
    The model's query with its upstream replaced by a name that `get_query_sql` defines.

    The name is the upstream's identifier, so that `flights.carrier` goes on to mean what it meant, and so do
    import CTEs that are called like the table.

    Raises: the query does not read the upstream by its name, reads it at a version, or with options: Spark reads none of a name that
    a query defines.
-#}
{% macro substitute_upstream(query, upstream) %}
    {%- set pieces = [] -%}
    {%- set found = namespace(upstream=false, last=none) -%}
    {%- for token in dbt_backfill.tokens(query | trim | trim(';'), upstream) -%}
        {%- if token.kind in ['upstream', 'qualifier'] -%}
            {%- do pieces.append(dbt_backfill.identifier(upstream.identifier)) -%}
        {%- else -%}
            {%- if found.last == 'upstream'
                    and modules.re.match('(?i)\\s*(for\\s+)?(system_)?(version|timestamp|time)\\s+as\\s+of', token.text) -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream at a fixed version, which never changes',
                    'Remove the AS OF clause; each barrier reads the version that it needs'
                ) -%}
            {%- elif found.last == 'upstream' and modules.re.match('(?i)\\s*with\\s*([(]|$)', token.text) -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream with options, which barriers read it without',
                    'Remove the WITH clause behind its name'
                ) -%}
            {%- endif -%}
            {%- do pieces.append(token.text) -%}
        {%- endif -%}
        {%- if token.kind != 'comment' and token.text | trim -%}
            {%- set found.last = token.kind -%}
            {%- set found.upstream = found.upstream or token.kind == 'upstream' -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not found.upstream -%}
        {%- do dbt_backfill.refuse(
            'its query does not read ' ~ upstream.render() ~ ' by that name',
            "Read the upstream by ref() or source() in the query's FROM clause"
        ) -%}
    {%- endif -%}
    {{ return(pieces | join) }}
{% endmacro %}


{#-
    Such a query, as `substitute_upstream` returned it, with the upstream's whole name again where it is read: the first table of
    that name, as a common table expression that is called so can only be read behind it.
-#}
{% macro get_query_by_name(query, upstream) %}
    {%- set tokens, pieces, found = dbt_backfill.tokens(query), [], namespace(upstream=false) -%}
    {%- for token in tokens if token.kind == 'quoted' and token.text == dbt_backfill.identifier(upstream.identifier) -%}
        {%- do token.update({'kind': 'upstream'}) -%}
    {%- endfor -%}
    {%- for token in dbt_backfill.tell_references(tokens) -%}
        {%- set is_upstream = token.kind == 'upstream' and not found.upstream -%}
        {%- do pieces.append(upstream.render() if is_upstream else token.text) -%}
        {%- set found.upstream = found.upstream or is_upstream -%}
    {%- endfor -%}
    {{ return(pieces | join) }}
{% endmacro %}


{#-
    Refuse a query that has the upstream's name in front of a column's where that may also mean a column, or an alias,
    that is called like the upstream's schema: which of them Spark takes depends on what else is in scope.
-#}
{% macro check_qualifiers(query, upstream, upstream_columns) %}
    {%- set tokens = dbt_backfill.tokens(query, upstream) -%}
    {%- set qualifier = tokens | selectattr('kind', 'equalto', 'qualifier') | map(attribute='text') | list | first | default(none) -%}
    {%- if not qualifier -%} {{ return(none) }} {%- endif -%}
    {%- set code = tokens | selectattr('kind', 'in', ['code', 'quoted']) | map(attribute='text') | join(' ') -%}
    {%- if upstream.schema | lower in upstream_columns | map(attribute='name') | map('lower')
            or modules.re.search('(?i)(?<!\\w)' ~ modules.re.escape(upstream.schema) ~ '(?!\\w)', code) -%}
        {%- do dbt_backfill.refuse(
            "its query has '" ~ qualifier ~ ".', and '" ~ upstream.schema ~ "' is both the schema of the upstream and the name of a column or alias",
            'Give the upstream an alias in FROM, such as u, and write u. in front of its columns'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    The query over another relation in the upstream's place.

    Arguments:
      query (string): as `substitute_upstream` returned it.
      upstream (relation): whose identifier the query reads.
      scan (string): a select with the upstream's columns.
-#}
{% macro get_query_sql(query, upstream, scan) -%}
with {{ dbt_backfill.identifier(upstream.identifier) }} as (
    {{ scan }}
)
select * from (
{{ query }}
)
{%- endmacro %}


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


{#-
    What a query means, as an md5 of its text without comments and with one space for any white space.

    A change of it means that rows merged before and after come from different queries; a change of layout
    or of a comment does not.
-#}
{% macro query_hash(query) %}
    {%- set pieces = [] -%}
    {%- for token in dbt_backfill.tokens(query) -%}
        {%- if token.kind in ['comment', 'code'] -%}
            {%- set text = ' ' if token.kind == 'comment' else modules.re.sub('\\s+', ' ', token.text) -%}
            {%- set text = text.lstrip() if pieces and pieces[-1].endswith(' ') else text -%}
            {%- if text -%} {%- do pieces.append(text) -%} {%- endif -%}
        {%- else -%}
            {%- do pieces.append(token.text) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(local_md5(pieces | join | trim)) }}
{% endmacro %}
