{#- This file handles a query that differs from the committed query only in its columns. The MV gets the new columns and loses the missing columns
    without a rebuild. find_change detects such a query, choose_plan plans barriers of the kind `fill`, and run_steps sends the ALTERs before the
    MERGEs. -#}


{#-
    Return how the columns of the model's query differ from the columns of the committed query: {
      'columns': {'fills': the columns to be filled, see new_filling, 'drops': the names of the columns to be dropped}; none if something else
      differs,
      'why': the reason if something else differs, as the end of a sentence
    }

    With `on_schema_change: append_new_columns`, only new columns are allowed. With `sync_all_columns`, columns may also be missing or have a wider
    type. Widened columns are filled like new columns. A column whose definition changes while it is being filled is filled again from the start.
-#}
{% macro find_other_columns(backfill, state, analysis) %}
    {%- set last, options, syncs = state.committed, backfill.options, backfill.options.on_schema_change == 'sync_all_columns' -%}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {#- The volatile columns of both queries. The option need not name a column that the query no longer returns. -#}
    {%- set stopped = (last.get('volatile_columns') or []) | map('lower') | reject('in', names | map('lower') | list) | list -%}
    {%- set volatile = (options.volatile_columns or []) + stopped -%}
    {%- set as_before = dict(backfill, query=last.query, query_hash=last.query_hash, options=dict(options, volatile_columns=volatile)) -%}
    {%- set other = dbt_backfill.find_difference(as_before, state.settings, dict(analysis, columns=last.query_columns), last) -%}
    {%- if other -%} {{ return({'columns': none, 'why': other}) }} {%- endif -%}
    {%- set filling, retyped = (dbt_backfill.get_filling(state) or {'columns': []}).columns, [] -%}
    {%- set had = dbt_backfill.without_names(dbt_backfill.parse_columns(last.query_columns), filling | map(attribute='name')) -%}
    {%- set gone = dbt_backfill.without_names(had + filling, names) -%}
    {#- The text of one type may be written with or without quotes. -#}
    {%- set types = dbt_backfill.types_by_name(filling + (had if syncs or volatile else [])) -%}
    {%- for column in columns -%}
        {%- set before = types.get(column.name | lower, column.type) -%}
        {%- if column.type | replace('`', '') != before | replace('`', '') -%} {%- do retyped.append(column) -%} {%- endif -%}
    {%- endfor -%}
    {%- set kept = dbt_backfill.without_names(had, (gone + retyped) | map(attribute='name')) -%}
    {%- set others = dbt_backfill.without_names(columns, kept | map(attribute='name')) -%}
    {%- set fills = dbt_backfill.find_widened(backfill.mv, others, retyped) if syncs else {'columns': others, 'why': none} -%}
    {%- if gone and not syncs -%}
        {%- set why = 'it no longer returns ' ~ gone | map(attribute='name') | join(', ') -%}
    {%- elif retyped and not syncs -%}
        {%- set why = retyped[0].name ~ (' has another type' if volatile else ', which is being filled, has another type') -%}
    {%- elif fills.why -%}
        {%- set why = fills.why -%}
    {%- elif not gone + others -%}
        {%- set why = 'it returns no new column' -%}
    {%- else -%}
        {%- set left_out = 'new' if gone and not others else none if filling + gone + retyped else 'old' -%}
        {%- set why = dbt_backfill._find_other_meaning(backfill, last, kept, left_out, volatile) -%}
    {%- endif -%}
    {%- set other = {'fills': fills.columns, 'drops': gone | map(attribute='name') | list} -%}
    {{ return({'columns': none if why else other, 'why': why}) }}
{% endmacro %}


{#-
    Return how the model's query and a plan's query differ in the rows or in the columns `kept`; none if there is no difference.

    Two queries with the same plan may still differ: a plan prints a constant without its quotes and type, and does not print a cast of a
    constant. So the texts of the queries are compared as well. The texts are not compared if some columns are new while others are missing or have
    other types. In this case the fill compares all columns of all rows anyway. Columns that are `volatile` in one of the queries are not compared.
    `left_out`: the query that must be a part of the other query, see leaves_entries_out: `old` if columns are only added, `new` if columns are only
    removed; none if the texts are not compared.
-#}
{% macro _find_other_meaning(backfill, plan, kept, left_out, volatile) %}
    {%- set kept, texts, other_values = dbt_backfill.without_names(kept, volatile), [],
        'it returns other rows, or other values in the columns that it had' -%}
    {%- set names, query, before = kept | map(attribute='name') | list, dbt_backfill.get_lasting_query(backfill.query, volatile),
        dbt_backfill.get_lasting_query(plan.query, volatile) -%}
    {%- for column in kept -%} {%- do texts.append(column.name ~ ': ' ~ column.type) -%} {%- endfor -%}
    {%- set now = dbt_backfill.explain_comparably(backfill, query, names) -%}
    {%- if now is none or now.columns != texts | join(', ') -%}
        {{ return('it returns an old column with another name or type') }}
    {%- elif now != dbt_backfill.explain_comparably(backfill, before, names) -%}
        {{ return(other_values) }}
    {%- elif left_out == 'new' and not dbt_backfill.leaves_entries_out(query, before) -%}
        {{ return('it does more than leave columns out, but no barrier would read the rows again to find the difference') }}
    {%- elif left_out == 'old' and not dbt_backfill.leaves_entries_out(before, query) -%}
        {{ return('it does more than add columns') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the columns that are to be filled and dropped after a change of the query, see new_filling. Refuse a column that the MV cannot get or lose.
    Refuse a version on which the query does not run, such as a pinned snapshot that lacks a column. `columns`: see find_other_columns. -#}
{% macro begin_filling(backfill, state, observed, analysis, version, columns) %}
    {%- if not state.uniform -%}
        {%- do dbt_backfill.refuse('its query returns other columns than at the last barrier, but the vnodes of the MV have different positions',
            'Run the previous query without backfill_vnodes until all vnodes have finished, or ' ~ dbt_backfill.get_rebuild_text(backfill),
            id='new-columns-uneven-vnodes') -%}
    {%- endif -%}
    {%- set left = state.committed.get('drops') or [] if state.dirty else [] -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- set known = dbt_backfill.parse_columns(state.committed.query_columns) -%}
    {%- do dbt_backfill.check_new_columns(backfill.mv, properties, dbt_backfill.without_names(columns.fills, known | map(attribute='name')), left) -%}
    {%- do dbt_backfill.check_altered_columns(backfill.mv, properties, columns) -%}
    {%- if state.get('upstream_version') is not none -%}
        {%- do dbt_backfill.check_query_at(backfill, dict(observed, altered=true), analysis, version) -%}
    {%- endif -%}
    {%- set back, drops = columns.fills | map(attribute='name') | map('lower') | list, [] -%}
    {%- for name in (columns.drops + left) | unique if name | lower not in back -%} {%- do drops.append(name) -%} {%- endfor -%}
    {{ return(dbt_backfill.new_filling(columns.fills, drops=drops)) }}
{% endmacro %}


{#- Return a plan of the kind `fill` with its next window, in the form of get_plan_with_range. `filling`: the state before the plan. -#}
{% macro get_plan_with_fill(backfill, state, plan, filling) %}
    {%- set rate, last = backfill.options.backfill_rate_limit, state.committed -%}
    {%- set begun = dict(
        plan, fills=filling.columns, fill_low=filling.position, fill_high=filling.position, last_fill=false,
        filled_row_count=filling.row_count, next_bounds=[], bounds_complete=false, drops=filling.drops,
    ) -%}
    {%- if rate == 0 -%}
        {{ return({'plan': begun}) }}
    {%- elif rate is none -%}
        {{ return({'plan': dict(begun, **dbt_backfill._fill_bounds_of_plan(state, [], true))}) }}
    {%- elif last.kind == 'fill' and filling.position is not none and last.get('backfill_rate_limit') == rate
            and (last.next_bounds or last.bounds_complete) -%}
        {%- set known = dbt_backfill._fill_bounds_of_plan(state, last.next_bounds, last.bounds_complete) -%}
        {{ return({'plan': dict(begun, **known), 'most_rows': (rate * 1.25) | int}) }}
    {%- endif -%}
    {{ return({'plan': dict(begun, **dbt_backfill.find_fill_bounds(backfill, state, begun))}) }}
{% endmacro %}


{#- Return the fields of a plan for the end of its window and the ends of the next windows. One pass over the keys finds these ends. -#}
{% macro find_fill_bounds(backfill, state, plan) %}
    {%- set remaining = {'range_low': plan.fill_low, 'range_high': state.get('position'), 'last_range': state.finished, 'vnodes': none} -%}
    {%- set found = dbt_backfill.run_bounds(backfill, state, plan, remaining, state.row_count, plan.filled_row_count) -%}
    {{ return(dbt_backfill._fill_bounds_of_plan(state, found.bounds, found.complete)) }}
{% endmacro %}


{#- Return the fields of find_fill_bounds for known bounds. The last window ends at the position of the MV. -#}
{% macro _fill_bounds_of_plan(state, bounds, complete) %}
    {{ return({
        'fill_high': bounds[0] if bounds else (none if state.finished else state.position), 'last_fill': not bounds,
        'next_bounds': bounds[1:], 'bounds_complete': complete and bounds != [],
    }) }}
{% endmacro %}


{#-
    Alter the MV: add the columns that a plan fills, and drop the columns that the plan drops. No rows are committed. On Delta, a statement that began
    before the ALTER conflicts with the ALTER. On Iceberg, such a statement leaves new columns null and does not read dropped columns.

    Each ALTER is a statement of its own, right after its fence. An ALTER fails if something else has altered the table after the ALTER began.
-#}
{% macro run_alterations(backfill, plan) %}
    {%- set step, needed = 'alter the columns in the barrier ' ~ plan.epoch, dbt_backfill.get_alterations(backfill.mv, plan) -%}
    {%- if needed -%}
        {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
        {%- do dbt_backfill.run_table(step, dbt_backfill.get_alter_script(needed, fence, yields=true)) -%}
        {#- An ALTER that failed is sent again by itself, to show its error. -#}
        {%- set failed = dbt_backfill.get_alterations(backfill.mv, plan) -%}
        {%- if failed -%} {%- do dbt_backfill.run_table(step, dbt_backfill.get_alter_script(failed, fence, yields=false)) -%} {%- endif -%}
    {%- endif -%}
{% endmacro %}


{#- Return the ALTERs of a plan that have not been executed yet, as a list. -#}
{% macro get_alterations(mv, plan) %}
    {%- set fills, drops = plan.get('fills') or [], plan.get('drops') or [] -%}
    {%- if not fills and not drops -%} {{ return([]) }} {%- endif -%}
    {%- set types, missing, alterations = dbt_backfill.get_column_types(mv), [], [] -%}
    {%- set table = 'alter table ' ~ mv.render() ~ ' ' -%}
    {%- for name in drops if name | lower in types -%}
        {%- do alterations.append(table ~ 'drop column ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {%- for column in fills -%}
        {%- if column.name | lower not in types -%}
            {%- do missing.append(column) -%}
        {%- elif column.get('was') and types[column.name | lower] == column.was -%}
            {%- do alterations.append(table ~ 'alter column ' ~ dbt_backfill.identifier(column.name) ~ ' type ' ~ column.type) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if missing -%}
        {%- set features = dbt_backfill.get_needed_features([], missing | map(attribute='type') | list)
            if dbt_backfill.get_file_format() == 'delta' else {} -%}
        {%- if features -%} {%- do alterations.append(dbt_backfill.get_set_properties_sql(mv, features)) -%} {%- endif -%}
        {%- do alterations.append(table ~ 'add columns (' ~ dbt_backfill.column_definitions(missing) ~ ')') -%}
    {%- endif -%}
    {{ return(alterations) }}
{% endmacro %}


{#- Return a script that sends these ALTERs. The fence stops the script if the plan is no longer to be executed. With `yields` the script continues
    after an ALTER that fails, because an earlier attempt or another run may have executed this ALTER already. -#}
{% macro get_alter_script(alterations, fence, yields) -%}
    begin
        declare stands boolean;
        {%- for alteration in alterations %}
        set stands = (select {{ fence }});
        {%- if yields %}
        begin
            declare exit handler for sqlexception begin end;
            {{ alteration }};
        end;
        {%- else %}
        {{ alteration }};
        {%- endif %}
        {%- endfor %}
    end
{%- endmacro %}


{#- True if leaving out some entries of the SELECT lists of `other` gives `query`. -#}
{% macro leaves_entries_out(query, other) %}
    {%- set at, segments = namespace(found=0), dbt_backfill.get_segments(dbt_backfill.get_words(query)) + [none] -%}
    {%- for segment in dbt_backfill.get_segments(dbt_backfill.get_words(other)) -%}
        {%- if segment == segments[at.found] -%}
            {%- set at.found = at.found + 1 -%}
        {%- elif not segment.is_entry -%}
            {{ return(false) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(segments[at.found] is none) }}
{% endmacro %}
