{#-
    Properties of the state tables. Serializable isolation is what makes two runs that plan or commit one
    epoch conflict; it is Delta's default and set explicitly, so that nothing depends on a session. Every barrier
    adds small files, which auto-compaction keeps from piling up.
-#}
{% macro state_table_properties(keys) %}
    {%- set properties = {'delta.isolationLevel': 'Serializable', 'delta.autoOptimize.autoCompact': 'true'} -%}
    {%- if dbt_backfill._needs_column_mapping(keys | map(attribute='upstream') | list) -%}
        {%- do properties.update({'delta.columnMapping.mode': 'name'}) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#-
    Properties of the MV: the user's, ours by default, and those that exactness needs. Its change data feed is
    on so that another backfilled_mv can read it; deletion vectors make merging scattered changes cheap.
-#}
{% macro mv_table_properties(column_names, backfill_id) %}
    {%- set properties = {
        'delta.enableChangeDataFeed': 'true',
        'delta.enableDeletionVectors': 'true',
    } -%}
    {%- if dbt_backfill._needs_column_mapping(column_names) -%}
        {%- do properties.update({'delta.columnMapping.mode': 'name'}) -%}
    {%- endif -%}
    {%- do properties.update(config.get('tblproperties') or {}) -%}
    {%- do properties.update({'delta.isolationLevel': 'Serializable', 'dbt_backfill.id': backfill_id}) -%}
    {{ return(properties) }}
{% endmacro %}


{#- Delta keeps a name with one of these characters only under column mapping. -#}
{% macro _needs_column_mapping(column_names) %}
    {{ return(modules.re.search('[ ,;{}()\\n\\t=]', column_names | join) is not none) }}
{% endmacro %}


{#- USING, LOCATION and TBLPROPERTIES of one of the three tables. -#}
{% macro table_clauses(relation, properties) -%}
    using {{ dbt_backfill._read_choice('file_format', ['delta']) }}
    {%- if config.get('location_root') %}
    location {{ dbt_backfill.string_literal(config.get('location_root') ~ '/' ~ relation.identifier) }}
    {%- endif %}
    tblproperties (
        {%- for name, value in properties.items() %}
        {{ dbt_backfill.string_literal(name) }} = {{ dbt_backfill.string_literal(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}
