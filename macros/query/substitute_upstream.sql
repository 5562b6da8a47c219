{#-
    The model's query with its upstream replaced by a name that `get_query_sql` defines.

    The name is the upstream's identifier, so that `flights.carrier` goes on to mean what it meant, and so do
    import CTEs that are called like the table.

    Raises: the upstream's name does not stand in the text.
-#}
{% macro substitute_upstream(query, upstream) %}
    {%- set pieces = [] -%}
    {%- set found = namespace(upstream=false) -%}
    {%- for token in dbt_backfill.tokens(query | trim | trim(';'), upstream) -%}
        {%- if token.kind == 'upstream' -%}
            {%- set found.upstream = true -%}
            {%- do pieces.append(dbt_backfill.identifier(upstream.identifier)) -%}
        {%- else -%}
            {%- if pieces and pieces[-1] == dbt_backfill.identifier(upstream.identifier)
                    and modules.re.match('(?i)\\s*(for\\s+)?(system_)?(version|timestamp|time)\\s+as\\s+of', token.text) -%}
                {%- do dbt_backfill.refuse(
                    'its query reads the upstream at a fixed version, which never changes',
                    'Remove the AS OF clause; each barrier reads the version that it needs'
                ) -%}
            {%- endif -%}
            {%- do pieces.append(token.text) -%}
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
