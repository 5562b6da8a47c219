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
