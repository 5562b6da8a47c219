{#-
    What tables have in common that keep rows of the upstream for a while, `<mv>__staged` and `<mv>__replica`.
-#}


{#-
    The columns of the upstream, as a plan reads it, that the query names, and the key's, as a list of {'name', 'type'}: all of them where
    it has a star.
-#}
{% macro get_needed_columns(backfill, plan) %}
    {%- set columns = dbt_backfill.get_query_columns('select * from ' ~ dbt_backfill.get_planned_read(backfill, plan)) -%}
    {%- set needed = [] -%}
    {%- set named = dbt_backfill.get_named_columns(plan.query, columns | map(attribute='name') | list) -%}
    {%- set keys = plan.key | map(attribute='upstream') | map('lower') | list -%}
    {%- for column in columns if column.name | lower in keys or column.name in named -%} {%- do needed.append(column) -%} {%- endfor -%}
    {{ return(needed) }}
{% endmacro %}


{#-
    USING, LOCATION and TBLPROPERTIES of such a table. Outside of a run of the model it is made at the catalog's own place.

    Arguments:
      properties (dict): of it alone.
-#}
{% macro get_clauses_of_copy(backfill, relation, properties) -%}
    {%- set format = backfill.options.file_format -%}
    {%- set own = {'dbt_backfill.format': dbt_backfill.state_format()} -%}
    {#- Where a catalog has it otherwise, as Nessie's does, no table is dropped with its files. -#}
    {%- if format == 'iceberg' -%} {%- do own.update({'gc.enabled': 'true'}) -%} {%- endif -%}
    {%- set all = dict(dbt_backfill.exact_table_properties(format), **dict(properties, **own)) -%}
    {%- if not backfill.get('name') -%} {{ return(dbt_backfill.table_clauses(relation, all)) }} {%- endif -%}
    using {{ format }} tblproperties {{ dbt_backfill.property_list(all) }}
{%- endmacro %}


{#-
    The properties of such a table as it now stands, to drop it: dbt's list of tables is as old as the invocation. None where there is
    none, or one of others.

    Arguments:
      mark (string): the property by which it is known.
-#}
{% macro find_own_copy(relation, mark='dbt_backfill.format') %}
    {%- set existing = dbt_backfill.find_table(relation) -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing, relation) -%}
    {{ return(properties if mark in properties else none) }}
{% endmacro %}


{#-
    Drop a copy with its files, which an Iceberg table in a metastore keeps unless told otherwise. Where its properties have
    `gc.enabled` off all the same, because the catalog overrides it, PURGE is an error.

    Arguments:
      properties (dict): that it has; none if they were not read.
-#}
{% macro get_drop_copy_sql(file_format, relation, properties=none) -%}
    {%- if properties is none and file_format == 'iceberg' -%} {%- set properties = dbt_backfill.read_table_properties(relation) -%} {%- endif -%}
    {%- set purges = file_format == 'iceberg' and properties.get('gc.enabled', 'true') | lower != 'false' -%}
    drop table if exists {{ relation.render() }} {{- ' purge' if purges }}
{%- endmacro %}
