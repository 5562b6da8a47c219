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
