{#-
    What a run knows before it asks anything of Spark but where tables are, as a dict that all steps are given: {
      'mv', 'progress', 'barriers': relations,
      'options': the configuration,
      'upstream': {'relation', 'kind'},
      'feed': the change table of the user's own, see get_change_table; none where the upstream's own feed is followed,
      'sql': the model's query, 'query': with the upstream substituted, 'query_hash'
    }

    What Spark says is none of it: see new_observed, observe_upstream and new_learned.

    Outside of a run, `name` is that of the model, for what refuses it.
-#}
{% macro get_backfill(mv, sql) %}
    {%- set options = dbt_backfill.read_config() -%}
    {%- set upstream = dbt_backfill.get_upstream(sql, options.change_feed) -%}
    {%- set feed = dbt_backfill.get_change_table(options.change_feed, upstream.relation, sql) if options.change_feed else none -%}
    {%- set query = dbt_backfill.substitute_upstream(sql, upstream.relation) -%}
    {%- set relations = dbt_backfill.get_relations(mv) -%}
    {%- do dbt_backfill.check_state_names(relations) -%}
    {{ return(dict(
        relations,
        options=options,
        upstream=upstream,
        feed=feed,
        sql=sql,
        query=query,
        query_hash=dbt_backfill.query_hash(query),
    )) }}
{% endmacro %}


{#-
    Refuse an MV beside which another node of the project makes a table with the name of its state or history: dbt would
    replace the one by the other, or take it for its own.
-#}
{% macro check_state_names(relations) %}
    {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed', 'snapshot']
            and modules.re.search('(?i)__(progress|barriers)$', node.get('alias') or node.name)
            and node.config.materialized != 'ephemeral' -%}
        {%- set made = dbt_backfill.get_node_relation(node).render() -%}
        {%- if made | lower in [relations.progress.render() | lower, relations.barriers.render() | lower] -%}
            {%- do dbt_backfill.refuse(
                made ~ ' is where its state stands, and the ' ~ node.resource_type ~ ' ' ~ dbt_backfill.get_model_name(node) ~ ' makes a table there',
                'Give one of the two another alias'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
