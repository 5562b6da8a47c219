{#-
    The names of what is stored of a plan, in order. A plan is a dict that becomes JSON as it is, see get_plan_json_sql; it has this shape
    only, whether it was just made or read back.

    A plan holds everything that executing it needs, so that a later run can adopt it word for word: every step is a pure function of
    the plan and of the position that it starts from.

      epoch, plan_id, backfill_id, kind, reason
      sources             what it reads: a list of {role: `upstream`, `feed`, `stage` or `replica`, relation, kind, id, version,
                          committed_at, definition: what else says which changes a change table tells}
      upstream_row_count  of the upstream, as it was counted last
      range_low, range_high, last_range
                          the range: lists of literals' texts, in the order of the backfill; none as low: from the start; none as high
                          with last_range: to the end
      vnodes              of the range: a list, none for all
      vnode_row_counts, range_row_count
                          the rows of the range: a dict by vnode, and their sum
      sweeps              true if the MV had rows of before above the position when it was planned, see is_sweeping
      at_once             true if changes and range are merged by one statement
      touched             of a re-anchor that is limited to what given-up plans could write to: the ends of their ranges, [] where one
                          is open above
      fills, drops        the columns that are being filled, as new_filling describes them; the names of those that the MV is to lose
      fill_low, fill_high, last_fill, filled_row_count
                          the window of a fill, like range_low and range_high; true if the columns hold up to the position after it
                          (then none as fill_high: open above); rows that were read to fill them
      generation          of a swap: {'relation', 'id', 'version'} of the MV that is put in place
      next_bounds, bounds_complete
                          the ends of the ranges to come, of those that fill while there are any; true if they reach the end
      query, query_hash, query_columns, alias_columns (see find_alias_columns)
      settings            see get_settings_to_record
      key                 a list of {name, upstream, type, position: the progress table's column, order: see is_descending}
      vnode_count, backfill_mode, backfill_rate_limit
      invocation_id, planned_at
                          of the run that made it; only in what was read back

    A plan that is about to be stored also has `counted`, what only the script that stores it can count: name -> SQL expression; and
    `used_settings`, the settings to record, where this run has not read any. A barrier that was committed has what get_outcome_sql adds.
    What is none is left out.
-#}
{% macro plan_fields() %}
    {{ return([
        'epoch', 'plan_id', 'backfill_id', 'kind', 'reason', 'sources', 'upstream_row_count', 'range_low', 'range_high', 'last_range',
        'vnodes', 'vnode_row_counts', 'range_row_count', 'sweeps', 'at_once', 'touched', 'fills', 'drops', 'fill_low', 'fill_high',
        'last_fill', 'filled_row_count', 'generation', 'next_bounds', 'bounds_complete', 'query', 'query_hash', 'query_columns',
        'alias_columns', 'settings', 'key', 'vnode_count', 'backfill_mode', 'backfill_rate_limit', 'invocation_id',
    ]) }}
{% endmacro %}


{#- The order is recorded with the key of a descending backfill only: where a state says nothing it is ascending. -#}
{% macro key_fields(key=none) %}
    {{ return(['name', 'upstream', 'type', 'position'] + (['order'] if key and dbt_backfill.is_descending(key) else [])) }}
{% endmacro %}


{#- The type of a list of dicts with these fields, which are texts. -#}
{% macro rows_type(fields) %}
    {{ return('array<struct<' ~ fields | join(': string, ') ~ ': string>>') }}
{% endmacro %}


{#- These dicts with these fields, without those that are none. -#}
{% macro _with_fields(rows, fields) %}
    {%- set kept = [] -%}
    {%- for row in rows -%}
        {%- set entries = {} -%}
        {%- for field in fields -%}
            {%- if row.get(field) is not none -%} {%- do entries.update({field: row[field] ~ ''}) -%} {%- endif -%}
        {%- endfor -%}
        {%- do kept.append(entries) -%}
    {%- endfor -%}
    {{ return(kept) }}
{% endmacro %}


{#- A plan as the text that is stored: a scalar SQL expression, the JSON of the plan with what the script has counted at its end. -#}
{% macro get_plan_json_sql(plan) -%}
    {%- set counted, stored, entries = dict(plan.get('counted') or {}, planned_at='current_timestamp()'), {}, [] -%}
    {%- if plan.get('settings') is none -%}
        {%- do counted.update({'settings': dbt_backfill.settings_expression(plan.get('used_settings'))}) -%}
    {%- endif -%}
    {%- set shaped = dict(
        plan,
        invocation_id=invocation_id,
        sources=dbt_backfill._with_fields(plan.get('sources') or [], dbt_backfill.source_fields()),
        key=dbt_backfill._with_fields(plan.key, dbt_backfill.key_fields(plan.key)),
        fills=dbt_backfill._with_fields(plan.get('fills') or [], ['name', 'type', 'was']) or none,
        drops=plan.get('drops') or none,
        alias_columns=plan.get('alias_columns') or none,
        generation=dbt_backfill._with_fields([plan.get('generation') or {}], ['relation', 'id', 'version'])[0] or none,
        next_bounds=plan.get('next_bounds') or [],
        vnode_row_counts=plan.get('vnode_row_counts') or {},
        last_fill=plan.get('last_fill') or none
    ) -%}
    {%- for name in ['last_range', 'sweeps', 'at_once', 'bounds_complete'] -%} {%- do shaped.update({name: not not plan.get(name)}) -%} {%- endfor -%}
    {%- for name in dbt_backfill.plan_fields() -%}
        {%- if name not in counted and shaped.get(name) is not none -%} {%- do stored.update({name: shaped[name]}) -%} {%- endif -%}
    {%- endfor -%}
    {%- for name, expression in counted.items() -%} {%- do entries.append(expression ~ ' as ' ~ name) -%} {%- endfor -%}
    concat({{ dbt_backfill.string_literal(tojson(stored)[:-1] ~ ',') }}, substr(to_json(struct(
        {{ entries | join(',\n        ') }}
    ), {{ dbt_backfill.plan_json_options() }}), 2))
{%- endmacro %}


{% macro plan_json_options() %}
    {{ return("map('ignoreNullFields', 'true')") }}
{% endmacro %}


{#- Whether a progress table that was made for a plan also serves this key and number of vnodes. -#}
{% macro has_shape_of(plan, keys, vnode_count) %}
    {%- set shapes = [] -%}
    {%- for list in [plan.key, keys] -%}
        {%- set columns = [] -%}
        {%- for key in list -%} {%- do columns.append([key.upstream, key.type]) -%} {%- endfor -%}
        {%- do shapes.append(columns) -%}
    {%- endfor -%}
    {{ return(shapes[0] == shapes[1] and plan.vnode_count == vnode_count) }}
{% endmacro %}


{#-
    Whether a committed plan is a reset that was given up (it reads no version), or a swap. The MV may be a table of its columns,
    and the progress table has the key and vnodes of the plan before it: only one that replaces it again can follow.
-#}
{% macro is_abandoned_reset(plan) %}
    {%- set replaces = dbt_backfill.get_source(plan).get('version') is none or plan.get('generation') is not none -%}
    {{ return(plan.kind == 'abandon' and replaces) }}
{% endmacro %}
