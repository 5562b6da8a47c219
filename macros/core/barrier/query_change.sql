{#-
    Return how the model differs from what the last plan was made for: {
      'rebuild': why the MV has to be rebuilt, if `on_query_change` is `rebuild`; none if not,
      'columns': how the columns of its query differ, see find_other_columns, if `on_schema_change` lets the MV get these; none if not
    }

    Any other change is refused: rows that were merged before and after it would come from different queries.

    dbt's `on_configuration_change` is not used for this: its default is `apply`, also if the user set nothing, and that would rebuild
    silently.

    Arguments:
      learned (dict): see new_learned; a query that was not explained is compared by its text and options only.
-#}
{% macro find_change(backfill, state, learned) %}
    {%- if state.get('missing') -%} {{ return({'rebuild': none, 'columns': none}) }} {%- endif -%}
    {%- set options, planned = backfill.options, state.get('planned') -%}
    {%- set is_replaced = planned and dbt_backfill.replaces_mv(planned) -%}
    {%- set last = planned if is_replaced else state.committed -%}
    {%- set reason = dbt_backfill.find_difference(backfill, state.settings, learned, last) -%}
    {%- set alters = options.on_schema_change in ['append_new_columns', 'sync_all_columns'] and not is_replaced -%}
    {%- set found = dbt_backfill.find_other_columns(backfill, state, learned) if reason and alters else {'columns': none, 'why': none} -%}
    {%- if found.columns or not reason -%} {{ return({'rebuild': none, 'columns': found.columns}) }} {%- endif -%}
    {%- set refuses_all = options.on_query_change == 'fail' -%}
    {%- if refuses_all or options.on_schema_change == 'fail' -%}
        {#- First refuse what is wrong with today's query: nobody should rebuild the MV for a query that is refused then. -#}
        {%- if not learned.explained -%}
            {%- do dbt_backfill.observe_upstream(backfill, state, none) -%}
            {%- set learned = dbt_backfill.learn_query(backfill, learned) -%}
        {%- endif -%}
        {%- if refuses_all -%}
            {%- set which = 'its' if options.on_schema_change == 'sync_all_columns' else 'new' -%}
            {%- set more = ', and not by ' ~ which ~ ' columns alone: ' ~ found.why if found.why else '' -%}
            {%- do dbt_backfill.refuse(
                reason ~ ' since its last barrier' ~ more,
                "Undo the change, or rebuild the MV: once with --full-refresh, or always with on_query_change='rebuild'"
            ) -%}
        {%- elif learned.columns != last.query_columns -%}
            {%- do dbt_backfill.refuse(
                'the columns of its query changed from (' ~ last.query_columns ~ ') to (' ~ learned.columns ~ ') since its last barrier',
                "Undo the change, rebuild the MV once with --full-refresh, or remove on_schema_change='fail'"
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return({'rebuild': reason, 'columns': none}) }}
{% endmacro %}


{#- Return why a run has to rebuild the MV before it does anything else; none if it has not to. -#}
{% macro find_query_change(backfill, state, learned) %}
    {{ return(dbt_backfill.find_change(backfill, state, learned).rebuild) }}
{% endmacro %}


{#-
    Return how the model differs from the one of a plan, `last`; none if it means the same. The number of vnodes does not change the
    rows, nor does the order in which they are read: the MV keeps what it has, see report_kept_shape.
-#}
{% macro find_difference(backfill, settings, learned, last) %}
    {%- set changed, options = dbt_backfill.find_changed_setting(last, settings), backfill.options -%}
    {%- set upstream, names = dbt_backfill.get_source(last).relation, last.key | map(attribute='name') | list -%}
    {%- if upstream | replace('`', '') != backfill.upstream.relation.render() | replace('`', '') -%}
        {{ return('its upstream changed from ' ~ upstream ~ ' to ' ~ backfill.upstream.relation.render()) }}
    {%- elif not dbt_backfill.is_same_query(backfill, last) -%}
        {{ return('its query changed') }}
    {%- elif names | map('lower') | list != options.unique_key | map('lower') | list -%}
        {{ return('unique_key changed from ' ~ names | join(', ') ~ ' to ' ~ options.unique_key | join(', ')) }}
    {%- elif changed -%}
        {{ return(changed.words ~ ' changed from ' ~ changed.was ~ ' to ' ~ changed.is) }}
    {%- elif not learned.explained -%}
        {{ return(none) }}
    {%- endif -%}
    {%- for column in learned.key -%}
        {%- if column.type != last.key[loop.index0].type -%}
            {{ return('the type of ' ~ column.upstream ~ ' changed from ' ~ last.key[loop.index0].type ~ ' to ' ~ column.type) }}
        {%- endif -%}
    {%- endfor -%}
    {%- if learned.key | map(attribute='name') | list != names -%}
        {{ return('unique_key changed from ' ~ names | join(', ') ~ ' to ' ~ learned.key | map(attribute='name') | join(', ')) }}
    {%- elif learned.key | map(attribute='upstream') | list != last.key | map(attribute='upstream') | list -%}
        {{ return('the columns of the upstream that unique_key carries changed') }}
    {%- elif learned.columns != last.query_columns -%}
        {{ return('the columns of its query changed from (' ~ last.query_columns ~ ') to (' ~ learned.columns ~ ')') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Log one line each if the MV has another number of vnodes than the model's config says, because it was rescaled or the config was
    changed, and if it is backfilled in another order. Neither changes what it means. The config applies when the MV is made or rebuilt.
-#}
{% macro report_kept_shape(backfill, state) %}
    {%- if state.get('planned') or backfill.generation -%} {{ return(none) }} {%- endif -%}
    {%- set name, has, wanted = dbt_backfill.get_model_name(model), state.committed.vnode_count, backfill.options.vnode_count -%}
    {%- if has != wanted -%}
        {%- set how = '. To give it these as it is: ' ~ dbt_backfill.get_operation_text(
            'rescale_backfill', '{model: ' ~ name ~ ', vnode_count: ' ~ wanted ~ '}') -%}
        {%- do log(
            name ~ ' has ' ~ has ~ ' vnodes; vnode_count is ' ~ wanted ~ ', which counts when it is rebuilt'
                ~ (how if has % wanted == 0 or wanted % has == 0 else ''), info=true
        ) -%}
    {%- endif -%}
    {%- set has, wanted = dbt_backfill.get_order(state.committed.key), backfill.options.backfill_order -%}
    {%- if has != wanted and not state.finished -%}
        {%- do log(
            name ~ ' is backfilled ' ~ has ~ ', as it was begun; backfill_order is ' ~ wanted ~ ', which counts when it is rebuilt', info=true
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return whether the model's query returns what the committed one does, and only other columns: {
      'columns': {'fills': those to be filled, see new_filling, 'drops': the names of those to be dropped}; none if it is not so,
      'why': it is not so, as the end of a sentence
    }

    With `on_schema_change` `append_new_columns` these are new columns only; with `sync_all_columns` columns may also be gone, or
    have a wider type. These are filled like new ones.

    Columns that are still being filled may be defined otherwise: nothing is promised of them above the second position, and
    they are filled from the start again.

    Spark's optimized plans of both queries, without the columns that differ, say that the other columns and the rows are the same.

    Arguments:
      learned (dict): see new_learned.
-#}
{% macro find_other_columns(backfill, state, learned) %}
    {%- set last, syncs = state.committed, backfill.options.on_schema_change == 'sync_all_columns' -%}
    {%- set as_before = dict(backfill, query=last.query, query_hash=last.query_hash) -%}
    {%- set other = dbt_backfill.find_difference(as_before, state.settings, dict(learned, columns=last.query_columns), last) -%}
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
{% macro begin_filling(backfill, state, observed, learned, version, columns) %}
    {%- if not state.uniform -%}
        {%- do dbt_backfill.refuse(
            'its query returns other columns, and its vnodes have different positions',
            'Let them come to the end (without backfill_vnodes) with the query of before, or rebuild the MV with --full-refresh'
        ) -%}
    {%- endif -%}
    {%- set left = (dbt_backfill.get_open_filling(state) or {'drops': []}).drops -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- set known = dbt_backfill.parse_columns(state.committed.query_columns) -%}
    {%- do dbt_backfill.check_new_columns(backfill.mv, properties, dbt_backfill._without_names(columns.fills, known), left) -%}
    {%- do dbt_backfill.check_altered_columns(backfill.mv, properties, columns) -%}
    {%- if state.get('upstream_version') is not none -%}
        {%- do dbt_backfill.check_query_at(backfill, dict(observed, altered=true), learned, version) -%}
    {%- endif -%}
    {%- set back, drops = columns.fills | map(attribute='name') | map('lower') | list, [] -%}
    {%- for name in (columns.drops + left) | unique if name | lower not in back -%} {%- do drops.append(name) -%} {%- endfor -%}
    {{ return(dbt_backfill.new_filling(columns.fills, drops=drops)) }}
{% endmacro %}


{#-
    Let the MV have the columns that a plan fills and not those that it drops. No commit of rows: what is on its way and was
    read before it conflicts on Delta; on Iceberg a column that it does not know stays null, and one that is gone is not read.

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


{#- Return the statements that are still needed for that, as a list. -#}
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
    Return a script that sends them, unless it is fenced. With `yields` it goes on after one that fails: an ALTER that is sent again,
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
