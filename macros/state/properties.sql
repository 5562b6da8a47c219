{#-
    Properties of the state tables, by format. Serializable isolation is what makes two runs that plan or commit
    one epoch conflict; it is the default of both formats and set explicitly, so that nothing depends on it.
    Both tables are small and copied on write, so that the progress table stays one file, and know nothing of their
    rows but the history's epochs: what Delta gathers of the rest costs more than it saves.
-#}
{% macro state_table_properties() %}
    {%- set properties = dbt_backfill.exact_table_properties() -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- do properties.update({'format-version': '2', 'write.metadata.delete-after-commit.enabled': 'true'}) -%}
        {%- do properties.update(dbt_backfill.write_modes_of_iceberg('copy-on-write')) -%}
    {%- else -%}
        {%- do properties.update({
            'delta.enableDeletionVectors': 'false', 'delta.enableChangeDataFeed': 'false', 'delta.dataSkippingNumIndexedCols': '1',
        }) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#-
    Those of the progress table. A full refresh may give it other columns for the position, with any name and type of a
    key, so a Delta table has from the start what these need.
-#}
{% macro progress_properties(creation) %}
    {%- set properties = dbt_backfill.state_table_properties() -%}
    {%- if dbt_backfill.get_file_format() == 'delta' -%}
        {%- do properties.update({'delta.columnMapping.mode': 'name', 'delta.feature.timestampNtz': 'supported'}) -%}
        {%- do properties.update({'delta.dataSkippingNumIndexedCols': '0'}) -%}
    {%- endif -%}
    {%- do properties.update(dbt_backfill.own_table_properties(creation.backfill_id)) -%}
    {{ return(properties) }}
{% endmacro %}


{#- Those of the history, which may outlive its MV. -#}
{% macro history_properties() %}
    {{ return(dict(dbt_backfill.state_table_properties(), **{'dbt_backfill.format': dbt_backfill.state_format()})) }}
{% endmacro %}
