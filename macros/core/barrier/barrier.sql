{#-
    One barrier from top to bottom. `tests/exactness/protocol.py` is the same as a model, with all kinds, and tested by random histories.

      observe   the state, which the run has read once and then takes from each commit, and the upstream: its newest version, and what
                its feed lists since the committed one (observe_state, observe_upstream)
      plan      choose_plan chooses a kind and a range. One script stages the changed keys up to the position, checks the keys that are
                read anew, and stores the plan in the progress table, for the epoch after the committed one (plan_barrier). Until then
                neither the MV nor its state was written, so whatever is refused is refused before. A plan that an earlier run left is
                executed, word for word, or given up (adopt_plan, in abandon.sql). One that another run stores in the meantime is
                executed as it is: its version was readable a moment ago. Two runs never execute two plans of one epoch
      steps     the statements that write the MV (get_steps, in merges.sql and replace.sql): as a rule a MERGE of the changes and one of
                the range, or one of both if they are small. After the first the MV is Q(S' where pk <= P), after the second Q(S' where
                pk <= P'); the other way round it would be a mixture of two versions. Each has the fence as a condition of its source,
                which reads the progress table and fails unless the plan is still the one to execute. Delta and Iceberg fix the version
                that a statement commits against before they evaluate its source. So a statement that passes its fence either sees no
                later commit or conflicts with it
      commit    one statement on the progress table, guarded by the epoch and by the plan, so that it does nothing if it is sent twice or
                comes late (commit_barrier). It is last: it ends the plan, after which every late statement fails at its fence

    A run that dies before its plan was stored has written nothing of the MV or its state; a copy of the upstream or temporary views may be
    left, and are replaced. One that dies after it leaves the plan, and the next run sends the same statements again; each of them changes
    nothing where it has been executed already. So the MV is an exact prefix after each of the statements, and not only after the commit.

    The whole MV is compared, not only what has changed, where choose_reanchor finds nothing less. Its reasons come from find_gap, or
    from planning, if the changes turn out to be unreadable (_run_attempt, begin_attempt). After a plan that was given
    up it compares what that could write to (find_touched_ranges). `on_gap` makes it a sweep or a refusal. A table that was adopted is
    compared too, and so are the rows that get new columns (`fill`), window by window.

    Returns {'plan', 'state', 'counts', 'seconds', 'seconds_without_copy': without those of a copy of the upstream, which serves the ranges
    ahead too, 'learned'}; none if there is nothing to do, and {'waits'} if its feed is not there yet.

    Arguments:
      learned (dict): what the run has learned of its query before, see new_learned.
      next (dict or text): see choose_plan.
      last (boolean): true if the run ends with it, unless it turns out to be one that does not count.
-#}
{% macro run_barrier(backfill, state, learned, rebuild, next=none, last=false) %}
    {%- set started_at = modules.datetime.datetime.now() -%}
    {%- set stored = state.get('planned') -%}
    {#- Where nothing was committed, the log has to reach back to what is planned. -#}
    {%- set observed = dbt_backfill.observe_upstream(backfill, state, dbt_backfill.get_feed_start(state) or stored) -%}

    {%- if stored -%}
        {%- set planned = dbt_backfill.adopt_plan(backfill, state, observed, stored, rebuild) -%}
    {%- else -%}
        {%- set planned = dbt_backfill.plan_next_barrier(backfill, state, observed, learned, rebuild, next) -%}
        {%- if planned is none or planned.get('waits') -%} {{ return(planned) }} {%- endif -%}
        {%- set state = dict(state, missing=false) -%}
    {%- endif -%}
    {%- set plan, learned = planned.plan, planned.get('learned', learned) -%}

    {%- set backfill = dict(backfill, source=planned.get('source')) -%}
    {%- set holds = dbt_backfill.before_steps(backfill, state, plan) -%}
    {%- set work = dbt_backfill.new_work(backfill, state, observed, learned, planned) -%}
    {%- set done = dbt_backfill.run_steps(backfill, state, plan, work) -%}
    {%- if done.failed -%} {%- set plan = dbt_backfill.give_up_plan(backfill, plan, done.failed) -%} {%- endif -%}

    {%- set counts = {} if done.failed else done.counts -%}
    {%- set ends = last and dbt_backfill.kind_of(plan).follows -%}
    {%- set seconds_without_copy = (modules.datetime.datetime.now() - started_at).total_seconds() - planned.get('copied_in', 0) -%}
    {%- set committed = dbt_backfill.commit_barrier(
        backfill, state, plan, counts, ends, work.views, done.get('left_at'), seconds_without_copy
    ) -%}

    {%- set learned = dbt_backfill.after_commit(backfill, observed, work.learned, plan, planned.get('result'), holds) -%}
    {%- set seconds = (modules.datetime.datetime.now() - started_at).total_seconds() -%}
    {{ return({
        'plan': plan,
        'counts': dbt_backfill.get_committed_counts(committed.committed) if counts else counts,
        'state': committed,
        'seconds': seconds,
        'seconds_without_copy': seconds - planned.get('copied_in', 0),
        'learned': learned,
    }) }}
{% endmacro %}


{#-
    Choose the next plan and store it. Return what plan_barrier returns, with 'learned', 'columns': of the MV, if it is created or replaced,
    and 'copied_in': the seconds in which its upstream was copied. None if there is nothing to do.
-#}
{% macro plan_next_barrier(backfill, state, observed, learned, rebuild, next=none) %}
    {%- set copy = dbt_backfill.before_choice(backfill, state, observed, learned) -%}
    {%- set choice = dbt_backfill.choose_plan(
        dbt_backfill.with_bounds_from(backfill, copy), state, observed, learned, rebuild, next
    ) -%}
    {%- if choice is none -%}
        {%- do dbt_backfill.after_commit(backfill, observed, learned, state.committed) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set columns = dbt_backfill.prepare_creation(backfill) if state.get('missing') or choice.plan.kind == 'reset' else none -%}
    {%- set chosen_at = modules.datetime.datetime.now() -%}
    {%- set choice = dbt_backfill.before_plan(backfill, state, choice, copy) -%}
    {%- set copied_in = (modules.datetime.datetime.now() - chosen_at).total_seconds() -%}
    {%- set learned = dict(choice.learned, copy_id=(choice.get('copy') or copy or {}).get('id')) -%}
    {%- set planned = dbt_backfill.plan_barrier(backfill, state, observed, dict(choice, learned=learned), columns) -%}
    {%- if not planned.get('waits') and state.get('missing') -%}
        {%- do dbt_backfill.check_created(backfill, state, planned.plan.backfill_id) -%}
    {%- endif -%}
    {{ return(dict(planned, learned=learned, columns=columns, copied_in=copied_in)) }}
{% endmacro %}


{#-
    What a barrier needs beside its plan, made once the plan stands, and gone with the barrier: {
      'may_give_up': whether its plan is given up if a statement of it fails, see run_merge,
      'staged': its changes, if they were staged while it was planned, as stage_changes tells them; else none,
      'changes': how they are read, see get_changes, if they are still to be staged; none if not, or if it has none,
      'views': the temporary views that it has cached or will cache, which the commit drops,
      'columns': of the MV, if this run has looked at them because it creates or replaces it; else none,
      'learned': what the run has learned of its query by now, see new_learned
    }

    Arguments:
      observed (dict): as observe_upstream returned it.
      planned (dict): the plan that stands, as adopt_plan or plan_next_barrier returned it.
-#}
{% macro new_work(backfill, state, observed, learned, planned) %}
    {%- set plan, staged = planned.plan, planned.get('staged') -%}
    {%- set views, changes = planned.get('views', []), none -%}
    {%- if staged -%}
        {#- The script makes these two only where keys are in doubt. -#}
        {%- set again, doubtful = dbt_backfill.get_reread_names(backfill, plan) -%}
        {%- set missing = ([] if staged.reread.count else [again]) + ([] if staged.suspects else [doubtful]) -%}
        {%- set views = views | reject('in', missing) | list -%}
    {%- endif -%}
    {%- if not staged and dbt_backfill.has_changes(state, plan) -%}
        {%- set learned = dbt_backfill.learn_feed_columns(backfill, learned) -%}
        {#- The upstream's columns at the version of a plan that another run has made, if its changes may have others. -#}
        {%- set traits, known = dbt_backfill.upstream_traits(backfill.upstream), learned -%}
        {%- if traits.takes_added_columns and not traits.stages_ranges -%}
            {%- set columns = dbt_backfill.get_query_columns('select * from ' ~ dbt_backfill.get_planned_read(backfill, plan)) -%}
            {%- set known = dict(learned, version=dbt_backfill.get_source(plan).version, upstream_columns=columns | map(attribute='name') | list) -%}
        {%- endif -%}
        {%- set changes = dbt_backfill.get_changes(backfill, state, observed, known, plan) -%}
        {%- set views = views + dbt_backfill.get_stage_views(backfill, plan, changes) -%}
    {%- endif -%}
    {{ return({
        'may_give_up': planned.get('may_give_up', false), 'staged': staged, 'changes': changes, 'views': views, 'columns': planned.get('columns'),
        'learned': learned,
    }) }}
{% endmacro %}


{#-
    Send what a plan does to the MV, the same whenever it is sent for this plan and state: {
      'failed': the step that failed, of a plan that may be given up, see run_merge; else none,
      'counts': see get_merge_counts; {} if the plan merged no changes,
      'left_at': see run_replacement; none of a plan that does not replace the MV
    }
-#}
{% macro run_steps(backfill, state, plan, work) %}
    {%- set kind, done = dbt_backfill.kind_of(plan), {'failed': none, 'counts': {}, 'left_at': none} -%}
    {%- set compares = kind.slice == 'all' and plan.get('touched') is none -%}
    {%- if compares or plan.kind == 'sweep' -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' compares all ' ~ '{:,}'.format(state.row_count) ~ ' rows read so far with its query'
                ~ (dbt_backfill.get_slices_text(plan.get('backfill_rate_limit')) if not compares else '') ~ ', because ' ~ plan.reason,
            info=true
        ) -%}
    {%- endif -%}
    {%- set alters = kind.follows and kind.table == 'keep' and (plan.get('fills') or plan.get('drops')) -%}
    {%- if alters -%} {%- do dbt_backfill.run_alterations(backfill, plan) -%} {%- endif -%}
    {%- set staged = dbt_backfill.stage_changes(backfill, state, plan, work) if work.get('changes') else work.get('staged') -%}
    {%- if staged and staged.get('failed') -%} {{ return(dict(done, failed=staged.failed)) }} {%- endif -%}
    {%- for step in dbt_backfill.get_steps(backfill, state, plan, work, staged) -%}
        {%- if step.get('replaces') -%}
            {%- do done.update({'left_at': dbt_backfill.run_replacement(backfill, plan, step.name, step.sql)}) -%}
        {%- elif kind.table != 'keep' or plan.kind == 'abandon' -%}
            {%- do dbt_backfill.run_table(step.name, step.sql, backfill.mv) -%}
        {%- elif not done.failed -%}
            {%- set merged = dbt_backfill.run_merge(backfill, work, step.name, step.sql) -%}
            {%- do done.update({'failed': merged.failed}) -%}
            {%- if step.get('counts') -%}
                {%- do done.update({'counts': dbt_backfill.get_merge_counts(backfill, plan, step.counts, merged, staged)}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(done) }}
{% endmacro %}


{#-
    Return the statements of a plan that write the MV's rows, in their order, as data: a list of {'name', 'sql', 'counts': what is counted
    of it, see get_merge_counts; absent if nothing is, 'replaces': true of one that replaces the MV}. run_alterations sends the ALTERs
    before. Only the columns of the MV and of the query are looked up.

    Arguments:
      staged (dict or none): the changes, as stage_changes returned them; none if there are none.
-#}
{% macro get_steps(backfill, state, plan, work, staged=none) %}
    {%- set kind, of_barrier = dbt_backfill.kind_of(plan), ' of the barrier ' ~ plan.epoch -%}
    {%- set in_barrier = ' in the barrier ' ~ plan.epoch -%}
    {%- if kind.table == 'empty' -%}
        {{ return(dbt_backfill.get_reset_steps(backfill, plan, work.get('columns'))) }}
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
    {%- set steps, changes = [], none -%}
    {%- if staged and staged.upserts + staged.drops -%}
        {%- set changes = 'select * from ' ~ staged.name -%}
    {%- endif -%}
    {%- set reads = dbt_backfill.kind_reads_range(plan) and dbt_backfill.range_has_rows(plan) -%}
    {%- if changes and reads and plan.at_once -%}
        {#- The keys of the changes are those up to the old position, and those of the range lie above it. -#}
        {{ return([{
            'name': 'merge the changes and the range' ~ of_barrier, 'counts': 'changes',
            'sql': dbt_backfill.get_changes_merge_sql(
                backfill, plan, changes ~ dbt_backfill.get_range_beside_changes_sql(backfill, state, plan),
                dbt_backfill.at_once_predicate(plan, staged)
            ),
        }]) }}
    {%- endif -%}
    {%- if changes -%}
        {%- set bounds = dbt_backfill.bounds_predicate(dbt_backfill.mv_columns(plan.key, 'mv.'), staged.low, staged.high) -%}
        {%- set sql = dbt_backfill.get_changes_merge_sql(backfill, plan, changes, bounds) -%}
        {%- do steps.append({'name': 'merge the changes' ~ of_barrier, 'sql': sql, 'counts': 'changes'}) -%}
    {%- endif -%}
    {%- if reads -%}
        {%- set window = dbt_backfill.get_fill_window(plan) if kind.slice == 'replace' else plan -%}
        {%- set sql = dbt_backfill.get_comparing_merge_sql(backfill, state, plan, window) if kind.slice == 'replace' or plan.sweeps
            else dbt_backfill.get_range_merge_sql(backfill, state, plan) -%}
        {%- do steps.append({'name': 'merge the range' ~ of_barrier, 'sql': sql}) -%}
    {%- elif kind.slice == 'all' and plan.touched -%}
        {%- set sql = dbt_backfill.get_removal_sql(backfill, plan) -%}
        {%- do steps.append({'name': 'remove what was given up' ~ in_barrier, 'sql': sql}) -%}
    {%- endif -%}
    {{ return(steps) }}
{% endmacro %}
