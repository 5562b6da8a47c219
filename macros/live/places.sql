{#-
    How far the vnodes are, as literals: a list of {
      'vnodes': those of this place; none for all of them,
      'finished': whether they are at the end,
      'position': the literals up to which they are; none if they have not started, or are at the end
    }

    None if another barrier has come since the state was read.
-#}
{% macro read_places(relations, state) %}
    {%- if state.uniform -%}
        {{ return([dbt_backfill._new_place(none, state.finished, state.get('position'))]) }}
    {%- endif -%}
    {%- set sql = dbt_backfill.get_places_sql(relations, state.committed.key, state.epoch) -%}
    {%- set places, vnodes = [], [] -%}
    {%- for row in dbt_backfill.run_json('read where the vnodes are', sql, relations.mv) -%}
        {%- do places.append(dbt_backfill._new_place(row.vnodes | sort, row.finished, row.get('position'))) -%}
        {%- do vnodes.extend(row.vnodes) -%}
    {%- endfor -%}
    {{ return(places if vnodes | length == state.committed.vnode_count else none) }}
{% endmacro %}


{% macro _new_place(vnodes, finished, position) %}
    {{ return({'vnodes': vnodes, 'finished': finished, 'position': none if finished else position}) }}
{% endmacro %}


{#- One row for all vnodes of one place. -#}
{% macro get_places_sql(relations, keys, epoch) -%}
    {%- set placed = [] -%}
    {%- for key in keys -%} {%- do placed.append(dict(key, upstream=key.position)) -%} {%- endfor -%}
    select to_json(named_struct('vnodes', collect_list(vnode), 'finished', finished, 'position', position))
    from (
        select
            vnode,
            backfill_finished as finished,
            if(backfill_finished, null, {{ dbt_backfill.literals_expression(placed) }}) as position
        from {{ relations.progress.render() }}
        where epoch = {{ epoch }}
    )
    group by finished, position
{%- endmacro %}


{#-
    A predicate over a key with the names `upstream` in `keys`: what the vnodes have reached.

    Arguments:
      places (list): see read_places.
-#}
{% macro reached_predicate(places, keys, vnode_count) -%}
    {%- set columns, parts = dbt_backfill.upstream_columns(keys), [] -%}
    {%- for place in places if place.finished or place.position is not none -%}
        {%- set bound = none if place.finished else dbt_backfill.ordered_predicate(keys, columns, '<=', place.position) -%}
        {%- do parts.append(dbt_backfill._place_predicate(place, keys, vnode_count, bound)) -%}
    {%- endfor -%}
    {{ return(dbt_backfill._any_of(parts)) }}
{%- endmacro %}


{#- The rest, with the keys that have a null, which no range has read. Each part of it prunes files by its own bound. -#}
{% macro remaining_predicate(places, keys, vnode_count) -%}
    {%- set columns, parts = dbt_backfill.upstream_columns(keys), [] -%}
    {%- for place in places if not place.finished -%}
        {%- set bound = none if place.position is none else dbt_backfill.ordered_predicate(keys, columns, '>', place.position) -%}
        {%- do parts.append(dbt_backfill._place_predicate(place, keys, vnode_count, bound)) -%}
    {%- endfor -%}
    {%- if not parts or 'true' in parts -%} {{ return(parts | first | default('false')) }} {%- endif -%}
    {{ return(dbt_backfill._any_of(parts + [dbt_backfill.null_key_predicate(columns)])) }}
{%- endmacro %}


{% macro _place_predicate(place, keys, vnode_count, bound) -%}
    {%- set parts = [] -%}
    {%- if place.vnodes is not none -%}
        {%- do parts.append(dbt_backfill.vnode_expression(keys, vnode_count) ~ ' in (' ~ place.vnodes | join(', ') ~ ')') -%}
    {%- endif -%}
    {%- if bound is not none -%} {%- do parts.append(bound) -%} {%- endif -%}
    {{ return(parts | join(' and ') or 'true') }}
{%- endmacro %}


{% macro _any_of(parts) -%}
    {%- if parts | length < 2 -%} {{ return(parts | first | default('false')) }} {%- endif -%}
    {{ return('(' ~ parts | join(') or (') ~ ')') }}
{%- endmacro %}
