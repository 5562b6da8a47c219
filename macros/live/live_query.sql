{#-
    What the view shows: the whole of Q at the version of the committed barrier. The MV has what was reached, and Q over the
    upstream gives the rest. While the MV has rows of before, in a sweep, or columns that are being filled, only that part of it
    is taken which holds what Q gives.

    Arguments:
      state (dict): as read_state returned it, not `dirty`.
      version (string): of the MV, with which the state belongs, see read_version.
      places (list): see read_places.
-#}
{% macro get_live_sql(relations, state, version, places) -%}
    {%- set plan = state.committed -%}
    {%- set columns = dbt_backfill.identifiers(dbt_backfill.parse_columns(plan.query_columns) | map(attribute='name')) -%}
    {%- set taken = dbt_backfill._taken_predicate(state, places) -%}
    {%- set rest = dbt_backfill._rest_predicate(state, places) -%}
    select {{ columns }}
    from {{ relations.mv.render() }}
    {%- if version != 'none' %} version as of {{ version }}{% endif %}
    {%- if version == 'none' or taken != 'true' %}
    where {{ 'false' if version == 'none' else taken }}
    {%- endif %}
    {%- if rest != 'false' %}
    union all
    select {{ columns }}
    from (
        {{ dbt_backfill._get_rest_sql(plan, state.upstream_version, rest) }}
    )
    {%- endif %}
{%- endmacro %}


{#- Q over the rest of the upstream. -#}
{% macro _get_rest_sql(plan, version, rest) -%}
    {%- set upstream = dbt_backfill.get_upstream_of_plan(plan) -%}
    {%- set read = dbt_backfill.ask(upstream, 'upstream_read')(upstream, version) -%}
    {{ dbt_backfill.get_query_sql(
        plan.query, upstream.relation, 'select * from ' ~ read ~ ('' if rest == 'true' else ' where ' ~ rest)
    ) }}
{%- endmacro %}


{#- The part of the MV that holds what Q gives, over its own names. -#}
{% macro _taken_predicate(state, places) -%}
    {%- set keys, filling, parts = dbt_backfill.get_mv_keys(state.committed.key), dbt_backfill.get_filling(state), [] -%}
    {%- if dbt_backfill.is_sweeping(state) -%}
        {%- do parts.append('(' ~ dbt_backfill.reached_predicate(places, keys, state.committed.vnode_count) ~ ')') -%}
    {%- endif -%}
    {%- if filling -%}
        {%- do parts.append('false' if filling.position is none
            else dbt_backfill.ordered_predicate(keys, dbt_backfill.upstream_columns(keys), '<=', filling.position)) -%}
    {%- endif -%}
    {{ return(parts | join(' and ') or 'true') }}
{%- endmacro %}


{#- What of the upstream is not in that part. -#}
{% macro _rest_predicate(state, places) -%}
    {%- set keys, filling = state.committed.key, dbt_backfill.get_filling(state) -%}
    {%- set rest = dbt_backfill.remaining_predicate(places, keys, state.committed.vnode_count) -%}
    {%- if not filling or rest == 'true' -%} {{ return(rest) }} {%- endif -%}
    {%- if filling.position is none -%} {{ return('true') }} {%- endif -%}
    {%- set unfilled = dbt_backfill.ordered_predicate(keys, dbt_backfill.upstream_columns(keys), '>', filling.position) -%}
    {{ return(unfilled if rest == 'false' else '(' ~ rest ~ ') or ' ~ unfilled) }}
{%- endmacro %}
