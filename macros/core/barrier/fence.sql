{#-
    Return a SQL expression that is true as long as the plan is the one to execute, and raises an error once another run has committed its
    epoch or given it up. It is part of the source of every MERGE and replacement of a plan; of an ALTER, which has no source, it is the
    statement right before it (get_alter_script). get_stopping_sql needs none: it runs after its plan was given up.

    Delta and Iceberg fix the MV's version that a statement commits against before they evaluate its source. So a write that passes the
    fence either sees no later commit or conflicts with it. One row of the progress table is read. Without it there is no state, and
    nothing passes.

    Arguments:
      plan (dict or none): none of a repair, which is no barrier and puts the MV back to what the committed `epoch` promises. It passes as
        long as no later barrier has begun.
-#}
{% macro get_fence(backfill, plan, epoch=none) -%}
    {%- set stands = dbt_backfill.executable_plan_predicate(plan) if plan else 'epoch = ' ~ epoch ~ ' and plan_id is null' -%}
    {%- set during = 'this one executed the barrier ' ~ plan.epoch if plan else 'its epoch ' ~ epoch ~ ' was repaired' -%}
    coalesce(
        (
            select case
                when {{ stands }} then true
                else raise_error(concat(
                    'backfilled_mv {{ backfill.mv.identifier }}: another run went on while {{ during }} (committed epoch ', epoch,
                    coalesce(concat(' of invocation ', get_json_object(last, '$.invocation_id')), ''),
                    coalesce(concat('; ', plan_kind, ' of invocation ', get_json_object(plan, '$.invocation_id'),
                    ', planned at ', get_json_object(plan, '$.planned_at')), ''),
                    '). This statement wrote nothing; run again to continue.'
                ))
            end
            from {{ backfill.progress.render() }}
            where vnode = 0
        ),
        cast(raise_error('backfilled_mv {{ backfill.mv.identifier }}: its state is gone. This statement wrote nothing.') as boolean)
    )
{%- endmacro %}


{#-
    Return a condition on rows of the progress table (`prefix`) that a plan is the one of the next epoch, and of its kind: not given up.
-#}
{% macro executable_plan_predicate(plan, prefix='') %}
    {{ return(prefix ~ 'epoch = ' ~ (plan.epoch - 1) ~ ' and ' ~ prefix ~ 'plan_id = ' ~ dbt_backfill.string_literal(plan.plan_id)
        ~ ' and ' ~ prefix ~ 'plan_kind = ' ~ dbt_backfill.string_literal(plan.kind)) }}
{% endmacro %}


{#- True if a plan is the one to execute by a state that was read, as executable_plan_predicate asks it of the table. -#}
{% macro is_executable(state, plan) %}
    {%- set planned = state.get('planned') or {} -%}
    {{ return([state.epoch, planned.get('plan_id'), planned.get('kind')] == [plan.epoch - 1, plan.plan_id, plan.kind]) }}
{% endmacro %}


{#-
    Return a statement of a script that moves the state. On Delta a conflict with another run is no error: the script reads the state after
    it. On Iceberg it fails the script.

    Arguments:
      sql (string): an UPDATE or a MERGE with its own guard, the epoch and the plan in its condition: sent again it changes nothing.
      literals (dict): text in `sql` -> SQL expression of the literal that replaces it, see get_execute_with_literals_sql. Iceberg's UPDATE
        takes no variables.
-#}
{% macro get_state_statement(backfill, sql, literals={}) -%}
    {%- set update = dbt_backfill.get_execute_with_literals_sql(sql, literals) if literals else sql -%}
    {{ dbt_backfill.get_yielding_sql(update, backfill.options.file_format) }}
{%- endmacro %}


{#-
    Return a select of the plan that is stored for an epoch, as {'plan'}, null if there is none, and of the script's variables `known`. All
    rows are read: a filter costs Delta a job that looks for files to skip.
-#}
{% macro get_next_plan_sql(relations, epoch, known=[]) -%}
    select concat('{',
        {%- for name in known %}
        coalesce(concat('"{{ name }}":', to_json({{ name }}), ','), ''),
        {%- endfor %}
        '"plan":', coalesce(max(if(vnode = 0 and epoch = {{ epoch - 1 }}, plan, null)), 'null'), '}'
    )
    {#- Without the columns of the key: one of the name of a variable would be taken for it. #}
    from (select vnode, epoch, plan from {{ relations.progress.render() }})
{%- endmacro %}


{#- Refuse to go on with a plan where another run went on, as the fence does inside of a statement. -#}
{% macro refuse_concurrent_run(plan, mv=none) %}
    {%- do dbt_backfill.refuse(
        'another run went on while this one executed the barrier ' ~ plan.epoch,
        'Nothing is lost; run again to continue', mv=mv
    ) -%}
{% endmacro %}
