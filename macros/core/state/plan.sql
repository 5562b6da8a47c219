{#-
    Return a plan as it is stored: a SQL expression of its JSON, with what the script has counted at its end. A plan is a dict; a new one
    and one that was read back have this one shape. It holds everything that executing it needs, so that a later run can adopt it word for
    word: every step is a pure function of the plan and of the position that it starts from.

      epoch, plan_id, backfill_id, kind, reason
      sources: what it reads, a list of {role: `upstream`, `feed`, `stage` or `replica`, relation, kind, id, version, committed_at,
        definition: what else says which changes a change table reports}
      upstream_row_count: of the upstream, as it was counted last
      range_low, range_high, last_range: the range, as lists of literals' texts, in the order of the backfill; none as low: from the start;
        none as high with last_range: to the end
      vnodes, vnode_row_counts, range_row_count: of the range, a list, none for all; its rows, a dict by vnode, and their sum
      sweeps: true if the MV had earlier rows above the position when it was planned, see is_sweeping
      at_once: true if changes and range are merged by one statement
      touched: of a re-anchor, what it compares above the position: the ends of the ranges that given-up plans could write, [] for one
        that is open above; an empty list if they had none. None if it compares the whole MV
      fills, drops: the columns that are being filled, as new_filling describes them; the names of those that the MV is to lose
      fill_low, fill_high, last_fill: the window of a fill, like range_low and range_high; true if the columns hold up to the position
        after it (then none as fill_high: open above)
      filled_row_count: rows that were read to fill them
      generation: of a swap, {'relation', 'id', 'version'} of the MV that is put in place
      next_bounds, bounds_complete: the ends of the ranges to come, of those that fill while there are any; true if they reach the end
      query, query_hash, query_columns
      settings: see get_result_settings
      key: a list of {name, upstream, type, position: the progress table's column, order: see is_descending}
      vnode_count, backfill_mode, backfill_rate_limit
      invocation_id, planned_at: of the run that made it; only in what was read back

    A plan that is about to be stored also has `counted`, what only the script that stores it can count: name -> SQL expression. A barrier
    that was committed has what get_outcome_sql adds. What is none is left out.
-#}
{% macro get_plan_json_sql(plan) -%}
    {%- set shaped, stored, counted = dict(plan, invocation_id=invocation_id), {}, [] -%}
    {%- for name in ['last_range', 'sweeps', 'at_once', 'bounds_complete'] -%} {%- do shaped.update({name: not not plan.get(name)}) -%} {%- endfor -%}
    {%- for name in ['drops', 'last_fill'] -%} {%- do shaped.update({name: plan.get(name) or none}) -%} {%- endfor -%}
    {%- do shaped.update({'next_bounds': plan.get('next_bounds') or [], 'vnode_row_counts': plan.get('vnode_row_counts') or {}}) -%}
    {#- Of dicts these entries, as texts. A key without an order is ascending. -#}
    {%- set entries = {
        'sources': dbt_backfill.source_fields(), 'key': ['name', 'upstream', 'type', 'position', 'order'],
        'fills': ['name', 'type', 'was'], 'generation': ['relation', 'id', 'version'],
    } -%}
    {%- for name, fields in entries.items() -%}
        {%- set value, rows = plan.get(name) or [], [] -%}
        {%- for given in ([value] if value is mapping else value) -%}
            {%- set row = {} -%}
            {%- for field in fields if given.get(field) is not none -%} {%- do row.update({field: given[field] ~ ''}) -%} {%- endfor -%}
            {%- do rows.append(row) -%}
        {%- endfor -%}
        {%- do shaped.update({name: rows[0] if value is mapping else rows or ([] if name == 'sources' else none)}) -%}
    {%- endfor -%}
    {%- set counts = dict(plan.get('counted') or {}, planned_at='current_timestamp()') -%}
    {%- for name in [
        'epoch', 'plan_id', 'backfill_id', 'kind', 'reason', 'sources', 'upstream_row_count', 'range_low', 'range_high', 'last_range',
        'vnodes', 'vnode_row_counts', 'range_row_count', 'sweeps', 'at_once', 'touched', 'fills', 'drops', 'fill_low', 'fill_high',
        'last_fill', 'filled_row_count', 'generation', 'next_bounds', 'bounds_complete', 'query', 'query_hash', 'query_columns',
        'settings', 'key', 'vnode_count', 'backfill_mode', 'backfill_rate_limit', 'invocation_id',
    ] -%}
        {%- if name not in counts and shaped.get(name) is not none -%} {%- do stored.update({name: shaped[name]}) -%} {%- endif -%}
    {%- endfor -%}
    {%- for name, expression in counts.items() -%} {%- do counted.append(expression ~ ' as ' ~ name) -%} {%- endfor -%}
    concat({{ dbt_backfill.string_literal(tojson(stored)[:-1] ~ ',') }}, substr(to_json(struct(
        {{ counted | join(',\n        ') }}
    ), map('ignoreNullFields', 'true')), 2))
{%- endmacro %}


{#- Return the fields of a source, see the contract of the upstreams; `definition` is that of a change table, see describe_change_table. -#}
{% macro source_fields() %}
    {{ return(['role', 'relation', 'kind', 'id', 'version', 'committed_at', 'definition']) }}
{% endmacro %}
