{#-
    The WHEN MATCHED clause of a MERGE that has only rows to insert: none on Delta, which is fastest without one.
    Iceberg checks a MERGE for conflicts only if it has one; without it two runs both appended their rows.

    Arguments:
      file_format (str): of the table; by default that of the model.
-#}
{% macro get_matched_clause(action, file_format=none) -%}
    {%- if (file_format or dbt_backfill.get_file_format()) == 'iceberg' %}when matched then {{ action }}{% endif -%}
{%- endmacro %}
