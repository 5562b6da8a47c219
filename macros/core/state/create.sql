{#-
    Create the tables of an MV that is missing, without a barrier: an empty MV in a run that reads nothing, or one of a table that
    exists. Return the state that they have.

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
    {%- do dbt_backfill.check_created(backfill, state, made.get('created_id'), made.is_ours) -%}
    {{ return(dict(state, missing=false)) }}
{% endmacro %}


{#-
    Refuse an MV that is not the state's: another run has created the state, or this run has replaced the state of one that may have
    been alive, and have created its MV at the same time.
-#}
{% macro check_created(backfill, state, backfill_id, is_ours=true) %}
    {%- if not is_ours or state.committed.get('replaces')
            and dbt_backfill.read_table_properties(backfill.mv).get('dbt_backfill.id') != backfill_id -%}
        {%- do dbt_backfill.refuse(
            'another run has created its tables meanwhile, for another query', 'Let one deployment of the model run, and run again'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return the statements, each with its semicolon, that create what is missing of the state, in the order progress, MV; each can be
    repeated. They are part of a script with the variables of `declare_creation`, and leave the plan of epoch 1 as JSON in `standing`,
    null if there is none.

    `creation` is the plan of epoch 0: no rows, all vnodes NotStarted. Its kind is `create`, or, where the MV's table exists already, says
    how it becomes the MV, see find_taking. Its id is stored in both tables, as the table property `dbt_backfill.id` too. Of two first
    runs at once one creates the progress table, with both plans in it; so the other reads id and plan from there, and makes the MV only
    if it has the same query (`is_ours`).

    Arguments:
      first (dict): the plan of the first barrier, none if there is to be no barrier.
      making (list): the statements that make the MV, where it is not created.
-#}
{% macro get_create_statements(relations, creation, columns, first=none, making=none) -%}
    {%- set progress = relations.progress.render() -%}
    {%- set definition -%}
        {{ progress }}
        {{ dbt_backfill.table_clauses(relations.progress, dbt_backfill.state_table_properties(creation.backfill_id)) }}
        as
        {{ dbt_backfill.get_not_started_sql(creation, first) }}
    {%- endset -%}
    {%- if creation.get('replaces') -%}
    {#- Only the state that a first run of another model has left: its id is compared. Dropping a Delta table in a location of the user's
        leaves its files, so it is replaced; an Iceberg table is dropped, because a Hive metastore does not let a column be replaced by
        one of another type. #}
    if (
        select count(*) from {{ progress }}
        where get_json_object(last, '$.backfill_id') = {{ dbt_backfill.string_literal(creation.replaces) }}
    ) > 0 then
        {{ 'drop table if exists ' ~ progress if dbt_backfill.get_file_format() == 'iceberg' else 'create or replace table ' ~ definition }};
    end if;
    {%- endif %}
    create table if not exists {{ definition }};
    set (created_id, standing, is_ours) = (
        select
            get_json_object(last, '$.backfill_id'),
            if(epoch = 0, plan, null),
            get_json_object(last, '$.query_hash') = {{ dbt_backfill.string_literal(creation.query_hash) }}
                and get_json_object(last, '$.query_columns') = {{ dbt_backfill.string_literal(creation.query_columns) }}
                and (epoch > 0 or get_json_object(last, '$.kind') = {{ dbt_backfill.string_literal(creation.kind) }})
        from {{ progress }}
        where vnode = 0
    );
    {%- for statement in making or [dbt_backfill.get_create_mv_sql(relations.mv, columns, creation.backfill_id)] %}
    set create_mv = replace(
        {{ dbt_backfill.string_literal(statement) }}, {{ dbt_backfill.string_literal(creation.backfill_id) }}, created_id
    );
    if is_ours then execute immediate create_mv; end if;
    {%- endfor %}
{%- endmacro %}


{#- Declare the variables of a script with these statements. -#}
{% macro declare_creation() -%}
    declare created_id string;
    declare standing string;
    declare is_ours boolean;
    declare create_mv string;
{%- endmacro %}


{#- Return a select of one row per vnode of the epoch 0, NotStarted: no position, not finished, no rows. -#}
{% macro get_not_started_sql(creation, first=none) -%}
    {%- set values = {
        'vnode': 'id', 'epoch': '0', 'backfill_finished': 'false', 'row_count': '0', 'dirty': 'false',
        'last': 'if(id = 0, ' ~ dbt_backfill.get_plan_json_sql(creation) ~ ', null)',
    } -%}
    {%- if first -%}
        {%- do values.update({
            'plan_id': dbt_backfill.string_literal(first.plan_id),
            'plan_kind': dbt_backfill.string_literal(first.kind),
            'plan': 'if(id = 0, ' ~ dbt_backfill.get_plan_json_sql(first) ~ ', null)',
        }) -%}
    {%- endif -%}
    {%- set columns = [] -%}
    {%- for name, type in dbt_backfill.progress_columns().items() -%}
        {%- do columns.append('cast(' ~ values.get(name, 'null') ~ ' as ' ~ type ~ ') as ' ~ name) -%}
    {%- endfor -%}
    {%- for key in creation.key -%}
        {%- do columns.append('cast(null as ' ~ dbt_backfill.type_sql(key.type) ~ ') as ' ~ dbt_backfill.identifier(key.position)) -%}
    {%- endfor -%}
    select
        {{ columns | join(',\n        ') }}
    from range(0, {{ creation.vnode_count }}, 1, 1)
{%- endmacro %}
