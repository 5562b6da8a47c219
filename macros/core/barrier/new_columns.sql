{#-
    A query that returns other columns than before, and only that: the MV gets the new ones and loses those that are gone, without a
    rebuild. find_change asks for it, choose_plan plans barriers of the kind `fill`, and run_steps sends the ALTERs before their MERGEs.
-#}


{#-
    Return how the columns of the model's query differ from those of the committed one, if nothing else differs: {
      'columns': {'fills': those to be filled, see new_filling, 'drops': the names of those to be dropped}; none if more differs,
      'why': what differs, as the end of a sentence
    }

    With `on_schema_change` `append_new_columns` these are new columns only; with `sync_all_columns` columns may also be gone, or
    have a wider type. These are filled like new ones.

    Columns that are still being filled may be defined otherwise: nothing is promised of them above the second position, and
    they are filled from the start again.

    Spark's optimized plans of both queries, without the columns that differ, say that the other columns and the rows are the same.

    Arguments:
      analysis (dict): see new_analysis.
-#}
{% macro find_other_columns(backfill, state, analysis) %}
    {%- set last, syncs = state.committed, backfill.options.on_schema_change == 'sync_all_columns' -%}
    {%- set as_before = dict(backfill, query=last.query, query_hash=last.query_hash) -%}
    {%- set other = dbt_backfill.find_difference(as_before, state.settings, dict(analysis, columns=last.query_columns), last) -%}
    {%- if other -%} {{ return({'columns': none, 'why': other}) }} {%- endif -%}
    {%- set filling, retyped = (dbt_backfill.get_filling(state) or {'columns': []}).columns, [] -%}
    {%- set had = dbt_backfill._without_names(dbt_backfill.parse_columns(last.query_columns), filling) -%}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- set gone = dbt_backfill._without_names(had + filling, columns) -%}
    {#- Some texts of a type have quotes, others have not. -#}
    {%- set types = dbt_backfill.types_by_name(filling + (had if syncs else [])) -%}
    {%- for column in columns -%}
        {%- set before = types.get(column.name | lower, column.type) -%}
        {%- if column.type | replace('`', '') != before | replace('`', '') -%} {%- do retyped.append(column) -%} {%- endif -%}
    {%- endfor -%}
    {%- set kept = dbt_backfill._without_names(had, gone + retyped) -%}
    {%- set others = dbt_backfill._without_names(columns, kept) -%}
    {%- set fills = dbt_backfill.find_widened(backfill.mv, others, retyped) if syncs else {'columns': others, 'why': none} -%}
    {%- if gone and not syncs -%}
        {%- set why = 'it no longer returns ' ~ gone | map(attribute='name') | join(', ') -%}
    {%- elif retyped and not syncs -%}
        {%- set why = retyped[0].name ~ ', which is being filled, has another type' -%}
    {%- elif fills.why -%}
        {%- set why = fills.why -%}
    {%- elif not gone + others -%}
        {%- set why = 'it returns no new column' -%}
    {%- else -%}
        {%- set left_out = 'new' if gone and not others else none if filling + gone + retyped else 'old' -%}
        {%- set why = dbt_backfill._find_other_meaning(backfill, last, kept, left_out) -%}
    {%- endif -%}
    {%- set other = {'fills': fills.columns, 'drops': gone | map(attribute='name') | list} -%}
    {{ return({'columns': none if why else other, 'why': why}) }}
{% endmacro %}


{#-
    Return how the model's query gives the columns `kept` otherwise than the query of a plan; none if it does not.

    Queries with the same plan may not mean the same: a plan prints a constant without its quotes and type, and a cast of one not at
    all. So the texts are compared too, unless columns come and go at once, or have other types: then ranges are read that find it.

    Arguments:
      left_out (string or none): `old`, if only new columns come: the old query has to be the new one with words left out. `new`, if columns
        only go: the new query has to be the old one with words left out.
-#}
{% macro _find_other_meaning(backfill, plan, kept, left_out) %}
    {%- set names, texts, other_values = kept | map(attribute='name') | list, [],
        'it returns other rows, or other values in the columns that it had' -%}
    {%- for column in kept -%} {%- do texts.append(column.name ~ ': ' ~ column.type) -%} {%- endfor -%}
    {%- set now = dbt_backfill.explain_comparably(backfill, backfill.query, names) -%}
    {%- if now is none or now.columns != texts | join(', ') -%}
        {{ return('it returns a column that it had with another name or type') }}
    {%- elif now != dbt_backfill.explain_comparably(backfill, plan.query, names) -%}
        {{ return(other_values) }}
    {%- elif left_out == 'new' and not dbt_backfill.leaves_words_out(backfill.query, plan.query) -%}
        {{ return('it does more than leave columns out, and no rows would be read to compare what it has') }}
    {%- elif left_out == 'old' and not dbt_backfill.leaves_words_out(plan.query, backfill.query) -%}
        {{ return('it does more than add columns') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the columns that have not the name of one of `others`. -#}
{% macro _without_names(columns, others) %}
    {%- set names, left = others | map(attribute='name') | map('lower') | list, [] -%}
    {%- for column in columns if column.name | lower not in names -%} {%- do left.append(column) -%} {%- endfor -%}
    {{ return(left) }}
{% endmacro %}


{#-
    Return what is to be filled, and dropped, once the query returns other columns, see new_filling. Refuse what the MV cannot get or
    lose, and a version that the query does not read: a pinned one, or one in which the upstream has not the columns that it needs.

    Arguments:
      columns (dict): how they differ, see find_other_columns.
-#}
{% macro begin_filling(backfill, state, observed, analysis, version, columns) %}
    {%- if not state.uniform -%}
        {%- do dbt_backfill.refuse(
            'its query returns other columns, and its vnodes have different positions',
            'Let them come to the end (without backfill_vnodes) with the previous query, or rebuild the MV with --full-refresh'
        ) -%}
    {%- endif -%}
    {%- set left = state.committed.get('drops') or [] if state.dirty else [] -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- set known = dbt_backfill.parse_columns(state.committed.query_columns) -%}
    {%- do dbt_backfill.check_new_columns(backfill.mv, properties, dbt_backfill._without_names(columns.fills, known), left) -%}
    {%- do dbt_backfill.check_altered_columns(backfill.mv, properties, columns) -%}
    {%- if state.get('upstream_version') is not none -%}
        {%- do dbt_backfill.check_query_at(backfill, dict(observed, altered=true), analysis, version) -%}
    {%- endif -%}
    {%- set back, drops = columns.fills | map(attribute='name') | map('lower') | list, [] -%}
    {%- for name in (columns.drops + left) | unique if name | lower not in back -%} {%- do drops.append(name) -%} {%- endfor -%}
    {{ return(dbt_backfill.new_filling(columns.fills, drops=drops)) }}
{% endmacro %}


{#-
    Return a plan of the kind `fill` with its next range, as get_plan_with_range returns one.

    Arguments:
      filling (dict): as it is before, see new_filling.
-#}
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


{#- Return the fields of a plan that say where its window and the next ones end, up to the position, by one pass over their keys. -#}
{% macro find_fill_bounds(backfill, state, plan) %}
    {%- set remaining = {
        'range_low': plan.fill_low, 'range_high': state.get('position'), 'last_range': state.finished, 'vnodes': none,
    } -%}
    {%- set found = dbt_backfill.run_bounds(backfill, state, plan, remaining, state.row_count, plan.filled_row_count) -%}
    {{ return(dbt_backfill._fill_bounds_of_plan(state, found.bounds, found.complete)) }}
{% endmacro %}


{#- Return these fields for bounds that are known. The last window ends where the MV does. -#}
{% macro _fill_bounds_of_plan(state, bounds, complete) %}
    {{ return({
        'fill_high': bounds[0] if bounds else (none if state.finished else state.position),
        'last_fill': not bounds,
        'next_bounds': bounds[1:],
        'bounds_complete': complete and bounds != [],
    }) }}
{% endmacro %}


{#-
    Give the MV the columns that a plan fills, and drop those that it drops. This commits no rows. A statement that was read before it
    conflicts on Delta; on Iceberg a column that it does not know stays null, and one that is gone is not read.

    An ALTER is a statement of its own, right behind its fence. It commits only what nothing else has altered since it began.
-#}
{% macro run_alterations(backfill, plan) %}
    {%- set step, needed = 'alter the columns in the barrier ' ~ plan.epoch, dbt_backfill.get_alterations(backfill.mv, plan) -%}
    {%- if needed -%}
        {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
        {%- do dbt_backfill.run_table(step, dbt_backfill.get_alter_script(needed, fence, yields=true)) -%}
        {#- Sent once more, and by itself, an ALTER that failed says why. -#}
        {%- set failed = dbt_backfill.get_alterations(backfill.mv, plan) -%}
        {%- if failed -%} {%- do dbt_backfill.run_table(step, dbt_backfill.get_alter_script(failed, fence, yields=false)) -%} {%- endif -%}
    {%- endif -%}
{% endmacro %}


{#- Return the ALTERs that a plan still needs, as a list. -#}
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


{#-
    Return a script that sends these ALTERs, unless it is fenced. With `yields` it goes on after one that fails: an ALTER that is sent again,
    or by two runs at once, finds its work done.
-#}
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


{#- True if a query is another one with some of its words left out. -#}
{% macro leaves_words_out(query, other) %}
    {%- set at, words = namespace(found=0), dbt_backfill.get_words(query) + [none] -%}
    {%- for word in dbt_backfill.get_words(other) -%}
        {%- if word == words[at.found] -%} {%- set at.found = at.found + 1 -%} {%- endif -%}
    {%- endfor -%}
    {{ return(words[at.found] is none) }}
{% endmacro %}
