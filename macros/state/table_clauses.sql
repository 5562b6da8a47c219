{#-
    Properties of the state tables, by format. Serializable isolation is what makes two runs that plan or commit
    one epoch conflict; it is the default of both formats and set explicitly, so that nothing depends on it.
    Every barrier adds small files: `commit_barrier` compacts Delta's, and Iceberg copies on write, so that each
    state table stays one file.
-#}
{% macro state_table_properties(keys) %}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set properties = {'format-version': '2', 'write.metadata.delete-after-commit.enabled': 'true'} -%}
        {%- do properties.update(dbt_backfill._iceberg_write_modes('copy-on-write')) -%}
        {%- do properties.update(dbt_backfill._iceberg_isolation()) -%}
        {{ return(properties) }}
    {%- endif -%}
    {%- set properties = {'delta.isolationLevel': 'Serializable'} -%}
    {%- if dbt_backfill._needs_column_mapping(keys | map(attribute='upstream') | list) -%}
        {%- do properties.update({'delta.columnMapping.mode': 'name'}) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#-
    Properties of the MV: ours by default, the user's, and those that exactness needs. Another backfilled_mv can
    read it: by Delta's change data feed, or Iceberg's row lineage of format 3. Deletion vectors and merge-on-read
    make merging scattered changes cheap; without redistribution a range costs Iceberg little more than an INSERT.
-#}
{% macro mv_table_properties(column_names, backfill_id) %}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set properties = {'format-version': '3', 'write.merge.distribution-mode': 'none'} -%}
        {%- do properties.update(dbt_backfill._iceberg_write_modes('merge-on-read')) -%}
        {%- set needed = dbt_backfill._iceberg_isolation() -%}
        {#- A table that is replaced keeps its properties, but not the comments on its columns: see apply_docs. -#}
        {%- do needed.update({'dbt_backfill.docs': ''}) -%}
    {%- else -%}
        {%- set properties = {'delta.enableChangeDataFeed': 'true', 'delta.enableDeletionVectors': 'true'} -%}
        {%- if dbt_backfill._needs_column_mapping(column_names) -%}
            {%- do properties.update({'delta.columnMapping.mode': 'name'}) -%}
        {%- endif -%}
        {%- set needed = {'delta.isolationLevel': 'Serializable'} -%}
    {%- endif -%}
    {%- do properties.update(config.get('tblproperties') or {}) -%}
    {%- do properties.update(needed) -%}
    {%- do properties.update({'dbt_backfill.id': backfill_id}) -%}
    {{ return(properties) }}
{% endmacro %}


{% macro _iceberg_write_modes(mode) %}
    {{ return({'write.merge.mode': mode, 'write.update.mode': mode, 'write.delete.mode': mode}) }}
{% endmacro %}


{#- Under `snapshot` isolation two runs doubled a range. -#}
{% macro _iceberg_isolation() %}
    {%- set level = 'serializable' -%}
    {{ return({
        'write.merge.isolation-level': level, 'write.update.isolation-level': level, 'write.delete.isolation-level': level,
    }) }}
{% endmacro %}


{% macro get_file_format() %}
    {{ return(dbt_backfill._read_choice('file_format', ['delta', 'iceberg'])) }}
{% endmacro %}


{#- Delta keeps a name with one of these characters only under column mapping. -#}
{% macro _needs_column_mapping(column_names) %}
    {{ return(modules.re.search('[ ,;{}()\\n\\t=]', column_names | join) is not none) }}
{% endmacro %}


{#- USING, LOCATION and TBLPROPERTIES of one of the three tables. -#}
{% macro table_clauses(relation, properties) -%}
    using {{ dbt_backfill.get_file_format() }}
    {%- if config.get('location_root') %}
    location {{ dbt_backfill.string_literal(config.get('location_root') ~ '/' ~ relation.identifier) }}
    {%- endif %}
    tblproperties (
        {%- for name, value in properties.items() %}
        {{ dbt_backfill.string_literal(name) }} = {{ dbt_backfill.string_literal(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}
