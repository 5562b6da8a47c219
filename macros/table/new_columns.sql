{#-
    Refuse columns that the MV cannot get.

    Arguments:
      columns (list of {'name', 'type'}): that its query returns and the MV has not, as far as the state knows.
      left (list): the names of columns that a plan was to drop and may not have, see get_open_filling.
-#}
{% macro check_new_columns(mv, properties, columns, left) %}
    {%- if not columns -%} {{ return(none) }} {%- endif -%}
    {%- do dbt_backfill.check_columns(columns, properties) -%}
    {%- set types, left = dbt_backfill.get_column_types(mv), left | map('lower') | list -%}
    {%- for column in columns -%}
        {%- set is_left = column.name | lower in left and types.get(column.name | lower) == column.type -%}
        {%- if column.name | lower in types and not is_left -%}
            {%- do dbt_backfill.refuse(
                'its query returns the new column ' ~ column.name ~ ', and ' ~ mv.render() ~ ' has one already that is not of its query',
                'Drop that column of the table, or give the new one another name'
            ) -%}
        {%- elif dbt_backfill.needs_column_mapping([column.name]) and dbt_backfill.get_file_format() == 'delta'
                and properties.get('delta.columnMapping.mode', 'none') == 'none' -%}
            {%- do dbt_backfill.refuse(
                "its query returns the new column '" ~ column.name ~ "', and a Delta table without column mapping keeps no such name",
                'Give the column another name, or rebuild the MV with --full-refresh'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
