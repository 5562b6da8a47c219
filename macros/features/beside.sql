{#-
    A full refresh beside the MV in use: the next generation is an MV of its own, `<mv>__next`, with a state of its own. It is filled by
    the barriers of as many runs as it takes. Meanwhile the MV in use, which is the previous generation, goes on following its changes
    with the query that created it. Once all of the upstream is read, a barrier of the kind `swap` replaces the MV's rows by the rows of
    the next generation, and the state by its state; see run_beside.
-#}


{#-
    Return the next generation that a run fills: {'backfill': as get_backfill describes it, 'reason': why there is to be one, as far as
    this run knows}; none where there is none, and none is to begin.

    An MV that has to be emptied anyway is rebuilt in place: nobody can use what it has. A run whose full_refresh_mode is `in_place` comes
    here only if dbt lists a next generation, to warn of it.

    Arguments:
      observed (dict): of the MV in use, as observe_state returned it.
      rebuild (string or none): why the user wants it rebuilt.
-#}
{% macro find_next_generation(backfill, observed, rebuild) %}
    {%- set next = dbt_backfill.get_next_backfill(backfill, observed.state.committed) -%}
    {%- if backfill.options.full_refresh_mode != 'beside' -%}
        {%- if dbt_backfill.find_maker(next.progress) is none -%}
            {%- do exceptions.warn(
                'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': ' ~ next.mv.render() ~ ' is the next generation of it, which a '
                    ~ "full refresh has begun. To go on with it set full_refresh_mode='beside'; to drop it: "
                    ~ dbt_backfill.get_drop_next_text()
            ) -%}
        {%- endif -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set state, planned = observed.state, observed.state.get('planned') or {} -%}
    {%- if state.get('missing') or observed.late_reset or planned.get('kind') == 'reset' -%} {{ return(none) }} {%- endif -%}
    {%- set goes_on = planned.get('generation') is not none or dbt_backfill.load_table(next.progress) is not none -%}
    {%- set reason = rebuild or dbt_backfill.find_rebuild(state) -%}
    {%- if not reason and not goes_on -%} {%- set reason = dbt_backfill.find_change(backfill, state, observed.analysis).rebuild -%} {%- endif -%}
    {{ return({'backfill': next, 'reason': reason} if goes_on or reason else none) }}
{% endmacro %}


{#- Return the command that drops the next generation, for messages. -#}
{% macro get_drop_next_text() %}
    {%- set arguments = '{model: ' ~ dbt_backfill.get_model_name(model) ~ ', generation: next}' -%}
    {{ return(dbt_backfill.get_operation_text('drop_backfill', arguments)) }}
{% endmacro %}


{#-
    Return the next generation as a run sees it. Nobody uses it yet, so it is reset where the model has changed since. What is set for the
    MV in use, whose last plan is `committed`, applies to how it is filled.
-#}
{% macro get_next_backfill(backfill, committed) %}
    {%- set on_schema_change = backfill.options.on_schema_change -%}
    {{ return(dict(
        backfill, **dict(
            dbt_backfill.get_next_relations(backfill.mv), generation='next',
            controls=backfill.controls, controls_of=(committed or {}).get('backfill_id'),
            options=dict(
                backfill.options, on_query_change='rebuild', on_schema_change='ignore' if on_schema_change == 'fail' else on_schema_change
            ),
        )
    )) }}
{% endmacro %}


{#-
    Return the MV in use while the next generation is filled: with the query that created it, over the same upstream. It reads no more
    ranges.
-#}
{% macro get_former_backfill(backfill, state) %}
    {%- set committed = state.committed -%}
    {{ return(dict(
        backfill, generation='former', sql=committed.query, query=committed.query, query_hash=committed.query_hash,
        options=dict(
            backfill.options, unique_key=committed.key | map(attribute='name') | list,
            upstream_key=committed.key | map(attribute='upstream') | list, vnode_count=committed.vnode_count,
            backfill_mode=committed.backfill_mode or 'arrangement', backfill_vnodes=none, backfill_rate_limit=0,
            on_query_change='fail', on_schema_change='ignore',
        ),
    )) }}
{% endmacro %}


{#-
    Run the barriers of a run while there is a next generation: first those of the next generation. Then, if all of the upstream is read, the
    swap; otherwise those of the previous generation, so that readers of the MV see what changes. Return what run_barriers does, and
    'filling': whether the next generation is still to be put in place.

    Each step may be the last of a run, and the next run goes on from the state that exists. A next generation that has been put in place
    is only dropped.

    Arguments:
      observed (dict): of the MV in use.
      next (dict): see find_next_generation.
-#}
{% macro run_beside(backfill, observed, next) %}
    {%- set planned, committed = observed.state.get('planned') or {}, observed.state.committed -%}
    {%- if planned.get('generation') -%}
        {%- set swapped = dbt_backfill.run_barriers(backfill, observed, none, 'planned') -%}
        {%- do dbt_backfill.drop_generation(next.backfill, planned.generation.id) -%}
        {{ return(dict(swapped, filling=false)) }}
    {%- endif -%}
    {%- if committed.get('generation') and dbt_backfill.drop_generation(next.backfill, committed.generation.id) and not next.reason -%}
        {{ return(dict(dbt_backfill.run_barriers(backfill, observed, none), filling=false)) }}
    {%- endif -%}
    {%- set seen = dbt_backfill.observe_state(next.backfill) -%}
    {#- Before its first barrier there is no state with which the MV's control could be read. -#}
    {%- set seen = dict(seen, state=dict(seen.state, control=observed.state.get('control'))) -%}
    {%- do dbt_backfill._begin_generation(backfill, next, seen) -%}
    {%- set filled = dbt_backfill.run_barriers(next.backfill, seen, none) -%}
    {%- set ready = dbt_backfill.read_filled_generation(next.backfill, seen, filled) -%}
    {%- if ready is none -%}
        {%- do dbt_backfill.run_former(backfill, observed) -%}
        {{ return(dict(filled, message='NEXT: ' ~ filled.message, filling=true)) }}
    {%- endif -%}
    {%- set swapped = dbt_backfill.run_barriers(backfill, observed, next.reason or 'full refresh', ready) -%}
    {%- do dbt_backfill.drop_generation(next.backfill, ready.state.committed.backfill_id) -%}
    {{ return(dict(
        swapped, filling=false, barriers=filled.barriers + swapped.barriers, rows_backfilled=filled.rows_backfilled,
        read_seconds=filled.read_seconds, changed=filled.changed, deleted=filled.deleted,
    )) }}
{% endmacro %}


{#-
    Log one line where a next generation begins, after refusing one that could not be put in place at the end: if the location has moved, or
    if a column of an Iceberg MV gets another type at the same position. A Hive metastore allows no such replacement.
-#}
{% macro _begin_generation(backfill, next, seen) %}
    {%- if not seen.state.get('missing') and seen.state.committed.query_hash == backfill.query_hash -%} {{ return(none) }} {%- endif -%}
    {%- do dbt_backfill.check_location(backfill.mv) -%}
    {%- if backfill.options.file_format == 'iceberg' -%}
        {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
        {%- if dbt_backfill.is_retyped(backfill.mv, columns) -%}
            {%- do dbt_backfill.refuse(
                'its query gives another type to a column than ' ~ backfill.mv.render() ~ ' has at that position, or under that name, '
                    ~ 'and a Hive metastore lets no Iceberg table be replaced by such a one at once',
                "Leave the columns that it has at their positions, or set full_refresh_mode='in_place' for this refresh"
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do log(
        dbt_backfill.get_model_name(model) ~ ' is filled again as ' ~ next.backfill.mv.render() ~ ', beside the MV in use ('
            ~ (next.reason or 'its query changed') ~ '). To give that up: ' ~ dbt_backfill.get_drop_next_text(), info=true
    ) -%}
{% endmacro %}


{#-
    Return a next generation that can be put in place: {'backfill', 'state', 'version': of its MV, with which the state belongs, none of an
    Iceberg table without a snapshot}; none if it is not ready. It has the comments and the constraints of the model by then.

    The version is read before the state, which has no plan after it: so no barrier came between them.

    Arguments:
      seen (dict): as observe_state returned it before this run's barriers, and `filled` (dict) what they returned.
-#}
{% macro read_filled_generation(next, seen, filled) %}
    {%- if not dbt_backfill.is_complete(filled.state) or filled.state.dirty -%} {{ return(none) }} {%- endif -%}
    {%- set found = none if filled.replaced else seen.mv -%}
    {%- if config.persist_relation_docs() or config.persist_column_docs() -%}
        {%- do dbt_backfill.apply_docs(next, found, filled.state) -%}
    {%- endif -%}
    {%- if found -%} {%- do dbt_backfill.apply_constraints(next, found.properties) -%} {%- endif -%}
    {%- set version = dbt_backfill.read_version(next, 'mv') -%}
    {%- set state = dbt_backfill.read_state(next) -%}
    {%- if state.get('planned') or state.epoch != filled.state.epoch -%} {{ return(none) }} {%- endif -%}
    {{ return({'backfill': next, 'state': state, 'version': none if version == 'none' else version}) }}
{% endmacro %}


{#-
    Run the previous generation's barriers while the next one is filled, or log why it is not refreshed: a table that is about to be replaced
    must not stop the run, and must not be read again as a whole. Its query has to run before it can be explained, so all other reasons
    are looked for first.
-#}
{% macro run_former(backfill, observed) %}
    {%- set state, analysis = observed.state, dbt_backfill.new_analysis() -%}
    {%- set former, committed = dbt_backfill.get_former_backfill(backfill, state), state.committed -%}
    {%- if committed.kind in ['adopt', 'replace'] or dbt_backfill.is_sweeping(state) or dbt_backfill.get_filling(state) -%}
        {%- set why = 'it does not hold what its query gives yet' -%}
    {%- elif state.get('upstream_version') is none -%}
        {%- set why = 'it has no rows yet' -%}
    {%- else -%}
        {%- set why = dbt_backfill.find_difference(former, state.settings, analysis, committed) -%}
    {%- endif -%}
    {%- if not why -%}
        {%- set upstream = dbt_backfill.observe_upstream(former, state, dbt_backfill.get_feed_start(state) or state.get('planned')) -%}
        {%- set why = dbt_backfill.find_gap(former, state, upstream) -%}
    {%- endif -%}
    {%- if not why and dbt_backfill.explain_comparably(former, former.query) is none -%}
        {%- set why = 'its query does not run any more' -%}
    {%- endif -%}
    {%- if not why -%}
        {%- set analysis = dbt_backfill.analyze_query(former, analysis) -%}
        {%- set why = dbt_backfill.find_difference(former, state.settings, analysis, committed) -%}
    {%- endif -%}
    {%- if why -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' stays at the version ' ~ state.get('upstream_version')
                ~ ' until the next generation is put in place: ' ~ why, info=true
        ) -%}
    {%- else -%}
        {%- do dbt_backfill.run_barriers(former, dict(observed, analysis=analysis), none) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Drop a next generation, if it is the one of this id, with its copies. (A table of their names that this package did not create stays.) Its
    state is dropped last, so that the tables that a dead run has left are found by it. Return true if it existed.

    The script may come so late that another generation exists by now; sent again, or by two runs at once, it finds nothing, which is no
    error.
-#}
{% macro drop_generation(next, id) %}
    {%- if not dbt_backfill.exists_with_id(next.progress, id) -%} {{ return(false) }} {%- endif -%}
    {%- set tags, copies = dbt_backfill.find_tags(dbt_backfill.read_state(next)), [] -%}
    {%- for table in ['staged', 'replica'] -%}
        {%- set properties = {} if dbt_backfill.load_table(next[table]) is none else dbt_backfill.find_own_copy(next[table]) -%}
        {%- if properties is not none -%}
            {%- set format = 'iceberg' if properties.get('format', '').startswith('iceberg') else 'delta' -%}
            {%- do copies.append(dbt_backfill.get_drop_copy_sql(format, next[table], properties)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set sql -%}
    begin
        declare exit handler for sqlexception begin end;
        if (
            select count(*) from {{ next.progress.render() }}
            where get_json_object(last, '$.backfill_id') = {{ dbt_backfill.string_literal(id) }}
        ) > 0 then
            drop table if exists {{ next.mv.render() }};
            drop table if exists {{ next.barriers.render() }};
            {%- for copy in copies %}
            {{ copy }};
            {%- endfor %}
            drop table if exists {{ next.progress.render() }};
        end if;
    end
    {%- endset -%}
    {%- do dbt_backfill.run_table('drop the next generation', sql) -%}
    {%- do dbt_backfill.run_release(dict(next, name=dbt_backfill.get_model_name(model)), tags) -%}
    {%- if dbt_backfill.exists_with_id(next.progress, id) -%}
        {%- do exceptions.warn(
            'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': its next generation was put in place, and ' ~ next.mv.render()
                ~ ' could not be dropped. Drop it: ' ~ dbt_backfill.get_drop_next_text()
        ) -%}
    {%- endif -%}
    {{ return(true) }}
{% endmacro %}
