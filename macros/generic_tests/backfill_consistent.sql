{#-
    Passes if the MV is what it promises: Q(upstream @ S where pk <= current_pos), with S and the positions of the
    progress table, compared both ways with duplicates counted. Fails with the rows that are `missing` in the MV
    and those that are `unexpected` there.

    It reads the whole prefix of the upstream and the whole MV.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_consistent
-#}
{% test backfill_consistent(model) %}
    {%- if dbt_backfill.is_only_compiled() -%}
        {{ dbt_backfill.get_compiled_test_sql() }}
    {%- elif execute -%}
        {%- set relations = dbt_backfill.get_tested_relations(model, 'backfill_consistent') -%}
        {%- set state = dbt_backfill.read_state(relations) -%}
        {%- do dbt_backfill.check_barrier_is_committed(state, relations.name, 'Run the model again, and then this test') -%}
        {%- set format = dbt_backfill.get_table_format(relations.mv) -%}
        {%- set defined = dbt_backfill.stage_definition(dict(relations, options={'file_format': format}), state) -%}
        {{ dbt_backfill.get_difference_sql(relations, defined.state, {'unsettled': defined.unsettled}) }}
    {%- endif -%}
{% endtest %}


{#- A select of the rows by which the MV differs from its definition, with `difference` in front; `selection` see selection_predicate. -#}
{% macro get_difference_sql(relations, state, selection={}) -%}
    {%- set columns = dbt_backfill.get_compared_columns(dbt_backfill.get_table_columns(relations.mv)) %}
    with promised as (
        select {{ columns }}
        from (
            {{ dbt_backfill.get_promised_sql(relations, state, selection) }}
        )
    ),
    present as (
        select {{ columns }}
        from {{ dbt_backfill.get_present_sql(relations, state) }}
        {%- set selected = dbt_backfill.selection_predicate(selection, dbt_backfill.get_mv_keys(state.committed.key)) %}
        {%- if selected != 'true' %}
        where {{ selected }}
        {%- endif %}
    )
    select 'missing' as difference, *
    from (select * from promised except all select * from present)
    union all
    select 'unexpected' as difference, *
    from (select * from present except all select * from promised)
{%- endmacro %}
