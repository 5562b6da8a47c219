{#-
    What the MV has to be: a select of Q(upstream @ S where pk <= current_pos), with the query, the version and the
    positions that were committed.

    Arguments:
      state (dict): as read_state returned it.
      selection (dict): the part of the keys that is wanted, see selection_predicate; all of them by default.
-#}
{% macro get_promised_sql(relations, state, selection={}) -%}
    {%- set plan = state.committed -%}
    {%- set keys = plan.key -%}
    {%- set upstream = dbt_backfill.get_upstream_of_plan(plan) -%}
    {%- if state.get('upstream_version') is none -%}
        {%- set scan = 'select * from ' ~ dbt_backfill.get_source(plan).relation ~ ' where false' -%}
    {%- else -%}
        {%- set read = dbt_backfill.get_upstream_read(upstream, state.upstream_version) -%}
        {%- set selected = dbt_backfill.selection_predicate(selection, keys) -%}
        {%- if selected != 'true' -%} {%- set read = '(select * from ' ~ read ~ ' where ' ~ selected ~ ')' -%} {%- endif -%}
        {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, relations, keys) -%}
    {%- endif -%}
    {{ dbt_backfill.get_query_sql(plan.query, upstream.relation, scan) }}
{%- endmacro %}


{#- What of the MV the promise is of, as a relation: all of it, and in a sweep what is up to the position. -#}
{% macro get_present_sql(relations, state) -%}
    {%- if not dbt_backfill.is_sweeping(state) -%} {{ return(relations.mv.render()) }} {%- endif -%}
    {{ return('(' ~ dbt_backfill.get_prefix_scan_sql(
        relations.mv.render(), state, relations, dbt_backfill.get_mv_keys(state.committed.key)
    ) ~ ')') }}
{%- endmacro %}


{#- The upstream of a plan that was read back: {'relation', 'kind'}. -#}
{% macro get_upstream_of_plan(plan) %}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {{ return({'relation': dbt_backfill.parse_relation(source.relation), 'kind': source.kind}) }}
{% endmacro %}
