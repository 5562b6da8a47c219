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
    {%- do dbt_backfill.note_place_of_run(backfill, run.state) -%}
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
        {%- do dbt_backfill.refuse_concurrent_run(run.plan) -%}
    {%- endif -%}
    {%- set wanted = backfill.options.barriers_per_run -%}
    {%- set run.allowance = dbt_backfill.get_allowance(backfill, run.state, run) -%}
    {%- set allowed = dict(
        backfill, options=dict(backfill.options, backfill_rate_limit=run.allowance.rows), partitions=none if run.replaced else backfill.partitions
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
    {%- do dbt_backfill.note_place_of_run(backfill, run.state) -%}
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
        {%- set run.read_seconds = run.read_seconds + barrier.seconds_without_copy -%}
    {%- endif -%}
    {#- A rebuild is still to come if another run had planned an advance before it. -#}
    {%- if dbt_backfill.kind_of(plan).follows and not run.rebuild -%} {%- set run.barriers = run.barriers + 1 -%} {%- endif -%}
    {#- `all` ends although the upstream may change for ever: once nothing is left to read, after two barriers of changes. -#}
    {%- set reads = not reads_range or plan.last_range or plan.get('range_row_count') is not none -%}
    {%- set run.followed = 0 if reads or run.rebuild else run.followed + 1 -%}
    {%- set run.done = run.barriers == wanted or replaces_mv and run.next or wanted is none and run.followed == 2 -%}
    {%- if not run.done and dbt_backfill.is_budget_spent(backfill, run) -%} {%- set run.done = true -%} {%- set run.spent = true -%} {%- endif -%}
{% endmacro %}


{#-
    Return what a run knows before it asks anything of Spark but where tables are, as a dict that all steps are given: {
      'mv', 'progress', 'barriers', 'controls', 'staged', 'replica', 'live': relations,
      'options': the configuration,
      'upstream': {'relation', 'kind'},
      'feed': the change table of the user's own, see get_change_table; none if the upstream's own feed is followed,
      'sql': the model's query, 'query': with the upstream substituted, 'query_hash',
      'started_at': when the run of the model began, for its budget of time,
      'controls_of': the id of the MV whose controls apply, if that is not its own: of a next generation; else none,
      'source': the range source of a barrier, if that is a copy which more plans read; else none, see get_source_read,
      'partitions': the names of the columns by which the table of the MV is partitioned, as the run has found it, see read_mv;
        none if the run makes it, as the config says,
      'generation': 'next' or 'former' while a full refresh is made beside the MV in use, see find_next_generation; else none
    }

    What Spark says is none of it: see observe_state, observe_upstream and new_learned.

    Outside of a run, `name` is that of the model, for messages.
-#}
{% macro get_backfill(mv, sql) %}
    {%- set options = dbt_backfill.read_config() -%}
    {%- set upstream = dbt_backfill.get_upstream(sql, options.change_feed) -%}
    {%- set feed = dbt_backfill.get_change_table(options.change_feed, upstream.relation, sql)
        if options.change_feed and not upstream.get('feed') else none -%}
    {%- set query = dbt_backfill.substitute_upstream(sql, upstream.relation) -%}
    {%- set relations = dbt_backfill.get_relations(mv) -%}
    {%- do dbt_backfill.check_state_names(relations, options) -%}
    {%- do dbt_backfill.check_options_of_upstream(upstream, feed, options) -%}
    {{ return(dict(
        relations, options=options, upstream=upstream, feed=feed, sql=sql, query=query, query_hash=dbt_backfill.query_hash(query),
        started_at=modules.datetime.datetime.now(), controls_of=none, source=none, partitions=none, generation=none,
    )) }}
{% endmacro %}


{#- Refuse options that an upstream of this kind, or with this feed, does not have. -#}
{% macro check_options_of_upstream(upstream, feed, options) %}
    {%- if dbt_backfill.upstream_traits(upstream).stages_ranges -%}
        {%- for needs, option in [(options.backfill_mode == 'snapshot', "backfill_mode 'snapshot'"), (options.live_view, 'live_view')] if needs -%}
            {%- do dbt_backfill.refuse(
                option ~ ' reads a version of its upstream again, and ' ~ upstream.relation.render() ~ ' is a live table, which keeps none',
                'Remove it; each barrier is exact without it'
            ) -%}
        {%- endfor -%}
    {%- elif options.backfill_partitions > 1 -%}
        {%- do dbt_backfill.refuse(
            'backfill_partitions is ' ~ options.backfill_partitions ~ ', and ' ~ upstream.relation.render()
                ~ ' is a table that Spark itself divides among its tasks',
            'Remove it; it says how many connections read a range of a live database'
        ) -%}
    {%- endif -%}
    {%- set reason = dbt_backfill.why_no_replica(upstream, feed, options) if options.replicate == 'always' else none -%}
    {%- if reason -%}
        {%- do dbt_backfill.refuse(
            "replicate is 'always', and " ~ reason,
            'Remove it: a table can be replicated that tells its own changes, has the format of the MV, and whose keys are checked'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse an MV beside which another node of the project makes a table with the name of its state or history, of its live view,
    or of its next generation: dbt would replace the one by the other, or take it for its own.
-#}
{% macro check_state_names(relations, options) %}
    {%- set next = dbt_backfill.get_next_relations(relations.mv).values() | list if options.full_refresh_mode == 'beside' else [] -%}
    {%- set own = [] -%}
    {%- for name in dbt_backfill.companion_names() + (['live'] if options.get('live_view') else []) -%}
        {%- do own.append(relations[name]) -%}
    {%- endfor -%}
    {%- for relation in own + next -%}
        {%- set node = dbt_backfill.find_maker(relation) -%}
        {%- if node is not none -%}
            {%- do dbt_backfill.refuse(
                relation.render() ~ ' is where ' ~ ('its next generation stands' if loop.index > own | length
                    else 'its live view stands' if relation == relations.live else 'its state stands')
                    ~ ', and the ' ~ node.resource_type ~ ' ' ~ dbt_backfill.get_model_name(node) ~ ' makes a table there',
                'Give one of the two another alias'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
