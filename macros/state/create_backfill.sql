{#- Create the tables for such a state, without a barrier: an empty MV in a run that reads nothing. -#}
{% macro create_backfill(backfill, state) %}
    {%- set columns = dbt_backfill.prepare_creation(backfill) -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.declare_creation() }}
            {{ dbt_backfill.get_create_statements(backfill, state.committed, columns) }}
        end
    {%- endset -%}
    {%- do dbt_backfill.run_table('create the tables', sql) -%}
    {%- do dbt_backfill.finish_creation(backfill, state) -%}
{% endmacro %}


{% macro finish_creation(backfill, state) %}
    {%- do state.update({'missing': false}) -%}
    {%- do backfill.update({'created': true}) -%}
{% endmacro %}
