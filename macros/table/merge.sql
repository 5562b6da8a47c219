{#-
    The WHEN MATCHED clause of a MERGE that has only rows to insert: none on Delta, which is fastest without one.
    Iceberg checks a MERGE for conflicts only if it has one; without it two runs both appended their rows.

    Arguments:
      file_format (str): of the table; by default that of the model.
-#}
{% macro get_matched_clause(action, file_format=none) -%}
    {%- if (file_format or dbt_backfill.get_file_format()) == 'iceberg' %}when matched then {{ action }}{% endif -%}
{%- endmacro %}


{#- Whether the range of a plan is merged: there are rows in it, or, in a sweep, there may be some to take away. -#}
{% macro merges_range(plan) %}
    {{ return(plan.get('range_row_count') or plan.get('sweeps') and plan.get('range_row_count') is not none) }}
{% endmacro %}


{#-
    How many rows of the MV a MERGE of changes wrote: {'changed', 'deleted'}, as numbers or SQL expressions for the commit.
    Each staged row that the query returns is updated or inserted. How many of the others there were to be deleted only
    the MERGE knows.

    Delta returns that, but not from inside of a script, where it is null. Iceberg returns nothing and notes it in
    the summary of the snapshot that the MERGE made: the newest, or, where the barrier's range was merged after it, the
    one before.

    Arguments:
      merged (dict): what run_merge returned.
-#}
{% macro get_merge_counts(backfill, plan, staged, merged) %}
    {{ return({'changed': staged.upserts, 'deleted': dbt_backfill.count_of_merge(backfill, plan, merged, 'deleted') if staged.drops else 0}) }}
{% endmacro %}


{#- The same of a re-anchor, of which nothing is known before. -#}
{% macro get_reanchor_counts(backfill, plan, merged) %}
    {%- set count = dbt_backfill.count_of_merge -%}
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
    {%- set range_follows = dbt_backfill.get_traits(plan).reads_range and dbt_backfill.merges_range(plan) and not plan.at_once -%}
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
