{#- The settings of the session, as a dict of texts, read once in a run; those that were never set are missing. -#}
{% macro read_settings(backfill) %}
    {%- if backfill.get('settings') is none -%}
        {%- set settings = {} -%}
        {%- for row in dbt_backfill.run_table('read the settings', 'set') -%}
            {%- do settings.update({row[0]: row[1]}) -%}
        {%- endfor -%}
        {%- do backfill.update({'settings': settings}) -%}
    {%- endif -%}
    {{ return(backfill.settings) }}
{% endmacro %}


{#-
    Refuse to make a Delta MV in a session in which a MERGE adds the source's other columns to the table: among those
    that the changes come with are some of ours. Asked at the first run only, to spare the others a statement.
-#}
{% macro check_schema_evolution(backfill) %}
    {%- set name = 'spark.databricks.delta.schema.autoMerge.enabled' -%}
    {%- if backfill.options.file_format == 'delta' and dbt_backfill.read_settings(backfill).get(name, 'false') | lower == 'true' -%}
        {%- do dbt_backfill.refuse(
            'the session has ' ~ name ~ ' on, under which a MERGE would add columns to ' ~ backfill.mv.render(),
            'Set it to false for dbt (server_side_parameters, or the Spark server)',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse a session in which Delta takes statements for repetitions: under `txnAppId` and `txnVersion` the second MERGE
    into a table does nothing and says nothing.

    Arguments:
      app_id (string): what read_state read of it, none if there was no state; it spares a statement where all is well.
-#}
{% macro check_idempotent_writes(backfill, app_id=none) %}
    {%- set name = 'spark.databricks.delta.write.txnAppId' -%}
    {%- if app_id == '' or backfill.options.file_format != 'delta' -%} {{ return(none) }} {%- endif -%}
    {%- if dbt_backfill.read_settings(backfill).get(name) -%}
        {%- do dbt_backfill.refuse(
            'the session has ' ~ name ~ ' set, under which Delta skips all writes to a table but the first',
            'Unset it, and spark.databricks.delta.write.txnVersion, for dbt (server_side_parameters, or the Spark server)',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse to make an MV in an Iceberg catalog that sets what exactness needs otherwise. Asked at the first run only. -#}
{% macro check_table_overrides(backfill) %}
    {%- if backfill.options.file_format != 'iceberg' -%} {{ return(none) }} {%- endif -%}
    {%- set settings = dbt_backfill.read_settings(backfill) -%}
    {%- set catalog = dbt_backfill.get_catalog(backfill.mv) or settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
    {%- for name, value in dbt_backfill.exact_table_properties('iceberg').items() -%}
        {%- set setting = 'spark.sql.catalog.' ~ catalog ~ '.table-override.' ~ name -%}
        {%- if settings.get(setting, value) | lower != value -%}
            {%- do dbt_backfill.refuse(
                'the session has ' ~ setting ~ ' = ' ~ settings[setting] ~ ', under which barriers are not exact',
                'Set it to ' ~ value ~ ', or leave it out',
                mv=backfill.get('name')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Refuse an Iceberg catalog that caches its tables: a session would not see for 30 s what another one committed, so
    that a run would go by a stale state and a fence let a stale run pass, or an upstream be behind its change table.

    Arguments:
      caches (list): what read_state read of it, none if there was no state; it spares a statement where all is well.
-#}
{% macro check_catalog_cache(backfill, caches=none) %}
    {%- set relations = dbt_backfill.get_uncached_relations(backfill) -%}
    {%- if not relations or caches is not none and caches | reject('equalto', 'false') | list == [] -%} {{ return(none) }} {%- endif -%}
    {%- set settings = dbt_backfill.read_settings(backfill) -%}
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


{#- The relations of whose catalogs that is asked. -#}
{% macro get_uncached_relations(backfill) %}
    {%- set relations = [] -%}
    {%- if backfill.options.file_format == 'iceberg' -%} {%- do relations.append(backfill.mv) -%} {%- endif -%}
    {%- for table in [backfill.upstream, backfill.feed] if backfill.feed and table.kind == 'iceberg' -%}
        {%- do relations.append(table.relation) -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}


{#-
    Statements of a script that read the `cache-enabled` of each relation's catalog into its variable `caches`. No
    function returns a setting, but Spark puts those in braces into a statement's text; one that is not set is empty.
-#}
{% macro get_catalog_cache_statements(relations) -%}
    declare caches array<string> = array();
    declare cache string;
    {%- for relation in relations %}
    {%- set catalog = dbt_backfill.get_catalog(relation) %}
    set cache = concat('select lower(\'\u0024{spark.sql.catalog.', {{ dbt_backfill.string_literal(catalog) if catalog else 'current_catalog()' }}, '.cache-enabled}\')');
    execute immediate cache into cache;
    set caches = array_append(caches, cache);
    {%- endfor %}
{%- endmacro %}
