{#-
    Return the stored form of a plan: a SQL expression of its JSON, which ends with the values that the script has counted. A plan is a dict; a new
    plan and a plan that was read back have the same entries. Every step of a barrier depends only on the plan and on the position at which the
    barrier starts. So a later run can execute the plan word for word.

      epoch, plan_id, backfill_id, kind, reason
      sources: the tables that the plan reads, a list of {role: `upstream`, `feed`, `stage` or `replica`, relation, kind, id, version, committed_at,
        definition: further facts about the source, as text}
      upstream_row_count: the number of rows of the upstream when it was last counted
      range_low, range_high, last_range: the range, as lists of literals' texts, in the order of the backfill. If range_low is none, the range begins
        at the start. If last_range is true, the range has no end
      vnodes, vnode_row_counts, range_row_count: the vnodes of the range, as a list, or none for all vnodes; the number of the range's rows in each
        vnode, as a dict; the sum of these numbers
      sweeps: true if the MV had rows above the position when the plan was made, see is_sweeping
      at_once: true if one statement merges the changes and the range
      touched: only of a re-anchor: the ranges above the position that given-up plans could write to, as a list of their ends, with [] for a range
        without an end. The list is empty if there are no such ranges; none if the re-anchor compares the whole MV
      removes_duplicates: true if another writer may have written rows of existing keys, or rows with a null in the key
      fills, drops: the columns that are being filled, as new_filling describes them; the names of the columns that the MV is to lose
      fill_low, fill_high, last_fill: the window of a fill, like range_low and range_high; last_fill is true for the last window; fill_high is none if
        the last window has no upper bound
      filled_row_count: the number of rows that were read to fill the columns
      generation: only of a swap: {'relation', 'id', 'version'} of the generation that replaces the MV
      next_bounds, bounds_complete: the ends of the next ranges (in a fill, of the next windows); bounds_complete is true if these ends reach the end
        of the upstream
      query, query_hash, query_columns, settings: see get_result_settings for the settings
      volatile_columns: the names of the query's columns that are left out of comparisons, see get_lasting_query; none without the option
      key: a list of {name, upstream, type, position: the column of the progress table, order: see is_descending}
      vnode_count, backfill_mode, backfill_rate_limit
      mv_version: only of the plan that adopts a table: the version of the table before its keys were checked
      invocation_id, planned_at: the run that made the plan, and the time of the plan; only in a plan that was read back

    A plan that is about to be stored also has `counted`: names -> SQL expressions of the values that only the script can count. A committed barrier
    also has the entries that get_outcome_sql adds. Entries with the value none are not stored.
-#}
{% macro get_plan_json_sql(plan) -%}
    {%- set shaped, stored, counted = dict(plan, invocation_id=invocation_id), {}, [] -%}
    {%- for name in ['last_range', 'sweeps', 'at_once', 'bounds_complete'] -%} {%- do shaped.update({name: not not plan.get(name)}) -%} {%- endfor -%}
    {%- for name in ['drops', 'last_fill', 'removes_duplicates'] -%} {%- do shaped.update({name: plan.get(name) or none}) -%} {%- endfor -%}
    {%- do shaped.update({'next_bounds': plan.get('next_bounds') or [], 'vnode_row_counts': plan.get('vnode_row_counts') or {}}) -%}
    {#- Of each dict in the plan, only these entries are stored, as texts. A key without an order is ascending. -#}
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
        'last_fill', 'filled_row_count', 'removes_duplicates', 'generation', 'next_bounds', 'bounds_complete', 'query', 'query_hash', 'query_columns',
        'volatile_columns', 'settings', 'key', 'vnode_count', 'backfill_mode', 'backfill_rate_limit', 'invocation_id', 'mv_version',
    ] -%}
        {%- if name not in counts and shaped.get(name) is not none -%} {%- do stored.update({name: shaped[name]}) -%} {%- endif -%}
    {%- endfor -%}
    {%- for name, expression in counts.items() -%} {%- do counted.append(expression ~ ' as ' ~ name) -%} {%- endfor -%}
    concat({{ dbt_backfill.string_literal(tojson(stored)[:-1] ~ ',') }}, substr(to_json(struct(
        {{ counted | join(',\n        ') }}
    ), map('ignoreNullFields', 'true')), 2))
{%- endmacro %}


{#- Return statements of a script that store a plan, if no plan is stored for its epoch yet. If two runs store a plan at the same time, only one plan
    is stored. Both runs then execute this plan. The last statement selects the stored plan, see get_next_plan_sql. -#}
{% macro get_store_plan_statements(backfill, plan, known=[]) -%}
    set planned = {{ dbt_backfill.get_plan_json_sql(plan) }};
    {% set sql -%}
        update {{ backfill.progress.render() }}
        set plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }}, plan_kind = {{ dbt_backfill.string_literal(plan.kind) }},
            plan = if(vnode = 0, __bf_planned__, null)
        where epoch = {{ plan.epoch - 1 }} and plan_id is null
    {%- endset -%}
    {{ dbt_backfill.get_state_statement(backfill, sql, {'__bf_planned__': dbt_backfill.literal_expression('planned', 'string')}) }}
    {{ dbt_backfill.get_next_plan_sql(backfill, plan, known) }};
{%- endmacro %}


{#-
    Return the statement that changes the state, as a part of a script. On Delta a conflict with another run raises no error, and the script then
    reads the state. On Iceberg a conflict fails the script.

    Arguments:
      sql (string): an UPDATE or a MERGE. Its condition has the epoch and the plan, so it changes nothing if it is sent again.
      literals (dict): text in `sql` -> SQL expression of the literal that replaces it, see get_execute_with_literals_sql. An UPDATE of an
        Iceberg table cannot use variables.
-#}
{% macro get_state_statement(backfill, sql, literals={}) -%}
    {%- set update = dbt_backfill.get_execute_with_literals_sql(sql, literals) if literals else sql -%}
    {{ dbt_backfill.get_yielding_sql(update, backfill.options.file_format) }}
{%- endmacro %}


{#-
    Return a select of JSON with the plan that is stored for the epoch of `plan` ('plan', null if no plan is stored) and the script's variables `known`.
    The select reads all rows of the progress table: with a filter, Delta would run a job that looks for files to skip.

    The state must be that of the MV of `plan`. Somebody may drop the MV while a run stalls, and build an MV of the same name, whose epochs begin at 0
    again. Then the run stores its plan in the state of the new MV, but does not execute it. The next run removes the plan.
-#}
{% macro get_next_plan_sql(relations, plan, known=[]) -%}
    select concat('{',
        {%- for name in known %}
        coalesce(concat('"{{ name }}":', to_json({{ name }}), ','), ''),
        {%- endfor %}
        '"plan":', coalesce(max(if(epoch = {{ plan.epoch - 1 }}
            {{- " and contains(last, '" ~ plan.backfill_id ~ "')" if plan.get('backfill_id') }}, plan, null)), 'null'), '}'
    )
    {#- Only the vnode 0 has a plan. The columns of the key are left out: a column with the name of a variable would hide that variable. #}
    from (select epoch, plan, last from {{ relations.progress.render() }})
{%- endmacro %}


{#- Return the fields of a source, see the contract of the upstreams. For a change table, describe_change_table returns the `definition`. -#}
{% macro source_fields() %}
    {{ return(['role', 'relation', 'kind', 'id', 'version', 'committed_at', 'definition']) }}
{% endmacro %}
