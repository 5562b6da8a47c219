{#- The step of a reset (a full refresh): the MV is replaced by an empty one with the plan's columns. -#}
{% macro run_reset(backfill, plan) %}
    {#- Known where this run has planned it. -#}
    {%- set columns = (backfill.get('columns') if plan.query == backfill.query else none)
        or dbt_backfill.get_query_columns(dbt_backfill.get_query_sql(
            plan.query, backfill.upstream.relation, 'select * from ' ~ plan.upstream
        )) -%}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' and dbt_backfill._has_retyped_places(backfill.mv, columns) -%}
        {%- do dbt_backfill.run_table(
            'take the columns off ' ~ backfill.mv.identifier,
            dbt_backfill.get_columnless_mv_sql(backfill.mv, plan.backfill_id, fence)
        ) -%}
    {%- endif -%}
    {%- set sql = dbt_backfill.get_replace_mv_sql(backfill.mv, columns, plan.backfill_id, fence) -%}
    {%- do dbt_backfill.run_table('empty the MV in the barrier ' ~ plan.epoch, sql) -%}
    {%- do persist_constraints(backfill.mv, model) -%}
{% endmacro %}


{#- Whether a column's type differs from that of the column which now is at its place: see get_columnless_mv_sql. -#}
{% macro _has_retyped_places(mv, columns) %}
    {%- set shared = zip(dbt_backfill.get_table_columns(mv), columns) -%}
    {%- set retyped = [] -%}
    {%- for old, new in shared if old.type != new.type -%}
        {%- do retyped.append(new.name) -%}
    {%- endfor -%}
    {{ return(retyped != []) }}
{% endmacro %}
