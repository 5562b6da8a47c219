{#-
    Passes once every vnode of the MV has been backfilled to its end, all columns have been filled, and no rebuild of it has
    begun. A line in dbt's output says which columns are not filled yet, and the column `unfilled` of the rows that fail. Under
    `--empty`, where every table that is read has no rows, it passes as any test.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_complete
-#}
{% test backfill_complete(model) %}
    {%- if dbt_backfill.is_only_compiled() -%}
        {{ dbt_backfill.get_compiled_test_sql() }}
    {%- elif execute -%}
        {%- set relations = dbt_backfill.get_tested_relations(model, 'backfill_complete') %}
        {%- set unfilled = dbt_backfill.get_unfilled_text(dbt_backfill.read_state(relations)) %}
        {%- if unfilled %} {%- do log(relations.name ~ ': ' ~ unfilled, info=true) -%} {%- endif %}
        select *, {{ dbt_backfill.string_literal(unfilled) }} as unfilled
        from {{ relations.progress.render() }}
        where (dirty or not backfill_finished or plan_kind in ('reset', 'abandon') or {{ 'true' if unfilled else 'false' }})
            {{- ' and false' if flags.EMPTY }}
    {%- endif -%}
{% endtest %}


{#-
    Whether the invocation makes no more than SQL of its nodes, or a catalog. An MV need not have run then, and nothing that it takes
    to compare it is done.
-#}
{% macro is_only_compiled() %}
    {{ return(execute and invocation_args_dict.get('which') in ['compile', 'generate']) }}
{% endmacro %}


{% macro get_compiled_test_sql() -%}
    -- What is compared depends on the state of the MV, which dbt test and dbt build look at.
    select 1 as failure from range(0)
{%- endmacro %}


{#- Which columns of a state are not filled yet, such as `x is filled up to (5, 'a') only`; none if all are. -#}
{% macro get_unfilled_text(state) %}
    {%- set filling = dbt_backfill.get_filling(state) -%}
    {%- if not filling -%} {{ return(none) }} {%- endif -%}
    {%- set names = filling.columns | map(attribute='name') | list -%}
    {%- set verb = ' is' if names | length == 1 else ' are' -%}
    {%- set until = 'down to' if dbt_backfill.is_descending(state.committed.key) else 'up to' -%}
    {{ return(names | join(', ') ~ verb ~ (' not filled' if filling.position is none
        else ' filled ' ~ until ~ ' (' ~ filling.position | join(', ') ~ ') only')) }}
{% endmacro %}


{#-
    The tables of the MV that is tested, see get_relations, and its model's 'name'. Refuses a relation without a state of its own, and
    a part of one.
-#}
{% macro get_tested_relations(model, test) %}
    {%- if model is string -%}
        {%- do dbt_backfill.refuse(
            'it is of the MV as a whole, and a where is set for it: ' ~ model, 'Take the where off this test', mv=test
        ) -%}
    {%- endif -%}
    {%- set relations = dict(dbt_backfill.get_relations(model), name=dbt_backfill._get_tested_name(model)) -%}
    {%- set existing = dbt_backfill.get_existing_relations(relations) -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.mv, relations.mv) -%}
    {%- if 'dbt_backfill.id' in properties and existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(relations, properties) -%}
    {%- elif existing.mv is none or existing.progress is none -%}
        {%- do dbt_backfill.refuse(
            relations.mv.render() ~ ' is not a backfilled_mv, or has never run',
            'Run the model first, and put this test only on models with that materialization',
            mv=relations.name
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_is_no_copy(relations, dbt_backfill.find_original(relations.mv, properties)) -%}
    {{ return(relations) }}
{% endmacro %}


{#- What run-operations take for the model that makes a table, which may have an alias or a version; the table's own name if none does. -#}
{% macro _get_tested_name(mv) %}
    {%- set node = dbt_backfill.find_maker(mv, ['model']) -%}
    {{ return(mv.identifier if node is none else dbt_backfill.get_model_name(node)) }}
{% endmacro %}
