{#-
    The node of the graph that a user names, as `name` or `package.name`, where it has versions as `name.v2` or
    `package.name.v2`; refused unless it is a backfilled_mv.

    Arguments:
      operation (string): the run-operation that was given the name.
-#}
{% macro find_backfilled_mv(name, operation) %}
    {%- if not name or name is not string -%}
        {%- do dbt_backfill.refuse(
            'the argument model is missing', "Name the model: --args '{model: my_mv}'", mv=operation
        ) -%}
    {%- endif -%}
    {%- set node = dbt_backfill.find_model(name) -%}
    {%- if node.config.materialized != 'backfilled_mv' -%}
        {%- do dbt_backfill.refuse(
            "its materialization is '" ~ node.config.materialized ~ "', so it is no backfilled_mv",
            "Name a model with materialized='backfilled_mv'", mv=name
        ) -%}
    {%- endif -%}
    {{ return(node) }}
{% endmacro %}


{#- The same of any materialization; `change` is what a user can do where there is none of this name. -#}
{% macro find_model(name, change='Name an enabled model of this project or of one of its packages') %}
    {%- set found = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model'
            and name in [node.name, node.package_name ~ '.' ~ node.name, dbt_backfill.get_model_name(node), node.unique_id[6:]] -%}
        {%- do found.append(node) -%}
    {%- endfor -%}
    {%- if not found -%}
        {%- do dbt_backfill.refuse('there is no model of this name', change, mv=name) -%}
    {%- elif found | length > 1 -%}
        {%- do dbt_backfill.refuse(
            'there are ' ~ found | length ~ ' models of this name',
            'Name one of ' ~ found | map(attribute='unique_id') | map('replace', 'model.', '', 1) | join(', '), mv=name
        ) -%}
    {%- endif -%}
    {{ return(found[0]) }}
{% endmacro %}


{#-
    What is known of the MV before it is compared, as observe_operated returned it, and {
      'state': of a committed epoch whose version of the upstream can be read,
      'key': of the committed plan, as the MV names its columns,
      'columns': as get_table_columns returned them
    }
-#}
{% macro observe_verified(node) %}
    {%- set verified = dbt_backfill.observe_operated(node) -%}
    {%- set state = verified.state -%}
    {%- do dbt_backfill.check_barrier_is_committed(
        state, verified.name, 'Run the model first (dbt run --select ' ~ verified.name ~ '), and then verify it'
    ) -%}
    {%- do dbt_backfill.check_definition_is_readable(verified, state) -%}
    {{ return(dict(
        verified,
        key=dbt_backfill.get_mv_keys(state.committed.key),
        columns=dbt_backfill.get_table_columns(verified.mv),
    )) }}
{% endmacro %}


{#- Refuse a definition that cannot be evaluated any more: its version is gone, or the session is another one. -#}
{% macro check_definition_is_readable(verified, state) %}
    {%- set plan = state.committed -%}
    {%- set changed = dbt_backfill.find_changed_setting(plan, state.settings) -%}
    {%- if changed -%}
        {%- do dbt_backfill.refuse(
            changed.words ~ ' is ' ~ changed.is ~ ', and was ' ~ changed.was ~ ' at its last barrier',
            'Set ' ~ changed.setting ~ ' to ' ~ changed.was,
            mv=verified.name
        ) -%}
    {%- endif -%}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = dbt_backfill.get_upstream_of_plan(plan) -%}
    {%- set existing = dbt_backfill.load_table(upstream.relation) -%}
    {%- set readable = existing is not none and not existing.is_view
        and dbt_backfill.get_table_format(existing, upstream.relation) == upstream.kind -%}
    {%- if readable -%}
        {%- set observed = dbt_backfill.read_upstream(upstream, dbt_backfill.get_source(plan)) -%}
        {%- set readable = dbt_backfill.is_upstream_readable(upstream, observed, dbt_backfill.get_source(plan)) -%}
    {%- endif -%}
    {%- if not readable -%}
        {%- do dbt_backfill.refuse(
            'version ' ~ state.upstream_version ~ ' of its upstream ' ~ dbt_backfill.get_source(plan).relation ~ ', which it shows, can no longer be read',
            'Run the model (dbt run --select ' ~ verified.name ~ '), which takes it to a later version, and then verify it',
            mv=verified.name
        ) -%}
    {%- endif -%}
{% endmacro %}
