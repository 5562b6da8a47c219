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
