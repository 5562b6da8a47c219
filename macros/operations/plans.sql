{#-
    Give up a plan that a run of an MV has left uncommitted. Use the operation if the plan cannot be executed and the upstream has no new version. The
    next run repairs the rows that the plan may have changed, and makes a new plan. Nothing is lost. Stop all runs of the model before you use this
    operation: a run that still executes the plan ends with an error.

    Usage:
      dbt run-operation abandon_plan --args '{model: my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
-#}
{% macro abandon_plan(model=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'abandon_plan') -%}
    {%- do dbt_backfill.check_arguments('abandon_plan', {'model': model}, kwargs, mv=dbt_backfill.get_model_name(node)) -%}
    {%- set operated = dbt_backfill.observe_operated(node) -%}
    {%- set plan = operated.state.get('planned') -%}
    {%- if plan is none or plan.kind == 'abandon' -%}
        {%- set why = 'its barrier ' ~ operated.state.epoch ~ ' is committed' if plan is none
            else 'the plan of its barrier ' ~ plan.epoch ~ ' is already given up' -%}
        {%- do log(operated.name ~ ': there is no plan to give up; ' ~ why, info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set given_up = dbt_backfill.run_mark_abandoned(operated, operated.state, plan, 'abandon_plan') -%}
    {%- if given_up is none -%}
        {%- do dbt_backfill.refuse('another run has committed the barrier ' ~ plan.epoch ~ ' of this plan',
            'Run the model as usual; there is no plan to give up', mv=operated.name, id='plan-already-committed') -%}
    {%- endif -%}
    {%- if operated.options.file_format == 'iceberg' -%}
        {%- set sql = dbt_backfill.get_mark_statement(plan.backfill_id, plan.plan_id) -%}
        {%- do dbt_backfill.run_table('mark the snapshots of the barrier ' ~ plan.epoch, sql, operated.mv) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_stopping(operated, given_up) -%}
    {%- if operated.options.file_format == 'iceberg' -%}
        {%- do dbt_backfill.run_table('end the mark', dbt_backfill.get_mark_statement(plan.backfill_id), operated.mv) -%}
    {%- endif -%}
    {%- do log(
        operated.name ~ ': the plan of its barrier ' ~ plan.epoch ~ ' (' ~ plan.kind ~ ', planned at ' ~ plan.planned_at
            ~ ') is given up. The next dbt run repairs the rows that this plan may have written, and continues', info=true
    ) -%}
{% endmacro %}


{#-
    Change the number of vnodes of an MV to a multiple or a divisor of the current number, at any time of its backfill. The operation is a barrier of
    the kind `rescale`, which does not read the upstream. If vnodes with different positions are merged, the barrier removes the rows above the lowest
    of these positions from the MV. The next ranges read these rows again.

    If the operation ends early, repeat the operation or run the model: both continue the stored plan.

    Usage:
      dbt run-operation rescale_backfill --args '{model: my_mv, vnode_count: 1024}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
      vnode_count (integer): the new number of vnodes. A full refresh sets the number of the config again.
-#}
{% macro rescale_backfill(model=none, vnode_count=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'rescale_backfill') -%}
    {%- set name = dbt_backfill.get_model_name(node) -%}
    {%- do dbt_backfill.check_arguments('rescale_backfill', {'model': model, 'vnode_count': vnode_count}, kwargs, {
        'vnode_count': [vnode_count is integer and 1 <= vnode_count <= 32768, 'a whole number of 1 to 32768'],
    }, name) -%}
    {%- set operated = dbt_backfill.observe_operated(node) -%}
    {%- set operated = dict(operated, state=dbt_backfill.observe_mv(operated, operated.state)) -%}
    {%- set planned = operated.state.get('planned') -%}
    {%- if planned and planned.kind == 'rescale' -%}
        {%- set operated = dbt_backfill.run_rescale(operated, planned) -%}
        {%- set operated = dict(operated, state=dbt_backfill.observe_mv(operated, operated.state)) -%}
    {%- endif -%}
    {%- set state, has = operated.state, operated.state.committed.vnode_count -%}
    {%- if has == vnode_count and not state.get('planned') -%}
        {%- do log(name ~ ': it has ' ~ dbt_backfill.get_count_text(vnode_count, 'vnode'), info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set run = 'the model (dbt run --select ' ~ name ~ '), and then rescale the MV' -%}
    {%- do dbt_backfill.check_barrier_is_committed(state, name, 'Let the run that is at work end, or run ' ~ run) -%}
    {%- set why = 'something other than its barriers wrote to it (' ~ state.foreign_write.text ~ ')' if state.foreign_write
        else 'nothing was read for it yet' if state.get('upstream_version') is none else none -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'rescale-before-next-run', 'when': why, 'fact': 'the MV cannot be rescaled before its next run, because ' ~ why,
         'change': 'Run ' ~ run},
        {'id': 'rescale-vnode-count', 'when': has % vnode_count != 0 and vnode_count % has != 0,
         'fact': 'the argument vnode_count is ' ~ vnode_count ~ ', which is neither a multiple nor a divisor of the ' ~ has ~ ' vnodes of the MV',
         'change': 'Choose a multiple or a divisor, or set vnode_count in the config and rebuild the MV once with --full-refresh'},
    ], mv=name) -%}
    {%- do dbt_backfill.run_rescale(operated, dbt_backfill.plan_rescale(operated, node, vnode_count)) -%}
{% endmacro %}


{#- Store a plan that gives the MV another number of vnodes, and return the plan. The rest of the last committed plan stays the same. Refuse if
    another run has stored a plan meanwhile. `node`: the model's node in the graph. -#}
{% macro plan_rescale(operated, node, vnode_count) %}
    {%- set state, last = operated.state, operated.state.committed -%}
    {%- set low = state.get('position') if state.uniform else dbt_backfill.read_range_start(
        dict(operated, options=dict(operated.options, backfill_vnodes=none)), state
    ).low -%}
    {%- set filling, finds = dbt_backfill.get_filling(state), not state.uniform or last.get('vnodes') is not none -%}
    {%- set plan = dict(
        epoch=state.epoch + 1, kind='rescale', reason='from ' ~ last.vnode_count ~ ' to ' ~ vnode_count ~ ' vnodes',
        plan_id=local_md5(invocation_id ~ node.unique_id ~ state.epoch ~ modules.datetime.datetime.now()),
        sources=dbt_backfill.with_void_copy(last.sources), sweeps=dbt_backfill.is_sweeping(state), vnode_count=vnode_count,
        range_low=state.get('position'), range_high=low, last_range=false,
        **({'next_bounds': [], 'bounds_complete': false} if finds else dbt_backfill.get_bounds_ahead(state))
    ) -%}
    {%- for name in [
        'backfill_id', 'upstream_row_count', 'query', 'query_hash', 'query_columns', 'volatile_columns', 'settings', 'key',
        'backfill_mode', 'backfill_rate_limit',
    ] -%}
        {%- do plan.update({name: last.get(name)}) -%}
    {%- endfor -%}
    {%- if filling -%}
        {%- do plan.update({
            'fills': filling.columns, 'fill_low': filling.position, 'fill_high': filling.position, 'filled_row_count': filling.row_count,
        }) -%}
    {%- endif -%}
    {%- set sql -%}
        begin
            declare planned string;
            {{ dbt_backfill.get_store_plan_statements(operated, plan) }}
        end
    {%- endset -%}
    {%- set stored = dbt_backfill.run_json('plan the barrier ' ~ plan.epoch, sql, operated.mv)[0].get('plan') or {} -%}
    {%- if [stored.get('plan_id'), stored.get('kind')] != [plan.plan_id, plan.kind] -%}
        {%- do dbt_backfill.refuse('another run began the barrier ' ~ plan.epoch ~ ' during this operation',
            'Nothing was changed; repeat the operation when that run has ended', mv=operated.name, id='rescale-during-a-run') -%}
    {%- endif -%}
    {{ return(stored) }}
{% endmacro %}


{#- Execute and commit the plan of a rescale. Return the MV in its new state, see observe_operated. -#}
{% macro run_rescale(operated, plan) %}
    {%- set state = operated.state -%}
    {%- set done = dbt_backfill.run_steps(operated, state, none, none, {'plan': plan}) -%}
    {%- set committed = dbt_backfill.commit_barrier(operated, state, plan, done.counts) -%}
    {%- set barrier = {'plan': plan, 'state': committed, 'counts': dbt_backfill.get_committed_counts(committed.committed)} -%}
    {%- set parts = ['BARRIER ' ~ plan.epoch, dbt_backfill.get_progress(committed).text] + dbt_backfill.get_report_of_kind(barrier) -%}
    {%- do log(operated.name ~ ' [' ~ parts | join(' · ') ~ ']', info=true) -%}
    {{ return(dict(operated, state=committed)) }}
{% endmacro %}
