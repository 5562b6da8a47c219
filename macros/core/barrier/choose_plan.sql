{#-
    Return the next barrier to run; none if there is nothing to do: {
      'plan': a plan of the kind `reset`, `swap`, `reanchor`, `sweep`, `fill` or `advance`, still without the numbers of rows, which are counted
        later,
      'most_rows': the plan is stored only if its range has at most this number of rows; absent if any number is allowed,
      'analysis': what the run knows about its query after this choice
    }

    This macro refuses everything that can be refused without reading rows.

    Arguments:
      observed (dict): see observe_upstream. analysis (dict): see new_analysis. rebuild (string or none): why the MV is to be rebuilt.
      next (dict or text): the generation that is to replace the MV, see read_filled_generation; 'planned' if the stored plan already is the swap of
        that generation: after this swap no other plan is chosen.
-#}
{% macro choose_plan(backfill, state, observed, analysis, rebuild, next=none) %}
    {%- if next == 'planned' -%} {{ return(none) }} {%- endif -%}
    {%- if next -%}
        {{ return({'plan': dbt_backfill.new_swap_plan(backfill, state, analysis, next, rebuild), 'analysis': analysis}) }}
    {%- endif -%}
    {%- set options, reason = backfill.options, rebuild or dbt_backfill.find_rebuild(state) or dbt_backfill.find_late_reset(backfill, state) -%}
    {%- if reason -%}
        {%- set analysis = dbt_backfill.check_key_order(backfill, dbt_backfill.analyze_query(backfill, analysis, observed.version)) -%}
        {{ return({'plan': dbt_backfill.new_reset_plan(backfill, state, analysis, reason), 'analysis': analysis}) }}
    {%- endif -%}
    {%- if options.backfill_vnodes or not state.uniform -%} {%- do dbt_backfill.check_vnodes(backfill, state) -%} {%- endif -%}
    {%- set started, is_pinned = dbt_backfill.has_started(state), dbt_backfill.stays_at_snapshot(backfill, state) -%}
    {%- set gap = dbt_backfill.find_gap(backfill, state, observed) -%}
    {#- As a rule the plan reads the newest version. In the mode `snapshot` the plan reads the version at which the backfill began, until every vnode
        has finished. -#}
    {%- set version = state.upstream_version if is_pinned and not gap else observed.version -%}
    {%- set start, filling = dbt_backfill.read_range_start(backfill, state), dbt_backfill.get_filling(state) -%}
    {%- set undropped = state.committed.get('drops') if state.dirty else none -%}
    {#- A given-up plan may have left columns that it was to drop. These columns have to be dropped even if no column is being filled. -#}
    {%- if undropped -%} {%- set filling = dict(filling or dbt_backfill.new_filling([]), drops=undropped) -%} {%- endif -%}
    {%- set moves = (start.moving != [] or filling) and options.backfill_rate_limit != 0 -%}
    {#- If the model has a change table, there may be changes as soon as the change table has new rows. -#}
    {%- set has_moved = observed.feed.version != (dbt_backfill.get_source(state.committed, 'feed') or {}).get('version')
        if backfill.feed and not is_pinned else version != state.get('upstream_version') -%}
    {%- set waits = not gap and not moves and not (started and has_moved) -%}
    {%- if waits and backfill.query_hash == state.committed.query_hash -%} {{ return(none) }} {%- endif -%}
    {%- set analysis = dbt_backfill.analyze_query(backfill, analysis, version, anew=gap is not none) -%}
    {%- set analysis = dbt_backfill.analyze_time_zone(backfill, state, observed, analysis, anew=gap is not none) if analysis.moments else analysis -%}
    {%- set change = dbt_backfill.find_change(backfill, state, analysis) -%}
    {%- if change.rebuild -%}
        {{ return({'plan': dbt_backfill.new_reset_plan(backfill, state, analysis, change.rebuild), 'analysis': analysis}) }}
    {%- elif waits and not change.columns -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if change.columns -%}
        {%- set filling = dbt_backfill.begin_filling(backfill, state, observed, analysis, version, change.columns) -%}
    {%- endif -%}
    {%- set changed_type = dbt_backfill.find_changed_type(state, analysis) -%}
    {%- set gap = gap or changed_type -%}
    {%- if gap or state.get('upstream_version') is none -%}
        {%- set analysis = dbt_backfill.check_key_order(backfill, analysis) -%}
        {%- do dbt_backfill.check_query_at(backfill, observed, analysis, version) -%}
    {%- endif -%}
    {%- if gap or filling and not started -%}
        {%- set ranged = {'plan': dbt_backfill.choose_recovery(
            backfill, state, observed, analysis, gap or 'its query returns other columns', started, filling=filling,
            whole=state.get('foreign_write') is not none or changed_type is not none
        )} -%}
    {%- elif filling and filling.columns -%}
        {%- set plan = dbt_backfill.new_plan_at(backfill, state, analysis, 'fill', observed, version) -%}
        {%- set ranged = dbt_backfill.get_plan_with_fill(backfill, state, plan, filling) -%}
    {%- else -%}
        {%- set plan = dict(
            dbt_backfill.new_plan_at(backfill, state, analysis, 'advance', observed, version), **({'drops': filling.drops} if filling else {})
        ) -%}
        {%- set ranged = dbt_backfill.get_plan_with_range(backfill, state, plan, start) if start.moving != [] and moves
            else {'plan': plan} -%}
    {%- endif -%}
    {{ return(dict(ranged, analysis=analysis)) }}
{% endmacro %}


{#- Return the reason if the state requires a rebuild of the MV; otherwise none. -#}
{% macro find_rebuild(state) %}
    {%- if state.committed.kind == 'replace' -%} {{ return('another table had replaced it') }} {%- endif -%}
    {{ return('a rebuild was given up' if dbt_backfill.is_abandoned_reset(state.committed) else none) }}
{% endmacro %}


{#-
    Refuse an MV that lacks a column of its last barrier's query, or that has another column. The cause is an ALTER of another program, or a late
    ALTER of an earlier barrier. If instead a late reset of this MV has brought the columns of another query, return why the MV has to be reset again.
    During a full refresh beside the MV in use, never refuse: a next generation is reset, and the MV in use waits, see run_barrier. Return none if the
    MV has its columns.
-#}
{% macro find_late_reset(backfill, state) %}
    {%- set present, committed = state.get('mv_columns'), state.committed -%}
    {%- if present is none or state.get('planned') or state.dirty -%} {{ return(none) }} {%- endif -%}
    {%- set wanted = dbt_backfill.parse_columns(committed.query_columns) -%}
    {%- set names, mv = wanted | map(attribute='name') | map('lower') | list, backfill.mv.render() -%}
    {%- set missing, present = [], present | map('lower') | list -%}
    {%- set others = present | reject('in', names) | list -%}
    {%- for column in wanted if column.name | lower not in present -%} {%- do missing.append(column) -%} {%- endfor -%}
    {%- if (missing or others) and (state.foreign_write or {}).get('plan') -%} {{ return('a late full refresh has reset it') }} {%- endif -%}
    {%- if (missing or others) and backfill.generation -%} {{ return('something has changed its columns') }} {%- endif -%}
    {%- if missing -%}
        {%- do dbt_backfill.refuse(
            mv ~ ' lacks the column ' ~ missing[0].name ~ ', which its query returns, and its last barrier did not drop it',
            'Rebuild the MV with --full-refresh. Or add the column (ALTER TABLE ' ~ mv ~ ' ADD COLUMN '
                ~ dbt_backfill.identifier(missing[0].name) ~ ' ' ~ missing[0].type ~ '), and fill it with verify_backfill (repair: true)',
            id='mv-column-dropped') -%}
    {%- elif others -%}
        {%- do dbt_backfill.refuse(
            mv ~ ' has the column ' ~ others[0] ~ ', which its query does not return', 'Drop the column, or rebuild the MV with --full-refresh',
            id='mv-column-added') -%}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- True if a committed plan is a reset or a swap that was given up. (The source of a reset has no version.) After such a plan the MV may already have
    the plan's columns, while the progress table still has the previous key and vnodes. So the next plan has to replace the MV again. -#}
{% macro is_abandoned_reset(plan) %}
    {%- set replaces = dbt_backfill.get_source(plan).get('version') is none or plan.get('generation') is not none -%}
    {{ return(plan.kind == 'abandon' and replaces) }}
{% endmacro %}


{#- Refuse options that do not fit the number of vnodes that the MV has. This number may differ from the config's vnode_count. -#}
{% macro check_vnodes(backfill, state) %}
    {%- if backfill.options.backfill_mode == 'no_shuffle' and not state.uniform -%}
        {%- do dbt_backfill.refuse("its vnodes have different positions, but backfill_mode 'no_shuffle' allows only one position",
            "Set backfill_mode to 'arrangement', or " ~ dbt_backfill.get_rebuild_text(backfill), id='vnodes-at-different-positions') -%}
    {%- endif -%}
    {%- for vnode in backfill.options.backfill_vnodes or [] if vnode >= state.committed.vnode_count -%}
        {%- do dbt_backfill.refuse(
            'the option backfill_vnodes contains vnode ' ~ vnode ~ ', but the MV has ' ~ state.committed.vnode_count ~ ' vnodes',
            'Use vnode numbers from 0 to ' ~ (state.committed.vnode_count - 1), id='vnode-not-in-mv') -%}
    {%- endfor -%}
{% endmacro %}


{#- True if the MV has the mode `snapshot` and the next barrier still reads the version at which the backfill began. -#}
{% macro stays_at_snapshot(backfill, state) %}
    {{ return(backfill.options.backfill_mode == 'snapshot' and not state.finished and state.get('upstream_version') is not none) }}
{% endmacro %}


{#- Return why the next barrier has to compare the MV with the query; none if it does not have to. -#}
{% macro find_gap(backfill, state, observed) %}
    {%- if state.get('foreign_write') -%}
        {{ return('something other than its barriers wrote to ' ~ backfill.mv.render() ~ ' (' ~ state.foreign_write.text ~ ')') }}
    {%- endif -%}
    {%- if state.dirty -%} {{ return('the last plan was abandoned') }} {%- endif -%}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {%- if dbt_backfill.stays_at_snapshot(backfill, state)
            and not dbt_backfill.ask(backfill.upstream, 'upstream_readable')(observed, dbt_backfill.get_source(state.committed)) -%}
        {{ return('the version ' ~ state.upstream_version ~ ' of the snapshot can no longer be read') }}
    {%- endif -%}
    {{ return(dbt_backfill.find_feed_gap(backfill, observed, state.committed)) }}
{% endmacro %}


{#- Return why the changes since the committed plan cannot be read; none if they can. Refuse if later changes could not be read either. -#}
{% macro find_feed_gap(backfill, observed, committed) %}
    {%- set feed = dbt_backfill.describe_change_table(backfill.feed) if backfill.feed else none -%}
    {%- if (dbt_backfill.get_source(committed, 'feed') or {}).get('definition') != feed -%} {{ return('change_feed was changed') }} {%- endif -%}
    {%- if not backfill.feed -%}
        {%- set followed = dict(dbt_backfill.get_source(committed), key=(committed.get('key') or []) | map(attribute='upstream') | list) -%}
        {#- Call check_followed only if the committed plan has the model's key: a model with another key is refused or rebuilt anyway. Do not check
            the MV in use during a full refresh beside it: perhaps the user refreshes the MV because its changes cannot be followed. -#}
        {%- set names = (committed.get('key') or []) | map(attribute='name') | map('lower') | list -%}
        {%- if dbt_backfill.upstream_traits(backfill.upstream).stages_ranges and backfill.get('generation') != 'former'
                and names == backfill.options.unique_key | map('lower') | list -%}
            {%- do dbt_backfill.ask(backfill.upstream, 'check_followed')(observed, followed) -%}
        {%- endif -%}
        {%- set gap = dbt_backfill.ask(backfill.upstream, 'upstream_gap')(observed, followed) -%}
    {%- elif not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, dbt_backfill.get_source(committed)) -%}
        {{ return('the upstream may have been replaced, gone back to an earlier version or had columns changed') }}
    {%- else -%}
        {%- set since = dbt_backfill.get_source(committed, 'feed') -%}
        {%- set gap = dbt_backfill.ask(backfill.feed, 'upstream_gap')(observed.feed, since) -%}
        {%- if gap -%}
            {%- set gap = dict(gap, reason=gap.reason | replace('the upstream', 'the change feed')) -%}
        {%- elif not dbt_backfill.ask(backfill.feed, 'upstream_readable')(observed.feed, since) -%}
            {{ return('the version ' ~ since.version ~ ' of the change feed can no longer be read') }}
        {%- endif -%}
    {%- endif -%}
    {%- if not gap -%} {{ return(none) }} {%- endif -%}
    {%- if gap.refusal -%} {%- do dbt_backfill.refuse(gap.refusal.fact, gap.refusal.change, id=gap.refusal.id) -%} {%- endif -%}
    {{ return(gap.reason) }}
{% endmacro %}


{#- Return how the type of a column that the query reads has changed since the last executed barrier, as the end of a sentence; none if no type is
    known to have changed. With the type, values of older rows may have changed that the feed does not report: `cast(amount as string)` gets more
    digits if `amount` is widened to decimal(12,4). Delta's log does not show the types, nor that a write with schema evolution has changed them. -#}
{% macro find_changed_type(state, analysis) %}
    {%- set read = dbt_backfill.get_source(dbt_backfill.get_feed_start(state)) -%}
    {%- set types = fromjson(read.get('definition') or '{}') if read and analysis.types else {} -%}
    {%- for name, type in (fromjson(analysis.types) if types else {}).items() if types.get(name, type) != type -%}
        {{ return('the type of the column ' ~ name ~ ' of the upstream changed from ' ~ types[name] ~ ' to ' ~ type) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Return the vnodes that are to move, and the beginning of their next range: {
      'moving': a list of vnodes, or none for all vnodes; the list is empty if all selected vnodes have finished,
      'low': the lowest position of these vnodes as literals; none if one of these vnodes has not started
    }
-#}
{% macro read_range_start(backfill, state) %}
    {%- set selected = backfill.options.backfill_vnodes -%}
    {%- if state.finished -%} {{ return({'moving': [], 'low': none}) }} {%- endif -%}
    {%- if state.uniform -%} {{ return({'moving': selected, 'low': state.get('position')}) }} {%- endif -%}
    {%- set keys, positions, low = state.committed.key, dbt_backfill.position_columns(state.committed.key), [] -%}
    {%- for key in keys -%} {%- do low.append(dbt_backfill.literal_expression('low.' ~ positions[loop.index0], key.type)) -%} {%- endfor -%}
    {%- set sql -%}
        select to_json(named_struct('moving', moving, 'low', if(started, array({{ low | join(', ') }}), null)))
        from (
            select
                array_sort(collect_list(vnode)) as moving, bool_and({{ positions[0] }} is not null) as started,
                {{ 'max' if dbt_backfill.is_descending(keys) else 'min' }}(struct({{ positions | join(', ') }})) as low
            from {{ backfill.progress.render() }}
            where not backfill_finished{% if selected %} and vnode in ({{ selected | join(', ') }}){% endif %}
        )
    {%- endset -%}
    {%- set start = dbt_backfill.run_json('read the positions', sql)[0] -%}
    {{ return({'moving': start.moving, 'low': start.get('low')}) }}
{% endmacro %}


{#- Return a plan that reads the upstream at a version but does not move the position yet. -#}
{% macro new_plan_at(backfill, state, analysis, kind, upstream, version, reason=none) %}
    {%- set plan = dbt_backfill.new_plan(backfill, state, analysis, kind, reason) -%}
    {%- set sources = [dict(
        plan.sources[0], id=upstream.id, version=version, definition=upstream.get('definition') or analysis.types,
        committed_at=dbt_backfill.ask(backfill.upstream, 'committed_at')(upstream, version),
    )] -%}
    {%- if upstream.get('feed') -%}
        {#- The user's change table is read up to its newest position. While the snapshot is pinned, it is read only up to the committed position. -#}
        {%- set pinned = dbt_backfill.kind_reads_range(plan) and dbt_backfill.stays_at_snapshot(backfill, state) -%}
        {%- set at = (dbt_backfill.get_source(state.committed, 'feed') or {}) if pinned else upstream.feed -%}
        {%- do sources.append({
            'role': 'feed', 'relation': backfill.feed.relation.render(), 'kind': backfill.feed.kind, 'id': at.get('id'),
            'version': at.get('version'), 'committed_at': at.get('committed_at'), 'definition': dbt_backfill.describe_change_table(backfill.feed),
        }) -%}
    {%- endif -%}
    {%- set position = state.get('position') -%}
    {{ return(dict(
        plan, sources=sources, upstream_row_count=state.committed.get('upstream_row_count'),
        range_low=position, range_high=position, last_range=false, **dbt_backfill.get_bounds_ahead(state)
    )) }}
{% endmacro %}


{#- Return the fields that every plan of a run has, for the epoch after `state.epoch`; get_plan_json_sql describes the other fields. -#}
{% macro new_plan(backfill, state, analysis, kind, reason=none) %}
    {%- if backfill.get('views') -%}
        {%- do dbt_backfill.check_settings_of_views(backfill.views, state.settings, analysis.used_settings) -%}
    {%- endif -%}
    {#- A backfill keeps the order in which it began, even if the order in the config was changed: the positions are valid in that order only. -#}
    {%- set order = state.committed.key[0].get('order', 'ascending') if state.committed.get('key') else backfill.options.backfill_order -%}
    {{ return({
        'epoch': state.epoch + 1, 'backfill_id': state.committed.backfill_id, 'kind': kind, 'reason': reason,
        'plan_id': local_md5(invocation_id ~ model.unique_id ~ state.epoch ~ modules.datetime.datetime.now()),
        'sweeps': dbt_backfill.is_sweeping(state),
        'sources': [{
            'role': 'upstream', 'relation': backfill.upstream.relation.render(), 'kind': backfill.upstream.kind, 'version': none,
        }],
        'query': backfill.query, 'query_hash': backfill.query_hash, 'volatile_columns': backfill.options.volatile_columns or none,
        'query_columns': analysis.columns,
        'settings': dbt_backfill.get_result_settings(state.settings, analysis.used_settings),
        'key': dbt_backfill.with_order(dbt_backfill.keep_positions(analysis.key, state.committed), order),
        'vnode_count': state.committed.get('vnode_count') or backfill.options.vnode_count,
        'backfill_mode': backfill.options.backfill_mode, 'backfill_rate_limit': backfill.options.backfill_rate_limit,
    }) }}
{% endmacro %}


{#- Return the key with this order in each of its columns. An ascending order is not recorded. -#}
{% macro with_order(keys, order) %}
    {%- set ordered = [] -%}
    {%- for key in keys -%}
        {%- set entries = {} -%}
        {%- for name, value in key.items() if name != 'order' -%} {%- do entries.update({name: value}) -%} {%- endfor -%}
        {%- do ordered.append(dict(entries, order=order) if order == 'descending' else entries) -%}
    {%- endfor -%}
    {{ return(ordered) }}
{% endmacro %}


{#-
    Return the key of a query. Each column of the key gets an entry `position`: the column of the progress table that has its position. If the key of
    the committed plan has the same column of the upstream, its `position` is kept. Otherwise the position gets a new column, with the name of the
    upstream's column. The name gets a prefix if the progress table already has another column of that name: a column of every progress table, a
    position of this key, or a position of an earlier key with another type. `present`: the columns of the table, names in lower case -> types.
-#}
{% macro keep_positions(key, committed, present={}) %}
    {%- set kept, placed = [], [] -%}
    {%- for column in key -%}
        {%- set same = ((committed or {}).get('key') or []) | selectattr('upstream', 'equalto', column.upstream) | list -%}
        {%- do kept.append(same[0].position if same else none) -%}
    {%- endfor -%}
    {%- set taken = dbt_backfill.progress_columns().keys() | list + kept | select | map('lower') | list -%}
    {%- for column in key -%}
        {%- set positions = [kept[loop.index0]] if kept[loop.index0] else [] -%}
        {%- for number in range(100) -%}
            {%- set name = ('' if number == 0 else 'pk_' if number == 1 else 'pk' ~ number ~ '_') ~ column.upstream -%}
            {%- if not positions and name | lower not in taken and present.get(name | lower, column.type) == column.type -%}
                {%- do positions.append(name) -%}
                {%- do taken.append(name | lower) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- do placed.append(dict(column, position=positions[0])) -%}
    {%- endfor -%}
    {{ return(placed) }}
{% endmacro %}


{#- Return the known ends of the next ranges: {'next_bounds', 'bounds_complete'}. Put the end of an abandoned plan's own range first. -#}
{% macro get_bounds_ahead(state) %}
    {%- set last = state.committed -%}
    {%- set own = [last.range_high] if state.dirty and last.get('range_high') not in [none, last.get('range_low')] else [] -%}
    {{ return({'next_bounds': [], 'bounds_complete': false} if last.get('fills')
        else {'next_bounds': own + last.next_bounds, 'bounds_complete': last.bounds_complete}) }}
{% endmacro %}


{#- Return a plan with its next range: {'plan', 'most_rows': see choose_plan}. `start`: as read_range_start returned it. -#}
{% macro get_plan_with_range(backfill, state, plan, start) %}
    {%- set begun, limit = dict(plan, vnodes=start.moving, range_low=start.low), backfill.options.backfill_rate_limit -%}
    {%- if limit is none -%} {{ return({'plan': dict(begun, last_range=true, range_high=start.low)}) }} {%- endif -%}
    {%- set most, bounds, last = (limit * 1.25) | int, plan.next_bounds, state.committed -%}
    {#- An earlier pass over the keys has found these bounds, with the same rate limit and for all vnodes. -#}
    {%- if last.get('backfill_rate_limit') == limit and start.moving is none and last.get('vnodes') is none
            and (bounds or plan.bounds_complete) -%}
        {%- set known = dict(begun, range_high=bounds[0] if bounds else start.low, last_range=not bounds, next_bounds=bounds[1:]) -%}
        {#- Rows may have been added since the bounds were found, so the number of rows is limited. -#}
        {{ return({'plan': known, 'most_rows': most}) }}
    {%- endif -%}
    {%- set found = {'plan': dict(begun, **dbt_backfill.find_bounds(backfill, state, begun))} -%}
    {#- The bounds were found in a copy, which lacks the rows that were added since it was made. -#}
    {{ return(dict(found, most_rows=most) if backfill.get('source') else found) }}
{% endmacro %}


{#- Return the fields of a plan for the end of its range and the ends of the next ranges. One pass over the remaining keys finds these ends. The field
    'evidence' is not stored, see choose_replica. -#}
{% macro find_bounds(backfill, state, plan) %}
    {%- if plan.vnodes is none and dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%}
        {%- set remaining, columns = {'range_low': plan.range_low, 'last_range': true}, dbt_backfill.upstream_columns(plan.key) -%}
        {%- set window = dbt_backfill.window_predicate(plan.key, columns, remaining) -%}
        {%- set limits = [backfill.options.backfill_rate_limit] -%}
        {%- set sql = dbt_backfill.ask(backfill.upstream, 'bounds_sql')(backfill.upstream, plan.key, window, limits) -%}
        {%- set bounds, complete, evidence = dbt_backfill.run_json('find the bound of the next range', sql)[0].bounds, false, none -%}
    {%- else -%}
        {%- set remaining = {'range_low': plan.range_low, 'last_range': true, 'vnodes': plan.vnodes} -%}
        {%- set total = dbt_backfill.ask(backfill.upstream, 'row_count_sql')(backfill.upstream, dbt_backfill.get_source(plan).version) -%}
        {%- set found = dbt_backfill.run_bounds(backfill, state, plan, remaining, total, state.row_count) -%}
        {%- set bounds, complete = found.bounds, found.complete -%}
        {%- set evidence = none if backfill.get('source') else {'scans': found.get('scans'), 'rows': found.rows} -%}
    {%- endif -%}
    {{ return({
        'range_high': bounds[0] if bounds else plan.range_low, 'last_range': not bounds, 'next_bounds': bounds[1:],
        'bounds_complete': complete, 'evidence': evidence,
    }) }}
{% endmacro %}


{#- Return the result of get_bounds_sql for a window of the keys that has about `total` - `done` rows. -#}
{% macro run_bounds(backfill, state, plan, window, total, done) %}
    {%- set read, window = dbt_backfill.get_range_read(backfill, plan), dict(window, vnode_count=plan.vnode_count) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(read, window, state, backfill, plan.key) -%}
    {%- set by_file = plan.kind == 'advance' and state.uniform and not backfill.get('source') and dbt_backfill.may_replicate(backfill) -%}
    {%- set sql = dbt_backfill.get_bounds_sql(scan, total, done, plan.key, backfill.options.backfill_rate_limit, by_file) -%}
    {{ return(dbt_backfill.run_json('find the bounds of the next ranges', sql)[0]) }}
{% endmacro %}


{#- True if anything has been backfilled. -#}
{% macro has_started(state) %}
    {{ return(not state.uniform or state.any_finished or state.get('position') is not none) }}
{% endmacro %}


{#- True during a sweep: the MV has rows above the position that the sweep has not compared yet. -#}
{% macro is_sweeping(state) %}
    {{ return((state.committed.get('kind') == 'sweep' or state.committed.get('sweeps', false)) and not state.finished) }}
{% endmacro %}


{#-
    Return a dict about the columns that are being filled in existing rows: {
      'columns': a list of {'name', 'type', 'was': the column's type in the MV, if it is to be widened}. A column is filled if it is new or widened,
        or if its definition was changed during an earlier fill,
      'position': the literals of the second position, up to which the columns have the query's values; none at the beginning,
      'row_count': how many rows of the upstream were read to fill them,
      'drops': the names of columns that the next plan has to drop
    }

    Above the second position these columns may have wrong values: null, an outdated value, or a value of the column's previous definition or type.
-#}
{% macro new_filling(columns, position=none, row_count=0, drops=[]) %}
    {{ return({'columns': columns, 'position': position, 'row_count': row_count, 'drops': drops}) }}
{% endmacro %}


{#- Return the columns that are being filled in a committed state; none if all columns are filled up to the position of the MV. -#}
{% macro get_filling(state) %}
    {%- set plan = state.committed or {} -%}
    {%- if not plan.get('fills') or plan.get('last_fill') and not state.dirty -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(plan.fills, plan.get('fill_low' if state.dirty else 'fill_high'), plan.get('filled_row_count') or 0)) }}
{% endmacro %}


{#- Return the columns that a plan is to fill and to drop; none if the plan does neither. -#}
{% macro get_filling_of_plan(plan) %}
    {%- if not plan.get('fills') and not plan.get('drops') -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.new_filling(plan.get('fills') or [], plan.get('fill_low'), drops=plan.get('drops') or [])) }}
{% endmacro %}
