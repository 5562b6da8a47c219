{#-
    Give an MV more vnodes, a multiple of those it has, or fewer, a divisor, wherever its backfill stands: a barrier of its
    own, `rescale`. Nothing of the upstream is read. Where vnodes with different positions come together, what is above the
    lowest of them is removed from the MV, and read again by the next ranges.

    If the operation is broken off, repeat it, or run the model: both go on with its plan.

    Usage:
      dbt run-operation rescale_backfill --args '{model: my_mv, vnode_count: 1024}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
      vnode_count (integer): how many vnodes it is to have. A full refresh gives it those of its config again.
-#}
{% macro rescale_backfill(model=none, vnode_count=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'rescale_backfill') -%}
    {%- do dbt_backfill.check_rescale_arguments(dbt_backfill.get_model_name(node), vnode_count, kwargs) -%}
    {%- set operated = dbt_backfill.observe_operated(node) -%}
    {%- set planned = operated.state.get('planned') -%}
    {%- if planned and planned.kind == 'rescale' -%}
        {%- set operated = dbt_backfill.run_rescale(operated, planned) -%}
    {%- endif -%}
    {%- if operated.state.committed.vnode_count == vnode_count and not operated.state.get('planned') -%}
        {%- do log(operated.name ~ ': it has ' ~ dbt_backfill.get_count_text(vnode_count, 'vnode'), info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- do dbt_backfill.check_rescalable(operated, vnode_count) -%}
    {%- do dbt_backfill.run_rescale(operated, dbt_backfill.plan_rescale(operated, node, vnode_count)) -%}
{% endmacro %}


{#- Refuse arguments that are unknown or of the wrong type. -#}
{% macro check_rescale_arguments(name, vnode_count, unknown) %}
    {%- do dbt_backfill.check_argument_names('rescale_backfill', unknown, ['model', 'vnode_count'], name) -%}
    {%- if vnode_count is not integer or not 1 <= vnode_count <= 32768 -%}
        {%- do dbt_backfill.refuse_argument(name, 'vnode_count', vnode_count, 'a whole number of 1 to 32768') -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse an MV that cannot get this number of vnodes, or not before its next run. -#}
{% macro check_rescalable(operated, vnode_count) %}
    {%- set state, name = operated.state, operated.name -%}
    {%- set run = 'dbt run --select ' ~ name -%}
    {%- do dbt_backfill.check_barrier_is_committed(
        state, name, 'Let the run that is at work end, or run the model (' ~ run ~ '), and then rescale it'
    ) -%}
    {%- set why = operated.begun_anew or ('nothing was read for it yet' if state.get('upstream_version') is none else none) -%}
    {%- if why -%}
        {%- do dbt_backfill.refuse(
            'it cannot be rescaled before its next run, because ' ~ why, 'Run the model (' ~ run ~ '), and then rescale it', mv=name
        ) -%}
    {%- endif -%}
    {%- set has = state.committed.vnode_count -%}
    {%- if has % vnode_count != 0 and vnode_count % has != 0 -%}
        {%- do dbt_backfill.refuse(
            'vnode_count is ' ~ vnode_count ~ ', which is neither a multiple nor a divisor of the ' ~ has ~ ' vnodes that it has',
            'Choose one that is, or set vnode_count in its config and rebuild it once with --full-refresh', mv=name
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Store the plan of it, unless another run has planned something meanwhile. Returns the plan. -#}
{% macro plan_rescale(operated, node, vnode_count) %}
    {%- set state = operated.state -%}
    {%- set low = state.get('position') if state.uniform else dbt_backfill.read_windows(
        dict(operated, options=dict(operated.options, backfill_vnodes=none)), state
    ).low -%}
    {%- set plan = dbt_backfill.new_rescale_plan(state, node, vnode_count, low) -%}
    {%- set sql -%}
        begin
            declare planned string;
            {{ dbt_backfill.get_store_plan_statements(operated, plan) }}
            {{ dbt_backfill.get_standing_plan_sql(operated, plan.epoch) }};
        end
    {%- endset -%}
    {%- set standing = dbt_backfill.run_json('plan the barrier ' ~ plan.epoch, sql, operated.mv)[0].get('plan') or {} -%}
    {%- if [standing.get('plan_id'), standing.get('kind')] != [plan.plan_id, plan.kind] -%}
        {%- do dbt_backfill.refuse(
            'another run has begun its barrier ' ~ plan.epoch ~ ' meanwhile', 'Nothing was changed; repeat the operation', mv=operated.name
        ) -%}
    {%- endif -%}
    {{ return(standing) }}
{% endmacro %}


{#- Execute and commit such a plan. Returns the MV as it is then, see observe_operated. -#}
{% macro run_rescale(operated, plan) %}
    {%- set state = operated.state -%}
    {%- set done = dbt_backfill.run_steps(operated, state, plan, {'guarded': false}) -%}
    {%- set committed = dbt_backfill.commit_barrier(operated, state, plan, done.counts) -%}
    {%- set barrier = {'plan': plan, 'state': committed, 'counts': dbt_backfill.get_committed_counts(committed.committed)} -%}
    {%- set parts = ['BARRIER ' ~ plan.epoch, dbt_backfill.get_progress_text(committed)] + dbt_backfill.get_report_of_kind(barrier) -%}
    {%- do log(operated.name ~ ' [' ~ parts | join(' · ') ~ ']', info=true) -%}
    {{ return(dict(operated, state=committed)) }}
{% endmacro %}
