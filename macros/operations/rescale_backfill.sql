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
