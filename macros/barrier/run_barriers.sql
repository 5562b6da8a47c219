{#-
    Barriers until the run's number of them is reached or there is nothing left to do. Returns what to report:
    {'message', 'state', 'plan': the last barrier's, 'rows_backfilled', 'changed', 'deleted', 'barriers': how many}.

    A reset and an abandoned plan do not count towards `barriers_per_run`: after a full refresh the same run goes on to
    backfill.
-#}
{% macro run_barriers(backfill, rebuild) %}
    {%- set run = namespace(
        state=dbt_backfill.observe_state(backfill), rebuild=rebuild,
        barriers=0, committed=0, followed=0, done=false, ended=false, first=none, plan=none, rows=0, changed=0, deleted=0
    ) -%}
    {%- do backfill.update({'committed': run.state.committed}) -%}
    {%- if run.state.get('missing') -%}
        {%- set run.rebuild = none -%}
    {%- elif not rebuild -%}
        {%- set run.rebuild = dbt_backfill.find_query_change(backfill, run.state) or backfill.begun_anew -%}
    {%- endif -%}
    {#- Jinja has no while: two loops, so that few turns are idle. -#}
    {%- for _ in range(1000) if not run.done -%}
        {%- for _ in range(1000) if not run.done -%}
            {%- do dbt_backfill._run_next_barrier(backfill, run) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if run.state.get('missing') -%} {%- do dbt_backfill.create_backfill(backfill, run.state) -%} {%- endif -%}
    {%- do dbt_backfill.write_history(backfill, run.state) -%}
    {{ return({
        'message': dbt_backfill.get_result_message(run.state, run.plan, run.first, run.ended),
        'state': run.state, 'plan': run.plan, 'barriers': run.committed,
        'rows_backfilled': run.rows, 'changed': run.changed, 'deleted': run.deleted,
    }) }}
{% endmacro %}


{#- One turn of the loop: a barrier, its report, and what it adds to the run's totals. -#}
{% macro _run_next_barrier(backfill, run) %}
    {%- set barrier = dbt_backfill.run_barrier(
        backfill, run.state, run.rebuild, last=run.barriers + 1 == backfill.options.barriers_per_run
    ) -%}
    {%- if barrier is none -%}
        {%- set run.done = true -%}
        {%- set run.ended = true -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set run.plan = barrier.plan -%}
    {%- if not run.committed -%} {%- set run.first = run.plan.epoch -%} {%- endif -%}
    {%- set run.committed = run.committed + 1 -%}
    {%- do dbt_backfill.report_barrier(backfill, barrier) -%}
    {%- set run.state = barrier.state -%}
    {%- if run.state.committed.get('begun_anew') -%} {%- set run.rebuild = 'it was begun anew by a full refresh that came late' -%} {%- endif -%}
    {%- if run.state.epoch - [backfill.written or 0, 0] | max >= 20 -%} {%- do dbt_backfill.write_history(backfill, run.state) -%} {%- endif -%}
    {%- set run.changed = run.changed + (barrier.counts.get('changed') or 0) -%}
    {%- set run.deleted = run.deleted + (barrier.counts.get('deleted') or 0) -%}
    {%- if run.plan.kind == 'reset' -%} {%- set run.rebuild = none -%} {%- endif -%}
    {%- if run.plan.kind == 'advance' -%} {%- set run.rows = run.rows + (run.plan.get('range_row_count') or 0) -%} {%- endif -%}
    {#- A rebuild is still to come where another run had planned an advance before it. -#}
    {%- if run.plan.kind not in ['reset', 'abandon'] and not run.rebuild -%} {%- set run.barriers = run.barriers + 1 -%} {%- endif -%}
    {#- `all` ends although the upstream may change for ever: once nothing is left to read, after two barriers of changes. -#}
    {%- set reads = run.plan.kind != 'advance' or run.plan.last_range or run.plan.get('range_row_count') is not none -%}
    {%- set run.followed = 0 if reads or run.rebuild else run.followed + 1 -%}
    {%- set run.done = run.barriers == backfill.options.barriers_per_run
        or backfill.options.barriers_per_run is none and run.followed == 2 -%}
{% endmacro %}


{#-
    One barrier: {'plan', 'state', 'counts', 'seconds'}, or none if there is nothing to do.

    Arguments:
      last (boolean): whether the run ends with it, unless it turns out to be one that does not count.
-#}
{% macro run_barrier(backfill, state, rebuild, last=false) %}
    {%- do dbt_backfill.begin_barrier(backfill, state) -%}
    {%- set started_at = modules.datetime.datetime.now() -%}
    {%- set observed = dbt_backfill.observe_upstream(backfill, state, dbt_backfill.get_feed_start(state)) -%}
    {%- set plan = state.get('planned') -%}
    {%- if plan -%}
        {%- set plan = dbt_backfill.adopt_plan(backfill, state, observed, plan, rebuild) -%}
    {%- else -%}
        {%- set mine = dbt_backfill.choose_plan(backfill, state, observed, rebuild) -%}
        {%- if mine is none -%}
            {%- do dbt_backfill.release_upstream(backfill, state.committed) -%}
            {{ return(none) }}
        {%- endif -%}
        {%- if state.get('missing') or mine.kind == 'reset' -%} {%- do dbt_backfill.prepare_creation(backfill) -%} {%- endif -%}
        {%- set plan = dbt_backfill.plan_barrier(backfill, state, mine) -%}
        {%- if state.get('missing') -%} {%- do dbt_backfill.finish_creation(backfill, state) -%} {%- endif -%}
    {%- endif -%}
    {%- do dbt_backfill.hold_upstream(backfill, state, plan) -%}
    {%- set counts = dbt_backfill.execute_plan(backfill, state, plan) -%}
    {%- if backfill.failed -%}
        {%- set plan = dbt_backfill.give_up_plan(backfill, state, plan) -%}
        {%- set counts = {} -%}
    {%- endif -%}
    {%- set ends = last and plan.kind not in ['reset', 'abandon'] -%}
    {%- set committed = dbt_backfill.commit_barrier(backfill, plan, counts, ends) -%}
    {%- if ends -%} {%- do backfill.update({'written': committed.epoch}) -%} {%- endif -%}
    {%- do dbt_backfill.release_upstream(backfill, plan) -%}
    {%- if counts -%}
        {%- set counts = dbt_backfill.get_committed_counts(committed.committed) -%}
    {%- endif -%}
    {{ return({
        'plan': plan,
        'counts': counts,
        'state': committed,
        'seconds': (modules.datetime.datetime.now() - started_at).total_seconds(),
    }) }}
{% endmacro %}


{#- What `backfill` knows of a barrier when it begins; the key's position has the columns of the last committed plan. -#}
{% macro begin_barrier(backfill, state) %}
    {%- do backfill.update({
        'staged': none, 'stages': [], 'committed': state.committed, 'columns': none, 'guarded': false, 'failed': none,
        'key': dbt_backfill.keep_positions(backfill.key, state.committed) if backfill.key else none,
    }) -%}
{% endmacro %}


{#-
    The plan that an earlier run left: executed word for word, unless its version can no longer be read or the
    MV is to be rebuilt anyway; then it is abandoned.
-#}
{% macro adopt_plan(backfill, state, observed, plan, rebuild) %}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {%- set readable = source.get('version') is none or dbt_backfill.is_upstream_readable(backfill.upstream, observed, source) -%}
    {%- set lost = none if readable else 'version ' ~ source.version ~ ' of the upstream can no longer be read' -%}
    {%- if readable and dbt_backfill.has_changes(state, plan) -%}
        {%- set lost = dbt_backfill.find_feed_gap(backfill, observed, dbt_backfill.get_feed_start(state)) -%}
    {%- endif -%}
    {%- set wanted = not rebuild or plan.kind == 'reset' and dbt_backfill._is_reset_for(backfill, plan) -%}
    {%- if plan.kind == 'abandon' or (not lost and wanted) -%}
        {%- do backfill.update({'guarded': plan.kind != 'abandon' and dbt_backfill.has_gone_on(backfill, plan, observed)}) -%}
        {%- do dbt_backfill.report_adoption(plan) -%}
        {{ return(plan) }}
    {%- endif -%}
    {%- set given_up = dbt_backfill.mark_abandoned(backfill, plan, lost or rebuild) -%}
    {%- if given_up is none -%} {%- do dbt_backfill.refuse_overtaken(plan) -%} {%- endif -%}
    {{ return(given_up) }}
{% endmacro %}


{#- Whether a planned reset is that of today's model; one whose query cannot be executed is left by changing the model. -#}
{% macro _is_reset_for(backfill, plan) %}
    {{ return(plan.query_hash == backfill.query_hash and dbt_backfill.get_source(plan).relation == backfill.upstream.relation.render()
        and dbt_backfill.are_same_names(plan.key | map(attribute='name'), backfill.options.unique_key)
        and plan.vnode_count == backfill.options.vnode_count) }}
{% endmacro %}


{#- Steps 3 and 4: what a plan does to the MV. Every step is a pure function of the plan and of the state. -#}
{% macro execute_plan(backfill, state, plan) %}
    {%- if plan.kind == 'reset' -%}
        {%- do dbt_backfill.run_reset(backfill, plan) -%}
        {%- do backfill.update({'created': true}) -%}
    {%- elif plan.kind == 'abandon' -%}
        {%- do dbt_backfill.run_abandon(backfill, plan) -%}
    {%- elif plan.kind == 'reanchor' and plan.get('touched') is none -%}
        {{ return(dbt_backfill.run_reanchor(backfill, state, plan)) }}
    {%- else -%}
        {{ return(dbt_backfill.execute_steps(backfill, state, plan)) }}
    {%- endif -%}
    {{ return({}) }}
{% endmacro %}


{#- The changes, and the range or, of a limited re-anchor, what given-up plans left above the position. -#}
{% macro execute_steps(backfill, state, plan) %}
    {%- set counts = {} -%}
    {%- if not backfill.staged and dbt_backfill.has_changes(state, plan) -%}
        {%- do backfill.update({'staged': dbt_backfill.stage_changes(backfill, state, plan)}) -%}
    {%- endif -%}
    {%- set staged = backfill.staged -%}
    {%- if not backfill.failed and staged and staged.upserts + staged.drops -%}
        {%- if plan.at_once -%} {{ return(dbt_backfill.run_changes_and_range(backfill, state, plan, staged)) }} {%- endif -%}
        {%- set counts = dbt_backfill.run_changes(backfill, plan, staged) -%}
    {%- endif -%}
    {%- if not backfill.failed and plan.get('range_row_count') -%}
        {%- do dbt_backfill.run_range(backfill, state, plan) -%}
    {%- elif not backfill.failed and plan.get('touched') -%}
        {%- do dbt_backfill.run_removal(backfill, plan) -%}
    {%- endif -%}
    {{ return(counts) }}
{% endmacro %}


{#- Whether the plan has changes to merge: something was backfilled, and the version of what is followed moves. -#}
{% macro has_changes(state, plan) %}
    {%- if plan.kind != 'advance' and plan.get('touched') is none -%} {{ return(false) }} {%- endif -%}
    {%- set followed = 'feed' if dbt_backfill.get_source(plan, 'feed') else 'upstream' -%}
    {%- set since = dbt_backfill.get_source(dbt_backfill.get_feed_start(state), followed) or {} -%}
    {%- set moves = dbt_backfill.get_source(plan, followed).version != since.get('version') -%}
    {{ return(dbt_backfill.has_started(state) and moves and state.get('upstream_version') is not none) }}
{% endmacro %}


{#- The plan whose version the changes are read from: that of the last barrier that was executed, none if there is none. -#}
{% macro get_feed_start(state) %}
    {%- if state.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
    {%- if state.dirty -%} {{ return((state.committed.get('given_up') or {}).get('since')) }} {%- endif -%}
    {{ return(state.committed) }}
{% endmacro %}
