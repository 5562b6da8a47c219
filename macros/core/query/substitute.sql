{#-
    Return the query's text as a list of `{'kind', 'text'}`, which joined are the text again: `string`, `comment`, `quoted` (an identifier in
    backticks), `code`, and where `upstream`, a relation, is given, `upstream` (its name, where a table is read) and `qualifier` (its name
    in front of a column's).

    Look for a thing in tokens of the right kind only: the name of a table also occurs in strings and comments, inside the names of other
    tables, and may be that of a struct and its field.
-#}
{% macro tokens(query, upstream=none) %}
    {%- set at, found, names = namespace(end=0, comment='(?!)'), [], [] -%}
    {#- Spark nests bracketed comments; here they may be eight deep. A backslash at the end of a line continues a comment
        that begins with `--` on the next one. -#}
    {%- for _ in range(8) -%} {%- set at.comment = '/\\*(?:(?!/\\*|\\*/).|' ~ at.comment ~ ')*\\*/' -%} {%- endfor -%}
    {%- set kinds = [
        "(?P<string>\\br(?:'[^']*'|\"[^\"]*\")|'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\")",
        '(?P<comment>--(?:\\\\\\n|[^\\r\\n])*|' ~ at.comment ~ ')',
    ] -%}
    {%- if upstream is not none -%}
        {%- for name in [upstream.schema, upstream.identifier] -%}
            {%- do names.append('(?:`' ~ modules.re.escape(name) ~ '`|' ~ modules.re.escape(name) ~ '(?!\\w))') -%}
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
    {%- do found.append({'kind': 'code', 'text': query[at.end:]}) -%}
    {{ return(found if upstream is none else dbt_backfill.mark_references(found)) }}
{% endmacro %}


{#-
    Return the tokens, with `upstream` left only where a table is read: behind FROM, JOIN or a comma of a FROM clause. In front of a point
    it is a `qualifier`, and else it is `code`.
-#}
{% macro mark_references(tokens) %}
    {%- set ends_from = 'select where group having order sort cluster distribute window limit offset union intersect except minus |'.split(' ') -%}
    {#- A frame is what a bracket holds; the text itself is the first one. -#}
    {%- set frames = [{'first': true, 'is_query': true, 'in_from': false}] -%}
    {%- set at = namespace(table_is_next=false, last='') -%}
    {%- for token in tokens if token.kind != 'comment' -%}
        {%- for word in modules.re.findall('\\w+|[^\\w\\s]', token.text | lower) if token.kind == 'code' -%}
            {%- set frame = frames[-1] -%}
            {%- if word == '(' -%}
                {%- do frames.append({'first': true, 'is_query': false, 'in_from': at.table_is_next}) -%}
            {%- elif word == ')' -%}
                {%- do frames.pop() if frames | length > 1 -%}
                {%- do frames[-1].update({'first': false}) -%}
                {%- set at.table_is_next = false -%}
            {%- else -%}
                {%- if frame.first and word in ['select', 'with', 'from', 'table', 'values'] -%}
                    {%- do frame.update({'is_query': true, 'in_from': false}) -%}
                {%- endif -%}
                {#- FROM is also part of `extract(year from x)` and of `a is distinct from b`. -#}
                {%- set opens_from = word == 'from' and frame.is_query and at.last != 'distinct' -%}
                {%- set at.table_is_next = opens_from or word in ['join', ','] and frame.in_from or word == 'table' and frame.first -%}
                {%- do frame.update({'first': false, 'in_from': opens_from or frame.in_from and word not in ends_from}) -%}
            {%- endif -%}
            {%- set at.last = word -%}
        {%- endfor -%}
        {%- if token.kind != 'code' -%}
            {%- set goes_on = not loop.last and modules.re.match('\\s*[.]', loop.nextitem.text) -%}
            {%- if token.kind == 'upstream' and (goes_on or not at.table_is_next) -%}
                {%- do token.update({'kind': 'qualifier' if goes_on and not at.table_is_next else 'code'}) -%}
            {%- endif -%}
            {%- set at.table_is_next = false -%}
            {%- set at.last = '' -%}
            {%- do frames[-1].update({'first': false}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(tokens) }}
{% endmacro %}


{#-
    Return the model's query with its upstream replaced by a name that `get_query_sql` defines.

    The name is the upstream's identifier, so that `flights.carrier` goes on to mean what it meant, and so do import CTEs that are called
    like the table.

    Raises: the query does not read the upstream by its name, reads it at a version, or with options: Spark reads none of a name that
      a query defines.
-#}
{% macro substitute_upstream(query, upstream) %}
    {%- set tokens, pieces = dbt_backfill.tokens(query | trim | trim(';'), upstream), [] -%}
    {%- for token in tokens if token.kind != 'comment' and token.text | trim -%}
        {%- if not loop.first and loop.previtem.kind == 'upstream' -%}
            {%- if modules.re.match('(?i)\\s*(for\\s+)?(system_)?(version|timestamp|time)\\s+as\\s+of', token.text) -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream at a fixed version, which never changes',
                    'Remove the AS OF clause; each barrier reads the version that it needs'
                ) -%}
            {%- elif modules.re.match('(?i)\\s*with\\s*([(]|$)', token.text) -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream with options, which barriers read it without', 'Remove the WITH clause behind its name'
                ) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if 'upstream' not in tokens | map(attribute='kind') | list -%}
        {%- do dbt_backfill.refuse(
            'its query does not read ' ~ upstream.render() ~ ' by that name',
            "Read the upstream by ref() or source() in the query's FROM clause"
        ) -%}
    {%- endif -%}
    {%- for token in tokens -%}
        {%- do pieces.append(dbt_backfill.identifier(upstream.identifier) if token.kind in ['upstream', 'qualifier'] else token.text) -%}
    {%- endfor -%}
    {{ return(pieces | join) }}
{% endmacro %}


{#-
    Return such a query, as `substitute_upstream` returned it, with the upstream's whole name again where it is read: the first table of
    that name, as a common table expression that is called so can only be read behind it.
-#}
{% macro get_query_by_name(query, upstream) %}
    {%- set tokens, pieces, found = dbt_backfill.tokens(query), [], [] -%}
    {%- for token in tokens if token.kind == 'quoted' and token.text == dbt_backfill.identifier(upstream.identifier) -%}
        {%- do token.update({'kind': 'upstream'}) -%}
    {%- endfor -%}
    {%- for token in dbt_backfill.mark_references(tokens) -%}
        {%- do pieces.append(upstream.render() if token.kind == 'upstream' and not found else token.text) -%}
        {%- if token.kind == 'upstream' -%} {%- do found.append(token) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(pieces | join) }}
{% endmacro %}


{#-
    Refuse a query that has the upstream's name in front of a column's where that may also mean a column, or an alias, that is called like
    the upstream's schema: what else is in scope decides which of them Spark takes.
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
    Return a query, as `substitute_upstream` returned it, over another relation than the upstream: `scan`, a select with its columns.
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
    Return the query with the upstream's plain name where dbt, under `--empty` and `--sample`, has put a filtered subquery: nothing is read
    in such a run, but the query that it creates the tables for is the real one.

    Only dbt's own forms are taken out, each once and the inner one first; a filter of the user's own may be around them.
-#}
{% macro get_unsampled_sql(sql, empty, sampled) %}
    {%- set name = '((?:`[^`]+`|[^\\s()`])+)' -%}
    {%- if empty -%}
        {%- set limited = '\\(select \\* from ' ~ name ~ ' where false limit 0\\)(?: _dbt_limit_subq_\\w+)?' -%}
        {%- set sql = modules.re.sub(limited, '\\1', sql) -%}
    {%- endif -%}
    {%- if sampled -%}
        {%- set time = "'\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?[+-]\\d\\d:\\d\\d'" -%}
        {%- set filter = '(?:' ~ name ~ ' >= ' ~ time ~ '(?: and \\2 < ' ~ time ~ ')?|' ~ name ~ ' < ' ~ time ~ ')' -%}
        {%- set filtered = '\\(select \\* from ' ~ name ~ ' where ' ~ filter ~ '\\)(?: _dbt_et_filter_subq_\\w+)?' -%}
        {%- set sql = modules.re.sub(filtered, '\\1', sql) -%}
    {%- endif -%}
    {{ return(sql) }}
{% endmacro %}


{#-
    Return an md5 of a query's text without comments and with one space for any white space. Where it changes, rows merged before and after
    come from different queries.
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
