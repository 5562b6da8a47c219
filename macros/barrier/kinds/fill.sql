{#-
    A fill: the query returns more columns than before, and the rows that are there get them. What changed upstream up to the
    position is merged, with all columns; then the rows of the next range up to the position, which may not have them yet. The
    position stays; how far the new columns hold is the second position, see new_filling. The ranges of the snapshot go on after it.

    Of a range all columns are compared, so that it ends as the query gives it whatever it was.
-#}
{% macro fill_traits() %}
    {{ return({'follows': true, 'reads_range': true, 'replaces_mv': false, 'gives_up': false, 'rescales': false}) }}
{% endmacro %}


{% macro fill_scan(backfill, state, plan) %}
    {%- if not dbt_backfill.has_fill(plan) -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.get_range_scan_sql(
        dbt_backfill.get_planned_read(backfill, plan), dbt_backfill.get_fill_window(plan), state, backfill, plan.key
    )) }}
{% endmacro %}


{#- Whether it moves the second position; it does not where the rate is 0. -#}
{% macro has_fill(plan) %}
    {{ return(plan.get('last_fill') or plan.get('fill_high') != plan.get('fill_low')) }}
{% endmacro %}


{#- Its range, in the words of one of the snapshot. The last one ends at the position of the MV, or is open above. -#}
{% macro get_fill_window(plan) %}
    {{ return({
        'range_low': plan.get('fill_low'), 'range_high': plan.get('fill_high'),
        'last_range': plan.get('last_fill') and plan.get('fill_high') is none,
        'vnodes': none, 'vnode_count': plan.vnode_count,
    }) }}
{% endmacro %}


{% macro fill_follows_feed(plan) %}
    {{ return(true) }}
{% endmacro %}


{% macro fill_execute(backfill, state, plan, work) %}
    {%- do dbt_backfill.run_alterations(backfill, plan) -%}
    {%- set changes = dbt_backfill.take_staged_changes(backfill, state, plan, work) -%}
    {%- set done = dbt_backfill.run_taken_changes(backfill, plan, work, changes) -%}
    {%- if not done.failed and dbt_backfill.merges_range(plan) -%}
        {%- set failed = dbt_backfill.run_swept_range(backfill, state, plan, work, dbt_backfill.get_fill_window(plan)) -%}
        {%- set done = {'failed': failed, 'counts': done.counts} -%}
    {%- endif -%}
    {{ return(done) }}
{% endmacro %}


{#- The second position stands in the plan. -#}
{% macro fill_columns(state, plan) %}
    {{ return({'upstream_version': dbt_backfill.string_literal(dbt_backfill.get_source(plan).get('version'))}) }}
{% endmacro %}


{% macro fill_report(barrier) %}
    {%- set plan = barrier.plan -%}
    {%- set done = 'filled ' if plan.get('last_fill') else 'fills ' -%}
    {%- set parts = [done ~ plan.fills | map(attribute='name') | join(', ')] -%}
    {%- if not plan.get('last_fill') -%}
        {%- do parts.append('{:,} of {:,} rows'.format(plan.get('filled_row_count') or 0, barrier.state.row_count)) -%}
    {%- endif -%}
    {%- do parts.append('+{:,} read for it'.format(plan.get('range_row_count') or 0)) -%}
    {{ return(parts + dbt_backfill.get_report_of_changes(barrier)) }}
{% endmacro %}
