{#-
    Return the dict of everything that a run knows before it reads facts from Spark. All steps get this dict: {
      'mv', 'progress', 'barriers', 'controls', 'staged', 'replica', 'live': relations,
      'options': the configuration,
      'upstream': {'relation', 'kind'},
      'feed': the user's change table, see get_change_table; none if the upstream's own feed is read,
      'sql': the model's query with the text of the views in it, 'views': these views, see read_through_views,
      'query': the same query with the upstream substituted, 'query_hash': see get_lasting_query,
      'started_at': the start time of the model's run, for the time budget,
      'controls_of': only of a next generation: the id of the MV whose controls also apply to the next generation; else none,
      'source': the range source of a barrier, if that is a copy that several plans read, see get_source_read; else none,
      'partitions': see observe_existing; none if the run creates the table, with the partitions of the config,
      `generation`: during a full refresh beside the MV in use: `next` for the new tables, `former` for the MV in use; else none,
      'merges_only': true if a barrier that cannot just merge changes waits, instead of comparing the MV or refusing
    }

    Outside of a run, the dict also has `name`: the model's name for messages.
-#}
{% macro get_backfill(mv, sql) %}
    {%- set options = dbt_backfill.read_config() -%}
    {%- set read = dbt_backfill.get_upstream(sql, options.change_feed) -%}
    {%- set upstream = read.upstream -%}
    {%- set feed = dbt_backfill.get_change_table(options.change_feed, upstream.relation, sql)
        if options.change_feed and not upstream.get('feed') else none -%}
    {%- set query, volatile = dbt_backfill.substitute_upstream(read.sql, upstream.relation), options.volatile_columns or [] -%}
    {#- Refuse a volatile column without an expression of that name: its text would not be left out. -#}
    {%- for name in volatile if '__bf_volatile' not in dbt_backfill.get_lasting_query(query, [name]) -%}
        {%- do dbt_backfill.refuse("volatile_columns contains '" ~ name ~ "', but its query has no expression that ends with AS " ~ name,
            'Write <expression> AS ' ~ name ~ ', or remove the name from volatile_columns', id='volatile-column-unknown') -%}
    {%- endfor -%}
    {%- set lasting = dbt_backfill.get_lasting_query(query, volatile) if volatile else query -%}
    {%- set relations = dbt_backfill.get_checked_relations(mv, options) -%}
    {%- do dbt_backfill.check_options_of_upstream(upstream, feed, options) -%}
    {{ return(dict(
        relations, options=options, upstream=upstream, feed=feed, sql=read.sql, views=read.views, query=query,
        query_hash=local_md5(dbt_backfill.get_words(lasting) | join(' ')),
        started_at=modules.datetime.datetime.now(), controls_of=none, source=none, partitions=none, generation=none, merges_only=false,
    )) }}
{% endmacro %}


{#- Refuse options that this kind of upstream, or this feed, does not support. -#}
{% macro check_options_of_upstream(upstream, feed, options) %}
    {%- if dbt_backfill.upstream_traits(upstream).stages_ranges -%}
        {%- for needs, option in [(options.backfill_mode == 'snapshot', "backfill_mode 'snapshot'"), (options.live_view, 'live_view')] if needs -%}
            {%- do dbt_backfill.refuse(option ~ ' needs an upstream that keeps its versions, but ' ~ upstream.relation.render() ~ ' is a live table',
                'Remove that option; each barrier is exact without it', id='upstream-keeps-no-versions') -%}
        {%- endfor -%}
    {%- elif options.backfill_partitions > 1 -%}
        {%- do dbt_backfill.refuse(
            'backfill_partitions is ' ~ options.backfill_partitions ~ ', but ' ~ upstream.relation.render()
                ~ ' is not a table of a live database',
            'Remove backfill_partitions; it sets how many connections read a range of a live database', id='partitions-not-live') -%}
    {%- endif -%}
    {%- set reason = dbt_backfill.why_no_replica(upstream, feed, options) if options.replicate == 'always' else none -%}
    {%- if reason -%}
        {%- do dbt_backfill.refuse(
            "replicate is 'always', but " ~ reason,
            'Remove this option. A table can only be replicated if it has its own change feed and the format of the MV, and if its keys are checked',
            id='replica-impossible') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Run barriers until the run has reached its number of barriers or there is nothing left to do. Return what to report: {'message', 'state',
    'plan': the plan of the last barrier, 'rows_backfilled', 'read_seconds': the time of the barriers that read these rows, 'changed',
    'deleted', 'barriers': the number of barriers, 'replaced': true if a barrier has replaced the MV, 'waits': see run_barrier}.

    A reset, a rescale and an abandoned plan do not count towards `barriers_per_run`: the run of a full refresh continues with the backfill.

    Arguments:
      observed (dict): as observe_state returned it.
      rebuild (string or none): the reason for a rebuild that the user wants; none without a rebuild.
      next (dict or text): the generation that is to replace the MV, see choose_plan. The run ends with the barrier that replaces the MV.
-#}
{% macro run_barriers(backfill, observed, rebuild, next=none) %}
    {%- set backfill = dict(backfill, partitions=observed.mv.partitions if observed.get('mv') else none) -%}
    {%- set committed = observed.state.committed -%}
    {%- if backfill.options.on_query_change == 'rebuild' and not rebuild
            and dbt_backfill.differs_by_run(backfill.query, committed.query or '', backfill.options.volatile_columns) -%}
        {#- Each run has another invocation_id. So each run would rebuild the MV, and no run would reach the end. -#}
        {%- do exceptions.warn(
            'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': its query contains the invocation_id of dbt as a literal outside of '
                ~ 'volatile_columns. The MV keeps the invocation_id of the run that built it until a --full-refresh'
        ) -%}
        {%- set backfill = dict(backfill, query=committed.query, query_hash=committed.query_hash) -%}
    {%- endif -%}
    {%- set run = namespace(
        state=observed.state, analysis=observed.analysis, rebuild=none if observed.state.get('missing') else rebuild, next=next, replaced=false,
        barriers=0, committed=0, followed=0, done=false, ended=false, spent=false, waits=none, allowance=none,
        first=none, plan=none, rows=0, read_seconds=0, changed=0, deleted=0
    ) -%}
    {%- if not run.state.get('missing') and not rebuild and not next -%}
        {%- set run.rebuild = dbt_backfill.find_change(backfill, run.state, run.analysis).rebuild -%}
        {%- if not run.rebuild -%} {%- do dbt_backfill.report_kept_shape(backfill, run.state) -%} {%- endif -%}
    {%- endif -%}
    {%- do dbt_backfill.set_line_if_stopped(backfill, run.state) -%}
    {#- Jinja has no `while`, so two nested loops allow a million turns. Once the run is done, at most two thousand of these turns still happen. -#}
    {%- for _ in range(1000) -%}
        {%- if not run.done -%}
            {%- for _ in range(1000) -%} {%- if not run.done -%} {%- do dbt_backfill._run_next_barrier(backfill, run) -%} {%- endif -%} {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do dbt_backfill.after_run(backfill, run.state, run.plan, run.waits) -%}
    {%- if run.state.get('missing') -%} {%- set run.state = dbt_backfill.create_backfill(backfill, run.state) -%} {%- endif -%}
    {%- set run.state = dbt_backfill.write_history(backfill, run.state) -%}
    {{ return({
        'message': dbt_backfill.get_result_message(run), 'state': run.state, 'plan': run.plan, 'barriers': run.committed,
        'replaced': run.replaced, 'rows_backfilled': run.rows, 'read_seconds': run.read_seconds, 'changed': run.changed,
        'deleted': run.deleted, 'waits': run.waits,
    }) }}
{% endmacro %}


{#-
    Run one turn of the loop: run a barrier, report it and add its results to `run`. `run` is the namespace of the loop, with the values that are
    needed after a barrier: 'state', 'analysis' and 'plan' after the last barrier; 'rebuild', why the MV is still to be rebuilt; 'barriers', the
    number of barriers that count towards `barriers_per_run`; 'committed', the number of all barriers; 'followed', how many of the last barriers in a
    row merged changes only; 'allowance', the allowance of the last barrier, see get_allowance, none if only the config limits it; 'done', true at the
    end of the loop; 'ended', true if there was nothing left to do, or if the feed had not landed the changes yet ('waits'); 'spent', true if a budget
    was spent.
-#}
{% macro _run_next_barrier(backfill, run) %}
    {%- set options = backfill.options -%}
    {%- if options.take_turns and adapter.type() == 'spark_backfill' -%} {%- do adapter.take_turn() -%} {%- endif -%}
    {#- If another deployment has committed a barrier with another query after this run's last barrier, this run must not continue. Otherwise it would
        remove the columns of the other query. -#}
    {%- if run.plan and run.state.committed.query_hash not in [run.plan.query_hash, backfill.query_hash] -%}
        {%- do dbt_backfill.refuse_concurrent_run(run.plan) -%}
    {%- endif -%}
    {%- set is_limited = run.state.get('control') or options.barrier_seconds or options.run_rows -%}
    {%- set run.allowance = dbt_backfill.get_allowance(backfill, run.state, run) if is_limited else none -%}
    {%- set options = dict(options, backfill_rate_limit=run.allowance.rows) if is_limited else options -%}
    {%- set wanted = options.barriers_per_run -%}
    {%- set barrier = dbt_backfill.run_barrier(
        dict(backfill, options=options, partitions=none if run.replaced else backfill.partitions),
        run.state, run.analysis, run.rebuild, run.next, last=run.next or run.barriers + 1 == wanted
    ) -%}
    {%- if barrier is none or barrier.get('waits') -%}
        {%- set run.done = true -%}
        {%- set run.ended = true -%}
        {%- set run.waits = barrier.waits if barrier else none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set plan, before = barrier.plan, run.state -%}
    {%- set run.plan = plan -%}
    {%- set run.state = barrier.state -%}
    {%- set run.analysis = barrier.analysis -%}
    {%- if not run.committed -%} {%- set run.first = plan.epoch -%} {%- endif -%}
    {%- set run.committed = run.committed + 1 -%}
    {%- do dbt_backfill.report_barrier(backfill, barrier, run.allowance) -%}
    {%- do dbt_backfill.set_line_if_stopped(backfill, run.state) -%}
    {%- do dbt_backfill.after_barrier(backfill, before, run.state) -%}
    {%- if run.state.epoch - [run.state.written or 0, 0] | max >= 20 -%}
        {%- set run.state = dbt_backfill.write_history(backfill, run.state) -%}
    {%- endif -%}
    {%- set run.changed = run.changed + (barrier.counts.get('changed') or 0) -%}
    {%- set run.deleted = run.deleted + (barrier.counts.get('deleted') or 0) -%}
    {%- set reads_range, replaces_mv = dbt_backfill.kind_reads_range(plan), dbt_backfill.replaces_mv(plan) -%}
    {%- if replaces_mv -%} {%- set run.rebuild = none -%} {%- set run.replaced = true -%} {%- endif -%}
    {%- if reads_range and plan.get('range_row_count') -%}
        {%- set run.rows = run.rows + plan.range_row_count -%}
        {%- set run.read_seconds = run.read_seconds + barrier.seconds_without_copy -%}
    {%- endif -%}
    {#- A barrier that executed another run's plan does not count while the rebuild is still to be done. -#}
    {%- if dbt_backfill.kind_of(plan).follows and not run.rebuild -%} {%- set run.barriers = run.barriers + 1 -%} {%- endif -%}
    {#- With `barriers_per_run: all`, the run ends after two barriers in a row that only merged changes. Otherwise a run on an upstream that changes
        all the time would never end. -#}
    {%- set reads = not reads_range or plan.last_range or plan.get('range_row_count') is not none -%}
    {%- set run.followed = 0 if reads or run.rebuild else run.followed + 1 -%}
    {%- set run.done = run.barriers == wanted or replaces_mv and run.next or wanted is none and run.followed == 2 -%}
    {%- if not run.done and dbt_backfill.is_budget_spent(backfill, run) -%} {%- set run.done = true -%} {%- set run.spent = true -%} {%- endif -%}
{% endmacro %}


{#- Log a line if the MV has another number of vnodes or another order than the config, which then applies at the next rebuild. -#}
{% macro report_kept_shape(backfill, state) %}
    {%- if state.get('planned') or backfill.generation -%} {{ return(none) }} {%- endif -%}
    {%- set name, has, wanted = dbt_backfill.get_model_name(model), state.committed.vnode_count, backfill.options.vnode_count -%}
    {%- if has != wanted -%}
        {%- set how = '. To change the number without a rebuild: ' ~ dbt_backfill.get_operation_text(
            'rescale_backfill', '{model: ' ~ name ~ ', vnode_count: ' ~ wanted ~ '}') -%}
        {%- do log(
            name ~ ' has ' ~ has ~ ' vnodes; the vnode_count ' ~ wanted ~ ' applies only when the MV is rebuilt'
                ~ (how if has % wanted == 0 or wanted % has == 0 else ''), info=true
        ) -%}
    {%- endif -%}
    {%- set has, wanted = state.committed.key[0].get('order', 'ascending'), backfill.options.backfill_order -%}
    {%- if has != wanted and not state.finished -%}
        {%- do log(name ~ ' is still backfilled ' ~ has ~ '; the backfill_order ' ~ wanted ~ ' applies only when the MV is rebuilt', info=true) -%}
    {%- endif -%}
{% endmacro %}


{#- Give the adapter the line that it prints if dbt is stopped: `mv [STOPPED · 45.0 % · 150,000 of 333,412 rows · at id=15 · after BARRIER 3]`. -#}
{% macro set_line_if_stopped(backfill, state) %}
    {%- if adapter.type() != 'spark_backfill' or not state.get('committed') -%} {{ return(none) }} {%- endif -%}
    {%- set total = none if state.finished else state.committed.get('upstream_row_count') -%}
    {%- set rows = dbt_backfill.get_count_text(state.row_count) ~ (' of ' ~ dbt_backfill.get_count_text(total) if total else '') ~ ' rows' -%}
    {%- set parts, columns = [dbt_backfill.get_progress(state).text, rows], [] -%}
    {%- if not state.finished -%}
        {%- for literal in (state.get('position') if state.uniform else none) or [] -%}
            {%- do columns.append(state.committed.key[loop.index0].upstream ~ '=' ~ literal) -%}
        {%- endfor -%}
        {%- set somewhere = 'the beginning' if state.uniform else 'another position in each vnode' -%}
        {%- do parts.append('at ' ~ (columns | join(', ') or somewhere)) -%}
    {%- endif -%}
    {%- do parts.append('after BARRIER ' ~ state.epoch if state.epoch else 'before BARRIER 1') -%}
    {%- set generation = ' (next)' if backfill.generation == 'next' else '' -%}
    {%- do adapter.set_line_if_stopped(dbt_backfill.get_model_name(model) ~ generation ~ ' [STOPPED · ' ~ parts | join(' · ') ~ ']') -%}
{% endmacro %}


{#-
    Log the line of a barrier. The line ends with the time of the barrier and the rows that it read per second. If ranges are limited, the line also
    has the number of remaining barriers of this size and their total time, such as `4 s, 12,500 rows/s, 5 barriers left (about 20 s)`. `allowance`:
    see get_allowance; it does not apply to a plan of an earlier run.
-#}
{% macro report_barrier(backfill, barrier, allowance=none) %}
    {%- set plan, state, seconds = barrier.plan, barrier.state, barrier.seconds_without_copy -%}
    {%- set progress, rows = dbt_backfill.get_progress(state), plan.get('range_row_count') -%}
    {%- set parts = ['BARRIER ' ~ plan.epoch, progress.text] + dbt_backfill.get_report_of_kind(barrier) -%}
    {%- if allowance and plan.get('invocation_id', invocation_id) == invocation_id -%}
        {%- set ruled = dbt_backfill.get_allowance_text(allowance, state) -%}
        {%- if ruled -%} {%- do parts.append(ruled) -%} {%- endif -%}
    {%- endif -%}
    {%- set times = [dbt_backfill.get_duration_text(barrier.seconds)] -%}
    {%- if rows and dbt_backfill.kind_reads_range(plan) -%}
        {%- set rate = rows / [seconds, 0.001] | max -%}
        {%- do times.append(('%.1f' | format(rate) if rate < 10 else dbt_backfill.get_number_text(rate)) ~ ' rows/s') -%}
        {#- No estimate is possible if this barrier read only some vnodes, or if it was the last barrier of a fill: the next barriers are
            different. -#}
        {%- set differs = plan.get('vnodes') is not none or plan.get('fills') and not dbt_backfill.get_filling(state) -%}
        {%- if progress.rows_left is not none and not differs and not dbt_backfill.is_complete(state) -%}
            {%- set barriers = [1, (progress.rows_left / rows) | round(0, 'ceil') | int] | max -%}
            {%- do times.append(dbt_backfill.get_count_text(barriers, 'barrier')
                ~ ' left (about ' ~ dbt_backfill.get_duration_text(barriers * seconds) ~ ')') -%}
        {%- endif -%}
    {%- endif -%}
    {%- set generation = ' (next)' if backfill.generation == 'next' else '' -%}
    {%- set line = (parts + [times | join(', ')]) | join(' · ') -%}
    {%- do log(dbt_backfill.get_model_name(model) ~ generation ~ ' [' ~ line ~ ']', info=true) -%}
{% endmacro %}


{#- Return the parts of a barrier's line that depend on the kind of the barrier, as a list of texts. -#}
{% macro get_report_of_kind(barrier) %}
    {%- set plan, state, counts, parts = barrier.plan, barrier.state, barrier.counts, [] -%}
    {%- if plan.kind == 'reset' -%}
        {{ return(['emptied: ' ~ plan.reason]) }}
    {%- elif plan.kind == 'abandon' -%}
        {{ return(['plan given up: ' ~ plan.reason]) }}
    {%- elif plan.kind == 'rescale' -%}
        {%- set removed = counts.get('deleted') -%}
        {{ return(['rescaled ' ~ plan.reason] + ([dbt_backfill.get_count_text(removed) ~ ' rows are read again'] if removed else [])) }}
    {%- endif -%}
    {%- set version = 'version ' ~ dbt_backfill.get_source(plan).version -%}
    {%- if plan.kind == 'swap' -%}
        {{ return([dbt_backfill.get_count_text(state.row_count) ~ ' rows', 'next generation put in place: ' ~ plan.reason, version]) }}
    {%- elif plan.kind == 'sweep' -%}
        {{ return(['sweeps from the start: ' ~ plan.reason, version]) }}
    {%- elif plan.kind == 'fill' -%}
        {%- do parts.append(('filled ' if plan.get('last_fill') else 'fills ') ~ plan.fills | map(attribute='name') | join(', ')) -%}
        {%- if not plan.get('last_fill') -%}
            {%- set filled = dbt_backfill.get_count_text(plan.get('filled_row_count') or 0) -%}
            {%- do parts.append(filled ~ ' of ' ~ dbt_backfill.get_count_text(state.row_count) ~ ' rows') -%}
        {%- endif -%}
        {%- do parts.append('+' ~ dbt_backfill.get_count_text(plan.get('range_row_count') or 0) ~ ' read for it') -%}
    {%- elif not state.finished or plan.get('range_row_count') is not none -%}
        {#- The total is unknown if a database has not estimated its rows. -#}
        {%- set total = plan.get('upstream_row_count') if not state.finished else none -%}
        {%- do parts.append(dbt_backfill.get_count_text(state.row_count) ~ (' of ' ~ dbt_backfill.get_count_text(total) if total else '') ~ ' rows') -%}
        {%- set read = ' compared' if plan.get('sweeps') else ' backfilled' -%}
        {%- do parts.append('+' ~ dbt_backfill.get_count_text(plan.get('range_row_count') or 0) ~ read) -%}
    {%- endif -%}
    {%- if plan.kind == 'reanchor' -%}
        {%- do parts.append('re-anchored: ' ~ plan.reason ~ (', only what it could touch' if plan.get('touched') is not none else '')) -%}
    {%- endif -%}
    {%- if plan.get('drops') -%} {%- do parts.append('dropped ' ~ plan.drops | join(', ')) -%} {%- endif -%}
    {%- if counts -%}
        {%- set deleted = ', ' ~ dbt_backfill.get_count_text(counts.deleted) ~ ' deleted' if 'deleted' in counts else '' -%}
        {%- do parts.append(dbt_backfill.get_count_text(counts.changed) ~ ' changed' ~ deleted) -%}
    {%- endif -%}
    {{ return(parts + [version]) }}
{% endmacro %}


{#-
    Return the progress of an MV: how much of the upstream was backfilled. While columns are being filled, return the progress of the fill: {
      'share': from 0 to 1. The share is below 1 as long as rows are left to be read. (Rows that were deleted upstream after they were read still
      count),
      'text': the share, such as `40.0 %`,
      'rows_left': the number of rows that are left to be read; none if the upstream has not been counted
    }
-#}
{% macro get_progress(state) %}
    {%- if dbt_backfill.is_complete(state) -%} {{ return({'share': 1.0, 'text': '100.0 %', 'rows_left': 0}) }} {%- endif -%}
    {%- set filling = dbt_backfill.get_filling(state) -%}
    {%- set read = filling.row_count if filling else state.row_count -%}
    {%- set total = state.row_count if filling else state.committed.get('upstream_row_count') -%}
    {%- set share = [read / total, 0.999] | min if total else 0.0 -%}
    {{ return({
        'share': share, 'text': '%.1f %%' | format(share * 100), 'rows_left': none if total is none else [total - read, 0] | max,
    }) }}
{% endmacro %}


{#- True if no rows are left to be read. -#}
{% macro is_complete(state) %}
    {{ return(state.finished and not dbt_backfill.get_filling(state)) }}
{% endmacro %}


{#- Return the message of a run's result: the committed barriers, a pause or rate limit that the user has set, and why the run ended before it reached
    `barriers_per_run`. `run`: see _run_next_barrier. -#}
{% macro get_result_message(run) %}
    {%- set progress, complete = ' (' ~ dbt_backfill.get_progress(run.state).text ~ ')', dbt_backfill.is_complete(run.state) -%}
    {%- set is_set = run.allowance and run.allowance.ruled_by in ['pause', 'throttle'] -%}
    {%- set ruled = dbt_backfill.get_allowance_text(run.allowance, run.state) if is_set else '' -%}
    {%- set ruled = ' · ' ~ ruled if ruled else '' -%}
    {%- set end = 'WAITS: ' ~ run.waits if run.waits else 'CAUGHT UP' if complete else 'PAUSED' -%}
    {%- if run.plan is none -%} {{ return(end ~ ('' if complete else progress) ~ ruled) }} {%- endif -%}
    {%- set barriers = 'BARRIER ' if run.first == run.plan.epoch else 'BARRIERS ' ~ run.first ~ ' to ' -%}
    {{ return(barriers ~ run.plan.epoch ~ progress ~ (', ' ~ end if run.ended and not run.state.dirty else ', BUDGET SPENT' if run.spent else '') ~ ruled) }}
{% endmacro %}


{#- Return the end of a message about a comparison, which says how many rows a barrier compares; empty without a rate limit. -#}
{% macro get_slices_text(rate_limit) %}
    {{ return(', up to ' ~ dbt_backfill.get_count_text(rate_limit) ~ ' rows of the upstream per barrier' if rate_limit else '') }}
{% endmacro %}


{#- Return a number as text, such as `12,500`; a large number is shortened, such as `1.2 M` or `1.2 G`. -#}
{% macro get_number_text(number) %}
    {%- if number < 999999.5 -%} {{ return(dbt_backfill.get_count_text('%.0f' | format(number))) }} {%- endif -%}
    {{ return('%.1f M' | format(number / 1e6) if number < 999949999 else '%.1f G' | format(number / 1e9)) }}
{% endmacro %}


{#- Return seconds as `12 s`, `3 min` or `2.5 h`. -#}
{% macro get_duration_text(seconds) %}
    {%- if seconds < 100 -%} {{ return('%.0f s' | format(seconds)) }} {%- endif -%}
    {{ return('%.0f min' | format(seconds / 60) if seconds < 6000 else '%.1f h' | format(seconds / 3600)) }}
{% endmacro %}
