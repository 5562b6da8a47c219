{#-
    Create the tables of an MV that is missing, without a barrier: an empty MV in a run that reads nothing. Returns the state
    that they have.
-#}
{% macro create_backfill(backfill, state) %}
    {%- set columns = dbt_backfill.prepare_creation(backfill) -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.declare_creation() }}
            {{ dbt_backfill.get_create_statements(backfill, state.committed, columns) }}
        end
    {%- endset -%}
    {%- do dbt_backfill.run_table('create the tables', sql) -%}
    {{ return(dict(state, missing=false)) }}
{% endmacro %}
