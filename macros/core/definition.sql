{#- Refuse to compare an MV with its definition in two cases. The next barrier has begun: it may have written some of its rows already. The last plan
    was abandoned: some changes of this plan may have been merged. -#}
{% macro check_barrier_is_committed(state, mv, change) %}
    {%- if state.get('planned') or state.dirty -%}
        {%- do dbt_backfill.refuse('its barrier ' ~ (state.epoch + 1) ~ ' has begun but is not committed',
            change, mv=mv, id='barrier-not-committed') -%}
    {%- endif -%}
{% endmacro %}


{#- Return a select of the rows that the MV has to have: the committed query over the upstream's rows up to the position, at the committed version.
    For a live database, the state also has 'staged', see stage_definition. `selection`: see selection_predicate. -#}
{% macro get_promised_sql(relations, state, selection={}) -%}
    {%- set plan, keys = state.committed, state.committed.key -%}
    {%- set upstream = dbt_backfill.get_upstream_of_plan(plan) -%}
    {%- if state.get('upstream_version') is none -%}
        {%- set scan = 'select * from ' ~ dbt_backfill.get_source(plan).relation ~ ' where false' -%}
    {%- else -%}
        {%- set staged = state.get('staged') -%}
        {%- set read = dbt_backfill.get_source_read(
            dbt_backfill.ask(upstream, 'staged_source')(upstream, staged.version, staged.source, keys), keys
        ) if staged
            else dbt_backfill.ask(upstream, 'upstream_read')(upstream, state.upstream_version) -%}
        {%- set selected = dbt_backfill.selection_predicate(selection, keys) -%}
        {%- if selected != 'true' -%} {%- set read = '(select * from ' ~ read ~ ' where ' ~ selected ~ ')' -%} {%- endif -%}
        {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, relations, keys) -%}
    {%- endif -%}
    {{ dbt_backfill.get_filled_sql(dbt_backfill.get_query_sql(plan.query, upstream.relation, scan), state) }}
{%- endmacro %}


{#-
    Return a select of `rows`, which are rows of the MV. A column that is being filled is null in the rows that are not filled yet, see new_filling.
-#}
{% macro get_filled_sql(rows, state) -%}
    {%- set filling, columns, filled = dbt_backfill.get_filling(state), [], 'false' -%}
    {%- if not filling -%} {{ return(rows) }} {%- endif -%}
    {%- if filling.position is not none -%}
        {%- set keys = state.committed.key -%}
        {%- set filled = dbt_backfill.ordered_predicate(keys, dbt_backfill.mv_columns(keys), '<=', filling.position) -%}
    {%- endif -%}
    {%- for column in filling.columns -%}
        {%- set name = dbt_backfill.identifier(column.name) -%}
        {%- do columns.append('if(' ~ filled ~ ', ' ~ name ~ ', null) as ' ~ name) -%}
    {%- endfor -%}
    select * except ({{ dbt_backfill.identifiers(filling.columns | map(attribute='name')) }}), {{ columns | join(', ') }}
    from (
        {{ rows }}
    )
{%- endmacro %}


{#- Return the part of the MV that must be equal to its definition, as a relation. As a rule this is the whole MV; during a sweep it is the part up to
    the position. During a fill, a column that is being filled is null above the second position. -#}
{% macro get_present_sql(relations, state) -%}
    {%- set mv, rows = relations.mv.render(), 'select * from ' ~ relations.mv.render() -%}
    {%- if dbt_backfill.is_sweeping(state) -%}
        {%- set rows = dbt_backfill.get_prefix_scan_sql(mv, state, relations, dbt_backfill.get_mv_keys(state.committed.key)) -%}
    {%- elif not dbt_backfill.get_filling(state) -%}
        {{ return(mv) }}
    {%- endif -%}
    {{ return('(' ~ dbt_backfill.get_filled_sql(rows, state) ~ ')') }}
{%- endmacro %}


{#- Return the upstream of a plan that was read back, in the form of get_upstream. -#}
{% macro get_upstream_of_plan(plan) %}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {%- set upstream = {'relation': dbt_backfill.parse_relation(source.relation), 'kind': source.kind} -%}
    {%- set feed = dbt_backfill.ask(upstream, 'noted_feed')(source) if dbt_backfill.upstream_traits(upstream).stages_ranges else none -%}
    {{ return(dict(upstream, feed=feed) if feed else upstream) }}
{% endmacro %}


{#-
    Return a predicate that selects a part of the keys, over the upstream's columns of `keys`; `true` for all keys.

    Arguments:
      selection (dict): {
        'vnodes': a list, none for all vnodes, and 'vnode_count',
        'low', 'high': the first and the last key as literals, none if there is no bound. A bound may have fewer literals than the key has columns: it
          includes all keys that begin with these literals,
        'unsettled': a select of keys that are left out, with the columns `__bf_changed_1` and so on; absent or none if no key is left out
      }
-#}
{% macro selection_predicate(selection, keys, prefix='') -%}
    {%- set parts, columns = [], dbt_backfill.upstream_columns(keys, prefix) -%}
    {%- if selection.get('vnodes') is not none -%}
        {%- set vnode = dbt_backfill.vnode_expression(keys, selection.vnode_count, prefix) -%}
        {%- do parts.append(vnode ~ ' in (' ~ selection.vnodes | join(', ') ~ ')') -%}
    {%- endif -%}
    {%- for op, bound in [('>=', selection.get('low')), ('<=', selection.get('high'))] if bound is not none -%}
        {%- do parts.append(dbt_backfill.tuple_predicate(columns[:bound | length], op, bound)) -%}
    {%- endfor -%}
    {%- if selection.get('unsettled') -%}
        {%- set same = [] -%}
        {%- for column in columns -%} {%- do same.append('__bf_changed_' ~ loop.index ~ ' = ' ~ column) -%} {%- endfor -%}
        {%- do parts.append('not exists (select 1 from (' ~ selection.unsettled ~ ') where ' ~ same | join(' and ') ~ ')') -%}
    {%- endif -%}
    {{ return(parts | join(' and ') or 'true') }}
{%- endmacro %}
