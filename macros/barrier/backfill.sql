{#-
    What a run knows before it asks anything of Spark, as a dict that all steps are given: {
      'mv', 'progress', 'barriers': relations,
      'options': the configuration,
      'upstream': {'relation', 'kind'},
      'feed': the change table of the user's own, see get_change_table; none where the upstream's own feed is followed,
      'sql': the model's query, 'query': with the upstream substituted, 'query_hash',
      'key', 'query_columns', 'used_settings': of the query, known once it was explained or read from the last plan,
      'drops_rows': whether the query may return none for a row, as far as this run knows,
      'explained': whether this run has explained it,
      'committed': the plan of the committed epoch,
      'stages': the temporary views of staged changes that the barrier has cached, until its commit,
      'guarded', 'failed': whether a statement that fails gives the plan up, and the one that did, see run_merge,
      'written': the last epoch that the history is known to have, none if there is no history,
      'begun_anew': why the MV is to be reset although nobody asked for it, none as a rule
    }
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
        'committed': none,
        'stages': [],
        'guarded': false,
        'failed': none,
        'written': none,
        'begun_anew': none,
    }) -%}
    {{ return(backfill) }}
{% endmacro %}


{#-
    Explain the model's query, refuse what cannot be followed, among it a change table without the upstream's columns,
    and note the query's key, columns and the settings that it uses.
-#}
{% macro explain_backfill(backfill) %}
    {%- if backfill.explained -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = backfill.upstream.relation -%}
    {%- set explained = dbt_backfill.explain_query(backfill.sql, backfill.options.unique_key, upstream) -%}
    {%- do dbt_backfill.check_query(explained, backfill.sql, upstream) -%}
    {%- do dbt_backfill.check_qualifiers(backfill.sql, upstream, explained.upstream_columns) -%}
    {%- set star = dbt_backfill.columns_of_inner_star(explained, backfill.sql) if backfill.upstream.kind == 'delta' else none -%}
    {%- do backfill.update({
        'explained': true,
        'key': dbt_backfill.keep_positions(
            dbt_backfill.key_lineage(explained, explained.unique_key, backfill.options.upstream_key), backfill.committed
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
