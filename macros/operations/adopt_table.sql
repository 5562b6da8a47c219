{#-
    Have a table that is there become the MV of a model, with its rows: it is marked, and the next run of the model takes it.
    That run checks its columns and keys, creates the state, and begins to compare the rows with the query, slice by slice,
    merging what differs. Nothing is written here but the mark, a table property.

    It can be repeated.

    Usage:
      dbt run-operation adopt_table --args '{model: my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
-#}
{% macro adopt_table(model=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'adopt_table') -%}
    {%- do dbt_backfill.check_argument_names('adopt_table', kwargs, ['model'], dbt_backfill.get_model_name(node)) -%}
    {%- set adopted = dbt_backfill.get_operated(node) -%}
    {%- set existing = dbt_backfill.get_existing_relations(adopted) -%}
    {%- if existing.mv is none -%}
        {%- do dbt_backfill.refuse(
            adopted.mv.render() ~ ' does not exist', 'Run the model, which builds it: dbt run --select ' ~ adopted.name, mv=adopted.name
        ) -%}
    {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.mv, adopted.mv) -%}
    {%- do dbt_backfill.check_adoptable(adopted, existing.mv, properties, node.config.get('tblproperties') or {}) -%}
    {%- set state = dbt_backfill.read_left_state(adopted, existing) -%}
    {%- if state is not none and state.committed and state.committed.backfill_id == properties.get('dbt_backfill.id') -%}
        {%- do log(
            adopted.name ~ ': there is nothing to adopt; ' ~ adopted.mv.render() ~ ' is its MV, at the barrier ' ~ state.epoch, info=true
        ) -%}
        {{ return(none) }}
    {%- elif state is not none and state.epoch > 0 -%}
        {%- do dbt_backfill.refuse_other_state(adopted) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_table(
        'mark ' ~ adopted.mv.identifier,
        dbt_backfill.get_set_properties_sql(adopted.mv, {'dbt_backfill.adopt': dbt_backfill.get_mark_of_adoption(node.unique_id)}), adopted.mv
    ) -%}
    {%- do dbt_backfill.report_mark(adopted, node) -%}
{% endmacro %}


{#- Say what the next run does, and to how many rows. -#}
{% macro report_mark(adopted, node) %}
    {%- set rows = dbt_backfill.run_json(
        'count the rows of ' ~ adopted.mv.identifier, "select to_json(named_struct('count', count(*))) from " ~ adopted.mv.render(), adopted.mv
    )[0]['count'] -%}
    {%- set limit = dbt_backfill.get_option_of(node, 'backfill_rate_limit') -%}
    {%- do log(
        adopted.name ~ ': ' ~ adopted.mv.render() ~ ' is to be adopted with its ' ~ dbt_backfill.get_count_text(rows, 'row')
            ~ '. Stop what else writes to it, and run the model: dbt run --select ' ~ adopted.name
            ~ '. That checks its columns and keys, and begins to compare its rows with the query'
            ~ dbt_backfill.get_slices_text(limit), info=true
    ) -%}
{% endmacro %}
