{#-
    Part of planning: {'plan': with the next range, 'most_rows': with how many rows it holds, none for any number}.
    `windows` is what read_windows returned.
-#}
{% macro get_plan_with_range(backfill, state, plan, windows) %}
    {%- set begun = dict(plan, vnodes=windows.moving, range_low=windows.low) -%}
    {%- if backfill.options.backfill_rate_limit is none -%}
        {{ return({'plan': dict(begun, last_range=true, range_high=windows.low), 'most_rows': none}) }}
    {%- endif -%}
    {%- set most = (backfill.options.backfill_rate_limit * 1.25) | int -%}
    {%- set known = dbt_backfill.get_next_bounds(backfill, state, begun) -%}
    {%- if known is not none -%}
        {#- Rows may have been added since the bounds were found. -#}
        {{ return({'plan': dict(begun, **known), 'most_rows': most}) }}
    {%- endif -%}
    {#- What came since a copy was made is not in the bounds that are found in it. -#}
    {{ return({
        'plan': dict(begun, **dbt_backfill.find_bounds(backfill, state, begun)),
        'most_rows': most if backfill.get('source') else none,
    }) }}
{% endmacro %}


{#-
    Which vnodes are to move, and from where: {'moving': none for all of them, else a list (empty if all that are
    selected have finished), 'low': the lowest of
    their positions as literals, none if one has not started}.
-#}
{% macro read_windows(backfill, state) %}
    {%- set selected = backfill.options.backfill_vnodes -%}
    {%- if state.finished -%} {{ return({'moving': [], 'low': none}) }} {%- endif -%}
    {%- if state.uniform -%}
        {{ return({'moving': selected, 'low': state.get('position')}) }}
    {%- endif -%}
    {%- set keys = state.committed.key -%}
    {%- set low = [] -%}
    {%- for key in keys -%}
        {%- do low.append(dbt_backfill.literal_expression('low.' ~ dbt_backfill.identifier(key.position), key.type)) -%}
    {%- endfor -%}
    {%- set sql -%}
        select to_json(named_struct('moving', moving, 'low', if(started, array({{ low | join(', ') }}), null)))
        from (
            select
                array_sort(collect_list(vnode)) as moving,
                bool_and({{ dbt_backfill.position_columns(keys)[0] }} is not null) as started,
                {{ 'max' if dbt_backfill.is_descending(keys) else 'min' }}(struct({{ dbt_backfill.position_columns(keys) | join(', ') }})) as low
            from {{ backfill.progress.render() }}
            where not backfill_finished{% if selected %} and vnode in ({{ selected | join(', ') }}){% endif %}
        )
    {%- endset -%}
    {%- set windows = dbt_backfill.run_json('read the positions', sql)[0] -%}
    {{ return({'moving': windows.moving, 'low': windows.get('low')}) }}
{% endmacro %}


{#- What an earlier pass found for this range and those after it, if it still fits; none if not. -#}
{% macro get_next_bounds(backfill, state, plan) %}
    {%- set last = state.committed -%}
    {%- if last.get('backfill_rate_limit') != backfill.options.backfill_rate_limit or plan.vnodes is not none
            or last.get('vnodes') is not none or last.get('fills') or not last.next_bounds and not last.bounds_complete -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(dbt_backfill._bounds_of_plan(plan, last.next_bounds, last.bounds_complete)) }}
{% endmacro %}


{#- The bounds of the next ranges, found by one pass over the keys that remain. -#}
{% macro find_bounds(backfill, state, plan) %}
    {%- if plan.vnodes is none and dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%}
        {%- set window = dbt_backfill.window_predicate(
            plan.key, dbt_backfill.upstream_columns(plan.key), {'range_low': plan.range_low, 'last_range': true}
        ) -%}
        {%- set sql = dbt_backfill.ask(backfill.upstream, 'bounds_sql')(
            backfill.upstream, plan.key, window, [backfill.options.backfill_rate_limit]
        ) -%}
        {%- set bound = dbt_backfill.run_json('find the bound of the next range', sql)[0].bounds[0] -%}
        {{ return(dbt_backfill._bounds_of_plan(plan, [bound] if bound else [], false)) }}
    {%- endif -%}
    {%- set remaining = {'range_low': plan.range_low, 'last_range': true, 'vnodes': plan.vnodes} -%}
    {%- set total = dbt_backfill.ask(backfill.upstream, 'row_count_sql')(backfill.upstream, dbt_backfill.get_source(plan).version) -%}
    {%- set found = dbt_backfill.run_bounds(backfill, state, plan, remaining, total, state.row_count) -%}
    {{ return(dbt_backfill._bounds_of_plan(
        plan, found.bounds, found.complete, none if backfill.get('source') else {'scans': found.get('scans'), 'rows': found.rows}
    )) }}
{% endmacro %}


{#- That pass, over the keys of a window; `total` and `done` as get_bounds_sql has them, of the rows in it. -#}
{% macro run_bounds(backfill, state, plan, window, total, done) %}
    {%- set scan = dbt_backfill.get_range_scan_sql(
        dbt_backfill.get_range_read(backfill, plan), dict(window, vnode_count=plan.vnode_count), state, backfill, plan.key
    ) -%}
    {{ return(dbt_backfill.run_json('find the bounds of the next ranges', dbt_backfill.get_bounds_sql(
        scan, total, done, plan.key, backfill.options.backfill_rate_limit,
        plan.kind == 'advance' and state.uniform and not backfill.get('source') and dbt_backfill.may_replicate(backfill)
    ))[0]) }}
{% endmacro %}


{#- `evidence`: see choose_replica; nothing of it is stored. -#}
{% macro _bounds_of_plan(plan, bounds, complete, evidence=none) %}
    {{ return({
        'evidence': evidence,
        'range_high': bounds[0] if bounds else plan.range_low,
        'last_range': not bounds,
        'next_bounds': bounds[1:],
        'bounds_complete': complete,
    }) }}
{% endmacro %}


{#-
    A plan of the kind `fill` with its next range, as get_plan_with_range returns one.

    Arguments:
      filling (dict): as it is before, see new_filling.
-#}
{% macro get_plan_with_fill(backfill, state, plan, filling) %}
    {%- set rate = backfill.options.backfill_rate_limit -%}
    {%- set begun = dict(
        plan, fills=filling.columns, fill_low=filling.position, fill_high=filling.position, last_fill=false,
        filled_row_count=filling.row_count, next_bounds=[], bounds_complete=false, drops=filling.drops,
    ) -%}
    {%- if rate == 0 -%} {{ return({'plan': begun, 'most_rows': none}) }} {%- endif -%}
    {%- if rate is none -%}
        {{ return({'plan': dict(begun, **dbt_backfill._fill_bounds_of_plan(state, [], true)), 'most_rows': none}) }}
    {%- endif -%}
    {%- set last = state.committed -%}
    {%- if last.kind == 'fill' and filling.position is not none and last.get('backfill_rate_limit') == rate
            and (last.next_bounds or last.bounds_complete) -%}
        {{ return({
            'plan': dict(begun, **dbt_backfill._fill_bounds_of_plan(state, last.next_bounds, last.bounds_complete)),
            'most_rows': (rate * 1.25) | int,
        }) }}
    {%- endif -%}
    {{ return({'plan': dict(begun, **dbt_backfill.find_fill_bounds(backfill, state, begun)), 'most_rows': none}) }}
{% endmacro %}


{#- The bounds of the next ranges up to the position, by one pass over their keys. -#}
{% macro find_fill_bounds(backfill, state, plan) %}
    {%- set remaining = {
        'range_low': plan.fill_low, 'range_high': state.get('position'), 'last_range': state.finished, 'vnodes': none,
    } -%}
    {%- set found = dbt_backfill.run_bounds(backfill, state, plan, remaining, state.row_count, plan.filled_row_count) -%}
    {{ return(dbt_backfill._fill_bounds_of_plan(state, found.bounds, found.complete)) }}
{% endmacro %}


{#- The last range ends where the MV does. -#}
{% macro _fill_bounds_of_plan(state, bounds, complete) %}
    {{ return({
        'fill_high': bounds[0] if bounds else (none if state.finished else state.position),
        'last_fill': not bounds,
        'next_bounds': bounds[1:],
        'bounds_complete': complete and bounds != [],
    }) }}
{% endmacro %}
