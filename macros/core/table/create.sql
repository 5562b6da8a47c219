{#- What has to be known about the query's columns before the tables are created. -#}
{% macro prepare_creation(backfill) %}
    {#- Not of the model's own text: the barriers' name for the upstream has no metadata columns and no branches. -#}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- do dbt_backfill.check_table_properties() -%}
    {%- do dbt_backfill.check_columns(columns, dbt_backfill.mv_table_properties([], '')) -%}
    {%- do dbt_backfill.check_constraints(
        dbt_backfill.get_query_sql(backfill.query, backfill.upstream.relation, 'select * from ' ~ backfill.upstream.relation.render())
    ) -%}
    {%- do dbt_backfill._check_clauses() -%}
    {%- do dbt_backfill.check_location(backfill.mv) -%}
    {%- do dbt_backfill._check_columns_of_clauses(columns | map(attribute='name') | map('lower') | list) -%}
    {{ return(columns) }}
{% endmacro %}


{#- Refuse how no Delta table can be laid out: Delta says so only when the state stands already. -#}
{% macro _check_clauses() %}
    {%- if dbt_backfill.get_file_format() != 'delta' or not config.get('clustered_by') -%} {{ return(none) }} {%- endif -%}
    {%- if config.get('buckets') -%}
        {%- do dbt_backfill.refuse(
            'buckets is ' ~ config.get('buckets') ~ ', and a Delta table has none',
            'Remove buckets: clustered_by alone is liquid clustering'
        ) -%}
    {%- elif config.get('partition_by') -%}
        {%- do dbt_backfill.refuse(
            'partition_by and clustered_by are both set, and a Delta table is partitioned or clustered', 'Remove one of them'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse to rebuild a Delta table elsewhere: it is replaced where it stands, and Delta fails once the rebuild is planned. -#}
{% macro check_location(mv) %}
    {%- if dbt_backfill.get_file_format() != 'delta' or not config.get('location_root') -%} {{ return(none) }} {%- endif -%}
    {%- set found = modules.re.search('Location: ([^\\n]*)', (dbt_backfill.load_table(mv) or {}).information or '') -%}
    {%- if not found -%} {{ return(none) }} {%- endif -%}
    {%- set wanted = config.get('location_root') ~ '/' ~ mv.identifier -%}
    {%- set paths = [] -%}
    {%- for place in [wanted, found.group(1)] -%}
        {#- Without its scheme and host, as Delta compares them. -#}
        {%- do paths.append(modules.re.sub('/+', '/', modules.re.sub('^\\w+:(//[^/]*)?', '', place)).rstrip('/')) -%}
    {%- endfor -%}
    {#- A relative one is somewhere in Spark's own warehouse. -#}
    {%- set below = '/' ~ modules.re.sub('^(\\.{1,2}/)+', '', paths[0]) -%}
    {%- set stands_there = paths[1] == paths[0] if paths[0].startswith('/') else paths[1].endswith(below) -%}
    {%- if not stands_there -%}
        {%- do dbt_backfill.refuse(
            'it stands at ' ~ found.group(1) ~ ', and its location_root would place it at ' ~ wanted,
            'Set location_root to its place, or drop it first, if it is an MV by the run-operation drop_backfill'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse a column to partition or cluster by that the query does not return; Iceberg's transforms are left to Spark. -#}
{% macro _check_columns_of_clauses(names) %}
    {%- for option in ['partition_by', 'clustered_by'] -%}
        {%- for column in dbt_backfill.get_layout_columns(option)
                if modules.re.fullmatch('\\w+', column) and column | lower not in names -%}
            {%- do dbt_backfill.refuse(
                option ~ " names the column '" ~ column ~ "', which its query does not return",
                'Select that column, or name another one'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


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


{#-
    persist_docs, only where the descriptions changed: each comment is a commit of the MV, and a run that has
    nothing to do writes nothing. A hash of what was applied stands in the table property `dbt_backfill.docs`. What is described of a
    column that the MV does not have is not in it, so that one that comes later gets its comment.

    Arguments:
      found (dict or none): the MV as this run has found it, see observe_state; none if it has made it.
      state (dict): as the run has left it.
-#}
{% macro apply_docs(backfill, found, state) %}
    {%- if not config.persist_relation_docs() and not config.persist_column_docs() -%} {{ return(none) }} {%- endif -%}
    {%- set described = [model.description if config.persist_relation_docs() else none] -%}
    {%- set present = dbt_backfill.parse_columns(state.committed.query_columns) | map(attribute='name') | list -%}
    {%- for name, column in model.columns.items() if config.persist_column_docs() and name | lower in present | map('lower') -%}
        {%- do described.append([name, column.description]) -%}
    {%- endfor -%}
    {%- set docs = local_md5(tojson(described)) -%}
    {%- if found and found.docs == docs -%} {{ return(none) }} {%- endif -%}
    {%- if config.persist_relation_docs() -%}
        {%- do dbt_backfill.run_table('comment on the MV', 'comment on table ' ~ backfill.mv.render() ~ ' is '
            ~ dbt_backfill.string_literal(model.description)) -%}
    {%- endif -%}
    {%- if config.persist_column_docs() -%}
        {%- do dbt_backfill._comment_on_columns(backfill.mv, found, present) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_table('note the comments', 'alter table ' ~ backfill.mv.render()
        ~ " set tblproperties ('dbt_backfill.docs' = '" ~ docs ~ "')") -%}
{% endmacro %}


{#-
    dbt-spark's own persist_docs loses backslashes and `${…}` of a description. A column without one has no comment yet
    where the MV was just made, and may have one of before elsewhere.

    Arguments:
      present (list): the names of the columns that it has.
-#}
{% macro _comment_on_columns(mv, found, present) %}
    {%- for name, column in validate_doc_columns(mv, model.columns, present).items() if column.description or (found or {}).get('docs') -%}
        {%- do dbt_backfill.run_table('comment on ' ~ name, 'alter table ' ~ mv.render() ~ ' alter column '
            ~ dbt_backfill.identifier(name) ~ ' comment ' ~ dbt_backfill.string_literal(column.description)) -%}
    {%- endfor -%}
{% endmacro %}
