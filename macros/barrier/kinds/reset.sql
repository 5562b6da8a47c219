{#-
    A reset (a full refresh): the MV is replaced by an empty one of the plan's query, and no vnode has started. Its changes
    and ranges are read by the barriers after it.
-#}
{% macro reset_traits() %}
    {{ return({'follows': false, 'reads_range': false, 'replaces_mv': true, 'gives_up': false, 'rescales': false}) }}
{% endmacro %}


{% macro reset_scan(backfill, state, plan) %}
    {{ return(none) }}
{% endmacro %}


{% macro reset_follows_feed(plan) %}
    {{ return(false) }}
{% endmacro %}


{% macro reset_execute(backfill, state, plan, work) %}
    {{ return({'failed': none, 'counts': {}, 'left_at': dbt_backfill.run_reset(backfill, plan, work.columns)}) }}
{% endmacro %}


{#- A progress table that was made for another key or number of vnodes gets new rows, see get_reshape_statements. -#}
{% macro reset_columns(state, plan) %}
    {{ return(dbt_backfill.get_not_started_columns(plan)) }}
{% endmacro %}


{% macro reset_report(barrier) %}
    {{ return(['emptied: ' ~ barrier.plan.reason]) }}
{% endmacro %}


{#- Its step: the MV is replaced by an empty one with the plan's columns. Returns what run_replacement does. -#}
{% macro run_reset(backfill, plan, columns=none) %}
    {#- Known where this run has planned it. -#}
    {%- set columns = (columns if plan.query == backfill.query else none)
        or dbt_backfill.get_mv_columns(backfill, plan.query, dbt_backfill.get_source(plan).relation) -%}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' and dbt_backfill.is_retyped(backfill.mv, columns) -%}
        {%- do dbt_backfill.run_table(
            'take the columns off ' ~ backfill.mv.identifier,
            dbt_backfill.get_columnless_mv_sql(backfill.mv, plan, fence)
        ) -%}
    {%- endif -%}
    {%- set sql = dbt_backfill.get_replace_mv_sql(backfill.mv, columns, plan, fence) -%}
    {{ return(dbt_backfill.run_replacement(backfill, plan, 'empty the MV', sql)) }}
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
