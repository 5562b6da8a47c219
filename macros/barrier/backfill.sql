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
    {%- set feed = dbt_backfill.get_change_table(options.change_feed, upstream.relation) if options.change_feed else none -%}
    {%- set query = dbt_backfill.substitute_upstream(sql, upstream.relation) -%}
    {{ return(dict(
        dbt_backfill.get_relations(mv),
        options=options,
        upstream=upstream,
        feed=feed,
        sql=sql,
        query=query,
        query_hash=dbt_backfill.query_hash(query),
    )) }}
{% endmacro %}
