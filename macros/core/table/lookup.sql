{#-
    A table as dbt's cache knows it, none if it does not exist. dbt's cache knows the schemas of the session's own
    catalog; a table of another one, which is named by three parts, is asked for.
-#}
{% macro load_table(relation) %}
    {%- if dbt_backfill.get_catalog(relation) is none -%}
        {{ return(adapter.get_relation(none, relation.schema, relation.identifier)) }}
    {%- endif -%}
    {{ return(dbt_backfill.find_table(relation)) }}
{% endmacro %}


{#- A table as Spark knows it now, none if it does not exist. -#}
{% macro find_table(relation) %}
    {%- set sql = 'show table extended in ' ~ relation.include(identifier=false).render() ~ ' like ' ~ dbt_backfill.string_literal(relation.identifier) -%}
    {%- for row in dbt_backfill.run_table('find ' ~ relation.identifier, sql) if row[1] | lower == relation.identifier | lower -%}
        {{ return(relation.incorporate(type='view' if 'Type: VIEW' in row[3] else 'table', information=row[3])) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- The schemas of the session's own catalog, in small letters and without quotes. -#}
{% macro read_schemas() %}
    {%- set schemas = [] -%}
    {%- for row in dbt_backfill.run_table('list the schemas', 'show schemas') -%} {%- do schemas.append(row[0] | replace('`', '') | lower) -%} {%- endfor -%}
    {{ return(schemas) }}
{% endmacro %}


{#- The relation of a text that names it with its schema, as it is rendered; none of any other text. -#}
{% macro parse_relation(text) %}
    {%- set parts = modules.re.fullmatch('(?s)(.+?)\\.(?:`(.*)`|([^`.]+))', text) -%}
    {%- if not parts -%} {{ return(none) }} {%- endif -%}
    {%- set schema, quoted, plain = parts.groups() -%}
    {#- Where dbt looks a table up, a schema has no quotes. -#}
    {%- set quoted_schema = modules.re.fullmatch('`([^`]+)`', schema) -%}
    {%- set relation = api.Relation.create(
        schema=quoted_schema.group(1) if quoted_schema else schema, identifier=quoted or plain
    ) -%}
    {%- if quoted_schema -%} {%- set relation = relation.quote(schema=true) -%} {%- endif -%}
    {{ return(relation.quote(identifier=true) if quoted else relation) }}
{% endmacro %}


{#- The catalog of a relation that is named by three parts; none for the session's own. -#}
{% macro get_catalog(relation) %}
    {{ return(relation.schema.split('.')[0] if '.' in relation.schema else none) }}
{% endmacro %}


{#-
    The table properties of a relation, as a dict. Spark shows `*********(redacted)` for one in whose name or value it sees a secret
    or a URL, such as a constraint of a column `url`; of a Delta table the detail has all of them.
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


{#- Those of what was looked up by this name, `existing`: {} of a view, and where there is nothing. -#}
{% macro read_listed_properties(existing, relation) %}
    {{ return({} if existing is none or existing.is_view else dbt_backfill.read_table_properties(relation)) }}
{% endmacro %}


{#- Whether Spark does not show the value of a property, or one among several. -#}
{% macro is_redacted(value) %}
    {{ return('*(redacted)' in (value or '')) }}
{% endmacro %}


{#- `describe detail` of a Delta table: {'id', 'properties', 'partitions': the names of the columns that partition it, as text}. -#}
{% macro read_delta_detail(relation) %}
    {%- set row = dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe detail ' ~ relation.render())[0] -%}
    {%- set properties = row['properties'] -%}
    {{ return({
        'id': row['id'],
        'properties': fromjson(properties) if properties is string else (properties or {}),
        'partitions': row.get('partitionColumns') | string,
    }) }}
{% endmacro %}


{#-
    The provider of a table: `delta`, `iceberg` or another. A relation that was built in this same invocation
    stands in dbt's cache as its materialization returned it, without one, so Spark is asked. A table of Iceberg's
    Hive catalog is listed as a Hive table with a property.
-#}
{% macro get_table_format(relation, name=none) %}
    {%- set information = relation.information or '' -%}
    {%- if relation.is_delta or relation.is_iceberg -%}
        {{ return('delta' if relation.is_delta else 'iceberg') }}
    {%- elif 'table_type=ICEBERG' in information or 'Provider: iceberg' in information -%}
        {{ return('iceberg') }}
    {%- elif 'Provider:' in information -%}
        {{ return(modules.re.search('Provider: (\\w*)', information).group(1)) }}
    {%- endif -%}
    {%- set described = 'describe extended ' ~ (name or relation).render() -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, described) if row[0] == 'Provider' -%}
        {{ return(row[1]) }}
    {%- endfor -%}
    {%- set catalog = dbt_backfill.get_catalog(name or relation) -%}
    {%- if catalog and dbt_backfill._is_jdbc_catalog(catalog) -%} {{ return('postgres') }} {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Whether a catalog of the session is one of Spark's for JDBC. Its URL would tell which database it is, and Spark does not show it.
    SET itself takes a comment behind it for a part of the name.
-#}
{% macro _is_jdbc_catalog(catalog) %}
    {%- set statement = 'execute immediate ' ~ dbt_backfill.string_literal('set spark.sql.catalog.' ~ catalog) -%}
    {%- for row in dbt_backfill.run_table('look at the catalog ' ~ catalog, statement) -%}
        {{ return((row[1] | string).endswith('.JDBCTableCatalog')) }}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- As which type a table of a format keeps a column: Iceberg has no integers of less than 32 bits. -#}
{% macro get_kept_type(type, file_format) %}
    {{ return('int' if file_format == 'iceberg' and type in ['tinyint', 'smallint'] else type) }}
{% endmacro %}


{#-
    The WHEN MATCHED clause of a MERGE that has only rows to insert: none on Delta, which is fastest without one.
    Iceberg checks a MERGE for conflicts only if it has one; without it two runs both appended their rows.

    Arguments:
      file_format (str): of the table; by default that of the model.
-#}
{% macro get_matched_clause(action, file_format=none) -%}
    {%- if (file_format or dbt_backfill.get_file_format()) == 'iceberg' %}when matched then {{ action }}{% endif -%}
{%- endmacro %}
