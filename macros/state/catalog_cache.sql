{#-
    Refuse an Iceberg catalog that caches its tables: a session would not see for 30 s what another one committed,
    so that a run would go by a stale state, and a fence would let a stale run pass.
-#}
{% macro check_catalog_cache(backfill) %}
    {%- if backfill.options.file_format != 'iceberg' -%} {{ return(none) }} {%- endif -%}
    {%- set settings = {} -%}
    {%- for row in dbt_backfill.run_table('read the settings', 'set') -%}
        {%- do settings.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- set catalog = backfill.mv.schema.split('.')[0] if '.' in backfill.mv.schema
        else settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
    {%- set name = 'spark.sql.catalog.' ~ catalog ~ '.cache-enabled' -%}
    {%- if settings.get(name, 'true') | lower != 'false' -%}
        {%- do dbt_backfill.refuse(
            'its Iceberg catalog ' ~ catalog ~ ' caches tables, so a run would not see what another one committed',
            'Set ' ~ name ~ ' to false where the catalog is configured (server_side_parameters, or the Spark server)'
        ) -%}
    {%- endif -%}
{% endmacro %}
