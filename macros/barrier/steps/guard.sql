{#-
    Run a statement that writes the MV. That of a plan which an earlier run left, and which may be given up since the upstream
    has gone on, is guarded: where it fails, that is told, and nothing is raised. (Jinja catches no error; a script of SQL
    does.) So a row on which the query or a constraint fails does not hold the MV for ever once it was corrected upstream.

    Returns {'guarded', 'failed': the step if it failed, none as a rule, 'result': dbt's table, none if it was guarded}.
-#}
{% macro run_merge(backfill, work, step, sql) %}
    {%- if not work.guarded -%}
        {{ return({'guarded': false, 'failed': none, 'result': dbt_backfill.run_table(step, sql, backfill.mv)}) }}
    {%- endif -%}
    {%- set script -%}
        begin
            {{ dbt_backfill.declare_guard() }}
            {{ sql }};
            select to_json(named_struct('done', true));
        end
    {%- endset -%}
    {%- set failed = dbt_backfill.find_failure(backfill, step, dbt_backfill.run_json(step, script)[0]) -%}
    {{ return({'guarded': true, 'failed': failed, 'result': none}) }}
{% endmacro %}


{#- The handlers of such a script; Delta's conflicts with another run have a state of their own. -#}
{% macro declare_guard() -%}
    declare exit handler for sqlstate '2D521' begin select to_json(named_struct('conflict', true)); end;
    declare exit handler for sqlexception begin select to_json(named_struct('failed', true)); end;
{%- endmacro %}


{#- The step if its result is that of a handler, none if it is not. -#}
{% macro find_failure(backfill, step, result) %}
    {%- if result.get('conflict') -%}
        {%- do dbt_backfill.refuse(
            'another run or a compaction wrote to ' ~ backfill.mv.render() ~ ' while this one went on with its barrier',
            'Nothing is lost; run again to continue'
        ) -%}
    {%- endif -%}
    {{ return(step if result.get('failed') else none) }}
{% endmacro %}
