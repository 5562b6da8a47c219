{#-
    What the model means otherwise than the last plan was made for: {
      'rebuild': why the MV has to be rebuilt, where `on_query_change` says `rebuild`; none if not,
      'columns': how its query returns other columns, see find_other_columns, where `on_schema_change` lets the MV get these;
        none if not
    }

    Without the rebuild any other change is refused: rows merged before and after it would come from different queries.

    dbt's `on_configuration_change` is not used for this: its default is `apply`, also where the user said
    nothing, which would rebuild silently.

    Arguments:
      learned (dict): see new_learned; a query that was not explained is compared by its text and options only.
-#}
{% macro find_change(backfill, state, learned) %}
    {%- if state.get('missing') -%} {{ return({'rebuild': none, 'columns': none}) }} {%- endif -%}
    {%- set planned = state.get('planned') -%}
    {%- set is_replaced = planned and dbt_backfill.replaces_mv(planned) -%}
    {%- set last = planned if is_replaced else state.committed -%}
    {%- set reason = dbt_backfill.find_difference(backfill, state.settings, learned, last) -%}
    {%- if not reason -%} {{ return({'rebuild': none, 'columns': none}) }} {%- endif -%}
    {%- set options, found = backfill.options, {'columns': none, 'why': none} -%}
    {%- if dbt_backfill.alters_columns(backfill) and not is_replaced -%}
        {%- set found = dbt_backfill.find_other_columns(backfill, state, learned) -%}
        {%- if found.columns -%} {{ return({'rebuild': none, 'columns': found.columns}) }} {%- endif -%}
    {%- endif -%}
    {%- if options.on_query_change == 'fail' or options.on_schema_change == 'fail' -%}
        {#- What is wrong with the query of today comes first: nobody should rebuild for one that is refused then. -#}
        {%- if not learned.explained -%}
            {%- do dbt_backfill.observe_upstream(backfill, state, none) -%}
            {%- set learned = dbt_backfill.learn_query(backfill, learned) -%}
        {%- endif -%}
        {%- do dbt_backfill._refuse_change(backfill, learned, last, reason, found.why) -%}
    {%- endif -%}
    {{ return({'rebuild': reason, 'columns': none}) }}
{% endmacro %}


{#- Whether the MV may get other columns where its query returns them. -#}
{% macro alters_columns(backfill) %}
    {{ return(backfill.options.on_schema_change in ['append_new_columns', 'sync_all_columns']) }}
{% endmacro %}


{#- Unless the MV may be rebuilt for it: with on_schema_change='fail' not for other columns. -#}
{% macro _refuse_change(backfill, learned, last, reason, why) %}
    {%- if backfill.options.on_query_change == 'fail' -%}
        {%- set which = 'its' if backfill.options.on_schema_change == 'sync_all_columns' else 'new' -%}
        {%- set more = ', and not by ' ~ which ~ ' columns alone: ' ~ why if why else '' -%}
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
{% endmacro %}


{#- Why a run is to rebuild the MV before it does anything else; none if it is not. -#}
{% macro find_query_change(backfill, state, learned) %}
    {{ return(dbt_backfill.find_change(backfill, state, learned).rebuild) }}
{% endmacro %}


{#-
    What else the model means than at a plan, `last`; none if it means the same. The number of vnodes says nothing of the rows,
    nor does the order in which they come: the MV keeps what it has, see report_kept_shape.
-#}
{% macro find_difference(backfill, settings, learned, last) %}
    {%- set changed = dbt_backfill.find_changed_setting(last, settings) -%}
    {%- set upstream = dbt_backfill.get_source(last).relation -%}
    {%- if upstream | replace('`', '') != backfill.upstream.relation.render() | replace('`', '') -%}
        {{ return('its upstream changed from ' ~ upstream ~ ' to ' ~ backfill.upstream.relation.render()) }}
    {%- elif not dbt_backfill.is_same_query(backfill, last) -%}
        {{ return('its query changed') }}
    {%- elif last.key | map(attribute='name') | map('lower') | list != backfill.options.unique_key | map('lower') | list -%}
        {{ return('unique_key changed from ' ~ last.key | map(attribute='name') | join(', ') ~ ' to '
            ~ backfill.options.unique_key | join(', ')) }}
    {%- elif changed -%}
        {{ return(changed.words ~ ' changed from ' ~ changed.was ~ ' to ' ~ changed.is) }}
    {%- endif -%}
    {{ return(dbt_backfill._difference_of_explained(learned, last) if learned.explained else none) }}
{% endmacro %}


{#- What shows only once the query was explained. -#}
{% macro _difference_of_explained(learned, last) %}
    {%- for column in learned.key -%}
        {%- if column.type != last.key[loop.index0].type -%}
            {{ return('the type of ' ~ column.upstream ~ ' changed from ' ~ last.key[loop.index0].type ~ ' to ' ~ column.type) }}
        {%- endif -%}
    {%- endfor -%}
    {%- if learned.key | map(attribute='name') | list != last.key | map(attribute='name') | list -%}
        {{ return('unique_key changed from ' ~ last.key | map(attribute='name') | join(', ') ~ ' to ' ~ learned.key | map(attribute='name') | join(', ')) }}
    {%- elif learned.key | map(attribute='upstream') | list != last.key | map(attribute='upstream') | list -%}
        {{ return('the columns of the upstream that unique_key carries changed') }}
    {%- elif learned.columns != last.query_columns -%}
        {{ return('the columns of its query changed from (' ~ last.query_columns ~ ') to (' ~ learned.columns ~ ')') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    One line each where the MV has another number of vnodes than the model's config says, because it was rescaled or the config was
    changed, and where it is backfilled in another order. Neither is a change of what it means. The config's counts when the MV is
    made or rebuilt.
-#}
{% macro report_kept_shape(backfill, state) %}
    {%- if state.get('planned') or backfill.generation -%} {{ return(none) }} {%- endif -%}
    {%- do dbt_backfill._report_vnode_count(backfill, state) -%}
    {%- set has, wanted = dbt_backfill.get_order(state.committed.key), backfill.options.backfill_order -%}
    {%- if has != wanted and not state.finished -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' is backfilled ' ~ has ~ ', as it was begun; backfill_order is ' ~ wanted
                ~ ', which counts when it is rebuilt', info=true
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _report_vnode_count(backfill, state) %}
    {%- set has, wanted = state.committed.vnode_count, backfill.options.vnode_count -%}
    {%- if has == wanted -%} {{ return(none) }} {%- endif -%}
    {%- set name = dbt_backfill.get_model_name(model) -%}
    {%- set how = '. To give it these as it is: ' ~ dbt_backfill.get_operation_text(
        'rescale_backfill', '{model: ' ~ name ~ ', vnode_count: ' ~ wanted ~ '}') -%}
    {%- do log(
        name ~ ' has ' ~ has ~ ' vnodes; vnode_count is ' ~ wanted ~ ', which counts when it is rebuilt'
            ~ (how if has % wanted == 0 or wanted % has == 0 else ''), info=true
    ) -%}
{% endmacro %}


{#-
    Whether the model's query returns what the committed one does, and only other columns: {
      'columns': how they are others, {'fills': those to be filled, as new_filling describes them, 'drops': the names of those to
        be dropped}; none if it is not so,
      'why': it is not so, as the end of a sentence
    }

    With `on_schema_change` `append_new_columns` these are new columns only; with `sync_all_columns` columns may also be gone, or
    have a wider type. These are filled like new ones.

    Columns that are still being filled may be defined otherwise: nothing is promised of them above the second position, and
    they are filled from the start again.

    That the others mean the same, and the rows are the same, is what Spark's optimized plans of both queries say, without the
    columns that are others. See _find_other_words for what they do not say.

    Arguments:
      learned (dict): see new_learned.
-#}
{% macro find_other_columns(backfill, state, learned) %}
    {%- set last, syncs = state.committed, backfill.options.on_schema_change == 'sync_all_columns' -%}
    {%- set as_before = dict(backfill, query=last.query, query_hash=last.query_hash) -%}
    {%- set other = dbt_backfill.find_difference(as_before, state.settings, dict(learned, columns=last.query_columns), last) -%}
    {%- if other -%} {{ return({'columns': none, 'why': other}) }} {%- endif -%}
    {%- set filling = (dbt_backfill.get_filling(state) or {'columns': []}).columns -%}
    {%- set had = dbt_backfill._without_names(dbt_backfill.parse_columns(last.query_columns), filling) -%}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- set gone = dbt_backfill._without_names(had + filling, columns) -%}
    {%- set retyped = dbt_backfill._find_retyped(filling + (had if syncs else []), columns) -%}
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
        {%- set compared = dbt_backfill._choose_comparison(gone, others, replaced=filling + gone + retyped) -%}
        {%- set why = dbt_backfill._find_other_meaning(backfill, last, kept, compared) -%}
    {%- endif -%}
    {%- set other = {'fills': fills.columns, 'drops': gone | map(attribute='name') | list} -%}
    {{ return({'columns': none if why else other, 'why': why}) }}
{% endmacro %}


{#- How the model's query gives these columns otherwise than that of a plan; none if it does not. `compared`: see _find_other_words. -#}
{% macro _find_other_meaning(backfill, plan, kept, compared) %}
    {%- set names, texts = kept | map(attribute='name') | list, [] -%}
    {%- for column in kept -%} {%- do texts.append(column.name ~ ': ' ~ column.type) -%} {%- endfor -%}
    {%- set now = dbt_backfill.explain_comparably(backfill, backfill.query, names) -%}
    {%- if now is none or now.columns != texts | join(', ') -%}
        {{ return('it returns a column that it had with another name or type') }}
    {%- elif now != dbt_backfill.explain_comparably(backfill, plan.query, names) -%}
        {{ return(dbt_backfill._other_values()) }}
    {%- endif -%}
    {{ return(dbt_backfill._find_other_words(backfill.query, plan.query, compared)) }}
{% endmacro %}


{% macro _other_values() %}
    {{ return('it returns other rows, or other values in the columns that it had') }}
{% endmacro %}


{#-
    What of the texts of two queries is compared beside their plans: `words`, `constants` or none, see _find_other_words.

    Arguments:
      gone, filled (lists): the columns that are dropped, and those that are filled.
      replaced (list): those that the old query had and in the new one may be others.
-#}
{% macro _choose_comparison(gone, filled, replaced) %}
    {%- if gone and not filled -%} {{ return('words') }} {%- endif -%}
    {{ return(none if replaced else 'constants') }}
{% endmacro %}


{#-
    Why queries with the same plan may not mean the same; none if they do. A plan prints a constant without its quotes and type,
    and a cast of one not at all. So where columns come, each constant of the old query has to be in the new one, unless it may
    be one of a column that is others; were two printed alike after all, the ranges of the fill would find what differs. Where
    columns only go no range is read, and the new query has to be the old one with words left out.

    Arguments:
      compared (string or none): `constants` or `words`.
-#}
{% macro _find_other_words(query, old_query, compared) %}
    {%- if compared == 'constants' -%}
        {%- set constants, before = dbt_backfill.get_constants(query), dbt_backfill.get_constants(old_query) -%}
        {%- for constant in before if before.count(constant) > constants.count(constant) -%}
            {{ return(dbt_backfill._other_values()) }}
        {%- endfor -%}
    {%- elif compared == 'words' and not dbt_backfill.leaves_words_out(query, old_query) -%}
        {{ return('it does more than leave columns out, and no rows would be read to compare what it has') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Columns without those that have the name of one of `others`. -#}
{% macro _without_names(columns, others) %}
    {%- set names = others | map(attribute='name') | map('lower') | list -%}
    {%- set left = [] -%}
    {%- for column in columns if column.name | lower not in names -%} {%- do left.append(column) -%} {%- endfor -%}
    {{ return(left) }}
{% endmacro %}


{#-
    Those of `others` that have another type than the one of their name among the columns. Only some print quotes in a type; and
    behind the last type of a query may stand the columns of a star in it, see columns_of_inner_star, which make values of others.
-#}
{% macro _find_retyped(columns, others) %}
    {%- set retyped = [] -%}
    {%- for column in columns -%}
        {%- for other in others if ' of ' not in column.type
                and other.name | lower == column.name | lower and other.type | replace('`', '') != column.type | replace('`', '') -%}
            {%- do retyped.append(other) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(retyped) }}
{% endmacro %}


{#-
    What is to be filled, and dropped, once its query returns other columns. Refuses what the MV cannot get or lose, and a version
    that the query does not read: one that is pinned, or in which the upstream has not the columns that they are made of.

    Arguments:
      columns (dict): how they are others, see find_other_columns.
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
    {%- set back = columns.fills | map(attribute='name') | map('lower') | list -%}
    {%- set drops = [] -%}
    {%- for name in (columns.drops + left) | unique if name | lower not in back -%} {%- do drops.append(name) -%} {%- endfor -%}
    {{ return(dbt_backfill.new_filling(columns.fills, drops=drops)) }}
{% endmacro %}
