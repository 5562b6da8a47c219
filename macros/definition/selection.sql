{#-
    A predicate for a part of the keys, over columns of the names `upstream` in `keys`; `true` for all of them.

    Arguments:
      selection (dict): {
        'vnodes': a list, none for all of them, and 'vnode_count',
        'low', 'high': the first and the last key as literals; fewer than the key has columns mean all keys that begin
          with them. None is open,
        'unsettled': a select of keys that are not wanted, as `__bf_changed_1` and so on; absent or none if there are none
      }
-#}
{% macro selection_predicate(selection, keys, prefix='') -%}
    {%- set parts = [] -%}
    {%- if selection.get('vnodes') is not none -%}
        {%- set vnode = dbt_backfill.vnode_expression(keys, selection.vnode_count, prefix) -%}
        {%- do parts.append(vnode ~ ' in (' ~ selection.vnodes | join(', ') ~ ')') -%}
    {%- endif -%}
    {%- for op, bound in [('>=', selection.get('low')), ('<=', selection.get('high'))] if bound is not none -%}
        {%- set columns = dbt_backfill.upstream_columns(keys, prefix) -%}
        {%- do parts.append(dbt_backfill.tuple_predicate(columns[:bound | length], op, bound)) -%}
    {%- endfor -%}
    {%- if selection.get('unsettled') -%}
        {%- set same = [] -%}
        {%- for column in dbt_backfill.upstream_columns(keys, prefix) -%} {%- do same.append('__bf_changed_' ~ loop.index ~ ' = ' ~ column) -%} {%- endfor -%}
        {%- do parts.append('not exists (select 1 from (' ~ selection.unsettled ~ ') where ' ~ same | join(' and ') ~ ')') -%}
    {%- endif -%}
    {{ return(parts | join(' and ') or 'true') }}
{%- endmacro %}
