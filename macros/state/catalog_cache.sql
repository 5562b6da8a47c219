{#-
    Refuse an Iceberg catalog that caches its tables: a session would not see for 30 s what another one committed, so
    that a run would go by a stale state and a fence let a stale run pass, or an upstream be behind its change table.
-#}
{% macro check_catalog_cache(backfill) %}
    {%- set relations = [] -%}
    {%- if backfill.options.file_format == 'iceberg' -%} {%- do relations.append(backfill.mv) -%} {%- endif -%}
    {%- for table in [backfill.upstream, backfill.feed] if backfill.feed and table.kind == 'iceberg' -%}
        {%- do relations.append(table.relation) -%}
    {%- endfor -%}
    {%- if not relations -%} {{ return(none) }} {%- endif -%}
    {%- set settings = {} -%}
    {%- for row in dbt_backfill.run_table('read the settings', 'set') -%}
        {%- do settings.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- for relation in relations -%}
        {%- set catalog = dbt_backfill.get_catalog(relation) or settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
        {%- set name = 'spark.sql.catalog.' ~ catalog ~ '.cache-enabled' -%}
        {%- if settings.get(name, 'true') | lower != 'false' -%}
            {%- do dbt_backfill.refuse(
                'the Iceberg catalog ' ~ catalog ~ ' of ' ~ relation.render()
                    ~ ' caches tables, so a run would not see what another one committed',
                'Set ' ~ name ~ ' to false where the catalog is configured (server_side_parameters, or the Spark server)',
                mv=backfill.get('name')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
