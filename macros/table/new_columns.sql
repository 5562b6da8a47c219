{#-
    Refuse columns that the MV cannot get.

    Arguments:
      columns (list of {'name', 'type'}): that its query returns and the MV has not, as far as the state knows.
      filling (list): those of them that a plan has added before.
-#}
{% macro check_new_columns(mv, columns, filling) %}
    {%- set properties = dbt_backfill.read_table_properties(mv) -%}
    {%- do dbt_backfill.check_columns(columns, properties) -%}
    {%- set present = dbt_backfill.get_table_columns(mv) | map(attribute='name') | map('lower') | list -%}
    {%- set added = filling | map(attribute='name') | map('lower') | list -%}
    {%- for column in columns -%}
        {%- if column.name | lower in present and column.name | lower not in added -%}
            {%- do dbt_backfill.refuse(
                'its query returns the new column ' ~ column.name ~ ', and ' ~ mv.render() ~ ' has one already that is not of its query',
                'Drop that column of the table, or give the new one another name'
            ) -%}
        {%- elif dbt_backfill._needs_column_mapping([column.name]) and dbt_backfill.get_file_format() == 'delta'
                and properties.get('delta.columnMapping.mode', 'none') == 'none' -%}
            {%- do dbt_backfill.refuse(
                "its query returns the new column '" ~ column.name ~ "', and a Delta table without column mapping keeps no such name",
                'Give the column another name, or rebuild the MV with --full-refresh'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
