{#-
    One barrier from top to bottom. `tests/exactness/protocol.py` is the same as a model, with all kinds, and tested by random histories.

      observe   the state, which the run has read once and then takes from each commit, and the upstream: its newest version, and what
                its feed lists since the committed one (observe_state, in observe.sql, and observe_upstream)
      plan      choose_plan chooses a kind and a range. One script stages the changed keys up to the position, checks the keys that are
                read again, and stores the plan in the progress table, for the epoch after the committed one (plan_barrier). Until then
                neither the MV nor its state was written, so whatever is refused is refused before. A plan that an earlier run left is
                executed, word for word, or given up (adopt_plan, in recover.sql). One that another run stores in the meantime is
                executed as it is: its version was readable a moment ago. Two runs never execute two plans of one epoch
      steps     the statements that write the MV (run_steps, get_steps): as a rule a MERGE of the changes and one of the range, or one of
                both if they are small. After the first the MV is Q(S' where pk <= P), after the second Q(S' where pk <= P'). The other
                way round it would be a mixture of two versions. Each has the fence as a condition of its source, which reads the
                progress table and fails unless the plan is still the one to execute (get_fence says why that is enough)
      commit    one statement on the progress table, guarded by the epoch and by the plan, so that it does nothing if it is sent twice or
                comes late (commit_barrier). It is last: it ends the plan, after which every late statement fails at its fence

    A run that dies before its plan was stored has written nothing of the MV or its state; a copy of the upstream or temporary views may be
    left, and are replaced. One that dies after it leaves the plan, and the next run sends the same statements again; each of them changes
    nothing where it has been executed already. So the MV is an exact prefix after each of the statements, and not only after the commit.

    The whole MV is compared, not only what has changed, if choose_recovery finds nothing less. Its reasons come from find_gap, or from
    planning, if the changes turn out to be unreadable (find_next_attempt, new_attempt). After a plan that was given up, only what the plan
    could write to is compared, if no columns are being filled (find_touched_ranges). `on_gap` makes it a sweep or a refusal. A table that
    was adopted, and rows that get new columns (`fill`), are compared window by window.

    Returns {'plan', 'state', 'counts', 'seconds', 'seconds_without_copy': without those of a copy of the upstream, which serves the ranges
    ahead too, 'analysis'}; none if there is nothing to do, and {'waits'} if its feed is not there yet.

    Arguments:
      analysis (dict): what the run knows of its query from before, see new_analysis.
      next (dict or text): see choose_plan.
      last (boolean): true if the run ends with it, unless it turns out to be one that does not count.
-#}
{% macro run_barrier(backfill, state, analysis, rebuild, next=none, last=false) %}
    {%- set started_at = modules.datetime.datetime.now() -%}

    {#- Observe. Where nothing was committed, the log has to reach back to what is planned. -#}
    {%- set stored = state.get('planned') -%}
    {%- set observed = dbt_backfill.observe_upstream(backfill, state, dbt_backfill.get_feed_start(state) or stored) -%}

    {#- Plan: execute the plan that an earlier run left, or choose one and store it. -#}
    {%- set columns, copied_in = none, 0 -%}
    {%- if stored -%}
        {%- set planned = dbt_backfill.adopt_plan(backfill, state, observed, stored, rebuild) -%}
    {%- else -%}
        {%- set copy = dbt_backfill.before_choice(backfill, state, observed, analysis) -%}
        {#- A copy that has all rows ahead also has the bounds of the next ranges. -#}
        {%- set bounds_from = dbt_backfill.new_copied_source(copy) if copy and dbt_backfill.is_whole(copy) else none -%}
        {%- set choice = dbt_backfill.choose_plan(dict(backfill, source=bounds_from), state, observed, analysis, rebuild, next) -%}
        {%- if choice is none -%}
            {%- do dbt_backfill.after_commit(backfill, observed, analysis, state.committed) -%}
            {{ return(none) }}
        {%- endif -%}
        {%- if state.get('missing') or choice.plan.kind == 'reset' -%} {%- set columns = dbt_backfill.prepare_creation(backfill) -%} {%- endif -%}
        {%- set chosen_at = modules.datetime.datetime.now() -%}
        {%- set choice = dbt_backfill.before_plan(backfill, state, choice, copy) -%}
        {%- set copied_in = (modules.datetime.datetime.now() - chosen_at).total_seconds() -%}
        {%- set analysis = dict(choice.analysis, copy_id=(choice.get('copy') or copy or {}).get('id')) -%}
        {%- set planned = dbt_backfill.plan_barrier(backfill, state, observed, dict(choice, analysis=analysis), columns) -%}
        {%- if planned.get('waits') -%} {{ return(planned) }} {%- endif -%}
        {%- if state.get('missing') -%} {%- do dbt_backfill.check_created(backfill, state, planned.plan.backfill_id) -%} {%- endif -%}
        {%- set state = dict(state, missing=false) -%}
    {%- endif -%}

    {#- Execute the steps of the plan. -#}
    {%- set plan, backfill = planned.plan, dict(backfill, source=planned.get('source')) -%}
    {%- set holds = dbt_backfill.before_steps(backfill, state, plan) -%}
    {%- set done = dbt_backfill.run_steps(backfill, state, observed, analysis, planned, columns) -%}
    {%- if done.failed -%} {%- set plan = dbt_backfill.give_up_plan(backfill, plan, done.failed) -%} {%- endif -%}

    {#- Commit. -#}
    {%- set counts = {} if done.failed else done.counts -%}
    {%- set ends = last and dbt_backfill.kind_of(plan).follows -%}
    {%- set seconds_until_commit = (modules.datetime.datetime.now() - started_at).total_seconds() - copied_in -%}
    {%- set committed = dbt_backfill.commit_barrier(backfill, state, plan, counts, ends, done.views, done.left_at, seconds_until_commit) -%}

    {%- set analysis = dbt_backfill.after_commit(backfill, observed, done.analysis, plan, planned.get('result'), holds) -%}
    {%- set seconds = (modules.datetime.datetime.now() - started_at).total_seconds() -%}
    {{ return({
        'plan': plan,
        'counts': dbt_backfill.get_committed_counts(committed.committed) if counts else counts,
        'state': committed,
        'seconds': seconds,
        'seconds_without_copy': seconds - copied_in,
        'analysis': analysis,
    }) }}
{% endmacro %}


{#-
    Return what the upstream has now, see read_upstream. With a change table of the user's own, `feed` is the same of that table. Its
    position is read first, so that the upstream is not behind it.

    Arguments:
      since (dict or none): the committed plan, none if nothing was read yet.
-#}
{% macro observe_upstream(backfill, state, since) %}
    {%- set followed = backfill.feed or backfill.upstream -%}
    {%- set source = dbt_backfill.get_source(since, 'feed' if backfill.feed else 'upstream') -%}
    {%- set observed = dbt_backfill.ask(followed, 'read_upstream')(followed, source, state.get('log')) -%}
    {%- do dbt_backfill.ask(followed, 'check_feed')(observed) -%}
    {%- if not backfill.feed -%} {{ return(observed) }} {%- endif -%}
    {%- set upstream = dbt_backfill.ask(backfill.upstream, 'read_upstream')(backfill.upstream, dbt_backfill.get_source(since)) -%}
    {{ return(dict(upstream, feed=observed)) }}
{% endmacro %}


{#- Return the plan whose version the changes are read from: that of the last barrier that was executed, none if there is none. -#}
{% macro get_feed_start(state) %}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {{ return((state.committed.get('given_up') or {}).get('since') if state.dirty else state.committed) }}
{% endmacro %}


{#- Return the counts of a committed plan, as {'changed', 'deleted'}, without those that are not known. -#}
{% macro get_committed_counts(committed) %}
    {%- if committed.get('changed_row_count') is none -%} {{ return({}) }} {%- endif -%}
    {%- set changed, deleted = committed.changed_row_count, committed.get('deleted_row_count') -%}
    {{ return({'changed': changed} if deleted is none else {'changed': changed, 'deleted': deleted}) }}
{% endmacro %}


{#-
    Execute the steps of a plan, the same statements whenever they are sent for this plan and state. Return {
      'failed': the step that failed, of a plan that may be given up, see run_merge; else none,
      'counts': see get_merge_counts; {} if the plan merged no changes,
      'left_at': see run_replacement; none of a plan that does not replace the MV,
      'views': the temporary views of its changes, which the commit drops,
      'analysis': what the run knows of its query by now, see new_analysis
    }

    Arguments:
      planned (dict): as adopt_plan or plan_barrier returned it. Without 'staged' its changes are staged here.
      columns (list or none): of the MV, if this run has looked at them because it creates or replaces it.
-#}
{% macro run_steps(backfill, state, observed, analysis, planned, columns=none) %}
    {%- set plan, kind, may_give_up = planned.plan, dbt_backfill.kind_of(planned.plan), planned.get('may_give_up', false) -%}
    {%- set staged, views, changes = planned.get('staged'), planned.get('views', []), none -%}
    {%- if staged -%}
        {#- The script makes these two only where keys are in doubt. -#}
        {%- set names = dbt_backfill.get_stage_names(backfill, plan) -%}
        {%- set missing = ([] if staged.reread.count else [names.again]) + ([] if staged.suspects else [names.doubtful]) -%}
        {%- set views = views | reject('in', missing) | list -%}
    {%- elif dbt_backfill.has_changes(state, plan) -%}
        {%- if backfill.feed and analysis.feed_columns is none -%}
            {%- set analysis = dict(analysis, feed_columns=dbt_backfill.get_feed_columns(backfill.feed)) -%}
        {%- endif -%}
        {#- The upstream's columns at the version of a plan that another run has made, if its changes may have others. -#}
        {%- set traits, known = dbt_backfill.upstream_traits(backfill.upstream), analysis -%}
        {%- if traits.takes_added_columns and not traits.stages_ranges -%}
            {%- set columns_then = dbt_backfill.get_query_columns('select * from ' ~ dbt_backfill.get_planned_read(backfill, plan)) -%}
            {%- set known = dict(
                analysis, version=dbt_backfill.get_source(plan).version, upstream_columns=columns_then | map(attribute='name') | list
            ) -%}
        {%- endif -%}
        {%- set changes = dbt_backfill.get_changes(backfill, state, observed, known, plan) -%}
        {%- set views = views + changes.views -%}
    {%- endif -%}
    {%- set done = {'failed': none, 'counts': {}, 'left_at': none, 'views': views, 'analysis': analysis} -%}

    {%- set compares = kind.slice == 'all' and plan.get('touched') is none -%}
    {%- if compares or plan.kind == 'sweep' -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' compares all ' ~ '{:,}'.format(state.row_count) ~ ' rows read so far with its query'
                ~ (dbt_backfill.get_slices_text(plan.get('backfill_rate_limit')) if not compares else '') ~ ', because ' ~ plan.reason,
            info=true
        ) -%}
    {%- endif -%}
    {%- if kind.follows and kind.table == 'keep' and (plan.get('fills') or plan.get('drops')) -%}
        {%- do dbt_backfill.run_alterations(backfill, plan) -%}
    {%- endif -%}
    {%- if changes -%}
        {%- set staged = dbt_backfill.stage_changes(backfill, state, plan, changes, may_give_up) -%}
        {%- if staged.failed -%} {{ return(dict(done, failed=staged.failed)) }} {%- endif -%}
    {%- endif -%}
    {%- for step in dbt_backfill.get_steps(backfill, state, plan, staged, columns) -%}
        {%- if step.get('replaces') -%}
            {%- do done.update({'left_at': dbt_backfill.run_replacement(backfill, plan, step.name, step.sql)}) -%}
        {%- elif kind.table != 'keep' or plan.kind == 'abandon' -%}
            {%- do dbt_backfill.run_table(step.name, step.sql, backfill.mv) -%}
        {%- elif not done.failed -%}
            {%- set merged = dbt_backfill.run_merge(backfill, step.name, step.sql, may_give_up) -%}
            {%- do done.update({'failed': merged.failed}) -%}
            {%- if step.get('counts') -%}
                {%- do done.update({'counts': dbt_backfill.get_merge_counts(backfill, step.counts, merged, staged, loop.revindex)}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(done) }}
{% endmacro %}


{#-
    Run a statement that writes the MV. With `may_give_up`, of a plan that an earlier run left while the upstream has gone on: if it fails,
    that is returned, so that the plan can be given up, and nothing is raised. (Jinja catches no error; a script of SQL does.) So a row on
    which the query or a constraint fails does not stop the MV for ever once it was corrected upstream.

    Returns {'may_give_up', 'failed': the step if it failed, none as a rule, 'result': dbt's table, none with may_give_up}.
-#}
{% macro run_merge(backfill, step, sql, may_give_up=false) %}
    {%- if not may_give_up -%}
        {{ return({'may_give_up': false, 'failed': none, 'result': dbt_backfill.run_table(step, sql, backfill.mv)}) }}
    {%- endif -%}
    {%- set script -%}
        begin
            {{ dbt_backfill.declare_failure_handlers() }}
            {{ sql }};
            select to_json(named_struct('done', true));
        end
    {%- endset -%}
    {%- set failed = dbt_backfill.find_failure(backfill, step, dbt_backfill.run_json(step, script)[0]) -%}
    {{ return({'may_give_up': true, 'failed': failed, 'result': none}) }}
{% endmacro %}


{#-
    Return how many rows of the MV a MERGE wrote: {'changed', 'deleted'}, as numbers or SQL expressions for the commit.

    Delta returns that, but not from inside of a script, where it is null. Iceberg returns nothing and records it in the summary of the
    snapshot that the MERGE made.

    Arguments:
      counts (string): of which rows: 'changes', those of the stage, of which each one that the query returns is updated or inserted,
        and only the MERGE knows how many of the others there were to be deleted; 'all', of which nothing is known before; 'deleted'.
      merged (dict): what run_merge returned.
      staged (dict or none): as stage_changes returned it.
      number (int): the number of the MERGE among those of the barrier, counted from the last, which has 1.
-#}
{% macro get_merge_counts(backfill, counts, merged, staged, number) %}
    {%- set written = {} -%}
    {%- for action in ['updated', 'inserted', 'deleted'] -%}
        {%- if backfill.options.file_format == 'delta' -%}
            {%- set name = 'num_' ~ action ~ '_rows' -%}
            {%- set rows = merged.result[0][name] | int if merged.result and name in merged.result.column_names else 0 -%}
            {%- do written.update({action: 'cast(null as bigint)' if merged.may_give_up else rows}) -%}
        {%- else -%}
            {%- set sql -%}
                (
                    select max(cast(summary['spark.merge-into.num-target-rows-{{ action }}'] as bigint))
                    from (
                        select summary, row_number() over (order by committed_at desc) as number
                        from {{ backfill.mv.render() }}.snapshots
                        where summary['spark.merge-into.num-target-rows-inserted'] is not null
                    )
                    where number = {{ number }}
                )
            {%- endset -%}
            {%- do written.update({action: sql}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if counts == 'changes' -%} {{ return({'changed': staged.upserts, 'deleted': written.deleted if staged.drops else 0}) }} {%- endif -%}
    {{ return({'changed': 0 if counts == 'deleted' else written.updated ~ ' + ' ~ written.inserted, 'deleted': written.deleted}) }}
{% endmacro %}


{#-
    Return the statements of a plan that write the MV's rows, in their order, as data: a list of {'name', 'sql', 'counts': what is counted
    of it, see get_merge_counts; absent if nothing is, 'replaces': true of one that replaces the MV}. run_alterations sends the ALTERs
    before. Only the columns of the MV and of the query are looked up.

    Arguments:
      staged (dict or none): the changes, as stage_changes returned them; none if there are none.
      columns (list or none): of the MV, if they are known.
-#}
{% macro get_steps(backfill, state, plan, staged=none, columns=none) %}
    {%- set kind, of_barrier, in_barrier = dbt_backfill.kind_of(plan), ' of the barrier ' ~ plan.epoch, ' in the barrier ' ~ plan.epoch -%}
    {%- if kind.table == 'empty' -%}
        {{ return(dbt_backfill.get_reset_steps(backfill, plan, columns)) }}
    {%- elif kind.table == 'swap' -%}
        {{ return([{
            'name': 'put the next generation in place' ~ in_barrier, 'sql': dbt_backfill.get_swap_sql(backfill, plan), 'replaces': true,
        }]) }}
    {%- elif kind.positions == 'give_up' -%}
        {%- set sql = dbt_backfill.get_stopping_sql(backfill, plan) -%}
        {{ return([{'name': 'stop what is on its way' ~ in_barrier, 'sql': sql}] if sql else []) }}
    {%- elif kind.positions == 'rescale' -%}
        {#- In a sweep nothing is promised above the position, and the rows there are compared once it has come to them. -#}
        {{ return([] if state.uniform or plan.sweeps or plan.vnode_count > state.committed.vnode_count else [{
            'name': 'remove what is read again after the barrier ' ~ plan.epoch,
            'sql': dbt_backfill.get_lowering_sql(backfill, state, plan), 'counts': 'deleted',
        }]) }}
    {%- elif kind.slice == 'all' and plan.get('touched') is none -%}
        {{ return([{'name': 're-anchor' ~ in_barrier, 'sql': dbt_backfill.get_reanchor_sql(backfill, state, plan), 'counts': 'all'}]) }}
    {%- endif -%}

    {%- set changes, steps = staged and staged.upserts + staged.drops, [] -%}
    {#- In a sweep the MV may have rows in a range that has none. -#}
    {%- set has_rows = plan.get('range_row_count') or plan.get('sweeps') and plan.get('range_row_count') is not none -%}
    {%- set reads = dbt_backfill.kind_reads_range(plan) and has_rows -%}
    {%- set at_once = changes and reads and plan.at_once -%}
    {%- if changes -%}
        {#- The keys of the changes are those up to the old position, and those of the range are above it. -#}
        {%- do steps.append({
            'name': 'merge the changes' ~ (' and the range' if at_once else '') ~ of_barrier, 'counts': 'changes',
            'sql': dbt_backfill.get_changes_merge_sql(
                backfill, plan, 'select * from ' ~ staged.name, dbt_backfill.get_changes_bounds(plan, staged, at_once),
                dbt_backfill.get_range_rows_sql(backfill, state, plan) if at_once else none
            ),
        }) -%}
    {%- endif -%}
    {%- if reads and not at_once -%}
        {%- set window = dbt_backfill.get_fill_window(plan) if kind.slice == 'replace' else plan -%}
        {%- set sql = dbt_backfill.get_comparing_merge_sql(backfill, state, plan, window) if kind.slice == 'replace' or plan.sweeps
            else dbt_backfill.get_range_merge_sql(backfill, state, plan) -%}
        {%- do steps.append({'name': 'merge the range' ~ of_barrier, 'sql': sql}) -%}
    {%- elif kind.slice == 'all' and plan.touched -%}
        {%- do steps.append({'name': 'remove what was given up' ~ in_barrier, 'sql': dbt_backfill.get_removal_sql(backfill, plan)}) -%}
    {%- endif -%}
    {{ return(steps) }}
{% endmacro %}


{#-
    Return the record of a plan's kind. What the steps and the commit do follows from its fields. Reports, and steps that only one kind has,
    test `kind` itself. The plan of epoch 0 has the kind `create`, `adopt` or `replace`, which no barrier executes.

      follows          true if the barrier brings the MV to a version of the upstream; only such a barrier counts towards
                       `barriers_per_run`
      merges_changes   true if it merges what changed upstream up to the position; 'limited': only if its plan names what
                       plans that were given up could write to (`touched`, see find_touched_ranges)
      slice            the rows that it reads of the snapshot: 'insert', the next range above the position, where the MV has
                       no rows, or, in a sweep, rows that are compared; 'replace', a window up to the position, which is
                       compared; 'all', everything up to the position, which is compared; none
      table            'keep' the MV; 'empty', replace it by an empty one; 'swap', by the rows of the next generation
      positions        what the commit does to the positions of the vnodes, see get_committed_columns

    And what each is for:

      advance    the barrier as a rule. The changes are filtered by the old position and the range is read at the new version,
                 so that they are disjoint and the MV is an exact prefix also between the two
      fill       the query returns more columns than before, and the rows that are there get them, window by window. How far the
                 new columns hold is a second position, see new_filling. All columns of a window are compared, so that it ends as
                 the query gives it whatever it was
      reanchor   no feed leads from the committed version to the one that is read: the MV is repaired at the same position, the
                 whole of it, or only what plans that were given up could write to
      sweep      the same in slices. The position goes back to the start at the new version, and the rows stay: the ranges of the
                 barriers after it are compared with them, see is_sweeping
      reset      a full refresh: no vnode has started. Changes and ranges are read by the barriers after it
      swap       the end of a full refresh beside the MV in use, see run_beside
      rescale    another number of vnodes, a multiple or a divisor. Nothing is read upstream. Vnodes that come together take the
                 lowest position of theirs; the rows above it are removed, and a later range reads them again
      abandon    what is left of a plan that was given up: its epoch is committed at the old position and version, and as
                 `dirty`, since one of its MERGEs may have been sent. A re-anchor follows, or, after a reset, another reset

    choose_plan chooses the kind of a plan, mark_abandoned makes a plan one of the kind 'abandon', and rescale_backfill plans a
    'rescale'.
-#}
{% macro kind_of(plan) %}
    {{ return({
        'advance': {'follows': true, 'merges_changes': true, 'slice': 'insert', 'table': 'keep', 'positions': 'advance'},
        'fill': {'follows': true, 'merges_changes': true, 'slice': 'replace', 'table': 'keep', 'positions': 'keep'},
        'reanchor': {'follows': true, 'merges_changes': 'limited', 'slice': 'all', 'table': 'keep', 'positions': 'keep'},
        'sweep': {'follows': true, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'reset'},
        'reset': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'empty', 'positions': 'reset'},
        'swap': {'follows': true, 'merges_changes': false, 'slice': none, 'table': 'swap', 'positions': 'finish'},
        'rescale': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'rescale'},
        'abandon': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'give_up'},
    }[plan.kind]) }}
{% endmacro %}


{#- Return the window of a fill, in the words of a range. The last one ends at the position of the MV, or is open above. -#}
{% macro get_fill_window(plan) %}
    {{ return({
        'range_low': plan.get('fill_low'), 'range_high': plan.get('fill_high'),
        'last_range': plan.get('last_fill') and plan.get('fill_high') is none,
        'vnodes': none, 'vnode_count': plan.vnode_count,
    }) }}
{% endmacro %}
