{#-
    Part of planning: add the next range to a plan, and refuse keys that are null or stand twice in it, before
    anything is written. `windows` is what read_windows returned.
-#}
{% macro add_range_to_plan(backfill, state, plan, windows) %}
    {%- do plan.update({'vnodes': windows.moving, 'range_low': windows.low}) -%}
    {%- set rate_limit = backfill.options.backfill_rate_limit -%}
    {%- if rate_limit is none -%}
        {%- do plan.update({'last_range': true, 'range_high': windows.low}) -%}
        {%- set checked = dbt_backfill.check_range(backfill, state, plan) -%}
    {%- else -%}
        {%- set stored = dbt_backfill.take_next_bound(backfill, state, plan) -%}
        {%- if not stored -%} {%- do dbt_backfill.plan_bounds(backfill, state, plan) -%} {%- endif -%}
        {%- set checked = dbt_backfill.check_range(backfill, state, plan) -%}
        {%- if stored and checked.row_count > rate_limit * 1.25 -%}
            {#- Rows were added since the bounds were found. -#}
            {%- do dbt_backfill.plan_bounds(backfill, state, plan) -%}
            {%- set checked = dbt_backfill.check_range(backfill, state, plan) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do plan.update({
        'upstream_row_count': checked.upstream_row_count,
        'range_row_count': checked.row_count,
        'vnode_row_counts': checked.vnode_row_counts,
    }) -%}
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
    {%- set keys = backfill.key -%}
    {%- set low = [] -%}
    {%- for key in keys -%}
        {%- set column = dbt_backfill.position_column(key.upstream) -%}
        {%- do low.append(dbt_backfill.literal_expression('low.' ~ dbt_backfill.identifier(column), key.type)) -%}
    {%- endfor -%}
    {%- set sql -%}
        select to_json(named_struct('moving', moving, 'low', if(started, array({{ low | join(', ') }}), null)))
        from (
            select
                array_sort(collect_list(vnode)) as moving,
                bool_and({{ dbt_backfill.position_columns(keys)[0] }} is not null) as started,
                min(struct({{ dbt_backfill.position_columns(keys) | join(', ') }})) as low
            from {{ backfill.progress.render() }}
            where not backfill_finished{% if selected %} and vnode in ({{ selected | join(', ') }}){% endif %}
        )
    {%- endset -%}
    {%- set windows = dbt_backfill.run_json('read the positions', sql)[0] -%}
    {{ return({'moving': windows.moving, 'low': windows.get('low')}) }}
{% endmacro %}


{#- The bound that an earlier pass found for this range, if it still fits; whether there was one. -#}
{% macro take_next_bound(backfill, state, plan) %}
    {%- set last = state.committed -%}
    {%- if last.get('backfill_rate_limit') != backfill.options.backfill_rate_limit or plan.vnodes is not none
            or last.get('vnodes') is not none or not last.next_bounds and not last.bounds_complete -%}
        {{ return(false) }}
    {%- endif -%}
    {%- do plan.update(dbt_backfill._bounds_of_plan(plan, last.next_bounds, last.bounds_complete)) -%}
    {{ return(true) }}
{% endmacro %}


{#- Find the bounds of the next ranges by one pass over the keys that remain. -#}
{% macro plan_bounds(backfill, state, plan) %}
    {%- set read = dbt_backfill.get_upstream_read(backfill.upstream, plan.upstream_version) -%}
    {%- set remaining = {
        'range_low': plan.range_low, 'last_range': true, 'vnodes': plan.vnodes, 'vnode_count': plan.vnode_count,
    } -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(read, remaining, state, backfill, backfill.key) -%}
    {%- set found = dbt_backfill.run_json('find the bounds of the next ranges', dbt_backfill.get_bounds_sql(
        scan, '(select count(*) from ' ~ read ~ ')', state.row_count, backfill.key, backfill.options.backfill_rate_limit
    ))[0] -%}
    {%- do plan.update(dbt_backfill._bounds_of_plan(plan, found.bounds, found.complete)) -%}
{% endmacro %}


{% macro _bounds_of_plan(plan, bounds, complete) %}
    {{ return({
        'range_high': bounds[0] if bounds else plan.range_low,
        'last_range': not bounds,
        'next_bounds': bounds[1:],
        'bounds_complete': complete,
    }) }}
{% endmacro %}


{#- Count the rows of a plan's range and check their keys; refuses null and duplicate keys. -#}
{% macro check_range(backfill, state, plan) %}
    {%- set read = dbt_backfill.get_upstream_read(backfill.upstream, plan.upstream_version) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(read, plan, state, backfill, backfill.key, with_null_keys=true) -%}
    {{ return(dbt_backfill.check_keys(backfill, plan, read, scan)) }}
{% endmacro %}


{#- Count the rows of a select and check their keys; refuses null and duplicate keys. -#}
{% macro check_keys(backfill, plan, read, scan) %}
    {%- set keys = backfill.key -%}
    {%- set checked = dbt_backfill.run_json('check the keys', dbt_backfill.get_key_check_sql(
        scan, '(select count(*) from ' ~ read ~ ')', keys, plan.vnode_count, backfill.options.check_key
    ))[0] -%}
    {%- if checked.null_keys -%}
        {%- do dbt_backfill.refuse(
            plan.upstream ~ ' has ' ~ checked.null_keys ~ (' rows' if checked.null_keys > 1 else ' row') ~ ' with a null in ' ~ keys | map(attribute='upstream') | join(', ')
                ~ ', in version ' ~ plan.upstream_version,
            'Give these rows a key or delete them; a primary key is never null'
        ) -%}
    {%- endif -%}
    {%- if checked.duplicates -%}
        {%- set duplicates = dbt_backfill.run_json('find the duplicate keys', dbt_backfill.get_duplicate_keys_sql(scan, keys)) -%}
        {%- if duplicates -%}
            {%- do dbt_backfill.refuse(
                'the key ' ~ keys | map(attribute='upstream') | join(', ') ~ ' is not unique in ' ~ plan.upstream
                    ~ ', in version ' ~ plan.upstream_version ~ '; it stands twice with ('
                    ~ duplicates | map(attribute='key') | map('join', ', ') | join('), (') ~ ')',
                'Delete the duplicates, or name in unique_key the columns that are unique'
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(checked) }}
{% endmacro %}


{#-
    Step 4 of a barrier: one MERGE of Q(upstream @ S where P_k < pk <= P_k+1). It only inserts: a row that is
    there already was written by this same plan. The literals in ON prune the target to nothing.
-#}
{% macro run_range(backfill, state, plan) %}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set read = dbt_backfill.get_upstream_read(backfill.upstream, plan.upstream_version) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(read, plan, state, backfill, keys) -%}
    {%- set sql -%}
        merge into {{ backfill.mv.render() }} as mv
        using (
            {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, scan) }}
            where {{ dbt_backfill.get_fence(backfill, plan) }}
        ) as range
        on {{ dbt_backfill.equal_keys(keys, 'mv.', 'range.') }}
            and {{ dbt_backfill.window_predicate(dbt_backfill.mv_columns(keys, 'mv.'), plan) }}
        when not matched then insert *
    {%- endset -%}
    {%- do dbt_backfill.run_table('merge the range of the barrier ' ~ plan.epoch, sql) -%}
{% endmacro %}


{% macro equal_keys(keys, left, right) -%}
    {%- set pairs = [] -%}
    {%- for column in dbt_backfill.mv_columns(keys) -%}
        {%- do pairs.append(left ~ column ~ ' = ' ~ right ~ column) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}
