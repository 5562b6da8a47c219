{#-
    Statement that creates the MV, empty, if there is none.

    Arguments:
      columns (list of {'name', 'type'}): of the model's query.
-#}
{% macro get_create_mv_sql(mv, columns, backfill_id) -%}
    create table if not exists {{ mv.render() }} (
        {%- for column in columns %}
        {{ dbt_backfill.identifier(column.name) }} {{ dbt_backfill.type_sql(column.type) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {{ dbt_backfill.mv_clauses(mv, columns, backfill_id) }}
{%- endmacro %}


{#-
    Statement that replaces the MV by an empty one, unless it is fenced. On Iceberg it notes by which run,
    see get_reset_id.

    DELETE and TRUNCATE would not stop a MERGE that is past its fence: its rows would come back. Replacing the
    table does, because it changes the table's metadata.
-#}
{% macro get_replace_mv_sql(mv, columns, plan, fence) -%}
    create or replace table {{ mv.render() }}
    {{ dbt_backfill.mv_clauses(mv, columns, plan.backfill_id, dbt_backfill.get_reset_id(plan)) }}
    as
    {{ dbt_backfill.get_no_row_sql(columns, fence) }}
{%- endmacro %}


{#-
    Which run has replaced the MV for which plan. On Iceberg, where a table is replaced whatever was committed since, a reset
    that comes late is known by it: it is not the one that was committed, be it of the same plan.
-#}
{% macro get_reset_id(plan) %}
    {{ return(plan.plan_id ~ ' of ' ~ invocation_id) }}
{% endmacro %}


{#- A select of these columns that returns nothing; but Spark finds that out only by evaluating the fence in it. -#}
{% macro get_no_row_sql(columns, fence) -%}
    select
        {%- for column in columns %}
        cast(null as {{ dbt_backfill.type_sql(column.type) }}) as {{ dbt_backfill.identifier(column.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (select {{ fence }} as fenced)
    where not fenced
{%- endmacro %}


{#-
    Statement that replaces the MV by a table without any column, unless it is fenced. A Hive metastore does not let
    an Iceberg table be replaced by one that has another type at the place of a column.
-#}
{% macro get_columnless_mv_sql(mv, plan, fence) -%}
    create or replace table {{ mv.render() }}
    {{ dbt_backfill.table_clauses(mv, dbt_backfill.mv_table_properties([], plan.backfill_id, reset_id=dbt_backfill.get_reset_id(plan))) }}
    as
    select * except (fenced)
    from (select {{ fence }} as fenced)
    where not fenced
{%- endmacro %}


{% macro mv_clauses(mv, columns, backfill_id, reset_id=none) -%}
    {%- set fields = modules.re.findall('`([^`]*)`', columns | map(attribute='type') | join(' ')) -%}
    {%- set names = columns | map(attribute='name') | list + fields -%}
    {%- set types = columns | map(attribute='type') | list -%}
    {{ dbt_backfill.table_clauses(mv, dict(
        dict(dbt_backfill.mv_table_properties(names, backfill_id, types, reset_id), **{'dbt_backfill.mv': mv.render()}),
        **dbt_backfill.partition_properties(dbt_backfill.get_configured_partitions())
    )) }}
    {{ options_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {{ dbt_backfill.cluster_clause() }}
{%- endmacro %}


{#- The columns that one of dbt-spark's options names, `partition_by` or `clustered_by`, as a list. -#}
{% macro get_layout_columns(option) %}
    {%- set columns = config.get(option) or [] -%}
    {{ return([columns] if columns is string else columns) }}
{% endmacro %}


{#- dbt-spark's buckets, or liquid clustering where `clustered_by` stands without `buckets`. -#}
{% macro cluster_clause() -%}
    {%- set columns = dbt_backfill.get_layout_columns('clustered_by') -%}
    {%- if columns and config.get('buckets') -%}
        {{ clustered_cols(label='clustered by') }}
    {%- elif columns -%}
        cluster by ({{ columns | join(', ') }})
    {%- endif -%}
{%- endmacro %}


{#-
    The columns of a query, as a list of {'name', 'type'}. Spark prints a type without the quotes that its fields' names
    need to be read again, and shortens a struct of more than 25 fields.
-#}
{% macro get_query_columns(query) %}
    {%- set sql = 'describe query\n' ~ query | trim | trim(';') -%}
    {%- set rows = dbt_backfill.run_table('describe the query', sql) -%}
    {%- if ' more fields' in rows | map(attribute=1) | join(' ') -%}
        {%- do dbt_backfill.show_whole_types() -%}
        {%- set rows = dbt_backfill.run_table('describe the query', sql) -%}
    {%- endif -%}
    {%- set columns = [] -%}
    {%- for row in rows -%}
        {%- set type = modules.re.sub('(?<=[<,])([^<>,:`]*[^<>,:`\\w][^<>,:`]*)(?=:)', '`\\1`', row[1]) -%}
        {%- do columns.append({'name': row[0], 'type': type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#-
    The same of a table. dbt's own listing of columns ends at the first one whose name begins with `#`.
-#}
{% macro get_table_columns(relation) %}
    {{ return(dbt_backfill.get_query_columns('select * from ' ~ relation.render())) }}
{% endmacro %}


{#- The types of a table's columns by their names in lower case. -#}
{% macro get_column_types(relation) %}
    {{ return(dbt_backfill.types_by_name(dbt_backfill.get_table_columns(relation))) }}
{% endmacro %}


{#- The same of columns that are known. -#}
{% macro types_by_name(columns) %}
    {%- set types = {} -%}
    {%- for column in columns -%} {%- do types.update({column.name | lower: column.type}) -%} {%- endfor -%}
    {{ return(types) }}
{% endmacro %}


{#- The columns of the MV: those of its query as the barriers read it, over their own name for the upstream. -#}
{% macro get_mv_columns(backfill, query, upstream) %}
    {{ return(dbt_backfill.get_query_columns(
        dbt_backfill.get_query_sql(query, backfill.upstream.relation, 'select * from ' ~ upstream)
    )) }}
{% endmacro %}
