{#-
    Statements of a plan that an earlier run left, and that may be given up since the upstream has gone on: where one
    fails, `backfill.failed` says which, and nothing is raised. (Jinja catches no error; a script of SQL does.) So a row
    on which the query or a constraint fails does not hold the MV for ever once it was corrected upstream.
-#}
{% macro run_merge(backfill, step, sql) %}
    {%- if not backfill.guarded -%} {{ return(dbt_backfill.run_table(step, sql)) }} {%- endif -%}
    {%- set script -%}
        begin
            {{ dbt_backfill.declare_guard() }}
            {{ sql }};
            select to_json(named_struct('done', true));
        end
    {%- endset -%}
    {%- do dbt_backfill.is_done(backfill, step, dbt_backfill.run_json(step, script)[0]) -%}
    {{ return(none) }}
{% endmacro %}


{#- The handlers of such a script; Delta's conflicts with another run have a state of their own. -#}
{% macro declare_guard() -%}
    declare exit handler for sqlstate '2D521' begin select to_json(named_struct('conflict', true)); end;
    declare exit handler for sqlexception begin select to_json(named_struct('failed', true)); end;
{%- endmacro %}


{#- Whether its result is not that of a handler; notes in `backfill.failed` if it is. -#}
{% macro is_done(backfill, step, result) %}
    {%- if result.get('conflict') -%}
        {%- do dbt_backfill.refuse(
            'another run or a compaction wrote to ' ~ backfill.mv.render() ~ ' while this one went on with its barrier',
            'Nothing is lost; run again to continue'
        ) -%}
    {%- elif result.get('failed') -%}
        {%- do backfill.update({'failed': backfill.failed or step}) -%}
    {%- endif -%}
    {{ return(not result.get('failed')) }}
{% endmacro %}


{#- Whether the upstream has gone on since a plan was made, so that the next plan would read another version. -#}
{% macro has_gone_on(backfill, plan, observed) %}
    {%- set source = dbt_backfill.get_source(plan, 'feed' if backfill.feed else 'upstream') -%}
    {%- set followed = observed.feed if backfill.feed else observed -%}
    {{ return(dbt_backfill.get_source(plan).get('version') is not none and (source or {}).get('version') != followed.version | string) }}
{% endmacro %}


{#- Give up a plan of which a guarded statement failed, unless it did because another run went on. -#}
{% macro give_up_plan(backfill, state, plan) %}
    {%- set now = dbt_backfill.read_state(backfill) -%}
    {%- if now.epoch != state.epoch or (now.get('planned') or {}).get('plan_id') != plan.plan_id
            or now.planned.kind != plan.kind -%}
        {%- do dbt_backfill.refuse_overtaken(plan) -%}
    {%- endif -%}
    {%- set given_up = dbt_backfill.mark_abandoned(
        backfill, plan, 'it could not ' ~ backfill.failed ~ ', and the upstream has gone on from its version ' ~ dbt_backfill.get_source(plan).version
    ) -%}
    {%- if given_up is none -%} {%- do dbt_backfill.refuse_overtaken(plan) -%} {%- endif -%}
    {%- do dbt_backfill.run_abandon(backfill, given_up) -%}
    {{ return(given_up) }}
{% endmacro %}
