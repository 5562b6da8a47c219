{#-
    A SQL expression that is true as long as the plan is the one to execute, and raises an error once another
    run has committed its epoch or given it up. It stands in the source of every statement that writes the MV.

    Delta and Iceberg fix the MV's version that a statement commits against before they evaluate its source, so
    a write that passes the fence either sees no later commit or conflicts with it.
-#}
{% macro get_fence(backfill, plan) -%}
    (
        select case
            when progress.epoch = {{ plan.epoch - 1 }} and planned.plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }}
                and planned.kind = {{ dbt_backfill.string_literal(plan.kind) }}
            then true
            else raise_error(concat(
                'backfilled_mv {{ backfill.mv.identifier }}: another run went on while this one executed the barrier ',
                '{{ plan.epoch }} (', planned.kind, ' of invocation ', planned.invocation_id, ', planned at ', planned.planned_at,
                '; committed epoch ', progress.epoch, '). Nothing was written by this run; run again to continue.'
            ))
        end
        from (select min(epoch) as epoch from {{ backfill.progress.render() }}) as progress
        cross join (
            select max(plan_id) as plan_id, max(kind) as kind, max(invocation_id) as invocation_id, max(planned_at) as planned_at
            from {{ backfill.barriers.render() }}
            where epoch = {{ plan.epoch }}
        ) as planned
    )
{%- endmacro %}


{#-
    The same for a statement that is no barrier and puts the MV back to what the committed epoch promises: true as
    long as no later barrier has begun.
-#}
{% macro get_fence_of_epoch(relations, epoch) -%}
    (
        select case
            when progress.epoch = {{ epoch }} and planned.epoch is null then true
            else raise_error(concat(
                'backfilled_mv {{ relations.mv.identifier }}: another run went on while its epoch {{ epoch }} was repaired ',
                '(committed epoch ', progress.epoch, '). Nothing was written; verify it again.'
            ))
        end
        from (select min(epoch) as epoch from {{ relations.progress.render() }}) as progress
        cross join (
            select max(epoch) as epoch from {{ relations.barriers.render() }} where epoch > {{ epoch }}
        ) as planned
    )
{%- endmacro %}


{#-
    The WHEN MATCHED clause of a MERGE that has only rows to insert: none on Delta, which is fastest without one.
    Iceberg checks a MERGE for conflicts only if it has one; without it two runs both appended their rows.
-#}
{% macro get_matched_clause(action) -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' %}when matched then {{ action }}{% endif -%}
{%- endmacro %}


{#- End a run that finds without a fence what a fence would have told it. -#}
{% macro refuse_overtaken(plan) %}
    {%- do dbt_backfill.refuse(
        'another run went on while this one executed the barrier ' ~ plan.epoch,
        'Nothing is lost; run again to continue'
    ) -%}
{% endmacro %}
