{#-
    Passes once every vnode of the MV has been backfilled to its end, and no rebuild of it has begun. Under `--empty`, where
    every table that is read has no rows, it passes as any test.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_complete
-#}
{% test backfill_complete(model) %}
    {%- if execute -%}
        {%- set relations = dbt_backfill.get_tested_relations(model, 'backfill_complete') %}
        select *
        from {{ relations.progress.render() }}
        where (dirty or not backfill_finished or plan_kind in ('reset', 'abandon')) {{- ' and false' if flags.EMPTY }}
    {%- endif -%}
{% endtest %}


{#- The tables of the MV that is tested, see get_relations. Refuses a relation that has no state, and a part of one. -#}
{% macro get_tested_relations(model, test) %}
    {%- if model is string -%}
        {%- do dbt_backfill.refuse(
            'it is of the MV as a whole, and a where is set for it: ' ~ model, 'Take the where off this test', mv=test
        ) -%}
    {%- endif -%}
    {%- set relations = dbt_backfill.get_relations(model) -%}
    {%- set existing = dbt_backfill.get_existing_relations(relations) -%}
    {%- if existing.mv is none or existing.progress is none -%}
        {%- do dbt_backfill.refuse(
            relations.mv.render() ~ ' is not a backfilled_mv, or has never run',
            'Run the model first, and put this test only on models with that materialization',
            mv=relations.mv.identifier
        ) -%}
    {%- endif -%}
    {{ return(relations) }}
{% endmacro %}
