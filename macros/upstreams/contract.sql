{#-
    The contract of an upstream: what barriers ask of it. Each kind answers in `upstreams/<kind>/` by the macro `<kind>_<question>`,
    which `ask` finds, and by the dict `<kind>_upstream_traits`. Outside of that folder a kind is known to get_upstream here, to
    get_change_table, and to get_table_format. docs/new_upstream.md says what a new one has to keep.

    A version is opaque: text that the kind gave, which only the kind orders and renders. Others store it, hand it back, and
    compare it for equality. Whatever else a kind puts into `observed` is its own.

    Arguments that several take:
      upstream      {'relation', 'kind'}: an upstream, or a change table of the user's own; what else is in it is the kind's
      observed      what read_upstream returned in this run
      source        what a plan records of an upstream: {'relation', 'kind', 'id', 'version', 'committed_at'}; relation is text
      committed     the source of the plan that changes are read from; of upstream_gap and check_followed with 'key': the names that the
                    upstream has for the key of the plan

    Every kind answers:
      read_upstream(upstream, since, log=none)    what there is now, a dict: {
          'version': the current one; what is committed until then is in it, and nothing that is committed later,
          'committed_at': when, as text; none if it is not known,
          'id': text that changes once the kind considers the table another one, or follows it in another way,
          'altered': whether the table may have columns by now that this version does not have; absent if that cannot be,
          and whatever else the kind's own answers need
        }. `since`: the source of the committed plan, none if nothing was read yet; `log`: what log_sql gave, none without it
      check_feed(observed)                        refuse a table whose changes cannot be followed
      upstream_read(upstream, version)            the table at a version, as text for FROM: the same rows whenever it is read
      upstream_changes(observed, from_version, to_version, keys, view)    the changes in (from_version, to_version], a dict: {
          'events': a select of the upstream's columns, and of
            __bf_version    orders the events of one key
            __bf_is_upsert  an insert or after-image, against a delete or before-image
          'declarations', 'setup': statements of the script that reads it, at its beginning and before that, each absent
            if there is none,
          'literals': variables of the script in `events` that stand for their text, absent if there are none,
          'views': temporary views that the setup makes, absent if there are none,
          'one_commit': whether each key has only what one commit did to it, or the difference of two versions; absent if not,
          'tells_before': whether the events contain a row as it was before its update or delete, with all of its columns; absent if not,
          'alters_values': whether the events may have other values than the table, see altered_predicate; absent if not,
          'may_repeat': whether the events may insert a key twice; absent if they cannot
        }. `keys` are none for rows that are only added; `view`: a name for the temporary view that the kind may make, of this
        plan alone, because models share a session
      upstream_gap(observed, committed)           why the feed does not reach from a version to the current one, as new_gap makes it;
        none if every change between is in the feed. The trait lost_conditions lists the gaps that show only while the feed is read
      continues_upstream(observed, committed)     whether it is the same table as then, and has gone on from there. This is less than
        upstream_gap asks, because a change table reports the changes
      upstream_readable(observed, source)         whether a version can still be read
      committed_at(observed, version)             when a version was committed, as text; none if it is not known any more
      row_count_sql(upstream, version)            a scalar subquery: about how many rows a version has, null if that is not known

    Asked only where a trait says so:
      log_sql(upstream)                           log_in_state: a scalar subquery for read_upstream's `log`, which spares a statement
      forgets_keys(observed, committed, source)   may_forget_keys: whether the feed from `committed` to now may leave out a key that
        the version of `source` between them has: a feed that compares two versions misses rows that came and went between them
      reads_by_zone(observed, columns)            may_read_by_zone: whether one of these columns, of timestamps, is another moment in
        another time zone of the session
      check_key_order(upstream, columns)          may_order_texts_otherwise: refuse texts as a key that the kind orders otherwise
      hold(source, name), release(source, name), held_version(observed, name)    holds_versions: keep a version from expiring, under a
        name (which releases the previous one), and return whether it is kept; release it; return the held version, none if there is none
      copy_properties(source)                     copy_format: the properties without which a copy could not have its columns
      upstream_lag(observed, source)              unless stages_ranges: {'versions': how many were committed since that of the source,
        'since': when the first of them was, none if there is none}; none where the way to the current one is not known any more
      byte_count(upstream)                        unless stages_ranges: how many bytes its files have now

    A kind that stages ranges is a live database: a barrier reads it once, while it is planned. Only it is asked:
      needed_feed(upstream, options, sql)         the change table that it cannot be followed without, and answers from itself; refuse
        a model without one. `options`: what read_change_feed returned
      noted_feed(source)                          the change table that a plan has recorded
      bounds_sql(upstream, keys, window, counts)  a select of JSON, {'bounds': for each count the key that is so many rows further in
        the window, a predicate, as literals' texts; null where there are fewer rows}
      stage_range(backfill, state, observed, plan, again)    read the rows of a plan into a copy, and wait until the feed has the events
        of all that they may show: {'plan': with the copy as a source of the role `stage`, 'unclear', 'waits', 'seen'}
      stage_kept(stage)                           whether what was staged for a plan can still be read
      staged_source(upstream, version, stage, keys)    the range source of it at a version, see get_source_read
      check_query(explained)                      refuse a query that gives other rows of the table than of its changes
      check_followed(observed, committed)         refuse a table that cannot be followed any more, in a run that reads no range of it
-#}
{% macro ask(upstream, question) %}
    {{ return(dbt_backfill[upstream.kind ~ '_' ~ question]) }}
{% endmacro %}


{#-
    What a kind always answers: {
      'stages_ranges': whether no version can be read again,
      'enforces_keys': whether the system keeps keys unique and free of nulls, so that nobody looks for them,
      'holds_versions', 'log_in_state', 'may_forget_keys', 'may_read_by_zone', 'may_order_texts_otherwise': which questions it is asked,
      'may_be_cached': whether a catalog may show a version that is not the current one,
      'takes_added_columns': whether the table may get another column without a gap. A query is then refused if such a column
        would change its values: by a star in an expression, or because it reads an alias that the column would hide,
      'copy_format': the file_format of a table that keeps its rows as they are; none if none does,
      'lost_conditions': the conditions of a handler by which Spark says that changes are gone; none where its errors have none
    }
-#}
{% macro upstream_traits(upstream) %}
    {{ return(dbt_backfill[upstream.kind ~ '_upstream_traits']()) }}
{% endmacro %}


{#-
    A gap of a feed: {
      'reason': as the end of a sentence,
      'refusal': {'fact', 'change'}, as refuse takes them, where changes cannot be followed from the current version on
        either; none as a rule
    }
-#}
{% macro new_gap(reason, refusal=none) %}
    {{ return({'reason': reason, 'refusal': refusal}) }}
{% endmacro %}


{#- A source of a plan by its role, none if it reads none such. -#}
{% macro get_source(plan, role='upstream') %}
    {%- for source in (plan or {}).get('sources') or [] if source.role == role -%} {{ return(source) }} {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- True if a table of the upstream's name and kind exists, and is no view. It may be another table: its id shows that, see upstream_gap. -#}
{% macro exists_as_its_kind(upstream) %}
    {%- set existing = dbt_backfill.load_table(upstream.relation) -%}
    {{ return(existing is not none and not existing.is_view
        and dbt_backfill.get_table_format(existing, upstream.relation) == upstream.kind) }}
{% endmacro %}


{#-
    Return the one table that a model reads, which is the one node of the graph that its query reads: {'relation', 'kind'}, and 'feed' of
    a kind that stages ranges, see needed_feed. Refuse what cannot be followed.
-#}
{% macro get_upstream(sql, change_feed=none) %}
    {%- set nodes, read = [], [] -%}
    {%- for id in model.depends_on.nodes if not id.startswith(('macro.', 'operation.', 'function.'))
            and (change_feed is none or id != change_feed.node.unique_id) -%}
        {%- do nodes.append((graph.nodes.get(id) or graph.sources.get(id))) -%}
    {%- endfor -%}
    {#- dbt counts what the hooks refer to, too. -#}
    {%- for node in nodes if nodes | length > 1 and dbt_backfill._reads(sql, dbt_backfill.get_read_relation(node, sql)) -%}
        {%- do read.append(node) -%}
    {%- endfor -%}
    {%- set nodes = read or nodes -%}
    {%- if nodes | length != 1 -%}
        {%- do dbt_backfill.refuse(
            'its query reads ' ~ (nodes | map(attribute='name') | join(', ') if nodes else 'no model or source'),
            'Read one upstream, by ref() or source()'
        ) -%}
    {%- elif nodes[0].get('config', {}).get('materialized') == 'ephemeral' -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ nodes[0].name ~ ' is an ephemeral model, which has no versions',
            'Materialize ' ~ nodes[0].name ~ ' as a Delta or Iceberg table'
        ) -%}
    {%- endif -%}
    {%- set name = dbt_backfill.get_read_relation(nodes[0], sql) -%}
    {%- set relation = dbt_backfill.load_table(name) -%}
    {%- if relation is none -%}
        {%- do dbt_backfill.refuse('its upstream ' ~ name.render() ~ ' does not exist', 'Create it first') -%}
    {%- elif relation.is_view -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is a view, which has no versions',
            'Read the table under the view, and put what the view computes into this query'
        ) -%}
    {%- endif -%}
    {%- set upstream = {'relation': name, 'kind': dbt_backfill.get_table_format(relation, name)} -%}
    {%- if upstream.kind == 'postgres' -%}
        {{ return(dict(upstream, feed=dbt_backfill.ask(upstream, 'needed_feed')(upstream, change_feed, sql))) }}
    {%- elif upstream.kind not in ['delta', 'iceberg'] -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is neither a Delta nor an Iceberg table',
            'Only tables that keep their versions can be followed: make it a Delta or Iceberg table'
        ) -%}
    {%- elif change_feed and (change_feed.format != 'declared' or change_feed.position) -%}
        {%- do dbt_backfill.refuse(
            'its change_feed is one of a table of PostgreSQL, by its '
                ~ ('position' if change_feed.position else 'format ' ~ change_feed.format) ~ ', and its upstream is none',
            "Set 'operation' and 'sequence' to columns of the change table, and leave the keys out that are for PostgreSQL"
        ) -%}
    {%- endif -%}
    {{ return(upstream) }}
{% endmacro %}


{#-
    Return the provider of a table: `delta`, `iceberg` or another; none if there is none. dbt's cache has a relation that was built in this
    invocation as its materialization returned it, without a provider, so Spark is asked.
-#}
{% macro get_table_format(relation, name=none) %}
    {%- set information, name = relation.information or '', name or relation -%}
    {%- if relation.is_delta -%} {{ return('delta') }} {%- endif -%}
    {#- A table of Iceberg's Hive catalog is listed as a Hive table with a property. -#}
    {%- if relation.is_iceberg or 'table_type=ICEBERG' in information or 'Provider: iceberg' in information -%} {{ return('iceberg') }} {%- endif -%}
    {%- if 'Provider: ' in information -%} {{ return((information.split('Provider: ')[1].split() or [''])[0]) }} {%- endif -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe extended ' ~ name.render()) if row[0] == 'Provider' -%}
        {{ return(row[1]) }}
    {%- endfor -%}
    {%- set catalog = dbt_backfill.get_catalog(name) -%}
    {%- if catalog -%}
        {#- The URL would say which database it is, and Spark does not show it. A SET takes a comment behind it for a part of the name. -#}
        {%- set sql = 'execute immediate ' ~ dbt_backfill.string_literal('set spark.sql.catalog.' ~ catalog) -%}
        {%- for row in dbt_backfill.run_table('look at the catalog ' ~ catalog, sql) if (row[1] | string).endswith('.JDBCTableCatalog') -%}
            {{ return('postgres') }}
        {%- endfor -%}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Return the relation by which the query reads a node, or names it in a comment (as it does with a change feed). Under `--defer` it may
    be the table of another environment: the query contains the one of the two that ref() took.
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
