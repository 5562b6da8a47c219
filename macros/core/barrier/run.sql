{#-
    Run barriers until the run's number of them is reached or there is nothing left to do. Return what to report:
    {'message', 'state', 'plan': the last barrier's, 'rows_backfilled', 'read_seconds': of the barriers that read them, 'changed',
    'deleted', 'barriers': how many, 'replaced': true if one of them has replaced the MV}.

    A reset, a rescale and an abandoned plan do not count towards `barriers_per_run`: after a full refresh the same run goes on to
    backfill.

    Arguments:
      observed (dict): as observe_state returned it.
      rebuild (string or none): why the user wants it rebuilt.
      next (dict or text): the generation that one of them puts in its place, with which the run ends, see choose_plan.
-#}
{% macro run_barriers(backfill, observed, rebuild, next=none) %}
    {%- set backfill = dict(backfill, partitions=observed.mv.partitions if observed.get('mv') else none) -%}
    {%- set run = namespace(
        state=observed.state, learned=observed.learned, rebuild=none if observed.state.get('missing') else rebuild, next=next, replaced=false,
        barriers=0, committed=0, followed=0, done=false, ended=false, spent=false, waits=none, allowance=none,
        first=none, plan=none, rows=0, read_seconds=0, changed=0, deleted=0
    ) -%}
    {%- if not run.state.get('missing') and not rebuild and not next -%}
        {%- set run.rebuild = dbt_backfill.find_query_change(backfill, run.state, run.learned) or observed.begun_anew -%}
        {%- if not run.rebuild -%} {%- do dbt_backfill.report_kept_shape(backfill, run.state) -%} {%- endif -%}
    {%- endif -%}
    {%- do dbt_backfill.tell_place(backfill, run.state) -%}
    {#- Jinja has no while: two loops, so that few turns are idle. -#}
    {%- for _ in range(1000) -%}
        {%- if not run.done -%}
            {%- for _ in range(1000) -%} {%- if not run.done -%} {%- do dbt_backfill._run_next_barrier(backfill, run) -%} {%- endif -%} {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do dbt_backfill.after_run(backfill, run.state, run.plan, run.waits) -%}
    {%- if run.state.get('missing') -%} {%- set run.state = dbt_backfill.create_backfill(backfill, run.state) -%} {%- endif -%}
    {%- set run.state = dbt_backfill.write_history(backfill, run.state) -%}
    {{ return({
        'message': dbt_backfill.get_result_message(
            run.state, run.plan, run.first, run.ended, run.spent, dbt_backfill.get_control_text(run.allowance, run.state), run.waits
        ),
        'state': run.state, 'plan': run.plan, 'barriers': run.committed, 'replaced': run.replaced,
        'rows_backfilled': run.rows, 'read_seconds': run.read_seconds, 'changed': run.changed, 'deleted': run.deleted,
    }) }}
{% endmacro %}


{#-
    Run one turn of the loop: a barrier, its report, and what it adds to `run`, the namespace of the loop, which has all that lives
    longer than a barrier: 'state', 'learned' and 'plan' after the last barrier; 'rebuild', why the MV is still to be rebuilt;
    'barriers', those that count towards `barriers_per_run`, 'committed', all of them, and 'followed', how many of the last ones merged
    changes only; 'allowance', see get_allowance, of the last one; 'done', and 'ended' if there was nothing to do or, with 'waits', its
    feed was not there yet, or 'spent' if a budget was.
-#}
{% macro _run_next_barrier(backfill, run) %}
    {%- if backfill.options.take_turns and adapter.type() == 'spark_backfill' -%} {%- do adapter.take_turn() -%} {%- endif -%}
    {#- A barrier of another deployment came after that of this run, which would take its columns back. -#}
    {%- if run.plan and run.state.committed.query_hash not in [run.plan.query_hash, backfill.query_hash] -%}
        {%- do dbt_backfill.refuse_overtaken(run.plan) -%}
    {%- endif -%}
    {%- set wanted = backfill.options.barriers_per_run -%}
    {%- set run.allowance = dbt_backfill.get_allowance(backfill, run.state, run) -%}
    {%- set allowed = dict(
        dbt_backfill.get_allowed_backfill(backfill, run.allowance), partitions=none if run.replaced else backfill.partitions
    ) -%}
    {%- set barrier = dbt_backfill.run_barrier(
        allowed, run.state, run.learned, run.rebuild, run.next, last=run.next or run.barriers + 1 == wanted
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
    {%- set run.learned = barrier.learned -%}
    {%- if not run.committed -%} {%- set run.first = plan.epoch -%} {%- endif -%}
    {%- set run.committed = run.committed + 1 -%}
    {%- do dbt_backfill.report_barrier(backfill, barrier, run.allowance) -%}
    {%- do dbt_backfill.tell_place(backfill, run.state) -%}
    {%- do dbt_backfill.after_barrier(backfill, before, run.state) -%}
    {%- if run.state.epoch - [run.state.written or 0, 0] | max >= 20 -%}
        {%- set run.state = dbt_backfill.write_history(backfill, run.state) -%}
    {%- endif -%}
    {%- set run.changed = run.changed + (barrier.counts.get('changed') or 0) -%}
    {%- set run.deleted = run.deleted + (barrier.counts.get('deleted') or 0) -%}
    {%- set reads_range, replaces_mv = dbt_backfill.kind_reads_range(plan), dbt_backfill.replaces_mv(plan) -%}
    {%- if replaces_mv -%} {%- set run.rebuild = none -%} {%- set run.replaced = true -%} {%- endif -%}
    {%- if run.state.committed.get('begun_anew') and not run.rebuild -%}
        {%- set run.rebuild = 'it was begun anew by a full refresh that came late' -%}
    {%- endif -%}
    {%- if reads_range and plan.get('range_row_count') -%}
        {%- set run.rows = run.rows + plan.range_row_count -%}
        {%- set run.read_seconds = run.read_seconds + barrier.range_seconds -%}
    {%- endif -%}
    {#- A rebuild is still to come if another run had planned an advance before it. -#}
    {%- if dbt_backfill.kind_of(plan).follows and not run.rebuild -%} {%- set run.barriers = run.barriers + 1 -%} {%- endif -%}
    {#- `all` ends although the upstream may change for ever: once nothing is left to read, after two barriers of changes. -#}
    {%- set reads = not reads_range or plan.last_range or plan.get('range_row_count') is not none -%}
    {%- set run.followed = 0 if reads or run.rebuild else run.followed + 1 -%}
    {%- set run.done = run.barriers == wanted or replaces_mv and run.next or wanted is none and run.followed == 2 -%}
    {%- if not run.done and dbt_backfill.is_budget_spent(backfill, run) -%} {%- set run.done = true -%} {%- set run.spent = true -%} {%- endif -%}
{% endmacro %}
