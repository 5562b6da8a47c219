{#-
    Run a statement that replaces the MV. Returns the snapshot at which an Iceberg MV was left by it, none on Delta.

    Iceberg replaces a table whatever was committed since. So another replacement that comes late may stand in the place of this one
    already, with other rows: then it is run again. Its commit finds one that comes later still, by the snapshot.

    Arguments:
      step (string): what it does.
-#}
{% macro run_replacement(backfill, plan, step, sql) %}
    {%- for _ in range(3) -%}
        {%- do dbt_backfill.run_table(step, sql) -%}
        {%- if backfill.options.file_format != 'iceberg' -%} {{ return(none) }} {%- endif -%}
        {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
        {%- if properties.get('dbt_backfill.reset', '').startswith(plan.plan_id ~ ' of ') and properties.get('current-snapshot-id') -%}
            {{ return(properties['current-snapshot-id']) }}
        {%- endif -%}
    {%- endfor -%}
    {%- do dbt_backfill.refuse_concurrent_run(plan) -%}
{% endmacro %}


{#-
    The statements that replace the MV by an empty one with the plan's columns, see get_steps.

    Arguments:
      columns (list or none): of the MV, if this run has looked at them.
-#}
{% macro get_reset_steps(backfill, plan, columns=none) %}
    {#- Known where this run has planned it. -#}
    {%- set columns = (columns if plan.query == backfill.query else none)
        or dbt_backfill.get_mv_columns(backfill, plan.query, dbt_backfill.get_source(plan).relation) -%}
    {%- set steps, fence = [], dbt_backfill.get_fence(backfill, plan) -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' and dbt_backfill.is_retyped(backfill.mv, columns) -%}
        {%- do steps.append({
            'name': 'take the columns off ' ~ backfill.mv.identifier,
            'sql': dbt_backfill.get_columnless_mv_sql(backfill.mv, plan, fence),
        }) -%}
    {%- endif -%}
    {%- do steps.append({
        'name': 'empty the MV in the barrier ' ~ plan.epoch,
        'sql': dbt_backfill.get_replace_mv_sql(backfill.mv, columns, plan, fence), 'replaces': true,
    }) -%}
    {{ return(steps) }}
{% endmacro %}


{#-
    Whether a column's type differs from that of the column which now is at its place, see get_columnless_mv_sql, or has
    its name: Iceberg would take it for the same, and the partitions of before may be by that column.
-#}
{% macro is_retyped(mv, columns) %}
    {%- set present = dbt_backfill.get_table_columns(mv) -%}
    {%- set types = dbt_backfill.types_by_name(present) -%}
    {%- for column in columns -%}
        {%- set at_its_place = present[loop.index0].type if loop.index0 < present | length else column.type -%}
        {%- if [at_its_place, types.get(column.name | lower, column.type)] != [column.type, column.type] -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    The statement that replaces the MV by the rows that the next generation had when the plan was made, whatever it has now. Grants
    belong to the table, which stays; the comments on columns come with the rows, and everything else is in the statement. Of a next
    generation without a version nothing was ever written. The fence is evaluated also where there is no row.
-#}
{% macro get_swap_sql(backfill, plan) -%}
    {%- set next = dbt_backfill.parse_relation(plan.generation.relation) -%}
    {%- set columns, fence = dbt_backfill.get_table_columns(next), dbt_backfill.get_fence(backfill, plan) -%}
    {#- The MV is partitioned as the config says by now. -#}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(
        dict(backfill, partitions=none), dbt_backfill.parse_columns(plan.query_columns)
    ) -%}
    {%- set version = plan.generation.get('version') -%}
    create or replace table {{ backfill.mv.render() }}
    {{ dbt_backfill.mv_clauses(backfill.mv, columns, plan.backfill_id, dbt_backfill.get_reset_id(plan)) }}
    {%- if config.persist_relation_docs() %}
    comment {{ dbt_backfill.string_literal(model.description) }}
    {%- endif %}
    as
    select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }}
    from {{ next.render() }}
    {%- if version is not none %} version as of {{ version }} {%- endif %}
    where {{ fence }} {{- ' and ' ~ kept if kept }} {%- if version is none %} and false {%- endif %}
    union all
    {{ dbt_backfill.get_fence_over_no_rows_sql(columns, fence) }}
{%- endmacro %}


{#- Why a planned swap cannot be executed any more; none if it can. -#}
{% macro find_lost_generation(plan) %}
    {%- set relation = dbt_backfill.parse_relation(plan.generation.relation) -%}
    {%- if not dbt_backfill.exists_with_id(relation, plan.generation.id) -%}
        {{ return(plan.generation.relation ~ ', which it puts in place, is gone') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}
