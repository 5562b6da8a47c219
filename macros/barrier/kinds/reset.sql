{#- The step of a reset (a full refresh): the MV is replaced by an empty one with the plan's columns. -#}
{% macro run_reset(backfill, plan) %}
    {#- Known where this run has planned it. -#}
    {%- set columns = (backfill.get('columns') if plan.query == backfill.query else none)
        or dbt_backfill.get_mv_columns(backfill, plan.query, dbt_backfill.get_source(plan).relation) -%}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' and dbt_backfill._is_retyped(backfill.mv, columns) -%}
        {%- do dbt_backfill.run_table(
            'take the columns off ' ~ backfill.mv.identifier,
            dbt_backfill.get_columnless_mv_sql(backfill.mv, plan.backfill_id, fence)
        ) -%}
    {%- endif -%}
    {%- set sql = dbt_backfill.get_replace_mv_sql(backfill.mv, columns, plan.backfill_id, fence) -%}
    {%- do dbt_backfill.run_table('empty the MV in the barrier ' ~ plan.epoch, sql) -%}
{% endmacro %}


{#-
    Whether a column's type differs from that of the column which now is at its place, see get_columnless_mv_sql, or has
    its name: Iceberg would take it for the same, and the partitions of before may be by that column.
-#}
{% macro _is_retyped(mv, columns) %}
    {%- set present = dbt_backfill.get_table_columns(mv) -%}
    {%- set types = {} -%}
    {%- for column in present -%} {%- do types.update({column.name | lower: column.type}) -%} {%- endfor -%}
    {%- for column in columns -%}
        {%- set at_its_place = present[loop.index0].type if loop.index0 < present | length else column.type -%}
        {%- if [at_its_place, types.get(column.name | lower, column.type)] != [column.type, column.type] -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}
