{#- The one table that a model reads: {'relation', 'kind'}, and 'feed' of a kind that needs one, see get_needed_feed. Refuses what cannot be followed. -#}
{% macro get_upstream(sql, change_feed=none) %}
    {%- set node = dbt_backfill._find_upstream_node(sql, change_feed) -%}
    {%- set name = dbt_backfill.get_read_relation(node, sql) -%}
    {%- set relation = dbt_backfill.load_table(name) -%}
    {%- if relation is none -%}
        {%- do dbt_backfill.refuse('its upstream ' ~ name.render() ~ ' does not exist', 'Create it first') -%}
    {%- elif relation.is_view -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is a view, which has no versions',
            'Read the table under the view, and put what the view computes into this query'
        ) -%}
    {%- endif -%}
    {%- set format = dbt_backfill.get_table_format(relation, name) -%}
    {%- if format not in dbt_backfill.upstream_kinds() -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is neither a Delta nor an Iceberg table',
            'Only tables that keep their versions can be followed: make it a Delta or Iceberg table'
        ) -%}
    {%- endif -%}
    {%- set upstream = {'relation': name, 'kind': format} -%}
    {%- set feed = dbt_backfill.ask(upstream, 'needed_feed')(upstream, change_feed, sql) -%}
    {{ return(dict(upstream, feed=feed) if feed else upstream) }}
{% endmacro %}


{#- The node of the graph that the query reads. -#}
{% macro _find_upstream_node(sql, change_feed) %}
    {%- set nodes = [] -%}
    {%- for id in model.depends_on.nodes if not id.startswith(('macro.', 'operation.', 'function.'))
            and (change_feed is none or id != change_feed.node.unique_id) -%}
        {%- do nodes.append((graph.nodes.get(id) or graph.sources.get(id))) -%}
    {%- endfor -%}
    {%- if nodes | length > 1 -%}
        {#- dbt counts what the hooks refer to, too. -#}
        {%- set read = [] -%}
        {%- for node in nodes if dbt_backfill._reads(sql, dbt_backfill.get_read_relation(node, sql)) -%}
            {%- do read.append(node) -%}
        {%- endfor -%}
        {%- set nodes = read or nodes -%}
    {%- endif -%}
    {%- if nodes | length != 1 -%}
        {%- do dbt_backfill.refuse(
            'its query reads ' ~ (nodes | map(attribute='name') | join(', ') if nodes else 'no model or source'),
            'Read one upstream, by ref() or source()'
        ) -%}
    {%- endif -%}
    {%- set node = nodes[0] -%}
    {%- if node.get('config', {}).get('materialized') == 'ephemeral' -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ node.name ~ ' is an ephemeral model, which has no versions',
            'Materialize ' ~ node.name ~ ' as a Delta or Iceberg table'
        ) -%}
    {%- endif -%}
    {{ return(node) }}
{% endmacro %}


{#-
    The relation by which the query reads a node, or names it in a comment, as that of a change feed. Under `--defer` that
    may be the table of another environment: which of the two ref() took stands in the query.
-#}
{% macro get_read_relation(node, sql) %}
    {%- set relation, deferred = dbt_backfill.get_node_relation(node), node.get('defer_relation') -%}
    {%- if deferred and not dbt_backfill._names(sql, relation) -%}
        {%- set elsewhere = dbt_backfill.get_node_relation(deferred) -%}
        {%- if dbt_backfill._names(sql, elsewhere) -%} {{ return(elsewhere) }} {%- endif -%}
    {%- endif -%}
    {{ return(relation) }}
{% endmacro %}


{% macro _names(sql, relation) %}
    {%- set comments = dbt_backfill.tokens(sql) | selectattr('kind', 'equalto', 'comment') | map(attribute='text') | join -%}
    {%- set name = '(?<![\\w`.])' ~ modules.re.escape(relation.render()) ~ '(?![\\w`])' -%}
    {{ return(dbt_backfill._reads(sql, relation) or modules.re.search(name, comments) is not none) }}
{% endmacro %}


{% macro _reads(sql, relation) %}
    {{ return(dbt_backfill.tokens(sql, relation) | selectattr('kind', 'equalto', 'upstream') | list != []) }}
{% endmacro %}
