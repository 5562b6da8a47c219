{#-
    What all plans of a run have in common, for the epoch after `state.epoch`; plan_columns describes the rest.

    Arguments:
      learned (dict): of the query, see new_learned.
-#}
{% macro new_plan(backfill, state, learned, kind, reason=none) %}
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
        'alias_columns': learned.alias_columns,
        'used_settings': learned.used_settings,
        'settings': dbt_backfill.get_settings_to_record(state.get('settings'), learned.used_settings),
        'key': dbt_backfill.with_order(
            dbt_backfill.keep_positions(learned.key, state.committed), dbt_backfill._get_order(backfill, state)
        ),
        'vnode_count': state.committed.get('vnode_count') or backfill.options.vnode_count,
        'backfill_mode': backfill.options.backfill_mode,
        'backfill_rate_limit': backfill.options.backfill_rate_limit,
    }) }}
{% endmacro %}


{#- That of a backfill stays as it was begun, whatever its config says by now: its positions mean nothing in the other order. -#}
{% macro _get_order(backfill, state) %}
    {%- set key = state.committed.get('key') -%}
    {%- if not key -%} {{ return(backfill.options.backfill_order) }} {%- endif -%}
    {{ return(dbt_backfill.get_order(key)) }}
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
      next (dict): see observe_filled.
-#}
{% macro new_swap_plan(backfill, state, learned, next, reason) %}
    {%- set filled, taken = next.state.committed, {} -%}
    {%- for name in ['sources', 'query', 'query_hash', 'query_columns', 'alias_columns', 'vnode_count', 'backfill_mode', 'upstream_row_count'] -%}
        {%- do taken.update({name: filled.get(name)}) -%}
    {%- endfor -%}
    {{ return(dict(
        dbt_backfill.new_plan(backfill, state, dict(learned, key=filled.key), 'swap', reason),
        sweeps=false,
        used_settings=filled.settings.keys() | list,
        settings=dbt_backfill.get_settings_to_record(state.get('settings'), filled.settings.keys()),
        key=dbt_backfill.place_positions(backfill, state, filled.key),
        last_range=true,
        next_bounds=[],
        bounds_complete=true,
        vnode_row_counts='(select map_from_entries(collect_list(struct(vnode, row_count))) from '
            ~ next.backfill.progress.render() ~ ')',
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


{#-
    A plan that gives the MV another number of vnodes, and leaves the rest of what was committed last as it is.

    Arguments:
      node (dict): the model's, of the graph.
      low (list or none): the lowest position of all vnodes, which is that of all of them if they agree after it.
-#}
{% macro new_rescale_plan(state, node, vnode_count, low) %}
    {%- set last, kept = state.committed, {} -%}
    {%- for name in ['backfill_id', 'sources', 'upstream_row_count', 'query', 'query_hash', 'query_columns', 'alias_columns', 'key', 'backfill_mode', 'backfill_rate_limit'] -%}
        {%- do kept.update({name: last.get(name)}) -%}
    {%- endfor -%}
    {%- do kept.update({'sources': dbt_backfill.with_void_replica(last.sources)}) -%}
    {%- set filling, finds = dbt_backfill.get_filling(state), not state.uniform or last.get('vnodes') is not none -%}
    {%- if filling -%}
        {%- do kept.update({
            'fills': filling.columns, 'fill_low': filling.position, 'fill_high': filling.position, 'filled_row_count': filling.row_count,
        }) -%}
    {%- endif -%}
    {{ return(dict(
        kept,
        epoch=state.epoch + 1,
        plan_id=local_md5(invocation_id ~ node.unique_id ~ state.epoch ~ modules.datetime.datetime.now()),
        kind='rescale',
        reason='from ' ~ last.vnode_count ~ ' to ' ~ vnode_count ~ ' vnodes',
        sweeps=dbt_backfill.is_sweeping(state),
        range_low=state.get('position'),
        range_high=low,
        last_range=false,
        next_bounds=[] if finds else dbt_backfill._bounds_ahead(state),
        bounds_complete=not finds and last.bounds_complete and not last.get('fills'),
        settings=last.settings,
        vnode_count=vnode_count,
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
        {%- set pinned = dbt_backfill.reads_range(plan) and dbt_backfill.stays_at_snapshot(backfill, state) -%}
        {%- do sources.append(dbt_backfill._feed_source(backfill, state, upstream.feed, pinned)) -%}
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


{#- A change table of the user's own at its newest position, or, while the snapshot is pinned, at the committed one. -#}
{% macro _feed_source(backfill, state, feed, pinned) %}
    {%- set committed = dbt_backfill.get_source(state.committed, 'feed') or {} -%}
    {{ return({
        'role': 'feed',
        'relation': backfill.feed.relation.render(),
        'kind': backfill.feed.kind,
        'id': committed.get('id') if pinned else feed.id,
        'version': committed.get('version') if pinned else feed.version,
        'committed_at': committed.get('committed_at') if pinned else feed.committed_at,
        'definition': dbt_backfill.describe_change_table(backfill.feed),
    }) }}
{% endmacro %}
