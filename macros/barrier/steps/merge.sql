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


{#- Whether the range of a plan is merged: there are rows in it, or, in a sweep, there may be some to take away. -#}
{% macro merges_range(plan) %}
    {{ return(plan.get('range_row_count') or plan.get('sweeps') and plan.get('range_row_count') is not none) }}
{% endmacro %}


{#-
    How many rows of the MV a MERGE wrote: {'changed', 'deleted'}, as numbers or SQL expressions for the commit.

    Delta returns that, but not from inside of a script, where it is null. Iceberg returns nothing and notes it in the summary of the
    snapshot that the MERGE made: the newest, or, where another MERGE of the barrier followed it, the one before.

    Arguments:
      counts (string): of which rows: 'changes', those of the stage, of which each one that the query returns is updated or inserted,
        and only the MERGE knows how many of the others there were to be deleted; 'all', of which nothing is known before; 'deleted'.
      merged (dict): what run_merge returned.
      staged (dict or none): as stage_changes returned it.
-#}
{% macro get_merge_counts(backfill, plan, counts, merged, staged=none) %}
    {%- set count = dbt_backfill.count_of_merge -%}
    {%- if counts == 'changes' -%}
        {{ return({'changed': staged.upserts, 'deleted': count(backfill, plan, merged, 'deleted') if staged.drops else 0}) }}
    {%- elif counts == 'deleted' -%}
        {{ return({'changed': 0, 'deleted': count(backfill, plan, merged, 'deleted')}) }}
    {%- endif -%}
    {{ return({
        'changed': count(backfill, plan, merged, 'updated') ~ ' + ' ~ count(backfill, plan, merged, 'inserted'),
        'deleted': count(backfill, plan, merged, 'deleted'),
    }) }}
{% endmacro %}


{#- `action`: `updated`, `inserted` or `deleted`. -#}
{% macro count_of_merge(backfill, plan, merged, action) -%}
    {%- if backfill.options.file_format == 'delta' -%}
        {%- set name = 'num_' ~ action ~ '_rows' -%}
        {%- if merged.guarded -%} {{ return('cast(null as bigint)') }} {%- endif -%}
        {%- set result = merged.result -%}
        {{ return(result[0][name] | int if result and name in result.column_names else 0) }}
    {%- endif -%}
    {%- set name = 'spark.merge-into.num-target-rows-' -%}
    {%- set range_follows = dbt_backfill.reads_range(plan) and dbt_backfill.merges_range(plan) and not plan.at_once -%}
    {%- set sql -%}
        (
            select max(cast(summary['{{ name ~ action }}'] as bigint))
            from (
                select summary, row_number() over (order by committed_at desc) as number
                from {{ backfill.mv.render() }}.snapshots
                where summary['{{ name }}inserted'] is not null
            )
            where number = {{ 2 if range_follows or plan.get('touched') else 1 }}
        )
    {%- endset -%}
    {{ return(sql) }}
{%- endmacro %}


{#- The counts of a committed plan; without those that are not known. -#}
{% macro get_committed_counts(committed) %}
    {%- if committed.get('changed_row_count') is none -%} {{ return({}) }} {%- endif -%}
    {%- set counts = {'changed': committed.changed_row_count} -%}
    {%- if committed.get('deleted_row_count') is not none -%} {%- do counts.update({'deleted': committed.deleted_row_count}) -%} {%- endif -%}
    {{ return(counts) }}
{% endmacro %}
