{#- This file makes a full refresh beside the MV in use. The next generation is an MV of its own, `<mv>__next`, with a state of its own. Barriers fill
    it, in as many runs as necessary. Meanwhile the MV in use, which is the previous generation, continues to follow the changes with the query that
    created it. When the whole upstream is read, a barrier of the kind `swap` replaces the MV's rows and state by those of the next generation. -#}


{#-
    Return the next generation that a run fills: {'backfill': see get_backfill, 'reason': why a next generation is needed, as far as this run knows}.
    Return none if there is no next generation and the run has no reason to begin one. `observed`: the result of observe_state for the MV in use;
    `rebuild`: why the user wants a rebuild, or none.

    An MV that has to be emptied in any case is rebuilt in place, because nobody can use its rows. With full_refresh_mode `in_place`, a run calls this
    macro only if dbt lists a next generation: then this macro warns that the table exists. But if the swap is stored or committed already, and no
    rebuild is wanted, the run completes it and drops the next generation.
-#}
{% macro find_next_generation(backfill, observed, rebuild) %}
    {#- Nobody uses the next generation yet, so a run resets it if the model has changed. The controls of the MV in use apply as well. -#}
    {%- set shape = backfill.options.on_schema_change -%}
    {%- set next = dict(
        dict(backfill, **dbt_backfill.get_next_relations(backfill.mv)), generation='next', controls=backfill.controls,
        controls_of=(observed.state.committed or {}).get('backfill_id'),
        options=dict(backfill.options, on_query_change='rebuild', on_schema_change='ignore' if shape == 'fail' else shape,
            on_gap=backfill.options.on_gap | replace('fail', 'reanchor'),
            on_foreign_write=backfill.options.on_foreign_write | replace('fail', 'reanchor')),
    ) -%}
    {%- set is_listed, next_of = dbt_backfill.load_table(next.progress) is not none, dbt_backfill.read_next_of(next) -%}
    {%- set is_begun = next_of is not none and next_of == next.controls_of -%}
    {%- set state, planned = observed.state, observed.state.get('planned') or {} -%}
    {%- if backfill.options.full_refresh_mode != 'beside' -%}
        {%- set swapped = (state.committed or {}).get('generation') -%}
        {%- if not rebuild and (planned.get('generation') or swapped and dbt_backfill.exists_with_id(next.progress, swapped.id)) -%}
            {{ return({'backfill': next, 'reason': none}) }}
        {%- elif is_begun -%}
            {%- do exceptions.warn(
                'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': ' ~ next.mv.render() ~ ' is its next generation, which a '
                    ~ "full refresh has begun. To continue it, set full_refresh_mode='beside'; to drop it: "
                    ~ dbt_backfill.get_drop_text(next)
            ) -%}
        {%- endif -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if state.get('missing') or planned.get('kind') == 'reset' -%} {{ return(none) }} {%- endif -%}
    {%- set goes_on = planned.get('generation') is not none or is_begun -%}
    {%- set reason = rebuild or dbt_backfill.find_rebuild(state) -%}
    {%- if not reason and not goes_on -%} {%- set reason = dbt_backfill.find_change(backfill, state, observed.analysis).rebuild -%} {%- endif -%}
    {%- if reason and is_listed and not goes_on -%}
        {%- do dbt_backfill.refuse(next.progress.render() ~ ' has the name of the state of its next generation, but belongs to another MV',
            "Rename or drop that MV, give this MV another alias, or set full_refresh_mode='in_place'"
                ~ ('. If that was an earlier MV of the same name, drop its next generation: ' ~ dbt_backfill.get_drop_text(next) if next_of else ''),
            id='next-state-name-taken') -%}
    {%- endif -%}
    {{ return({'backfill': next, 'reason': reason} if goes_on or reason else none) }}
{% endmacro %}


{#-
    Run the barriers of a run while there is a next generation. First run the barriers of the next generation. If these have read the whole upstream,
    run the swap. Otherwise run the barriers of the MV in use, so that its readers see changes. Return the result of run_barriers, and 'filling': true
    if the next generation still has to replace the MV in use.

    A run may end after any step, and the next run continues from the existing state. If the next generation has already replaced the MV in use, the
    run only drops the next generation. `observed`, `next`: see find_next_generation.
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
    {#- Before its first barrier, the next generation has no state from which a control could be read. So use the control of the MV in use. -#}
    {%- set seen = dict(seen, state=dict(seen.state, control=observed.state.get('control'))) -%}
    {%- if seen.state.get('missing') or seen.state.committed.query_hash != backfill.query_hash -%}
        {%- do dbt_backfill.check_replacement(
            backfill, dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render())) -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' is filled again as ' ~ next.backfill.mv.render() ~ ', beside the MV in use ('
                ~ (next.reason or 'its query changed') ~ '). To stop this and drop the next generation: ' ~ dbt_backfill.get_drop_text(next.backfill),
            info=true
        ) -%}
    {%- endif -%}
    {%- set filled = dbt_backfill.run_barriers(next.backfill, seen, none) -%}
    {%- set ready = dbt_backfill.read_filled_generation(next.backfill, seen, filled) -%}
    {%- if ready is none -%}
        {%- do dbt_backfill.run_former(backfill, observed) -%}
        {{ return(dict(filled, message='NEXT: ' ~ filled.message, filling=true)) }}
    {%- endif -%}
    {#- The config or the columns may have changed since the next generation was begun. A swap that fails after it is stored would fail at each run. -#}
    {%- do dbt_backfill.prepare_creation(backfill) -%}
    {%- do dbt_backfill.check_replacement(backfill, dbt_backfill.get_table_columns(next.backfill.mv)) -%}
    {%- set swapped = dbt_backfill.run_barriers(backfill, observed, next.reason or 'full refresh', ready) -%}
    {%- do dbt_backfill.drop_generation(next.backfill, ready.state.committed.backfill_id) -%}
    {{ return(dict(
        swapped, filling=false, barriers=filled.barriers + swapped.barriers, rows_backfilled=filled.rows_backfilled,
        read_seconds=filled.read_seconds, changed=filled.changed, deleted=filled.deleted,
    )) }}
{% endmacro %}


{#- Refuse a next generation with these columns if it could not replace the MV in use at the end. The location may have changed. Or a column of an
    Iceberg MV gets another type, which a Hive metastore does not allow. -#}
{% macro check_replacement(backfill, columns) %}
    {%- do dbt_backfill.run_check_of_location(backfill.mv) -%}
    {%- if backfill.options.file_format == 'iceberg' and dbt_backfill.is_retyped(backfill.mv, columns) -%}
        {%- do dbt_backfill.refuse(
            'its query changes the type of a column of ' ~ backfill.mv.render() ~ ' (at the same position, or of the same name), '
                ~ 'but a Hive metastore does not allow this change if an Iceberg table is replaced in one step',
            "Keep the positions and types of the existing columns, or set full_refresh_mode='in_place' for this refresh", id='beside-type-change') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return the next generation if it can replace the MV in use: {'backfill', 'state', 'version': the version of its MV that belongs to the state;
    none for an Iceberg table without a snapshot}. Return none if the next generation is not ready. A returned generation already has the comments
    and the constraints of the model. `seen`: the result of observe_state before this run's barriers; `filled`: the result of these barriers.

    The version is read before the state. If the state has no plan and the same epoch as before, no barrier was executed between the two reads.
-#}
{% macro read_filled_generation(next, seen, filled) %}
    {%- if not dbt_backfill.is_complete(filled.state) or filled.state.dirty -%} {{ return(none) }} {%- endif -%}
    {%- set found = none if filled.replaced else seen.mv -%}
    {%- if config.persist_relation_docs() or config.persist_column_docs() -%}
        {%- do dbt_backfill.apply_docs(next, found, filled.state) -%}
    {%- endif -%}
    {%- if found -%} {%- do dbt_backfill.apply_constraints(next, found.properties) -%} {%- endif -%}
    {%- set version = dbt_backfill.read_version(next, 'mv') -%}
    {%- set state = dbt_backfill.read_state(next, of_mv=true) -%}
    {%- if state.get('planned') or state.epoch != filled.state.epoch -%} {{ return(none) }} {%- endif -%}
    {#- If another writer has written to the next generation, a barrier has to compare its rows first. -#}
    {%- set state = dbt_backfill.observe_mv(next, dict(state, mv_head=version if next.options.file_format == 'iceberg' else none)) -%}
    {%- if state.foreign_write -%} {{ return(none) }} {%- endif -%}
    {{ return({'backfill': next, 'state': state, 'version': none if version == 'none' else version}) }}
{% endmacro %}


{#-
    Run the barriers of the previous generation while the next generation is filled, or log why the previous generation is not refreshed. Its table
    will be replaced soon. So its barriers must not make the run fail, and must not read the whole upstream again. Its query may not run any more, so
    this macro checks all other reasons before it explains that query. If planning finds another reason, the barrier waits for the next generation,
    see run_barrier. Only an error of Spark while a barrier reads the rows makes the run fail: Jinja cannot catch it.
-#}
{% macro run_former(backfill, observed) %}
    {%- set state, analysis = dbt_backfill.observe_mv(backfill, observed.state), dbt_backfill.new_analysis() -%}
    {%- set committed = state.committed -%}
    {#- The previous generation keeps its upstream and the query that created it, but it reads no more ranges. A feed has the query too: it checks
        the columns that the query reads. -#}
    {%- set upstream, feed = backfill.upstream, backfill.upstream.get('feed') -%}
    {%- set former = dict(
        backfill, generation='former', merges_only=true, sql=committed.query, views=[], query=committed.query, query_hash=committed.query_hash,
        upstream=dict(upstream, feed=dict(feed, query=committed.query)) if feed else upstream,
        options=dict(
            backfill.options, unique_key=committed.key | map(attribute='name') | list, volatile_columns=committed.get('volatile_columns'),
            upstream_key=committed.key | map(attribute='upstream') | list, vnode_count=committed.vnode_count,
            backfill_mode=committed.backfill_mode or 'arrangement', backfill_vnodes=none, backfill_rate_limit=0,
            on_query_change='fail', on_schema_change='ignore', on_gap='reanchor', on_foreign_write='reanchor',
        ),
    ) -%}
    {%- set planned = state.get('planned') if (state.get('planned') or {}).get('kind') not in ['rescale', 'abandon'] else none -%}
    {%- set why = 'it does not have all rows of its query yet'
            if committed.kind in ['adopt', 'replace'] or dbt_backfill.is_sweeping(state) or dbt_backfill.get_filling(state)
        else 'it has no rows yet' if state.get('upstream_version') is none
        else dbt_backfill.find_difference(former, state.settings, analysis, committed)
            or (dbt_backfill.find_difference(former, state.settings, analysis, planned) if planned else none) -%}
    {%- if not why -%}
        {%- set upstream = dbt_backfill.observe_upstream(former, state, dbt_backfill.get_feed_start(state) or state.get('planned')) -%}
        {%- set why = dbt_backfill.find_gap(former, state, upstream)
            or ('its query does not run any more' if dbt_backfill.explain_comparably(former, former.query) is none else none) -%}
    {%- endif -%}
    {%- if not why -%}
        {%- set analysis = dbt_backfill.analyze_query(former, analysis) -%}
        {%- set why = dbt_backfill.find_difference(former, state.settings, analysis, committed) or dbt_backfill.find_changed_type(state, analysis) -%}
    {%- endif -%}
    {%- set ran = {'state': state, 'waits': why} if why else dbt_backfill.run_barriers(former, dict(observed, analysis=analysis), none) -%}
    {%- if ran.waits -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' stays at the version ' ~ ran.state.get('upstream_version')
                ~ ' until the next generation is put in place: ' ~ ran.waits, info=true
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Drop the next generation with this id, and its copies. Keep a table with the name of a copy if another writer created it. Return true if the next
    generation existed. The state is dropped last: if the run dies, a later run can still find the remaining tables by the state.

    The script checks the id, because the script may arrive late, when a newer generation exists. If the script is sent twice, or by two runs at the
    same time, the second execution finds no tables. This raises no error.
-#}
{% macro drop_generation(next, id) %}
    {%- if not dbt_backfill.exists_with_id(next.progress, id) -%} {{ return(false) }} {%- endif -%}
    {%- set tags, drops = dbt_backfill.find_tags(dbt_backfill.read_state(next)), {} -%}
    {%- for table in ['staged', 'replica'] -%}
        {%- set properties = dbt_backfill.find_own_copy(next[table]) -%}
        {%- if properties is not none -%}
            {%- set format = 'iceberg' if properties.get('format', '').startswith('iceberg') else 'delta' -%}
            {%- do drops.update({table: dbt_backfill.get_drop_copy_sql(format, next[table], properties)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set history = dbt_backfill.find_own_copy(next.barriers) -%}
    {#- A history has no id. A table of another writer stays. -#}
    {%- set is_own = {'mv': dbt_backfill.exists_with_id(next.mv, id), 'barriers': 'dbt_backfill.id' not in (history or {'dbt_backfill.id': none})} -%}
    {%- for table in ['mv', 'barriers', 'progress'] if is_own.get(table, true) -%}
        {%- do drops.update({table: 'drop table if exists ' ~ next[table].render()}) -%}
    {%- endfor -%}
    {%- set sql -%}
    begin
        declare exit handler for sqlexception begin end;
        if (
            select count(*) from {{ next.progress.render() }}
            where get_json_object(last, '$.backfill_id') = {{ dbt_backfill.string_literal(id) }}
        ) > 0 then
            {{ drops.values() | join(';\n            ') }};
        end if;
    end
    {%- endset -%}
    {%- do dbt_backfill.run_table('drop the next generation', sql) -%}
    {%- for table in ['mv', 'barriers', 'staged', 'replica', 'progress'] if table in drops
            or dbt_backfill.is_listed(next[table]) and dbt_backfill.find_table(next[table]) is none -%}
        {%- do adapter.cache_dropped(next[table]) -%}
    {%- endfor -%}
    {%- do dbt_backfill.run_release(dict(next, name=dbt_backfill.get_model_name(model)), tags) -%}
    {%- if dbt_backfill.exists_with_id(next.progress, id) -%}
        {%- do exceptions.warn(
            'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': the MV was replaced by its next generation, but the table ' ~ next.mv.render()
                ~ ', which is no longer needed, could not be dropped. Drop this table: ' ~ dbt_backfill.get_drop_text(next)
        ) -%}
    {%- endif -%}
    {{ return(true) }}
{% endmacro %}
