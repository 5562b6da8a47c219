{#-
    Run a statement that replaces the MV. Returns the snapshot at which an Iceberg MV was left by it, none on Delta.

    Iceberg replaces a table whatever was committed since. So another replacement that comes late may stand in the place of this one
    already, with other rows: then it is run again. Its commit finds one that comes later still, by the snapshot.

    Arguments:
      step (string): what it does.
-#}
{% macro run_replacement(backfill, plan, step, sql) %}
    {%- set found = namespace(left_at=none) -%}
    {%- for _ in range(3) if found.left_at is none -%}
        {%- do dbt_backfill.run_table(step ~ ' in the barrier ' ~ plan.epoch, sql) -%}
        {%- if backfill.options.file_format != 'iceberg' -%} {{ return(none) }} {%- endif -%}
        {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
        {%- if properties.get('dbt_backfill.reset', '').startswith(plan.plan_id ~ ' of ') -%}
            {%- set found.left_at = properties.get('current-snapshot-id') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if found.left_at is none -%} {%- do dbt_backfill.refuse_overtaken(plan) -%} {%- endif -%}
    {{ return(found.left_at) }}
{% endmacro %}
