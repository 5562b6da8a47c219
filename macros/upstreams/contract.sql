{#-
    Return the macro that answers a question about an upstream. The questions that barriers ask are the contract of an upstream. Each kind of upstream
    answers a question with the macro `<kind>_<question>` in `upstreams/<kind>/`. The macro `<kind>_upstream_traits` returns the answers that are the
    same for all tables of a kind. Outside of `upstreams/<kind>/`, only get_upstream, get_change_table and get_table_format know the kinds.
    docs/new_upstream.md lists the promises that a new kind must keep.

    A version is an opaque text. Only the upstream's kind can order and render versions. Other code stores a version, passes it back to the kind, and
    compares it for equality. Each kind may add entries of its own to `observed`.

    Arguments of several questions:
      upstream      {'relation', 'kind'}: an upstream, or a change table of the user's own; the kind may add other entries
      observed      the answer of read_upstream in this run
      source        the record of an upstream in a plan: {'relation', 'kind', 'id', 'version', 'committed_at'}; relation is text
      committed     the source of the plan from whose version on changes are read. For upstream_gap and check_followed, the dict also has 'key': the
                    names of the upstream's columns that form the key of the plan

    Every kind answers:
      read_upstream(upstream, since, log=none)    the current state of the table, a dict: {
          'version': the current version; it contains every commit before this read, and no later commit,
          'committed_at': the time of the version's commit, as text; none if the time is not known,
          'id': text that changes if the table is replaced by another table, or if the kind follows the table in another way,
          'altered': true if the table may already have columns that this version lacks; absent for a kind without such versions,
          and other entries that the kind's own answers need
        }. `since`: the source of the committed plan; none if nothing was read yet. `log`: the result of log_sql; none if log_sql was not called
      check_feed(observed)                        refuse a table whose changes cannot be followed
      upstream_read(upstream, version)            the table at a version, as text for FROM; each read returns the same rows
      upstream_changes(observed, from_version, to_version, keys, view)    the changes in (from_version, to_version], a dict: {
          'events': a select of the upstream's columns, and of
            __bf_version    orders the events of one key
            __bf_is_upsert  true for an insert or after-image, false for a delete or before-image
          'declarations': statements at the beginning of the script that reads the events; absent if there are none,
          'setup': statements that this script runs before it reads the events; absent if there are none,
          'literals': variables in `events`; the script replaces each variable by its text; absent if there are none,
          'views': temporary views that the setup makes; absent if there are none,
          'one_commit': true if all events of a key come from one commit, or from the difference of two versions; absent if not,
          'tells_before': true if the events contain all previous values of a row that was updated or deleted; absent if not,
          'alters_values': true if the events may have other values than the table, see altered_predicate; absent if not,
          'may_repeat': true if the events may insert a key twice; absent if they cannot
        }. `keys`: none for a table to which rows are only added. observed.needs_deleted_rows: false if a delete event needs only the key.
        `view`: the name of a temporary view that the kind may make. Each plan has a view name of its own, because models share a session
      upstream_gap(observed, committed)           why the feed does not list every change from the version of `committed` to the current version, see
        new_gap; none if the feed is complete. Some gaps are found only when the feed is read, see the trait lost_conditions
      continues_upstream(observed, committed)     true if the table is still the table of `committed`, and its history continues from there.
        The question upstream_gap asks for more: the table's own feed must also list the changes
      upstream_readable(observed, source)         true if the version of `source` can still be read
      committed_at(observed, version)             the time of a version's commit, as text; none if the time is not known any more
      row_count_sql(upstream, version)            a scalar subquery of the approximate number of rows; null if the number is not known

    Asked only of a kind that has a trait, which is named first:
      log_sql(upstream)                           log_in_state: a scalar subquery for the argument `log` of read_upstream. It saves a statement
      forgets_keys(observed, committed, source)   may_forget_keys: true if the feed from the version of `committed` to the current version may leave
        out a key that the version of `source` has. This version lies between the two versions. For example, a feed that compares only two versions
        does not list a row that was inserted and deleted between them
      reads_by_zone(observed, columns)            may_read_by_zone: true if the value of one of these timestamp columns depends on the time zone of
        the session
      check_key_order(upstream, columns)          may_order_texts_otherwise: refuse a text key that the kind orders differently than Spark
      hold(source, name)                          holds_versions: keep a version from expiring, under a name. The version that was previously held
        under this name is released. Returns true if the new version is held
      release(source, name)                       holds_versions: release the held version
      held_version(observed, name)                holds_versions: the held version; none if no version is held
      copy_properties(source)                     copy_format: the table properties that a copy needs to have the same columns as the upstream

    Asked only of a kind that does not stage ranges:
      upstream_lag(observed, source)              {'versions': the number of versions after the version of the source, 'since': the commit time of
        the first of these versions, none if there is no such version}; none if the log does not reach back to the source
      byte_count(upstream)                        the current size of the upstream's files in bytes

    A kind that stages ranges is a live database: a barrier reads the database once, while the barrier is planned. Only such a kind answers the
    following questions:
      needed_feed(upstream, options, sql, query)  the change table that has the upstream's changes; refuse a model without a change table.
        `options`: the result of read_change_feed
      noted_feed(source)                          the change table that a plan has recorded
      bounds_sql(upstream, keys, window, counts)  a select of JSON, {'bounds': for each number of `counts` the key after that number of rows of the
        window, as texts of literals, distinct and in the order of the backfill; absent if there are fewer rows}. `window` is a predicate
      stage_range(backfill, state, observed, plan, again)    copy the rows of a plan, and wait until the feed has the events of all
        commits that the rows may show: {'plan': with the copy as a source of the role `stage`, 'unclear', 'waits', 'seen'}
      stage_kept(observed, source, stage)         true if the rows that were staged for a plan still exist, and the feed has the events since then
      staged_source(upstream, version, stage, keys)    the range source of the staged rows at a version, see get_source_read
      check_query(explained)                      refuse a query that may return different rows from the table and from the table's changes
      check_followed(observed, committed)         in a run that reads no range, refuse a table that cannot be followed any more
-#}
{% macro ask(upstream, question) %}
    {{ return(dbt_backfill[upstream.kind ~ '_' ~ question]) }}
{% endmacro %}


{#-
    Return the traits of a kind: {
      'stages_ranges': true if the kind cannot read a version twice,
      'enforces_keys': true if the system itself keeps keys unique and free of nulls. If so, no barrier checks the keys,
      'holds_versions', 'log_in_state', 'may_forget_keys', 'may_read_by_zone', 'may_order_texts_otherwise': true if the kind answers the questions of
        this trait, see the contract above,
      'may_be_cached': true if a catalog may show a version that is not the current one,
      'takes_added_columns': true if a new column of the table is no gap. For such a kind, a query is refused if a new column could change the values
        of the query: if an expression has a star, or if the query reads an alias that a new column could hide,
      'copy_format': the file_format of a table that keeps the upstream's rows unchanged; none if no format does,
      'lost_conditions': for a handler in SQL, the error conditions that Spark raises if changes do not exist any more; none if these errors have no
        condition,
      'metadata_columns': names that no column of the table may have, in upper or lower case; absent if there are none
    }
-#}
{% macro upstream_traits(upstream) %}
    {{ return(dbt_backfill[upstream.kind ~ '_upstream_traits']()) }}
{% endmacro %}


{#- Refuse a table if one of its columns (a list of {'name'}) has the name of a metadata column, in upper or lower case. -#}
{% macro check_hidden_columns(relation, columns, metadata_columns) %}
    {%- for column in columns if column.name | lower in metadata_columns -%}
        {%- do dbt_backfill.refuse(
            relation.render() ~ ' has the column ' ~ column.name ~ ', which hides a metadata column by which its changes are read',
            'Rename the column: ALTER TABLE ' ~ relation.render() ~ ' RENAME COLUMN ' ~ dbt_backfill.identifier(column.name) ~ ' TO …',
            id='metadata-column-hidden') -%}
    {%- endfor -%}
{% endmacro %}


{#- Return a gap of a feed: {'reason': why changes are missing, as the end of a sentence, 'refusal': {'fact', 'change', 'id'} for refuse, if later changes
    cannot be followed either; usually none}. -#}
{% macro new_gap(reason, refusal=none) %}
    {{ return({'reason': reason, 'refusal': refusal}) }}
{% endmacro %}


{#- Return the source with the role `role` in a plan; none if the plan has no such source. -#}
{% macro get_source(plan, role='upstream') %}
    {%- for source in (plan or {}).get('sources') or [] if source.role == role -%} {{ return(source) }} {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- True if a table of the upstream's name and kind exists. It may have replaced another table: the id shows that, see upstream_gap. -#}
{% macro exists_as_its_kind(upstream) %}
    {%- set existing = dbt_backfill.load_table(upstream.relation, reads=true) -%}
    {{ return(existing is not none and not existing.is_view
        and dbt_backfill.get_table_format(existing, upstream.relation) == upstream.kind) }}
{% endmacro %}


{#-
    Return what the model's query reads: {
      'upstream': the only table: {'relation', 'kind'}, and 'feed' for a kind that stages ranges, see the contract above,
      'sql': the query with the text of each view in it, through which it reads the table, 'views': see read_through_views
    }

    Refuse a query that does not read exactly one node of the graph. dbt has put the text of an ephemeral model into the query, so the nodes that the
    ephemeral model reads are read by the query. Refuse a table that cannot be followed.
-#}
{% macro get_upstream(sql, change_feed=none) %}
    {%- set ids, nodes, read = [], [], [] -%}
    {%- for id in model.depends_on.nodes if not id.startswith(('macro.', 'operation.', 'function.')) -%}
        {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
        {%- set is_text = node.get('config', {}).get('materialized') == 'ephemeral' -%}
        {%- do ids.extend(dbt_backfill.find_read_nodes(node, ['ephemeral']) if is_text else [id]) -%}
    {%- endfor -%}
    {%- for id in ids | unique if change_feed is none or id != change_feed.node.unique_id -%}
        {%- do nodes.append(graph.nodes.get(id) or graph.sources.get(id)) -%}
    {%- endfor -%}
    {#- dbt's list of nodes also contains nodes to which only hooks refer. -#}
    {%- for node in nodes if nodes | length > 1 and dbt_backfill._reads(sql, dbt_backfill.get_read_relation(node, sql)) -%}
        {%- do read.append(node) -%}
    {%- endfor -%}
    {%- set nodes = read or nodes -%}
    {%- if nodes | length != 1 -%}
        {%- do dbt_backfill.refuse('its query reads ' ~ (nodes | map(attribute='name') | join(', ') if nodes else 'no model or source'),
            'Read one upstream, by ref() or source()', id='query-upstream-count') -%}
    {%- endif -%}
    {%- set name = dbt_backfill.get_read_relation(nodes[0], sql) -%}
    {%- set relation = dbt_backfill.load_table(name, reads=true) -%}
    {%- set through = dbt_backfill.read_through_views(name, sql) if relation and relation.is_view else {'sql': sql, 'views': []} -%}
    {%- set name, relation = through.get('relation', name), through.get('existing', relation) -%}
    {%- if relation is none -%}
        {%- do dbt_backfill.refuse('its upstream ' ~ name.render() ~ ' does not exist', 'Create the upstream first', id='upstream-missing') -%}
    {%- endif -%}
    {%- set upstream = {'relation': name, 'kind': dbt_backfill.get_table_format(relation, name)} -%}
    {%- if upstream.kind == 'postgres' -%}
        {%- set query = dbt_backfill.substitute_upstream(through.sql, name) -%}
        {%- set upstream = dict(upstream, feed=dbt_backfill.ask(upstream, 'needed_feed')(upstream, change_feed, sql, query)) -%}
    {%- elif upstream.kind not in ['delta', 'iceberg'] -%}
        {%- do dbt_backfill.refuse('its upstream ' ~ name.render() ~ ' is neither a Delta nor an Iceberg table',
            'Only tables that keep their versions can be followed: convert the upstream to a Delta or Iceberg table', id='upstream-format') -%}
    {%- elif change_feed and (change_feed.format != 'declared' or change_feed.position) -%}
        {%- do dbt_backfill.refuse(
            'its change_feed is for a PostgreSQL table, because it sets '
                ~ ('position' if change_feed.position else 'format ' ~ change_feed.format) ~ ', but its upstream is not a PostgreSQL table',
            "Set 'operation' and 'sequence' to columns of the change table, and remove the keys that are for PostgreSQL",
            id='change-feed-for-postgresql') -%}
    {%- endif -%}
    {{ return({'upstream': upstream, 'sql': through.sql, 'views': through.views}) }}
{% endmacro %}


{#- Return the provider of a table: `delta`, `iceberg` or another one; none if there is no such table. If dbt's cache does not have the provider, ask
    Spark: the cache lacks the provider of a relation that was built in this invocation. -#}
{% macro get_table_format(relation, name=none) %}
    {%- set information, name = relation.information or '', name or relation -%}
    {%- if relation.is_delta -%} {{ return('delta') }} {%- endif -%}
    {#- Spark lists a table of Iceberg's Hive catalog as a Hive table that has the property table_type. -#}
    {%- if relation.is_iceberg or 'table_type=ICEBERG' in information or 'Provider: iceberg' in information -%} {{ return('iceberg') }} {%- endif -%}
    {%- if 'Provider: ' in information -%} {{ return((information.split('Provider: ')[1].split() or [''])[0]) }} {%- endif -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe extended ' ~ name.render()) if row[0] == 'Provider' -%}
        {{ return(row[1]) }}
    {%- endfor -%}
    {%- set catalog = dbt_backfill.get_catalog(name) -%}
    {%- if catalog -%}
        {#- Look at the catalog's class, because Spark hides the URL, which would show the kind of the database. A plain SET would read an appended
            comment as a part of the name, so send the SET with EXECUTE IMMEDIATE. -#}
        {%- set sql = 'execute immediate ' ~ dbt_backfill.string_literal('set spark.sql.catalog.' ~ catalog) -%}
        {%- for row in dbt_backfill.run_table('look at the catalog ' ~ catalog, sql) if (row[1] | string).endswith('.JDBCTableCatalog') -%}
            {{ return('postgres') }}
        {%- endfor -%}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the relation of a node that the query names, maybe in a comment. With `--defer`, it may be of another environment. -#}
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
