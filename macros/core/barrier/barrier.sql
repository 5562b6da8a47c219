{#-
    Run one barrier from top to bottom. `tests/exactness/protocol.py` models the same protocol in Python. Tests play random histories with that model,
    and with real runs beside it.

      observe   read the state (observe_state, in observe.sql), the writes to the MV since the last barrier (observe_mv), and the upstream
                (observe_upstream). The run reads the state once; after that, each commit returns the next state. At each barrier, the run reads the
                upstream's newest version and its log since the committed version
      plan      choose_plan chooses a kind and a range. One script (plan_barrier) stages the changed keys up to the position, checks the keys that the
                plan reads, and stores the plan for the next epoch in the progress table. A refusal comes before anything is written to the MV or its
                state. If an earlier run left a plan, this run executes that plan word for word, or gives it up (adopt_plan, in recover.sql). If
                another run has stored a plan first, this run executes the other run's plan. So two runs never execute different plans of one epoch
      steps     the statements that write the MV (run_steps, get_steps): as a rule a MERGE of the changes and then a MERGE of the range, or a single
                MERGE if both are small. After the first MERGE, the rows up to the old position have the plan's version. After the second MERGE, the
                MV also has the rows up to the new position. If the range were merged first, the MV would be a mixture of two versions between the
                MERGEs. The source of each statement has the fence as a condition. The fence reads the progress table, and fails if another run has
                committed the plan or given it up (see get_fence)
      commit    one statement on the progress table (commit_barrier). The statement checks the epoch and the plan, so a second or late execution
                changes nothing. The commit comes last because it ends the plan: after the commit, every late statement of the plan fails at its fence

    If a run dies before it has stored the plan, it has not written to the MV or its state. It may leave a copy of the upstream or temporary views,
    which a later run replaces. If a run dies later, it leaves its plan, and the next run executes this plan again. A statement that is executed again
    changes nothing. If the MV was exact before the barrier, the MV is an exact prefix after each statement. If the barrier repairs the MV, the MV is
    exact after the last statement.

    If the changes cannot be read, or if something else wrote to the MV, choose_recovery decides how much of the MV is compared with the query.
    find_gap detects both cases before planning; find_next_attempt and new_attempt detect unreadable changes during planning. As a rule the barrier
    compares the whole MV. After a plan was given up, the barrier compares only the keys that this plan could write to, if find_touched_ranges can
    name them. With `on_gap` and `on_foreign_write` the user can choose a sweep or a refusal instead. Barriers also compare an adopted table, and rows
    that get new columns (`fill`), window by window.

    Return {'plan', 'state', 'counts', 'seconds', 'seconds_without_copy', 'analysis'}. The entry 'seconds_without_copy' excludes the time to copy the
    upstream, because later ranges read the same copy. Return none if there is nothing to do, and {'waits': why} if the feed has not landed the changes
    yet, or if `merges_only` does not allow the barrier, see get_backfill.

    Arguments:
      analysis (dict): what the run already knows about its query, see new_analysis.
      next (dict or text): see choose_plan.
      last (boolean): true if the run ends after this barrier. But the run never ends after a barrier that does not count, see `follows` in kind_of.
-#}
{% macro run_barrier(backfill, state, analysis, rebuild, next=none, last=false) %}
    {%- set started_at = modules.datetime.datetime.now() -%}

    {#- Observe. The log has to reach back to the version of the last executed barrier or, without such a barrier, of the stored plan. -#}
    {%- set stored = state.get('planned') -%}
    {%- set state = dbt_backfill.observe_mv(backfill, state) -%}
    {%- set observed = dbt_backfill.observe_upstream(backfill, state, dbt_backfill.get_feed_start(state) or stored) -%}

    {#- Plan: execute the plan that an earlier run left, or choose one and store it. -#}
    {%- set columns, copy_seconds = none, 0 -%}
    {%- if stored -%}
        {%- set planned = dbt_backfill.adopt_plan(backfill, state, observed, stored, rebuild) -%}
    {%- else -%}
        {%- set copy = dbt_backfill.before_choice(backfill, state, observed, analysis) -%}
        {#- If a copy has all remaining rows, the bounds of the next ranges can be found in the copy. -#}
        {%- set bounds_from = dbt_backfill.new_copied_source(copy) if copy and dbt_backfill.is_whole(copy) else none -%}
        {%- set choice = dbt_backfill.choose_plan(dict(backfill, source=bounds_from), state, observed, analysis, rebuild, next) -%}
        {%- if choice is none -%}
            {%- do dbt_backfill.after_commit(backfill, observed, analysis, state.committed) -%}
            {%- do dbt_backfill.run_record_of_mv_version(backfill, state) -%}
            {{ return(none) }}
        {%- elif backfill.merges_only and choice.plan.kind != 'advance' -%}
            {{ return({'waits': choice.plan.reason or 'it does not have all rows of its query yet'}) }}
        {%- endif -%}
        {%- if state.get('missing') or choice.plan.kind == 'reset' -%} {%- set columns = dbt_backfill.prepare_creation(backfill) -%} {%- endif -%}
        {%- set chosen_at = modules.datetime.datetime.now() -%}
        {%- set choice = dbt_backfill.before_plan(backfill, state, choice, copy) -%}
        {%- set copy_seconds = (modules.datetime.datetime.now() - chosen_at).total_seconds() -%}
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
    {%- set seconds_until_commit = (modules.datetime.datetime.now() - started_at).total_seconds() - copy_seconds -%}
    {%- set committed = dbt_backfill.commit_barrier(
        backfill, state, plan, counts, ends, done.views, none if done.failed else done.commits, seconds_until_commit
    ) -%}

    {%- set analysis = dbt_backfill.after_commit(backfill, observed, done.analysis, plan, planned.get('result'), holds) -%}
    {%- set seconds = (modules.datetime.datetime.now() - started_at).total_seconds() -%}
    {{ return({
        'plan': plan, 'counts': dbt_backfill.get_committed_counts(committed.committed) if counts else counts, 'state': committed,
        'seconds': seconds, 'seconds_without_copy': seconds - copy_seconds, 'analysis': analysis,
    }) }}
{% endmacro %}


{#- Return what Spark reports about the upstream now, see read_upstream. If the changes come from the user's change table, the entry `feed` has the
    same facts about the change table. The change table is read first, so that the observed upstream is not behind the observed change table. `since`:
    the plan to whose version the log has to reach back; none if no version of the upstream was read yet. -#}
{% macro observe_upstream(backfill, state, since) %}
    {%- set followed = backfill.feed or backfill.upstream -%}
    {%- set source = dbt_backfill.get_source(since, 'feed' if backfill.feed else 'upstream') -%}
    {%- set observed = dbt_backfill.ask(followed, 'read_upstream')(followed, source, state.get('log')) -%}
    {%- do dbt_backfill.ask(followed, 'check_feed')(observed) -%}
    {%- if not backfill.feed -%} {{ return(observed) }} {%- endif -%}
    {%- set upstream = dbt_backfill.ask(backfill.upstream, 'read_upstream')(backfill.upstream, dbt_backfill.get_source(since)) -%}
    {{ return(dict(upstream, feed=observed)) }}
{% endmacro %}


{#- Return the plan of the last executed barrier; none without such a plan. The next barrier reads the changes since this plan's version. -#}
{% macro get_feed_start(state) %}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {{ return((state.committed.get('given_up') or {}).get('since') if state.dirty else state.committed) }}
{% endmacro %}


{#- Return the counts of a committed plan, as {'changed', 'deleted'}. An entry that is not known is absent. -#}
{% macro get_committed_counts(committed) %}
    {%- if committed.get('changed_row_count') is none -%} {{ return({}) }} {%- endif -%}
    {%- set changed, deleted = committed.changed_row_count, committed.get('deleted_row_count') -%}
    {{ return({'changed': changed} if deleted is none else {'changed': changed, 'deleted': deleted}) }}
{% endmacro %}


{#-
    Execute the steps of a plan. Only the plan and the state decide what the steps change. Return {
      'failed': the name of the step that failed, see run_merge; none if no step failed,
      'counts': see get_merge_counts; {} if the plan merged no changes,
      'commits': the number of commits that these steps made to a Delta MV; none if the number is not known,
      'views': the temporary views of the plan's changes; the commit drops them,
      'analysis': what the run knows about its query after these steps, see new_analysis
    }

    Arguments:
      planned (dict): as adopt_plan or plan_barrier returned it. If it has no 'staged', this macro stages the changes.
      columns (list or none): the MV's columns, if this run has read them in order to create or replace the MV.
-#}
{% macro run_steps(backfill, state, observed, analysis, planned, columns=none) %}
    {%- set plan, kind, may_give_up = planned.plan, dbt_backfill.kind_of(planned.plan), planned.get('may_give_up', false) -%}
    {%- set staged, views, changes = planned.get('staged'), planned.get('views', []), none -%}
    {%- if staged -%}
        {#- The script creates the views of `reread` only if keys are in doubt. -#}
        {%- set names = dbt_backfill.get_stage_names(backfill, plan) -%}
        {%- set missing = ([] if staged.reread.count else [names.again]) + ([] if staged.suspects else [names.doubtful]) -%}
        {%- set views = views | reject('in', missing) | list -%}
    {%- elif dbt_backfill.has_changes(state, plan) -%}
        {%- if backfill.feed and analysis.feed_columns is none -%}
            {%- set analysis = dict(analysis, feed_columns=dbt_backfill.get_feed_columns(backfill.feed)) -%}
        {%- endif -%}
        {#- Another run made this plan. The changes may have columns that the upstream did not have at the plan's version, so the upstream's columns
            are read at that version. -#}
        {%- set traits, known = dbt_backfill.upstream_traits(backfill.upstream), analysis -%}
        {%- if traits.takes_added_columns and not traits.stages_ranges -%}
            {%- set columns_then = dbt_backfill.get_query_columns('select * from ' ~ dbt_backfill.get_planned_read(backfill, plan)) -%}
            {%- set names = columns_then | map(attribute='name') | list -%}
            {%- set known = dict(analysis, version=dbt_backfill.get_source(plan).version, upstream_columns=names) -%}
        {%- endif -%}
        {%- set changes = dbt_backfill.get_changes(backfill, state, observed, known, plan) -%}
        {%- set views = views + changes.views -%}
    {%- endif -%}
    {%- if backfill.options.file_format == 'iceberg' and not planned.get('is_marked') -%}
        {%- set sql = dbt_backfill.get_mark_statement(plan.backfill_id, plan.plan_id) -%}
        {%- do dbt_backfill.run_table('mark the snapshots of the barrier ' ~ plan.epoch, sql) -%}
    {%- endif -%}
    {%- set done = {'failed': none, 'counts': {}, 'commits': 0, 'views': views, 'analysis': analysis} -%}

    {%- set compares = kind.slice == 'all' and plan.get('touched') is none -%}
    {%- if compares or plan.kind == 'sweep' -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' compares its query with all ' ~ dbt_backfill.get_count_text(state.row_count) ~ ' rows read so far'
                ~ (dbt_backfill.get_slices_text(plan.get('backfill_rate_limit')) if not compares else '') ~ ', because ' ~ plan.reason,
            info=true
        ) -%}
    {%- endif -%}
    {%- if kind.table == 'empty' and (state.epoch > 0 or state.committed.kind != 'create') -%}
        {%- do log(dbt_backfill.get_model_name(model) ~ ' empties ' ~ backfill.mv.render() ~ ', and the next barriers fill it again: ' ~ plan.reason,
            info=true) -%}
    {%- endif -%}
    {%- if kind.follows and kind.table == 'keep' and (plan.get('fills') or plan.get('drops')) -%}
        {%- do dbt_backfill.run_alterations(backfill, plan) -%}
        {%- do done.update({'commits': none}) -%}
    {%- endif -%}
    {%- if changes -%}
        {%- set staged = dbt_backfill.stage_changes(backfill, state, plan, changes, may_give_up) -%}
        {%- if staged.failed -%} {{ return(dict(done, failed=staged.failed)) }} {%- endif -%}
    {%- endif -%}
    {%- for step in dbt_backfill.get_steps(backfill, state, plan, staged, columns) -%}
        {%- if kind.table != 'keep' or plan.kind == 'abandon' -%}
            {%- do dbt_backfill.run_table(step.name, step.sql, backfill.mv) -%}
            {%- do done.update({'commits': done.commits + 1}) -%}
        {%- elif not done.failed -%}
            {%- set merged = dbt_backfill.run_merge(backfill, step.name, step.sql, may_give_up) -%}
            {#- A MERGE of Delta that changes no row makes no commit. -#}
            {%- set is_known = merged.result and done.commits is not none and backfill.options.file_format == 'delta' -%}
            {%- set commits = done.commits + (1 if merged.result[0]['num_affected_rows'] | int > 0 else 0) if is_known else none -%}
            {%- do done.update({'failed': merged.failed, 'commits': commits}) -%}
            {%- if step.get('counts') -%}
                {%- do done.update({'counts': dbt_backfill.get_merge_counts(backfill, step.counts, merged, staged, loop.revindex)}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(done) }}
{% endmacro %}


{#-
    Run a statement that writes the MV. `may_give_up` is true if an earlier run left the plan and the upstream has a newer version now. In this case
    the macro returns a failure and does not raise it, so that the run can give the plan up. (Jinja cannot catch an error, but a SQL script can.)
    Otherwise a plan that fails on a row would stop the MV for ever, even after the row was corrected upstream.

    Returns {'may_give_up', 'failed': the name of the step if it failed, else none, 'result': dbt's table, none with may_give_up}.
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
    Return how many rows of the MV a MERGE wrote: {'changed', 'deleted'}, as numbers or SQL expressions for the commit. A MERGE of Delta returns these
    numbers outside of a script; inside a script the numbers are null. A MERGE of Iceberg returns nothing, but the summary of its snapshot has them.

    Arguments:
      counts (string): what the MERGE does. 'changes': it writes all staged rows, so only the deleted rows have to be counted. 'all': it compares all
        rows, so both numbers have to be counted. 'deleted': it only deletes.
      merged (dict): what run_merge returned. staged (dict or none): as stage_changes returned it.
      number (int): the number of the MERGE in the barrier, counted from the end. The last MERGE has the number 1.
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


{#- Return the statements of a plan that write the MV's rows, in the order of execution: a list of {'name', 'sql', 'counts': which rows are counted,
    see get_merge_counts; absent if no rows are counted}. The ALTERs are not in the list: run_alterations sends them before these statements.
    `staged`: the changes, as stage_changes returned them; none without changes. `columns`: the columns of the MV, if they are known. -#}
{% macro get_steps(backfill, state, plan, staged=none, columns=none) %}
    {%- set kind, of_barrier, in_barrier = dbt_backfill.kind_of(plan), ' of the barrier ' ~ plan.epoch, ' in the barrier ' ~ plan.epoch -%}
    {%- if kind.table == 'empty' -%}
        {{ return(dbt_backfill.get_reset_steps(backfill, plan, columns)) }}
    {%- elif kind.table == 'swap' -%}
        {{ return([{'name': 'put the next generation in place' ~ in_barrier, 'sql': dbt_backfill.get_swap_sql(backfill, plan)}]) }}
    {%- elif kind.positions == 'give_up' -%}
        {%- set sql = dbt_backfill.get_stopping_sql(backfill, plan) -%}
        {{ return([{'name': 'stop what is on its way' ~ in_barrier, 'sql': sql}] if sql else []) }}
    {%- elif kind.positions == 'rescale' -%}
        {#- During a sweep, no rows have to be removed: the sweep later compares all rows above the position. -#}
        {{ return([] if state.uniform or plan.sweeps or plan.vnode_count > state.committed.vnode_count else [{
            'name': 'remove what is read again after the barrier ' ~ plan.epoch,
            'sql': dbt_backfill.get_lowering_sql(backfill, state, plan), 'counts': 'deleted',
        }]) }}
    {%- endif -%}
    {%- set duplicates = [{'name': 'remove duplicate keys' ~ in_barrier, 'sql': dbt_backfill.get_duplicates_removal_sql(backfill, plan)}]
        if plan.get('removes_duplicates') else [] -%}
    {%- if plan.kind == 'sweep' -%}
        {{ return(duplicates) }}
    {%- elif kind.slice == 'all' and plan.get('touched') is none -%}
        {{ return(duplicates + [{'name': 're-anchor' ~ in_barrier, 'sql': dbt_backfill.get_reanchor_sql(backfill, state, plan), 'counts': 'all'}]) }}
    {%- endif -%}

    {%- set changes, steps = staged and staged.upserts + staged.drops, [] -%}
    {#- In a sweep the MV may have rows in a range where the upstream has no rows. -#}
    {%- set has_rows = plan.get('range_row_count') or plan.get('sweeps') and plan.get('range_row_count') is not none -%}
    {%- set reads = dbt_backfill.kind_reads_range(plan) and has_rows -%}
    {%- set at_once = changes and reads and plan.at_once -%}
    {%- if changes -%}
        {#- The changes have keys up to the old position, and the range has keys above it. So no key is in both. -#}
        {%- do steps.append({
            'name': 'merge the changes' ~ (' and the range' if at_once else '') ~ of_barrier, 'counts': 'changes',
            'sql': dbt_backfill.get_changes_merge_sql(
                backfill, plan, 'select * from ' ~ staged.name,
                dbt_backfill.get_changes_bounds(plan, staged, at_once),
                dbt_backfill.get_range_rows_sql(backfill, state, plan) if at_once else none, inserts=at_once or staged.get('inserts') != 0
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
    Return the record of a plan's kind. Its fields decide what the steps and the commit do. choose_plan chooses the kind, run_mark_abandoned changes it
    to `abandon`, and rescale_backfill plans a `rescale`. The plan of epoch 0 has the kind `create`, `adopt` or `replace`, which no barrier executes.

      follows          true if the barrier brings the MV to a version of the upstream; only these barriers count towards `barriers_per_run`
      merges_changes   true if the barrier merges the upstream's changes up to the position; 'limited': true only if the plan lists the ranges that
                       given-up plans could write to (`touched`, see find_touched_ranges)
      slice            the rows that the barrier reads from the snapshot. 'insert': the next range above the position, where the MV has no rows yet
                       (during a sweep the MV has rows there, and they are compared). 'replace': a window of the rows up to the position; the window
                       is compared. 'all': all rows up to the position; these rows are compared. none: no rows
      table            'keep': the MV stays; 'empty': an empty table replaces it; 'swap': the rows of the next generation replace it
      positions        what the commit does to the positions of the vnodes, see get_committed_columns
      repairs          true if the barrier replaces the MV, or compares all its rows and removes duplicate keys (after a sweep, the next barriers
                       compare the rows). Such a barrier repairs every foreign write that its run has seen (`mv_seen`)

    The purpose of each kind:

      advance    the usual barrier. The changes have keys up to the old position; the range has keys above it. So no key is in both, and the MV is an
                 exact prefix even between the two MERGEs
      fill       the model's query returns other columns than the committed query. The existing rows get these columns, window by window. A second
                 position says how far the columns are filled, see new_filling. The barrier compares all columns of a window, so afterwards the rows
                 of the window are equal to the query's rows
      reanchor   the repair if no feed lists the changes from the committed version to the new version. The MV is compared with the query, but its
                 position does not move. The whole MV is compared, or only the keys that given-up plans could write to
      sweep      a re-anchor in slices. The position goes back to the start, at the new version, but the rows stay: the next barriers compare
                 their ranges with these rows, see is_sweeping
      reset      a full refresh: afterwards no vnode has started. The next barriers read the changes and ranges
      swap       the end of a full refresh beside the MV in use, see run_beside
      rescale    a change of the number of vnodes, to a multiple or a divisor of the current number. Nothing is read upstream. A vnode that is joined
                 from several vnodes gets the lowest of their positions; its rows above this position are removed, and a later range reads them again
      abandon    ends a plan that was given up. The epoch of the plan is committed at the old position and version. The state is marked `dirty`,
                 because a MERGE of the plan may have been sent. As a rule a re-anchor follows; after a given-up reset, another reset follows
-#}
{% macro kind_of(plan) %}
    {{ return({
        'advance': {'follows': true, 'merges_changes': true, 'slice': 'insert', 'table': 'keep', 'positions': 'advance', 'repairs': false},
        'fill': {'follows': true, 'merges_changes': true, 'slice': 'replace', 'table': 'keep', 'positions': 'keep', 'repairs': false},
        'reanchor': {'follows': true, 'merges_changes': 'limited', 'slice': 'all', 'table': 'keep', 'positions': 'keep',
            'repairs': plan.get('removes_duplicates') and plan.get('touched') is none},
        'sweep': {'follows': true, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'reset',
            'repairs': plan.get('removes_duplicates')},
        'reset': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'empty', 'positions': 'reset', 'repairs': true},
        'swap': {'follows': true, 'merges_changes': false, 'slice': none, 'table': 'swap', 'positions': 'finish', 'repairs': true},
        'rescale': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'rescale', 'repairs': false},
        'abandon': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'give_up', 'repairs': false},
    }[plan.kind]) }}
{% endmacro %}


{#- Return the window of a fill, with the field names of a range. The last window ends at the position of the MV, or has no upper bound. -#}
{% macro get_fill_window(plan) %}
    {%- set low, high = plan.get('fill_low'), plan.get('fill_high') -%}
    {%- set is_open = plan.get('last_fill') and high is none -%}
    {{ return({'range_low': low, 'range_high': high, 'last_range': is_open, 'vnodes': none, 'vnode_count': plan.vnode_count}) }}
{% endmacro %}
