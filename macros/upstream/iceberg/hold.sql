{#- A tag keeps Iceberg from expiring a version. There is nothing to keep of a table without a snapshot. -#}
{% macro iceberg_hold(source, name) %}
    {%- if source.version == '0' -%} {{ return(false) }} {%- endif -%}
    {%- do dbt_backfill.run_table('hold the snapshot of the upstream', 'alter table ' ~ source.relation
        ~ ' create or replace tag ' ~ name ~ ' as of version ' ~ source.version) -%}
    {{ return(true) }}
{% endmacro %}


{% macro iceberg_release(source, name) %}
    {%- do dbt_backfill.run_table('release the snapshot of the upstream', 'alter table ' ~ source.relation
        ~ ' drop tag if exists ' ~ name) -%}
{% endmacro %}


{% macro iceberg_held_version(observed, name) %}
    {%- set held = observed.get('holds', {}).get(name) -%}
    {{ return(held | string if held is not none else none) }}
{% endmacro %}
