{#-
    Give up the plan that a run of an MV has left without committing it, where it cannot be executed and the upstream has
    not gone on: the next run puts right what it could touch, and plans anew. Nothing is lost. Stop runs of the model
    before: one that is still at work on the plan ends with an error.

    Usage:
      dbt run-operation abandon_plan --args '{model: my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
-#}
{% macro abandon_plan(model=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'abandon_plan') -%}
    {%- do dbt_backfill.check_argument_names('abandon_plan', kwargs, ['model'], dbt_backfill.get_model_name(node)) -%}
    {%- set operated = dbt_backfill.observe_operated(node) -%}
    {%- set plan = operated.state.get('planned') -%}
    {%- if plan is none or plan.kind == 'abandon' -%}
        {%- do log(
            operated.name ~ ': there is no plan to give up; ' ~ (
                'its barrier ' ~ operated.state.epoch ~ ' is committed' if plan is none else 'that of its barrier '
                    ~ plan.epoch ~ ' is given up already'
            ), info=true
        ) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set given_up = dbt_backfill.mark_abandoned(operated, operated.state, plan, 'abandon_plan') -%}
    {%- if given_up is none -%}
        {%- do dbt_backfill.refuse(
            'another run has committed its barrier ' ~ plan.epoch ~ ' meanwhile', 'There is nothing to give up', mv=operated.name
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_abandon(operated, given_up) -%}
    {%- do log(
        operated.name ~ ': the plan of its barrier ' ~ plan.epoch ~ ' (' ~ plan.kind ~ ', planned at ' ~ plan.planned_at
            ~ ') is given up. The next dbt run puts right what it could touch, and goes on', info=true
    ) -%}
{% endmacro %}
