{#-
    Explain the model's query, refuse what cannot be followed, among it a change table without the upstream's columns,
    and note the query's key, columns and the settings that it uses.

    Arguments:
      state (dict): the committed one, which tells the columns of the key's position; none where there is none yet.
-#}
{% macro explain_backfill(backfill, state=none) %}
    {%- if backfill.explained -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = backfill.upstream.relation -%}
    {%- set explained = dbt_backfill.explain_query(backfill.sql, backfill.options.unique_key, upstream) -%}
    {%- do dbt_backfill.check_query(explained, backfill.sql, upstream) -%}
    {%- do dbt_backfill.check_qualifiers(backfill.sql, upstream, explained.upstream_columns) -%}
    {%- set star = dbt_backfill.columns_of_inner_star(explained, backfill.sql) if dbt_backfill.takes_added_columns(backfill.upstream) else none -%}
    {%- do backfill.update({
        'explained': true,
        'key': dbt_backfill.keep_positions(
            dbt_backfill.key_lineage(explained, explained.unique_key, backfill.options.upstream_key), (state or {}).get('committed')
        ),
        'query_columns': explained.columns ~ (' of ' ~ star if star else ''),
        'used_settings': dbt_backfill.find_used_settings(explained, backfill.sql),
        'drops_rows': dbt_backfill.drops_rows(explained),
    }) -%}
    {%- if backfill.feed -%} {%- do dbt_backfill.get_feed_columns(backfill.feed) -%} {%- endif -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(backfill.sql) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse a query that the version to be read does not answer. Iceberg reads a snapshot with the columns that the
    table had when it was written, and to alter the table makes no snapshot.
-#}
{% macro check_query_at(backfill, observed, version) %}
    {%- if not observed.get('altered') -%} {{ return(none) }} {%- endif -%}
    {%- set scan = 'select * from ' ~ dbt_backfill.get_upstream_read(backfill.upstream, version) -%}
    {%- set columns = dbt_backfill.explain_columns(
        dbt_backfill.get_query_sql(backfill.query, backfill.upstream.relation, scan), backfill.options.unique_key
    ) -%}
    {%- if columns is none or not columns.endswith(backfill.query_columns) -%}
        {%- do dbt_backfill.refuse(
            'the columns of ' ~ backfill.upstream.relation.render() ~ ' were changed, and its snapshot ' ~ version
                ~ ' does not have those that the query reads',
            'Write to it, so that it has a snapshot with its columns of today; an INSERT of no rows will do'
        ) -%}
    {%- endif -%}
{% endmacro %}
