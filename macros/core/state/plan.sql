{#-
    A plan as it is stored, in order: name -> [type, SQL value].

    A plan holds everything that executing it needs, so that a later run can adopt it word for word: every
    step is a pure function of the plan and of the position that it starts from. It has this shape only, whether it was
    just made or read back; what was read back also has `settings`, `invocation_id` and `planned_at`, and of a barrier
    that was committed what get_outcome_sql adds.

    Arguments:
      plan (dict): epoch, plan_id, backfill_id, kind, reason, sources (what it reads: a list of {role: `upstream`, `feed`, `stage` or `replica`,
        relation, kind, id, version, committed_at, definition: what else says which changes a change table tells}),
        upstream_row_count, range_low, range_high (lists of literals' texts, in the order of the backfill; none as low: from the
        start; none as high with last_range: to the end), last_range, vnodes (list, none for all), vnode_row_counts (a SQL map of vnodes to snapshot
        rows), range_row_count, sweeps (whether the MV had rows of before above the position when it was planned, see
        is_sweeping), at_once (whether changes and range are merged by one statement), touched (of a re-anchor
        that is limited to what given-up plans could touch: the ends of their ranges, [] where one is open above),
        fills (the columns that are being filled, as new_filling describes them), drops (the names of the columns that the MV
        is to lose), fill_low, fill_high (like range_low and
        range_high: between which it fills them), last_fill (whether they hold up to the position after it; then none as
        fill_high: open above), filled_row_count (rows that were read to fill them), generation (of a swap: {'relation', 'id',
        'version'} of the MV that is put in place), next_bounds (lists of literals' texts of
        the ranges to come, of those that fill while there are any), bounds_complete (whether they reach the end), query,
        query_hash, query_columns, alias_columns (see find_alias_columns), settings (see get_settings_to_record) or, of a first run, which has
        not read any, used_settings (see find_used_settings: those to record beside the others), key (a list of
        {name, upstream, type, position: the progress table's column, order: see is_descending}), vnode_count, backfill_mode,
        backfill_rate_limit.
        What is absent is null.
-#}
{% macro plan_columns(plan) %}
    {%- set text, texts, row = dbt_backfill.string_literal, dbt_backfill.string_array_literal, dbt_backfill._rows_literal -%}
    {#- Where a state says nothing there are none. -#}
    {%- set aliased = {'alias_columns': ['array<string>', texts(plan.alias_columns)]} if plan.get('alias_columns') else {} -%}
    {{ return(dict({
        'epoch': ['bigint', plan.epoch],
        'plan_id': ['string', text(plan.plan_id)],
        'backfill_id': ['string', text(plan.backfill_id)],
        'kind': ['string', text(plan.kind)],
        'reason': ['string', text(plan.get('reason'))],
        'sources': [dbt_backfill.rows_type(dbt_backfill.source_fields()), row(plan.get('sources') or [], dbt_backfill.source_fields())],
        'upstream_row_count': ['bigint', plan.get('upstream_row_count')],
        'range_low': ['array<string>', texts(plan.get('range_low'))],
        'range_high': ['array<string>', texts(plan.get('range_high'))],
        'last_range': ['boolean', 'true' if plan.get('last_range') else 'false'],
        'vnodes': ['array<int>', 'array(' ~ plan.vnodes | join(', ') ~ ')' if plan.get('vnodes') is not none else 'null'],
        'vnode_row_counts': ['map<int, bigint>', plan.get('vnode_row_counts', 'map()')],
        'range_row_count': ['bigint', plan.get('range_row_count')],
        'sweeps': ['boolean', 'true' if plan.get('sweeps') else 'false'],
        'at_once': ['boolean', plan.get('at_once') or 'false'],
        'touched': ['array<array<string>>', dbt_backfill._bounds_literal(plan.get('touched'))],
        'fills': [dbt_backfill.rows_type(dbt_backfill._fill_fields()), row(plan.fills, dbt_backfill._fill_fields()) if plan.get('fills') else none],
        'drops': ['array<string>', texts(plan.get('drops') or none)],
        'fill_low': ['array<string>', texts(plan.get('fill_low'))],
        'fill_high': ['array<string>', texts(plan.get('fill_high'))],
        'last_fill': ['boolean', 'true' if plan.get('last_fill') else none],
        'filled_row_count': ['bigint', plan.get('filled_row_count')],
        'generation': ['map<string, string>', dbt_backfill._map_literal(plan.get('generation'))],
        'next_bounds': ['array<array<string>>', dbt_backfill._bounds_literal(plan.get('next_bounds') or [])],
        'bounds_complete': ['boolean', 'true' if plan.get('bounds_complete') else 'false'],
        'query': ['string', text(plan.query)],
        'query_hash': ['string', text(plan.query_hash)],
        'query_columns': ['string', text(plan.query_columns)],
        'settings': [
            'map<string, string>', dbt_backfill._map_literal(plan.get('settings')) or dbt_backfill.settings_expression(plan.get('used_settings')),
        ],
        'key': [dbt_backfill.rows_type(dbt_backfill.key_fields(plan.key)), row(plan.key, dbt_backfill.key_fields(plan.key))],
        'vnode_count': ['int', plan.vnode_count],
        'backfill_mode': ['string', text(plan.get('backfill_mode'))],
        'backfill_rate_limit': ['bigint', plan.get('backfill_rate_limit')],
        'invocation_id': ['string', text(invocation_id)],
        'planned_at': ['timestamp', 'current_timestamp()'],
    }, **aliased)) }}
{% endmacro %}


{#- The order is noted with the key of a descending backfill only: where a state says nothing it is ascending. -#}
{% macro key_fields(key=none) %}
    {{ return(['name', 'upstream', 'type', 'position'] + (['order'] if key and dbt_backfill.is_descending(key) else [])) }}
{% endmacro %}


{% macro _fill_fields() %}
    {{ return(['name', 'type', 'was']) }}
{% endmacro %}


{#- The type of a list of dicts with these fields, which are texts. -#}
{% macro rows_type(fields) %}
    {{ return('array<struct<' ~ fields | join(': string, ') ~ ': string>>') }}
{% endmacro %}


{#- Such a list as an array of structs. -#}
{% macro _rows_literal(rows, fields) %}
    {%- set literals = [] -%}
    {%- for row in rows -%}
        {%- set values = [] -%}
        {%- for field in fields -%} {%- do values.append(dbt_backfill.string_literal(row.get(field))) -%} {%- endfor -%}
        {%- do literals.append('struct(' ~ values | join(', ') ~ ')') -%}
    {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{% endmacro %}


{#- A dict of texts as a SQL map; none for none. -#}
{% macro _map_literal(entries) %}
    {%- if entries is none -%} {{ return(none) }} {%- endif -%}
    {%- set literals = [] -%}
    {%- for name, value in entries.items() -%}
        {%- do literals.append(dbt_backfill.string_literal(name) ~ ', ' ~ dbt_backfill.string_literal(value)) -%}
    {%- endfor -%}
    {{ return('map(' ~ literals | join(', ') ~ ')') }}
{% endmacro %}


{#- Positions, lists of literals' texts, as an array of arrays; `null` for none. -#}
{% macro _bounds_literal(bounds) %}
    {%- if bounds is none -%} {{ return('null') }} {%- endif -%}
    {%- set literals = [] -%}
    {%- for bound in bounds -%} {%- do literals.append(dbt_backfill.string_array_literal(bound)) -%} {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{% endmacro %}


{#- A plan as the text that is stored: a scalar SQL expression. What is null is left out, whatever the session says. -#}
{% macro get_plan_json_sql(plan) -%}
    {%- set columns = [] -%}
    {%- for name, column in dbt_backfill.plan_columns(plan).items() -%}
        {%- do columns.append('cast(' ~ (column[1] if column[1] is not none else 'null') ~ ' as ' ~ column[0] ~ ') as ' ~ name) -%}
    {%- endfor -%}
    to_json(struct(
        {{ columns | join(',\n        ') }}
    ), {{ dbt_backfill.plan_json_options() }})
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
