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
    {%- elif not dbt_backfill.are_same_names(last.key | map(attribute='name'), backfill.options.unique_key) -%}
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


{#- Whether two lists of columns name the same: Spark finds a column in any case. -#}
{% macro are_same_names(names, others) %}
    {{ return(names | map('lower') | list == others | map('lower') | list) }}
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
