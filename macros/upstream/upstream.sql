{#-
    What the protocol asks of an upstream, answered in `upstream/<kind>/` by one macro each. A version is opaque:
    only the kind that gave it orders and renders it.

      get_upstream           which relation and kind it is; refuses what cannot be followed
      read_upstream          {'version', 'committed_at', 'id', 'log'}: the current version, and its log since another
      check_upstream_feed    refuses a table whose changes cannot be followed
      get_upstream_read      a relation expression: the table at a version
      get_upstream_changes   the change events between two versions
      find_upstream_gap      why the feed does not reach from one version to another, or none
      continues_upstream     whether it is the same table as then, and has gone on from there
      is_upstream_readable   whether a version can still be read
      get_lost_conditions    how Spark says that changes cannot, where find_upstream_gap could not know
-#}
{% macro get_upstream(sql, change_feed=none) %}
    {%- set nodes = [] -%}
    {%- for id in model.depends_on.nodes if not id.startswith(('macro.', 'operation.'))
            and (change_feed is none or id != change_feed.node.unique_id) -%}
        {%- do nodes.append((graph.nodes.get(id) or graph.sources.get(id))) -%}
    {%- endfor -%}
    {%- if nodes | length > 1 -%}
        {#- dbt counts what the hooks refer to, too. -#}
        {%- set read = [] -%}
        {%- for node in nodes if dbt_backfill.tokens(sql, dbt_backfill.get_node_relation(node))
                | selectattr('kind', 'equalto', 'upstream') | list -%}
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
    {%- set name = dbt_backfill.get_node_relation(node) -%}
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
    {%- if format not in ['delta', 'iceberg'] -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is neither a Delta nor an Iceberg table',
            'Only tables that keep their versions can be followed: make it a Delta or Iceberg table'
        ) -%}
    {%- endif -%}
    {{ return({'relation': name, 'kind': format}) }}
{% endmacro %}


{#- The relation of a model, seed, snapshot or source of the graph; a source may say that its name is to be quoted. -#}
{% macro get_node_relation(node) %}
    {%- set relation = api.Relation.create(
        schema=node.schema, identifier=node.get('identifier') or node.get('alias') or node.name
    ) -%}
    {{ return(relation.quote(identifier=true) if (node.get('quoting') or {}).get('identifier') else relation) }}
{% endmacro %}


{#- `log` is what the state was read with, none if it was read without get_upstream_log_sql. -#}
{% macro read_upstream(upstream, since, log=none) %}
    {{ return(dbt_backfill._of_kind(upstream, 'read_upstream')(upstream.relation, since, log)) }}
{% endmacro %}


{#- Asked of what read_upstream returned, where that could tell more than was known before. -#}
{% macro check_upstream_feed(upstream, observed) %}
    {%- do dbt_backfill._of_kind(upstream, 'check_feed')(observed) -%}
{% endmacro %}


{#- A scalar subquery for read_upstream's `log`, which spares a statement; none if the kind has none. -#}
{% macro get_upstream_log_sql(upstream) %}
    {{ return(dbt_backfill.iceberg_log_sql(upstream.relation) if upstream.kind == 'iceberg' else none) }}
{% endmacro %}


{% macro get_upstream_read(upstream, version) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_read')(upstream.relation, version)) }}
{% endmacro %}


{#-
    The changes in (from_version, to_version]: {
      'events': a select of the upstream's columns, and of
        __bf_version    orders the events of one key
        __bf_is_upsert  an insert or after-image, against a delete or before-image
      'declarations', 'setup': statements of the script that reads it, at its beginning and before that, each absent
        if there is none,
      'literals': variables of the script in `events` that stand for their text, absent if there are none,
      'views': temporary views that the setup makes, absent if there are none,
      'one_commit': whether each key has only what one commit did to it, or the difference of two versions; absent if not,
      'alters_values': whether it may have other values than the table, see altered_predicate; absent if not,
      'may_repeat': whether a key may be inserted twice in it, absent if that cannot be
    }

    `keys` is none for rows that are only added.
-#}
{% macro get_upstream_changes(upstream, observed, from_version, to_version, keys) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_changes')(observed, from_version, to_version, keys)) }}
{% endmacro %}


{#- `observed` is what read_upstream returned, `committed` the source of the committed plan. -#}
{% macro find_upstream_gap(upstream, observed, committed) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_gap')(observed, committed)) }}
{% endmacro %}


{% macro continues_upstream(upstream, observed, committed) %}
    {{ return(dbt_backfill._of_kind(upstream, 'continues_upstream')(observed, committed)) }}
{% endmacro %}


{#- `source` is what a plan notes of it: its `id` and `version`. -#}
{% macro is_upstream_readable(upstream, observed, source) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_readable')(observed, source)) }}
{% endmacro %}


{#-
    The conditions of a script's handler by which Spark says that changes cannot be read any more; none of a kind whose
    errors have none.
-#}
{% macro get_lost_conditions(upstream) %}
    {{ return(dbt_backfill.delta_lost_conditions() if upstream.kind == 'delta' else none) }}
{% endmacro %}


{#- The macro of `upstream/<kind>/` that answers a question. -#}
{% macro _of_kind(upstream, question) %}
    {{ return({
        'delta': {
            'read_upstream': dbt_backfill.delta_read_upstream,
            'check_feed': dbt_backfill.delta_check_feed,
            'continues_upstream': dbt_backfill.delta_continues_upstream,
            'upstream_read': dbt_backfill.delta_upstream_read,
            'upstream_changes': dbt_backfill.delta_upstream_changes,
            'upstream_gap': dbt_backfill.delta_upstream_gap,
            'upstream_readable': dbt_backfill.delta_upstream_readable,
        },
        'iceberg': {
            'read_upstream': dbt_backfill.iceberg_read_upstream,
            'check_feed': dbt_backfill.iceberg_check_feed,
            'continues_upstream': dbt_backfill.iceberg_continues_upstream,
            'upstream_read': dbt_backfill.iceberg_upstream_read,
            'upstream_changes': dbt_backfill.iceberg_upstream_changes,
            'upstream_gap': dbt_backfill.iceberg_upstream_gap,
            'upstream_readable': dbt_backfill.iceberg_upstream_readable,
        },
    }[upstream.kind][question]) }}
{% endmacro %}
