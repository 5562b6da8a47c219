{#-
    Give up a plan that cannot be executed. It is never overwritten by another: marked as abandoned, it fences the runs
    that still execute it, and its epoch is committed at the old position as `dirty`. Nothing is marked once another run
    has committed it. Returns the plan as it now stands.
-#}
{% macro mark_abandoned(backfill, plan, reason) %}
    {%- set sql -%}
        begin
            merge into {{ backfill.barriers.render() }} as barriers
            using (
                select {{ plan.epoch }} as epoch
                from (select min(epoch) as committed from {{ backfill.progress.render() }})
                where committed = {{ plan.epoch - 1 }}
            ) as abandoned
            on barriers.epoch = abandoned.epoch and barriers.epoch = {{ plan.epoch }}
                and barriers.plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }}
            when matched and barriers.kind != 'abandon' then update set
                kind = 'abandon',
                reason = {{ dbt_backfill.string_literal(reason) }};
            select to_json(struct(*)) from {{ backfill.barriers.render() }} where epoch = {{ plan.epoch }};
        end
    {%- endset -%}
    {{ return(dbt_backfill.run_json('abandon the plan of the barrier ' ~ plan.epoch, sql, backfill.mv)[0]) }}
{% endmacro %}


{#-
    The step of an abandoned plan. One of its MERGEs may be on its way, past its fence: on Delta a change of the table's
    metadata makes it fail. Iceberg has nothing of the kind but to replace the table.
-#}
{% macro run_abandon(backfill, plan) %}
    {%- if backfill.options.file_format == 'delta' -%}
        {%- do dbt_backfill.run_table(
            'stop what is on its way in the barrier ' ~ plan.epoch,
            'alter table ' ~ backfill.mv.render() ~ " set tblproperties ('dbt_backfill.given_up' = '" ~ plan.epoch ~ "')",
            backfill.mv
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    What was given up since the last barrier that was executed, none if nothing was: {'since': the plan of that barrier,
    'plans': those that were given up after it}. None also where a reset was among them, which another one follows, or
    where `since` is too long ago to be looked for.
-#}
{% macro read_given_up(backfill, state) %}
    {%- if not state.dirty -%} {{ return(none) }} {%- endif -%}
    {%- set sql = 'select to_json(struct(*)) from ' ~ backfill.barriers.render() ~ ' where epoch <= ' ~ state.epoch
        ~ ' order by epoch desc limit 20' -%}
    {%- set given_up = [] -%}
    {%- for plan in dbt_backfill.run_json('read what was given up', sql) -%}
        {%- if plan.kind != 'abandon' -%} {{ return({'since': plan, 'plans': given_up}) }} {%- endif -%}
        {%- if plan.get('upstream_version') is none -%} {{ return(none) }} {%- endif -%}
        {%- do given_up.append(plan) -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    The ends of the ranges above the position that given-up plans could write to, [] for one that is open above; none
    where the whole MV has to be compared. Below the position they could write what the upstream changed since the last
    executed barrier, which the feed still has to tell, up to a version that goes on from theirs.
-#}
{% macro find_touched(backfill, state, observed) %}
    {%- set given_up = backfill.given_up -%}
    {%- if not given_up or backfill.feed or not state.uniform
            or given_up.since.get('upstream_version') != state.get('upstream_version')
            or dbt_backfill.find_feed_gap(backfill, observed, given_up.since) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set touched = [] -%}
    {%- for plan in given_up.plans -%}
        {%- if not dbt_backfill.continues_upstream(backfill.upstream, observed, plan) -%} {{ return(none) }} {%- endif -%}
        {%- for high in plan.get('touched') or [] if high not in touched -%} {%- do touched.append(high) -%} {%- endfor -%}
        {%- if plan.last_range -%}
            {%- do touched.append([]) -%}
        {%- elif plan.get('range_high') != plan.get('range_low') and plan.range_high not in touched -%}
            {%- do touched.append(plan.range_high) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return([[]] if [] in touched else touched) }}
{% endmacro %}
