{#-
    How many rows of the MV a MERGE wrote: {'changed', 'deleted'}, as numbers or SQL expressions for the commit.

    Delta returns them, but not from inside of a script, where they are null. Iceberg returns nothing and notes them in
    the summary of the snapshot that the MERGE made: the newest, or, where the barrier's range was merged after it, the
    one before.
-#}
{% macro get_merge_counts(backfill, plan, result) %}
    {%- if dbt_backfill.get_file_format() == 'delta' -%}
        {%- if backfill.guarded -%} {{ return({'changed': 'cast(null as bigint)', 'deleted': 'cast(null as bigint)'}) }} {%- endif -%}
        {%- if not result or 'num_deleted_rows' not in result.column_names -%} {{ return({'changed': 0, 'deleted': 0}) }} {%- endif -%}
        {{ return({
            'changed': (result[0]['num_updated_rows'] + result[0]['num_inserted_rows']) | int,
            'deleted': result[0]['num_deleted_rows'] | int,
        }) }}
    {%- endif -%}
    {%- set count = "cast(summary['spark.merge-into.num-target-rows-" -%}
    {%- set bigint = "'] as bigint)" -%}
    {{ return({
        'changed': dbt_backfill._count_of_merge(backfill.mv, plan, count ~ 'updated' ~ bigint ~ ' + ' ~ count ~ 'inserted' ~ bigint),
        'deleted': dbt_backfill._count_of_merge(backfill.mv, plan, count ~ 'deleted' ~ bigint),
    }) }}
{% endmacro %}


{% macro _count_of_merge(mv, plan, count) -%}
    (
        select max({{ count }})
        from (
            select summary, row_number() over (order by committed_at desc) as number
            from {{ mv.render() }}.snapshots
            where summary['spark.merge-into.num-target-rows-inserted'] is not null
        )
        where number = {{ 2 if plan.get('range_row_count') or plan.get('touched') else 1 }}
    )
{%- endmacro %}


{#- The counts of a committed plan, empty if they are not known. -#}
{% macro get_committed_counts(committed) %}
    {%- if committed.get('changed_row_count') is none -%} {{ return({}) }} {%- endif -%}
    {{ return({'changed': committed.changed_row_count, 'deleted': committed.get('deleted_row_count') or 0}) }}
{% endmacro %}
