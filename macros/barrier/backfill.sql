{#-
    What a run knows before it asks anything of Spark, as a dict that all steps are given: {
      'mv', 'progress', 'barriers': relations,
      'options': the configuration,
      'upstream': {'relation', 'kind'},
      'feed': the change table of the user's own, see get_change_table; none where the upstream's own feed is followed,
      'sql': the model's query, 'query': with the upstream substituted, 'query_hash',
      'key', 'query_columns', 'used_settings': of the query, known once it was explained or read from the last plan,
      'drops_rows': whether the query may return none for a row, as far as this run knows,
      'explained': whether this run has explained it
    }
    Noted in it once a run has found it out: 'observed', see observe_upstream; 'key_order_checked'.

    Outside of a run, `name` is that of the model, for what refuses it.
-#}
{% macro get_backfill(mv, sql) %}
    {%- set backfill = dbt_backfill.get_relations(mv) -%}
    {%- set options = dbt_backfill.read_config() -%}
    {%- set upstream = dbt_backfill.get_upstream(sql, options.change_feed) -%}
    {%- set feed = dbt_backfill.get_change_table(options.change_feed, upstream.relation) if options.change_feed else none -%}
    {%- set query = dbt_backfill.substitute_upstream(sql, upstream.relation) -%}
    {%- do backfill.update({
        'options': options,
        'upstream': upstream,
        'feed': feed,
        'sql': sql,
        'query': query,
        'query_hash': dbt_backfill.query_hash(query),
        'key': none,
        'query_columns': none,
        'used_settings': [],
        'drops_rows': true,
        'explained': false,
    }) -%}
    {{ return(backfill) }}
{% endmacro %}
