{#-
    Passes if every vnode of the MV is backfilled to its end, all columns are filled, and no rebuild has begun. Columns that are not filled yet are
    listed in dbt's output, and in the column `unfilled` of the failing rows. With `--empty`, a test reads no rows, so this test passes.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_complete
-#}
{% test backfill_complete(model) %}
    {%- if dbt_backfill.is_only_compiled() -%}
        -- What is compared depends on the state of the MV, which dbt test and dbt build look at.
        select 1 as failure from range(0)
    {%- elif execute -%}
        {%- set relations = dbt_backfill.get_tested_relations(model, 'backfill_complete') %}
        {%- set state, unfilled = relations.state, none %}
        {%- set filling = dbt_backfill.get_filling(state) %}
        {%- if filling %}
            {%- set names = filling.columns | map(attribute='name') | list %}
            {%- set until = 'down to' if dbt_backfill.is_descending(state.committed.key) else 'up to' %}
            {%- set unfilled = names | join(', ') ~ (' is' if names | length == 1 else ' are') ~ (' not filled' if filling.position is none
                else ' filled ' ~ until ~ ' (' ~ filling.position | join(', ') ~ ') only') %}
            {%- do log(relations.name ~ ': ' ~ unfilled, info=true) -%}
        {%- endif %}
        {%- set is_taken = 'unfilled' in state.committed.key | map(attribute='position') | map('lower') | list %}
        select *, cast({{ dbt_backfill.string_literal(unfilled) }} as string) as {{ '__bf_unfilled' if is_taken else 'unfilled' }}
        from {{ relations.progress.render() }}
        where (dirty or not backfill_finished or plan_kind in ('reset', 'abandon') or {{ 'true' if unfilled else 'false' }})
            {{- ' and false' if flags.EMPTY }}
    {%- endif -%}
{% endtest %}


{#-
    Passes if the MV equals its definition: Q(upstream @ S where pk <= current_pos), with S and the positions from the progress table. The test also
    finds rows that the MV has more or less often than the definition. A failing test returns the rows that are `missing` in the MV, and the rows of
    the MV that are `unexpected`.

    The test reads the upstream up to the position, and the whole MV.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_consistent
-#}
{% test backfill_consistent(model) %}
    {%- if dbt_backfill.is_only_compiled() -%}
        -- What is compared depends on the state of the MV, which dbt test and dbt build look at.
        select 1 as failure from range(0)
    {%- elif execute -%}
        {%- set relations = dbt_backfill.get_tested_relations(model, 'backfill_consistent') -%}
        {%- set state = relations.state -%}
        {%- do dbt_backfill.check_barrier_is_committed(state, relations.name, 'Run the model again, and then this test') -%}
        {%- set format = dbt_backfill.get_table_format(relations.mv) -%}
        {%- set defined = dbt_backfill.stage_definition(dict(relations, options={'file_format': format}), state) -%}
        {%- set selection = {'unsettled': defined.unsettled} -%}
        {%- set selected = dbt_backfill.selection_predicate(selection, dbt_backfill.get_mv_keys(state.committed.key)) -%}
        {%- set volatile = state.committed.get('volatile_columns') -%}
        {%- set columns = dbt_backfill.without_names(dbt_backfill.get_table_columns(relations.mv), volatile) -%}
        {%- set own = '__bf_difference' if 'difference' in columns | map(attribute='name') | map('lower') else 'difference' -%}
        {#- dbt may store the failing rows in a table, and a Delta table takes no column with a space or one of `,;{}()=` in its name. So each of
            these characters becomes `_`. If two columns would get one name, the name also gets a number. #}
        {%- set names, shown = columns | map(attribute='name') | map('lower') | list, [] -%}
        {%- for column in columns -%}
            {%- set name = modules.re.sub('[ ,;{}()\\n\\t=]', '_', column.name) -%}
            {%- set name = name ~ '_' ~ loop.index if name != column.name and name | lower in names else name -%}
            {%- do names.append(name | lower) -%}
            {%- do shown.append(dbt_backfill.identifier(column.name) ~ ' as ' ~ dbt_backfill.identifier(name)) -%}
        {%- endfor -%}
        {%- set columns = dbt_backfill.get_compared_columns(columns) %}
        with promised as (
            select {{ columns }}
            from (
                {{ dbt_backfill.get_promised_sql(relations, defined.state, selection) }}
            )
        ),
        present as (
            select {{ columns }}
            from {{ dbt_backfill.get_present_sql(relations, defined.state) }}
            {{ 'where ' ~ selected if selected != 'true' }}
        )
        select 'missing' as {{ own }}, {{ shown | join(', ') }}
        from (select * from promised except all select * from present)
        union all
        select 'unexpected' as {{ own }}, {{ shown | join(', ') }}
        from (select * from present except all select * from promised)
    {%- endif -%}
{% endtest %}


{#- True if the invocation only compiles its nodes or generates docs. In this case the MV may not exist, so the test reads nothing. -#}
{% macro is_only_compiled() %}
    {{ return(execute and invocation_args_dict.get('which') in ['compile', 'generate']) }}
{% endmacro %}


{#- Return the tables of the tested MV, see get_relations, its 'state', see read_state, and the 'name' of the MV for messages and run-operations. The
    name is the name of the model, or the name of the table if no model makes the MV. Refuse a relation without a state of its own, and a test with a
    `where`. -#}
{% macro get_tested_relations(model, test) %}
    {%- if model is string -%}
        {%- do dbt_backfill.refuse(
            "this test checks the whole MV, but its config sets 'where': " ~ model, "Remove 'where' from this test", mv=test, id='test-with-where'
        ) -%}
    {%- endif -%}
    {%- set maker = dbt_backfill.find_maker(model, ['model']) -%}
    {%- set relations = dict(dbt_backfill.get_relations(model), name=model.identifier if maker is none else dbt_backfill.get_model_name(maker),
        is_original=maker is none) -%}
    {%- set existing = dbt_backfill.get_existing_relations(relations) -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.mv, model) -%}
    {%- if 'dbt_backfill.id' in properties and existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(relations, properties) -%}
    {%- elif existing.mv is none or existing.progress is none -%}
        {%- do dbt_backfill.refuse(model.render() ~ ' is not a backfilled_mv, or has never run',
            'Run the model first, and put this test only on models with that materialization', mv=relations.name, id='mv-without-state') -%}
    {%- endif -%}
    {%- set original = dbt_backfill.find_original(model, properties) -%}
    {%- if original -%} {%- do dbt_backfill.refuse_copy(relations, original) -%} {%- endif -%}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(relations) -%} {%- endif -%}
    {%- set state = dbt_backfill.read_state(relations) -%}
    {%- if (state.committed or {}).get('backfill_id') != properties['dbt_backfill.id'] -%} {%- do dbt_backfill.refuse_other_state(relations) -%} {%- endif -%}
    {{ return(dict(relations, state=state)) }}
{% endmacro %}
