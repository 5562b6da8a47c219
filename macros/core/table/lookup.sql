{#-
    Return a table as dbt's cache knows it, none if it does not exist. The cache knows the schemas of the session's own catalog; Spark is asked
    for a table of another one, which is named by three parts.
-#}
{% macro load_table(relation) %}
    {%- if dbt_backfill.get_catalog(relation) is none -%} {{ return(adapter.get_relation(none, relation.schema, relation.identifier)) }} {%- endif -%}
    {{ return(dbt_backfill.find_table(relation)) }}
{% endmacro %}


{#- True if dbt's cache lists a table, so that no statement is sent: false for one of another catalog, whose tables it does not know. -#}
{% macro is_listed(relation) %}
    {{ return(dbt_backfill.get_catalog(relation) is none and dbt_backfill.load_table(relation) is not none) }}
{% endmacro %}


{#- Return a table as Spark knows it now, none if it does not exist. -#}
{% macro find_table(relation) %}
    {%- set sql = 'show table extended in ' ~ relation.include(identifier=false).render() ~ ' like '
        ~ dbt_backfill.string_literal(relation.identifier) -%}
    {%- for row in dbt_backfill.run_table('find ' ~ relation.identifier, sql) if row[1] | lower == relation.identifier | lower -%}
        {{ return(relation.incorporate(type='view' if 'Type: VIEW' in row[3] else 'table', information=row[3])) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the schemas of the session's own catalog, in lower case and without quotes. -#}
{% macro read_schemas() %}
    {%- set schemas = [] -%}
    {%- for row in dbt_backfill.run_table('list the schemas', 'show schemas') -%}
        {%- do schemas.append(row[0] | replace('`', '') | lower) -%}
    {%- endfor -%}
    {{ return(schemas) }}
{% endmacro %}


{#- Return the relation that a text names with its schema, as it is rendered; none of any other text. -#}
{% macro parse_relation(text) %}
    {%- set parts = modules.re.fullmatch('(?s)(.+?)\\.(?:`(.*)`|([^`.]+))', text) -%}
    {%- if not parts -%} {{ return(none) }} {%- endif -%}
    {%- set schema, quoted, plain = parts.groups() -%}
    {#- Where dbt looks a table up, a schema has no quotes. -#}
    {%- set quoted_schema = modules.re.fullmatch('`([^`]+)`', schema) -%}
    {%- set relation = api.Relation.create(schema=quoted_schema.group(1) if quoted_schema else schema, identifier=quoted or plain) -%}
    {%- if quoted_schema -%} {%- set relation = relation.quote(schema=true) -%} {%- endif -%}
    {{ return(relation.quote(identifier=true) if quoted else relation) }}
{% endmacro %}


{#- Return the catalog of a relation that is named by three parts; none for the session's own. -#}
{% macro get_catalog(relation) %}
    {{ return(relation.schema.split('.')[0] if '.' in relation.schema else none) }}
{% endmacro %}


{#-
    Return the table properties of a relation. Spark shows `*********(redacted)` for one in whose name or value it sees a secret or a URL, such
    as a constraint of a column `url`. The detail of a Delta table shows all of them.
-#}
{% macro read_table_properties(relation) %}
    {%- set properties = {} -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, 'show tblproperties ' ~ relation.render()) -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- if 'delta.minReaderVersion' in properties and dbt_backfill.is_redacted(properties.values() | join(' ')) -%}
        {%- do properties.update(dbt_backfill.read_delta_detail(relation).properties) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Return the table properties of what was looked up by this name, `existing`: {} of a view, and where there is nothing. -#}
{% macro read_listed_properties(existing, relation) %}
    {{ return({} if existing is none or existing.is_view else dbt_backfill.read_table_properties(relation)) }}
{% endmacro %}


{#- True if Spark does not show the value of a property, or one among several. -#}
{% macro is_redacted(value) %}
    {{ return('*(redacted)' in (value or '')) }}
{% endmacro %}


{#- Return the detail of a Delta table: {'id', 'properties', 'partitions': the names of the columns that partition it, as text}. -#}
{% macro read_delta_detail(relation) %}
    {%- set row = dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe detail ' ~ relation.render())[0] -%}
    {%- set properties = row['properties'] -%}
    {{ return({
        'id': row['id'],
        'properties': fromjson(properties) if properties is string else (properties or {}),
        'partitions': row.get('partitionColumns') | string,
    }) }}
{% endmacro %}


{#- Return the type with which a table of a format keeps a column: Iceberg has no integers of less than 32 bits. -#}
{% macro get_kept_type(type, file_format) %}
    {{ return('int' if file_format == 'iceberg' and type in ['tinyint', 'smallint'] else type) }}
{% endmacro %}


{#-
    The WHEN MATCHED clause of a MERGE that has only rows to insert: none on Delta, which is fastest without one. Iceberg checks a MERGE for
    conflicts only if it has one: without it two runs both appended their rows.

    Arguments:
      file_format (str): of the table; by default that of the model.
-#}
{% macro get_iceberg_matched_clause(action, file_format=none) -%}
    {%- if (file_format or dbt_backfill.get_file_format()) == 'iceberg' %}when matched then {{ action }}{% endif -%}
{%- endmacro %}
