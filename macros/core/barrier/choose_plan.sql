{#-
    What the next barrier is to do, after an observation, as _new_choice describes it: a plan of the kind `reset`, `swap`,
    `reanchor`, `sweep`, `fill` or `advance`; none if there is nothing to do. What can be refused without reading rows is refused here.

    Arguments:
      observed (dict): the upstream, as observe_upstream returned it.
      learned (dict): see new_learned.
      rebuild (string or none): why the MV is to be rebuilt.
      next (dict or text): the generation that is to be put in its place, see read_filled_generation; 'planned' where that was planned
        before, and given up.
-#}
{% macro choose_plan(backfill, state, observed, learned, rebuild, next=none) %}
    {%- if next == 'planned' -%} {{ return(none) }} {%- endif -%}
    {%- if next -%}
        {{ return(dbt_backfill._new_choice(learned, dbt_backfill.new_swap_plan(backfill, state, learned, next, rebuild))) }}
    {%- endif -%}
    {%- set reason = rebuild or dbt_backfill.find_rebuild(state) -%}
    {%- if reason -%}
        {%- set learned = dbt_backfill.check_key_order(backfill, dbt_backfill.learn_query_at(backfill, learned, observed.version)) -%}
        {{ return(dbt_backfill._new_choice(learned, dbt_backfill.new_reset_plan(backfill, state, learned, reason))) }}
    {%- endif -%}
    {%- do dbt_backfill._check_vnodes(backfill, state) -%}
    {%- set started = dbt_backfill.has_started(state) -%}
    {%- set gap = dbt_backfill.find_gap(backfill, state, observed) -%}
    {#- The newest version, or, in the mode `snapshot` until every vnode has finished, the one at which the backfill began. -#}
    {%- set version = state.upstream_version if not gap and dbt_backfill.stays_at_snapshot(backfill, state) else observed.version -%}
    {%- set windows = dbt_backfill.read_windows(backfill, state) -%}
    {%- set filling = dbt_backfill.get_open_filling(state) -%}
    {%- set moves = (windows.moving != [] or filling) and backfill.options.backfill_rate_limit != 0 -%}
    {#- With a change table of the user's own its new rows tell whether there may be changes. -#}
    {%- set has_moved = observed.feed.version != (dbt_backfill.get_source(state.committed, 'feed') or {}).get('version')
        if backfill.feed and not dbt_backfill.stays_at_snapshot(backfill, state) else version != state.get('upstream_version') -%}
    {%- set waits = not gap and not moves and not (started and has_moved) -%}
    {%- if waits and backfill.query_hash == state.committed.query_hash -%} {{ return(none) }} {%- endif -%}
    {%- set learned = dbt_backfill.learn_query_at(backfill, learned, version, anew=gap is not none) -%}
    {%- set learned = dbt_backfill.learn_time_zone(backfill, state, observed, learned, anew=gap is not none) -%}
    {%- set change = dbt_backfill.find_change(backfill, state, learned) -%}
    {%- if change.rebuild -%}
        {{ return(dbt_backfill._new_choice(learned, dbt_backfill.new_reset_plan(backfill, state, learned, change.rebuild))) }}
    {%- elif waits and not change.columns -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if change.columns -%}
        {%- set filling = dbt_backfill.begin_filling(backfill, state, observed, learned, version, change.columns) -%}
    {%- endif -%}
    {%- if gap or state.get('upstream_version') is none -%}
        {%- set learned = dbt_backfill.check_key_order(backfill, learned) -%}
        {%- do dbt_backfill.check_query_at(backfill, observed, learned, version) -%}
    {%- endif -%}
    {%- if gap or filling and not started -%}
        {%- set reason = gap or 'its query returns other columns' -%}
        {{ return(dbt_backfill._new_choice(
            learned, dbt_backfill.choose_reanchor(
                backfill, state, observed, learned, reason, started, filling=filling
            )
        )) }}
    {%- elif filling and filling.columns -%}
        {%- set plan = dbt_backfill.new_plan_at(backfill, state, learned, 'fill', observed, version) -%}
        {%- set ranged = dbt_backfill.get_plan_with_fill(backfill, state, plan, filling) -%}
        {{ return(dbt_backfill._new_choice(learned, ranged.plan, ranged.most_rows)) }}
    {%- endif -%}
    {%- set plan = dict(
        dbt_backfill.new_plan_at(backfill, state, learned, 'advance', observed, version), **dbt_backfill.end_filling(filling)
    ) -%}
    {%- if windows.moving == [] or not moves -%} {{ return(dbt_backfill._new_choice(learned, plan)) }} {%- endif -%}
    {%- set ranged = dbt_backfill.get_plan_with_range(backfill, state, plan, windows) -%}
    {{ return(dbt_backfill._new_choice(learned, ranged.plan, ranged.most_rows)) }}
{% endmacro %}


{#- Refuse options that its vnodes do not allow: there may be others than the config's vnode_count says. -#}
{% macro _check_vnodes(backfill, state) %}
    {%- if backfill.options.backfill_mode == 'no_shuffle' and not state.uniform -%}
        {%- do dbt_backfill.refuse(
            "its vnodes have different positions, and backfill_mode 'no_shuffle' keeps one position",
            "Go on with backfill_mode 'arrangement', or rebuild the MV once with --full-refresh"
        ) -%}
    {%- endif -%}
    {%- for vnode in backfill.options.backfill_vnodes or [] if vnode >= state.committed.vnode_count -%}
        {%- do dbt_backfill.refuse(
            'backfill_vnodes names vnode ' ~ vnode ~ ', and it has ' ~ state.committed.vnode_count ~ ' vnodes',
            'Vnodes are numbered from 0 to ' ~ (state.committed.vnode_count - 1)
        ) -%}
    {%- endfor -%}
{% endmacro %}


{#-
    What was chosen: {
      'plan': as it would be stored, but for the rows that are counted before,
      'most_rows': with how many rows its range holds; none for any number,
      'learned': what the run has learned by then
    }
-#}
{% macro _new_choice(learned, plan, most_rows=none) %}
    {{ return({'plan': plan, 'most_rows': most_rows, 'learned': learned}) }}
{% endmacro %}


{#- Why an MV can be followed by nothing but a rebuild; none as a rule. -#}
{% macro find_rebuild(state) %}
    {%- if state.committed.kind == 'replace' -%} {{ return('another table stood in its place') }} {%- endif -%}
    {{ return('a rebuild was given up' if dbt_backfill.is_abandoned_reset(state.committed) else none) }}
{% endmacro %}


{#- Why the changes since the committed version cannot be read as a feed; none if they can. -#}
{% macro find_gap(backfill, state, observed) %}
    {%- if state.dirty -%} {{ return('the last plan was abandoned') }} {%- endif -%}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {%- if dbt_backfill.stays_at_snapshot(backfill, state)
            and not dbt_backfill.ask(backfill.upstream, 'upstream_readable')(observed, dbt_backfill.get_source(state.committed)) -%}
        {{ return('the version ' ~ state.upstream_version ~ ' of the snapshot can no longer be read') }}
    {%- endif -%}
    {{ return(dbt_backfill.find_feed_gap(backfill, observed, state.committed)) }}
{% endmacro %}


{% macro stays_at_snapshot(backfill, state) %}
    {{ return(backfill.options.backfill_mode == 'snapshot' and not state.finished
        and state.get('upstream_version') is not none) }}
{% endmacro %}


{#-
    After plans that were given up only what they could touch is put right, if that can be told. Elsewhere the whole prefix
    is read again, so its keys are checked again, at once or in slices, unless `on_gap` refuses that. An MV that has nothing
    yet is just emptied; one whose sweep has come to nothing yet has its rows of before.

    Arguments:
      filling (dict or none): see new_filling; whatever reads the whole prefix again also ends that.
      views (list): the temporary views to drop before a refusal.
-#}
{% macro choose_reanchor(backfill, state, observed, learned, reason, started, views=[], filling=none) %}
    {%- set ended = dbt_backfill.end_filling(filling) -%}
    {%- if not started and not dbt_backfill.is_sweeping(state) -%}
        {{ return(dbt_backfill.new_reset_plan(backfill, state, learned, reason)) }}
    {%- endif -%}
    {%- set plan = dbt_backfill.new_plan_at(backfill, state, learned, 'reanchor', observed, observed.version, reason) -%}
    {%- set touched = none if filling and filling.columns else dbt_backfill.find_touched_ranges(backfill, state, observed) -%}
    {%- set sweeps = backfill.options.on_gap == 'sweep' or dbt_backfill.is_sweeping(state) -%}
    {%- if touched is none and started and backfill.options.on_gap == 'fail' -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- do dbt_backfill.refuse(
            'its next barrier would compare all ' ~ '{:,}'.format(state.row_count) ~ ' rows read so far with its query, because '
                ~ reason,
            "Set on_gap='reanchor' to let it, on_gap='sweep' to do so in slices, or rebuild the MV with --full-refresh"
        ) -%}
    {%- elif touched is none and sweeps -%}
        {{ return(dict(dbt_backfill.new_sweep_plan(backfill, state, learned, observed, reason), **ended)) }}
    {%- endif -%}
    {{ return(dict(plan, touched=touched, **ended)) }}
{% endmacro %}


{#-
    What all plans of a run have in common, for the epoch after `state.epoch`; plan_fields describes the rest.

    Arguments:
      learned (dict): of the query, see new_learned.
-#}
{% macro new_plan(backfill, state, learned, kind, reason=none) %}
    {#- The order of a backfill stays as it was begun, whatever its config says by now: its positions mean nothing in the other one. -#}
    {%- set order = dbt_backfill.get_order(state.committed.key) if state.committed.get('key') else backfill.options.backfill_order -%}
    {{ return({
        'epoch': state.epoch + 1,
        'plan_id': local_md5(invocation_id ~ model.unique_id ~ state.epoch ~ modules.datetime.datetime.now()),
        'backfill_id': state.committed.backfill_id,
        'kind': kind,
        'reason': reason,
        'sweeps': dbt_backfill.is_sweeping(state),
        'sources': [{
            'role': 'upstream', 'relation': backfill.upstream.relation.render(), 'kind': backfill.upstream.kind, 'version': none,
        }],
        'query': backfill.query,
        'query_hash': backfill.query_hash,
        'query_columns': learned.columns,
        'settings': dbt_backfill.get_settings_to_record(state.settings, learned.used_settings),
        'key': dbt_backfill.with_order(dbt_backfill.keep_positions(learned.key, state.committed), order),
        'vnode_count': state.committed.get('vnode_count') or backfill.options.vnode_count,
        'backfill_mode': backfill.options.backfill_mode,
        'backfill_rate_limit': backfill.options.backfill_rate_limit,
    }) }}
{% endmacro %}


{#- A plan that rebuilds the MV, whose key, number of vnodes and order may be others than before. -#}
{% macro new_reset_plan(backfill, state, learned, reason) %}
    {{ return(dict(
        dbt_backfill.new_plan(backfill, state, learned, 'reset', reason),
        sweeps=false,
        key=dbt_backfill.with_order(
            dbt_backfill.place_positions(backfill, state, learned.key), backfill.options.backfill_order
        ),
        vnode_count=backfill.options.vnode_count,
    )) }}
{% endmacro %}


{#-
    A plan that puts a next generation in the MV's place: with the query that it was filled by, up to the version that it holds,
    and its counts of rows.

    Arguments:
      next (dict): see read_filled_generation.
-#}
{% macro new_swap_plan(backfill, state, learned, next, reason) %}
    {%- set filled, taken = next.state.committed, {} -%}
    {%- for name in ['sources', 'query', 'query_hash', 'query_columns', 'vnode_count', 'backfill_mode', 'upstream_row_count'] -%}
        {%- do taken.update({name: filled.get(name)}) -%}
    {%- endfor -%}
    {{ return(dict(
        dbt_backfill.new_plan(backfill, state, dict(learned, key=filled.key), 'swap', reason),
        sweeps=false,
        settings=dbt_backfill.get_settings_to_record(state.settings, filled.settings.keys()),
        key=dbt_backfill.place_positions(backfill, state, filled.key),
        last_range=true,
        next_bounds=[],
        bounds_complete=true,
        counted={'vnode_row_counts': '(select map_from_entries(collect_list(struct(vnode, row_count))) from '
            ~ next.backfill.progress.render() ~ ')'},
        generation={'relation': next.backfill.mv.render(), 'id': filled.backfill_id, 'version': next.version},
        **taken
    )) }}
{% endmacro %}


{#-
    A plan that begins a sweep. The old position is noted as the beginning of its range, where the state stays if it is given up;
    it has no end.
-#}
{% macro new_sweep_plan(backfill, state, learned, observed, reason) %}
    {{ return(dict(
        dbt_backfill.new_plan_at(backfill, state, learned, 'sweep', observed, observed.version, reason),
        range_high=none, next_bounds=[], bounds_complete=false,
    )) }}
{% endmacro %}


{#- A plan that reads the upstream at a version, with the position unmoved so far. -#}
{% macro new_plan_at(backfill, state, learned, kind, upstream, version, reason=none) %}
    {%- set plan = dbt_backfill.new_plan(backfill, state, learned, kind, reason) -%}
    {%- set sources = [dict(
        plan.sources[0], id=upstream.id, version=version,
        committed_at=dbt_backfill.ask(backfill.upstream, 'committed_at')(upstream, version),
        **({'definition': upstream.definition} if upstream.get('definition') else {})
    )] -%}
    {%- if upstream.get('feed') -%}
        {#- A change table of the user's own at its newest position, or, while the snapshot is pinned, at the committed one. -#}
        {%- set pinned = dbt_backfill.kind_reads_range(plan) and dbt_backfill.stays_at_snapshot(backfill, state) -%}
        {%- set at = (dbt_backfill.get_source(state.committed, 'feed') or {}) if pinned else upstream.feed -%}
        {%- do sources.append({
            'role': 'feed', 'relation': backfill.feed.relation.render(), 'kind': backfill.feed.kind, 'id': at.get('id'),
            'version': at.get('version'), 'committed_at': at.get('committed_at'), 'definition': dbt_backfill.describe_change_table(backfill.feed),
        }) -%}
    {%- endif -%}
    {{ return(dict(
        plan,
        sources=sources,
        upstream_row_count=state.committed.get('upstream_row_count'),
        range_low=state.get('position'),
        range_high=state.get('position'),
        last_range=false,
        next_bounds=dbt_backfill._bounds_ahead(state),
        bounds_complete=state.committed.bounds_complete and not state.committed.get('fills'),
    )) }}
{% endmacro %}


{#- The bounds that lie ahead of the position: those of the last plan, unless of a fill, and its own if it was abandoned. -#}
{% macro _bounds_ahead(state) %}
    {%- set last = state.committed -%}
    {%- if last.get('fills') -%} {{ return([]) }} {%- endif -%}
    {%- set own = [last.range_high] if state.dirty and last.get('range_high') not in [none, last.get('range_low')] else [] -%}
    {{ return(own + last.next_bounds) }}
{% endmacro %}
