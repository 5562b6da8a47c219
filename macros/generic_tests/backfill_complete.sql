{#-
    Passes once every vnode of the MV has been backfilled to its end, and no rebuild of it has begun.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_complete
-#}
{% test backfill_complete(model) %}
    {%- if execute -%}
        {%- set relations = dbt_backfill.get_relations(model) -%}
        {%- do dbt_backfill.check_has_state(relations) %}
        select *
        from {{ relations.progress.render() }}
        where dirty or not backfill_finished or plan_kind in ('reset', 'abandon')
    {%- endif -%}
{% endtest %}


{#- Refuse to test a relation that has no state, or not its own. -#}
{% macro check_has_state(relations) %}
    {%- set existing = dbt_backfill.get_existing_relations(relations) -%}
    {%- set properties = {} if existing.mv is none or existing.mv.is_view else dbt_backfill.read_table_properties(relations.mv) -%}
    {%- if 'dbt_backfill.id' in properties and existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(dict(relations, name=relations.mv.identifier), properties) -%}
    {%- elif existing.mv is none or existing.progress is none -%}
        {%- do dbt_backfill.refuse(
            relations.mv.render() ~ ' is not a backfilled_mv, or has never run',
            'Run the model first, and put this test only on models with that materialization',
            mv=relations.mv.identifier
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_is_no_copy(
        dict(relations, name=relations.mv.identifier), dbt_backfill.find_original(relations.mv, properties)
    ) -%}
{% endmacro %}
