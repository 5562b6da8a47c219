{#-
    The option `change_feed`: a change table of the user's own, in place of the upstream's own feed. Returns none, or {
      'node': the node of the graph that `relation` names,
      'operation': its column of operations,
      'sequence': its columns that order the events of a key, ascending,
      'deletes': the operations that delete, in lower case,
      'before_images': those that give a row as it was, in lower case
    }

    `relation` is text, "ref('orders_changes')" or "source('raw', 'orders_changes')", as dbt's own snapshots have it: a
    ref() in a config block is evaluated before dbt knows the model that it names. So that dbt builds that model
    first, the query has to say so as well, in a comment `-- depends_on: {{ '{{' }} ref('orders_changes') }}`.
-#}
{% macro read_change_feed() %}
    {%- set feed = dbt_backfill._read_option('change_feed') -%}
    {%- if feed is none -%} {{ return(none) }} {%- endif -%}
    {%- set expected = "{'relation': \"ref('orders_changes')\", 'operation': a column, 'sequence': a column or a list of them, "
        ~ "'deletes': the operations that delete}" -%}
    {%- if feed is not mapping or not feed.relation or feed.operation is not string or not feed.sequence
            or feed.keys() | reject('in', ['relation', 'operation', 'sequence', 'deletes']) | list -%}
        {%- do dbt_backfill._refuse_option('change_feed', feed, expected) -%}
    {%- endif -%}
    {%- set deletes = [] -%}
    {%- for value in dbt_backfill._as_list(feed.get('deletes', ['d', 'delete'])) -%}
        {%- do deletes.append(value | string | lower) -%}
    {%- endfor -%}
    {{ return({
        'node': dbt_backfill._find_feed_node(feed.relation),
        'operation': feed.operation,
        'sequence': dbt_backfill._as_list(feed.sequence),
        'deletes': deletes,
        'before_images': ['update_preimage', 'update_before', 'before', 'ub', '-u'],
    }) }}
{% endmacro %}


{% macro _as_list(value) %}
    {{ return([value] if value is string or value is not iterable else value | list) }}
{% endmacro %}


{% macro _find_feed_node(text) %}
    {%- set names = modules.re.findall("'([^']*)'", text | string | replace('"', "'")) -%}
    {%- set is_source = (text | string).strip().startswith('source') -%}
    {%- for id in model.depends_on.nodes -%}
        {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
        {%- if node and names and node.name == names[-1] and is_source == (node.resource_type == 'source') -%}
            {{ return(node) }}
        {%- endif -%}
    {%- endfor -%}
    {%- do dbt_backfill.refuse(
        "the relation of its change_feed, " ~ text ~ ', is no model or source that its query depends on',
        "Write it as text, such as \"ref('orders_changes')\", and add to the query the comment -- depends_on: "
            ~ '{{ ' ~ (text if names else "ref('orders_changes')") ~ ' }}'
    ) -%}
{% endmacro %}
