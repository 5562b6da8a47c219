{#-
    Create the tables of an MV that is missing, without a barrier: an empty MV in a run that reads nothing, or one of a table
    that is there. Returns the state that they have.

    Arguments:
      columns (list): see prepare_creation, if that is known.
      making (list): see get_create_statements.
-#}
{% macro create_backfill(backfill, state, columns=none, making=none) %}
    {%- set columns = columns or dbt_backfill.prepare_creation(backfill) -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.declare_creation() }}
            {{ dbt_backfill.get_create_statements(backfill, state.committed, columns, making=making) }}
            select to_json(struct(created_id, is_ours));
        end
    {%- endset -%}
    {%- set made = dbt_backfill.run_json('create the tables', sql)[0] -%}
    {%- if not made.is_ours -%} {%- do dbt_backfill.refuse_created() -%} {%- endif -%}
    {%- do dbt_backfill.check_created(backfill, state, made.created_id) -%}
    {{ return(dict(state, missing=false)) }}
{% endmacro %}


{#-
    Refuse an MV that is not the state's: where a state has given way to this run, the run that had made it may have been
    alive, and have created its MV meanwhile.
-#}
{% macro check_created(backfill, state, backfill_id) %}
    {%- if state.committed.get('replaces')
            and dbt_backfill.read_table_properties(backfill.mv).get('dbt_backfill.id') != backfill_id -%}
        {%- do dbt_backfill.refuse_created() -%}
    {%- endif -%}
{% endmacro %}


{% macro refuse_created() %}
    {%- do dbt_backfill.refuse(
        'another run has created its tables meanwhile, for another query', 'Let one deployment of the model run, and run again'
    ) -%}
{% endmacro %}
