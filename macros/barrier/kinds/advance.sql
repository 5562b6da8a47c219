{#-
    An advance, the barrier as a rule: what changed upstream up to the position is merged, then the next range.

    The changes are filtered by the old position and the range is read at the new version, so that they are disjoint and
    the MV is an exact prefix also between the two.
-#}
{% macro advance_traits() %}
    {{ return({'follows': true, 'reads_range': true, 'replaces_mv': false, 'gives_up': false, 'rescales': false}) }}
{% endmacro %}


{#- The range, where it has one. -#}
{% macro advance_scan(backfill, state, plan) %}
    {%- if not dbt_backfill.has_range(plan) -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.get_range_scan_sql(
        dbt_backfill.get_range_read(backfill, plan), plan, state, backfill, plan.key,
        with_null_keys=not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys
    )) }}
{% endmacro %}


{#- Whether it moves the position, or finishes vnodes, also where its rows were not counted yet. -#}
{% macro has_range(plan) %}
    {{ return(plan.last_range or plan.get('range_high') != plan.get('range_low')) }}
{% endmacro %}


{% macro advance_follows_feed(plan) %}
    {{ return(true) }}
{% endmacro %}


{% macro advance_execute(backfill, state, plan, work) %}
    {%- do dbt_backfill.run_alterations(backfill, plan) -%}
    {%- set changes = dbt_backfill.take_staged_changes(backfill, state, plan, work) -%}
    {%- if changes.staged and plan.at_once -%}
        {{ return(dbt_backfill.run_changes_and_range(backfill, state, plan, work, changes.staged)) }}
    {%- endif -%}
    {%- set done = dbt_backfill.run_taken_changes(backfill, plan, work, changes) -%}
    {%- if not done.failed and dbt_backfill.merges_range(plan) -%}
        {%- set run = dbt_backfill.run_swept_range if plan.sweeps else dbt_backfill.run_range -%}
        {%- set done = {'failed': run(backfill, state, plan, work), 'counts': done.counts} -%}
    {%- endif -%}
    {{ return(done) }}
{% endmacro %}


{#- The vnodes of its range move to the end of it, and finish with the last one. Without a range only the version moves. -#}
{% macro advance_columns(state, plan) %}
    {%- set columns = {'upstream_version': dbt_backfill.string_literal(dbt_backfill.get_source(plan).get('version'))} -%}
    {%- if not plan.last_range and plan.get('range_row_count') is none -%} {{ return(columns) }} {%- endif -%}
    {%- set moves = 'true' if plan.get('vnodes') is none else 'progress.vnode in (' ~ plan.vnodes | join(', ') ~ ')' -%}
    {%- do columns.update({
        'backfill_finished': 'progress.backfill_finished or ' ~ moves if plan.last_range else 'progress.backfill_finished',
        'row_count': 'progress.row_count + ' ~ dbt_backfill.get_vnode_row_count_sql(plan),
    }) -%}
    {%- set passed = dbt_backfill._passes(plan, moves) -%}
    {%- for column in dbt_backfill.position_columns(plan.key) if not plan.last_range -%}
        {%- set moved = 'if(' ~ passed ~ ', ' ~ plan.range_high[loop.index0] ~ ', progress.' ~ column ~ ')' -%}
        {%- do columns.update({column: moved}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#-
    Whether the end of the plan's range is a new position of a vnode. Where positions differ, because only some vnodes
    were read before, the range begins at the lowest of them and may end below others: these stay where they are.
-#}
{% macro _passes(plan, moves) %}
    {%- if moves == 'true' or plan.last_range -%} {{ return(moves) }} {%- endif -%}
    {%- set positions = dbt_backfill.position_columns(plan.key, 'progress.') -%}
    {{ return(moves ~ ' and (' ~ positions[0] ~ ' is null or '
        ~ dbt_backfill.ordered_predicate(plan.key, positions, '<', plan.range_high) ~ ')') }}
{% endmacro %}


{% macro advance_report(barrier) %}
    {{ return(dbt_backfill.get_report_of_merges(barrier)) }}
{% endmacro %}
