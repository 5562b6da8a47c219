{#-
    Give up a plan that can no longer be executed. It is never overwritten by another: marked as abandoned, it
    fences the runs that still execute it, and its epoch is committed at the old position as `dirty`.
-#}
{% macro abandon_plan(backfill, plan, reason) %}
    {%- set sql -%}
        begin
            merge into {{ backfill.barriers.render() }} as barriers
            using (select {{ plan.epoch }} as epoch) as abandoned
            on barriers.epoch = abandoned.epoch and barriers.epoch = {{ plan.epoch }}
                and barriers.plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }}
            when matched and barriers.kind != 'abandon' then update set
                kind = 'abandon',
                reason = {{ dbt_backfill.string_literal(reason) }};
            select to_json(struct(*)) from {{ backfill.barriers.render() }} where epoch = {{ plan.epoch }};
        end
    {%- endset -%}
    {{ return(dbt_backfill.run_json('abandon the plan of the barrier ' ~ plan.epoch, sql)[0]) }}
{% endmacro %}
