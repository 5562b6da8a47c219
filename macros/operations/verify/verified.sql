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
    {%- set readable = dbt_backfill.stands_as_noted(upstream) -%}
    {%- if readable -%}
        {%- set observed = dbt_backfill.ask(upstream, 'read_upstream')(upstream, dbt_backfill.get_source(plan)) -%}
        {%- set readable = dbt_backfill.ask(upstream, 'upstream_readable')(observed, dbt_backfill.get_source(plan)) -%}
    {%- endif -%}
    {%- if not readable -%}
        {%- do dbt_backfill.refuse(
            'version ' ~ state.upstream_version ~ ' of its upstream ' ~ dbt_backfill.get_source(plan).relation ~ ', which it shows, can no longer be read',
            'Run the model (dbt run --select ' ~ verified.name ~ '), which takes it to a later version, and then verify it',
            mv=verified.name
        ) -%}
    {%- endif -%}
{% endmacro %}
