{#-
    Refuse columns that the MV's format does not take. It would do so only when the state stands already, or at the
    first row or change.

    Arguments:
      columns (list of {'name', 'type'}): as get_query_columns returned them.
      properties (dict): of the MV.
-#}
{% macro check_columns(columns, properties) %}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {%- for name in names if names.count(name) > 1 -%}
        {%- do dbt_backfill.refuse("its query returns the column '" ~ name ~ "' twice", 'Give the columns different names') -%}
    {%- endfor -%}
    {%- set feed = properties.get('delta.enableChangeDataFeed', 'false') | string | lower == 'true' -%}
    {%- for column in columns -%}
        {%- set reason = dbt_backfill._why_no_name(column.name | lower, feed) -%}
        {%- if reason -%}
            {%- do dbt_backfill.refuse(
                "its query returns the column '" ~ column.name ~ "', and " ~ reason, 'Give the column another name'
            ) -%}
        {%- endif -%}
        {%- set reason = dbt_backfill.why_no_type(column.type, properties) -%}
        {%- if reason -%}
            {%- do dbt_backfill.refuse(
                "its query returns the column '" ~ column.name ~ "' of the type " ~ column.type ~ ', and ' ~ reason,
                'Cast it to another type, or leave it out'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Why no table of the MV's format can have a column of this name; none if it can. -#}
{% macro _why_no_name(name, feed) %}
    {%- if name.startswith('__bf_') -%}
        {{ return('names that begin with __bf_ are those of the barriers') }}
    {%- elif dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- if name in ['_file', '_pos', '_deleted', '_spec_id', '_partition', '_row_id', '_last_updated_sequence_number'] -%}
            {{ return('Iceberg keeps this name for itself') }}
        {%- endif -%}
        {{ return('Iceberg takes no column without a name' if name == '' else none) }}
    {#- Of its own MERGE: fails with AMBIGUOUS_REFERENCE, once there is something to change. -#}
    {%- elif name in ['_metadata', '_row_id_', '_file_name_', '_row_dropped_', '_source_row_present_', '_target_row_present_'] -%}
        {{ return('Delta keeps this name for itself') }}
    {%- elif feed and name in ['_change_type', '_commit_version', '_commit_timestamp'] -%}
        {{ return('the change data feed of a Delta table keeps this name for itself') }}
    {#- INVALID_ATTRIBUTE_NAME_SYNTAX, in an UPDATE or MERGE. -#}
    {%- elif feed and '`' in name -%}
        {{ return('Delta cannot merge changes into such a table: '
            ~ 'a change data feed takes no backtick in the name of a column') }}
    {%- endif -%}
{% endmacro %}


{#- Why no table of the MV's format can have a column of this type; none if it can. -#}
{% macro why_no_type(type, properties) %}
    {%- set is_iceberg = dbt_backfill.get_file_format() == 'iceberg' -%}
    {%- set format = 'Iceberg' if is_iceberg else 'Delta' -%}
    {#- Without the names of fields, which may be called like types. -#}
    {%- set words = modules.re.sub('(?:`[^`]*`|[^<>,:`]+):', '', type) -%}
    {%- set refused = modules.re.search('\\b(interval|time|geometry|geography|object)\\b|struct<>', words) -%}
    {%- if refused -%}
        {{ return(format ~ ' has no ' ~ ('struct without fields' if refused.group() == 'struct<>' else refused.group())) }}
    {%- elif 'void' in words and (not is_iceberg or words != 'void') -%}
        {{ return(format ~ ' keeps no values without a type') }}
    {%- elif ' collate ' in words -%}
        {{ return(format ~ ' keeps no collation') }}
    {%- elif is_iceberg and (words == 'void' or 'variant' in words) and properties.get('format-version') | string in ['1', '2'] -%}
        {{ return('Iceberg has it from format 3 on') }}
    {%- endif -%}
{% endmacro %}
