{#-
    The plan that an earlier run left: executed word for word, unless its version can no longer be read or the
    MV is to be rebuilt anyway; then it is abandoned. Returns {'plan': as it then stands, 'guarded': see run_merge}.
-#}
{% macro adopt_plan(backfill, state, observed, plan, rebuild) %}
    {%- set is_given_up = plan.kind == 'abandon' -%}
    {#- Nothing that it reads can be lost, and a rebuild may follow it. -#}
    {%- if plan.kind == 'rescale' -%}
        {%- do dbt_backfill.report_adoption(plan) -%}
        {{ return({'plan': plan, 'guarded': false}) }}
    {%- endif -%}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {#- A swap reads another table than the upstream. -#}
    {%- set readable = source.get('version') is none or plan.get('generation') or dbt_backfill.ask(backfill.upstream, 'upstream_readable')(observed, source) -%}
    {%- set lost = none if readable else 'version ' ~ source.version ~ ' of the upstream can no longer be read' -%}
    {%- if readable and dbt_backfill.has_changes(state, plan) -%}
        {%- set lost = dbt_backfill.find_feed_gap(backfill, observed, dbt_backfill.get_feed_start(state)) -%}
    {%- endif -%}
    {%- if plan.get('generation') -%} {%- set lost = dbt_backfill.find_lost_generation(plan) -%} {%- endif -%}
    {%- set stage = none if is_given_up or plan.get('generation') else dbt_backfill.get_source(plan, 'stage') -%}
    {%- if stage and not lost and not dbt_backfill.is_stage_kept(stage) -%} {%- set lost = 'the rows that were staged for it are gone' -%} {%- endif -%}
    {#- A reset whose query cannot be executed is left by changing the model. -#}
    {%- set wanted = not rebuild or dbt_backfill.replaces_mv(plan) and dbt_backfill._has_configured_shape(backfill, plan)
            and not dbt_backfill.find_difference(backfill, state.settings, dbt_backfill.new_learned(), plan) -%}
    {%- if is_given_up or (not lost and wanted) -%}
        {%- if not is_given_up and not plan.get('generation') -%}
            {%- do dbt_backfill.check_model_of_plan(dbt_backfill._get_planned_model(backfill, state, plan), state.settings, plan) -%}
        {%- endif -%}
        {%- do dbt_backfill.report_adoption(plan) -%}
        {{ return({'plan': plan, 'guarded': not is_given_up and dbt_backfill.has_gone_on(backfill, plan, observed)}) }}
    {%- endif -%}
    {%- set given_up = dbt_backfill.mark_abandoned(backfill, state, plan, lost or rebuild) -%}
    {%- if given_up is none -%} {%- do dbt_backfill.refuse_overtaken(plan) -%} {%- endif -%}
    {{ return({'plan': given_up, 'guarded': false}) }}
{% endmacro %}


{#- Whether the MV begins anew with the vnodes, and in the order, of the config. One that is put in place has come to its end. -#}
{% macro _has_configured_shape(backfill, plan) %}
    {{ return(plan.vnode_count == backfill.options.vnode_count
        and (plan.get('generation') is not none or dbt_backfill.get_order(plan.key) == backfill.options.backfill_order)) }}
{% endmacro %}


{#-
    The model as it was when a plan of the committed query was made, if it returns other columns by now: the MV gets these
    once that plan is executed. A run whose query differs otherwise was refused before, or rebuilds the MV.
-#}
{% macro _get_planned_model(backfill, state, plan) %}
    {%- if not dbt_backfill.alters_columns(backfill) or plan.query_hash != state.committed.query_hash -%}
        {{ return(backfill) }}
    {%- endif -%}
    {{ return(dict(backfill, query=plan.query, query_hash=plan.query_hash)) }}
{% endmacro %}


{#-
    Refuse a plan of another deployment of the model, which first made or rebuilt the MV while this run was alive: what its
    query makes of a row may depend on settings that this session does not have. A rescale makes nothing of a row.

    Arguments:
      settings (dict): the session's, see session_settings.
      views (list): the temporary views to drop before.
-#}
{% macro check_model_of_plan(backfill, settings, plan, views=[]) %}
    {%- if plan.kind == 'rescale' -%} {{ return(none) }} {%- endif -%}
    {%- set difference = dbt_backfill.find_difference(backfill, settings, dbt_backfill.new_learned(), plan) -%}
    {%- if difference -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {#- Such as one whose new column fails on a row that is there, which its own query does at every run. -#}
        {%- set instead = ', or give that plan up: ' ~ dbt_backfill.get_operation_text('abandon_plan', '{model: '
            ~ dbt_backfill.get_model_name(model) ~ '}') if plan.get('fills') or plan.get('drops') else '' -%}
        {%- do dbt_backfill.refuse(
            'another run has planned its barrier ' ~ plan.epoch ~ ', and between that run and this one ' ~ difference,
            'Let one deployment of the model run' ~ instead ~ '. Nothing of this barrier was written by this run'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Whether the upstream has gone on since a plan was made, so that the next plan would read another version. -#}
{% macro has_gone_on(backfill, plan, observed) %}
    {%- set source = dbt_backfill.get_source(plan, 'feed' if backfill.feed else 'upstream') -%}
    {%- set followed = observed.feed if backfill.feed else observed -%}
    {{ return(dbt_backfill.get_source(plan).get('version') is not none and (source or {}).get('version') != followed.version) }}
{% endmacro %}


{#- One line where a run goes on with a plan that an earlier one left, which may fail again as it did there. -#}
{% macro report_adoption(plan) %}
    {%- if plan.kind == 'abandon' -%} {{ return(none) }} {%- endif -%}
    {%- set name = dbt_backfill.get_model_name(model) -%}
    {%- do log(
        name ~ ' goes on with barrier ' ~ plan.epoch ~ ' (' ~ plan.kind ~ '), which was planned at ' ~ plan.planned_at
            ~ ' and not committed. Should it fail on a row, correct that upstream and run again; to give the plan up: '
            ~ dbt_backfill.get_operation_text('abandon_plan', '{model: ' ~ name ~ '}'),
        info=true
    ) -%}
{% endmacro %}
