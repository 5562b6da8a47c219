{#-
    What the protocol asks of an upstream, answered in `upstream/<kind>/` by one macro each. A version is opaque: only the kind that gave it orders and renders it.

      get_upstream           which relation and kind it is; refuses what cannot be followed
      read_upstream          {'version', 'committed_at', 'id', 'log'}: the current version, and its log since another
      get_upstream_read      a relation expression: the table at a version
      get_upstream_changes   a select of the change events between two versions
      find_upstream_gap      why the feed does not reach from one version to another, or none
      is_upstream_readable   whether a version can still be read
-#}
{% macro get_upstream() %}
    {%- set nodes = [] -%}
    {%- for id in model.depends_on.nodes if not id.startswith(('macro.', 'operation.')) -%}
        {%- do nodes.append((graph.nodes.get(id) or graph.sources.get(id))) -%}
    {%- endfor -%}
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
            'Materialize ' ~ node.name ~ ' as a Delta table'
        ) -%}
    {%- endif -%}
    {%- set name = api.Relation.create(schema=node.schema, identifier=node.get('identifier') or node.get('alias') or node.name) -%}
    {%- set relation = adapter.get_relation(none, name.schema, name.identifier) -%}
    {%- if relation is none -%}
        {%- do dbt_backfill.refuse('its upstream ' ~ name.render() ~ ' does not exist', 'Create it first') -%}
    {%- elif relation.is_view -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is a view, which has no versions',
            'Read the table under the view, and put what the view computes into this query'
        ) -%}
    {%- elif not dbt_backfill.is_delta(relation) -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ name.render() ~ ' is not a Delta table',
            'Only tables that keep their versions can be followed: make it a Delta table'
        ) -%}
    {%- endif -%}
    {{ return({'relation': name, 'kind': 'delta'}) }}
{% endmacro %}


{#-
    Whether a relation of dbt's cache is a Delta table. One that was built in this same invocation stands there as
    its materialization returned it, without a provider, so Spark is asked.
-#}
{% macro is_delta(relation) %}
    {%- if relation.is_delta or relation.information -%} {{ return(relation.is_delta) }} {%- endif -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe extended ' ~ relation.render())
            if row[0] == 'Provider' -%}
        {{ return(row[1] == 'delta') }}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{% macro read_upstream(upstream, since) %}
    {{ return(dbt_backfill._of_kind(upstream, 'read_upstream')(upstream.relation, since)) }}
{% endmacro %}


{% macro get_upstream_read(upstream, version) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_read')(upstream.relation, version)) }}
{% endmacro %}


{% macro get_upstream_changes(upstream, from_version, to_version) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_changes')(upstream.relation, from_version, to_version)) }}
{% endmacro %}


{#- `observed` is what read_upstream returned, `committed` the plan of the committed epoch. -#}
{% macro find_upstream_gap(upstream, observed, committed) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_gap')(observed, committed)) }}
{% endmacro %}


{% macro is_upstream_readable(upstream, observed, version, upstream_id) %}
    {{ return(dbt_backfill._of_kind(upstream, 'upstream_readable')(observed, version, upstream_id)) }}
{% endmacro %}


{#- The macro of `upstream/<kind>/` that answers a question. -#}
{% macro _of_kind(upstream, question) %}
    {{ return({
        'delta': {
            'read_upstream': dbt_backfill.delta_read_upstream,
            'upstream_read': dbt_backfill.delta_upstream_read,
            'upstream_changes': dbt_backfill.delta_upstream_changes,
            'upstream_gap': dbt_backfill.delta_upstream_gap,
            'upstream_readable': dbt_backfill.delta_upstream_readable,
        },
    }[upstream.kind][question]) }}
{% endmacro %}
