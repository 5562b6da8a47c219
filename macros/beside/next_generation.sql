{#-
    A full refresh beside the MV in use: the next generation is an MV of its own, `<mv>__next`, with a state of its own. It is
    filled by the barriers of as many runs as it takes, while the MV in use, the former one by then, goes on following its
    changes with the query that it was made by. Once all of the upstream is read, a barrier of the kind `swap` puts its rows in
    the MV's place, with its state; see run_beside.
-#}


{#-
    The next generation that a run fills: {'backfill': as get_backfill describes it, 'reason': why there is to be one, as far as
    this run knows}; none where there is none, and none is to begin.

    An MV that has to be emptied anyway is rebuilt in place: nobody can use what it has.

    Arguments:
      observed (dict): of the MV in use, as observe_state returned it.
      rebuild (string or none): why the user wants it rebuilt.
-#}
{% macro find_next_generation(backfill, observed, rebuild) %}
    {%- set next = dbt_backfill.get_next_backfill(backfill, observed.state.committed) -%}
    {%- set is_beside = backfill.options.full_refresh_mode == 'beside' -%}
    {#- Only to warn of it nothing is asked of Spark: of another catalog dbt has no list of tables. -#}
    {%- set looks = is_beside or dbt_backfill.get_catalog(next.progress) is none -%}
    {%- set exists = looks and dbt_backfill.load_table(next.progress) is not none -%}
    {%- if not is_beside -%}
        {%- if exists -%} {%- do dbt_backfill._warn_of_next_generation(next) -%} {%- endif -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set state = observed.state -%}
    {%- set planned = state.get('planned') or {} -%}
    {%- if state.get('missing') or observed.begun_anew or planned.get('kind') == 'reset' -%} {{ return(none) }} {%- endif -%}
    {%- set goes_on = exists or planned.get('generation') is not none -%}
    {%- set reason = rebuild or dbt_backfill.find_rebuild(state) -%}
    {%- if not reason and not goes_on -%} {%- set reason = dbt_backfill.find_query_change(backfill, state, observed.learned) -%} {%- endif -%}
    {{ return({'backfill': next, 'reason': reason} if goes_on or reason else none) }}
{% endmacro %}


{% macro _warn_of_next_generation(next) %}
    {%- if dbt_backfill.find_maker(next.progress) is none -%}
        {%- do exceptions.warn(
            'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': ' ~ next.mv.render() ~ ' is the next generation of it, which a '
                ~ "full refresh has begun. To go on with it set full_refresh_mode='beside'; to drop it: "
                ~ dbt_backfill.get_drop_next_text()
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro get_drop_next_text() %}
    {{ return(dbt_backfill.get_operation_text(
        'drop_backfill', '{model: ' ~ dbt_backfill.get_model_name(model) ~ ', generation: next}'
    )) }}
{% endmacro %}


{#-
    The next generation as a run sees it. Nobody uses it yet, so it begins anew where the model has changed since. What is set
    for the MV in use, whose last plan is `committed`, rules how it is filled.
-#}
{% macro get_next_backfill(backfill, committed) %}
    {%- set on_schema_change = backfill.options.on_schema_change -%}
    {{ return(dict(
        backfill, **dict(
            dbt_backfill.get_next_relations(backfill.mv),
            controls=backfill.controls,
            controls_of=(committed or {}).get('backfill_id'),
            generation='next',
            options=dict(
                backfill.options, on_query_change='rebuild',
                on_schema_change='ignore' if on_schema_change == 'fail' else on_schema_change,
            ),
        )
    )) }}
{% endmacro %}


{#-
    The MV in use while the next generation is filled: with the query that it was made by, over the same upstream. It reads no
    more ranges.
-#}
{% macro get_former_backfill(backfill, state) %}
    {%- set committed = state.committed -%}
    {{ return(dict(
        backfill,
        generation='former',
        sql=dbt_backfill.get_query_by_name(committed.query, backfill.upstream.relation),
        query=committed.query,
        query_hash=committed.query_hash,
        options=dict(
            backfill.options, unique_key=committed.key | map(attribute='name') | list,
            upstream_key=committed.key | map(attribute='upstream') | list, vnode_count=committed.vnode_count,
            backfill_mode=committed.backfill_mode or 'arrangement', backfill_vnodes=none, backfill_rate_limit=0, on_query_change='fail', on_schema_change='ignore',
        ),
    )) }}
{% endmacro %}


{#-
    Whether the former generation can follow its changes while the next one is filled: {
      'learned': of its query, see new_learned,
      'why': it stands still, as the end of a sentence; none if it can follow
    }

    What would stop the run, or read all of it again, is not done for a table that is about to be replaced.
-#}
{% macro find_standstill(former, state) %}
    {%- set learned = dbt_backfill.new_learned() -%}
    {%- set why = dbt_backfill._find_lasting_difference(former, state, learned) -%}
    {%- if not why -%}
        {%- set learned = dbt_backfill.learn_query(former, learned) -%}
        {%- set why = dbt_backfill.find_difference(former, state.settings, learned, state.committed) -%}
    {%- endif -%}
    {{ return({'learned': learned, 'why': why}) }}
{% endmacro %}


{#- The same, as far as it shows before its query is explained, which has to run for that. -#}
{% macro _find_lasting_difference(former, state, learned) %}
    {%- if state.committed.kind in ['adopt', 'replace'] or dbt_backfill.is_sweeping(state) or dbt_backfill.get_filling(state) -%}
        {{ return('it does not hold what its query gives yet') }}
    {%- elif state.get('upstream_version') is none -%}
        {{ return('it has no rows yet') }}
    {%- endif -%}
    {%- set difference = dbt_backfill.find_difference(former, state.settings, learned, state.committed) -%}
    {%- if difference -%} {{ return(difference) }} {%- endif -%}
    {%- set observed = dbt_backfill.observe_upstream(
        former, state, dbt_backfill.get_feed_start(state) or state.get('planned')
    ) -%}
    {%- set gap = dbt_backfill.find_gap(former, state, observed) -%}
    {%- if not gap and dbt_backfill.explain_comparably(former, former.query) is none -%}
        {%- set gap = 'its query does not run any more' -%}
    {%- endif -%}
    {{ return(gap) }}
{% endmacro %}
