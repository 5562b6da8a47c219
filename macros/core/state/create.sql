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


{#-
    The statements, each with its semicolon, that create what is missing of the state, in the order progress, MV; each
    can be repeated. They stand in a script with the variables of `declare_creation`, and leave the plan of epoch 1 as
    JSON in `standing`, null if there is none.

    `creation` is the plan of epoch 0: no rows, all vnodes NotStarted. Its kind is `create`, or, where the MV's table is there
    already, says how it is taken, see find_taking. Its id stands in both tables, as the table property `dbt_backfill.id` too.
    Of two first runs at once one creates the progress table, with both plans in it; so the other takes id and plan from
    there, and makes the MV only if it has the same query (`is_ours`).

    Arguments:
      first (dict): the plan of the first barrier, none if there is to be no barrier.
      making (list): the statements that make the MV, where it is not created.
-#}
{% macro get_create_statements(relations, creation, columns, first=none, making=none) -%}
    {%- if creation.get('replaces') -%} {{ dbt_backfill._get_give_way_statements(relations, creation, first) }} {%- endif %}
    create table if not exists {{ relations.progress.render() }}
    {{ dbt_backfill.table_clauses(relations.progress, dbt_backfill.progress_properties(creation)) }}
    as
    {{ dbt_backfill.get_not_started_sql(creation, first) }};
    set (created_id, standing, is_ours) = (
        select
            get_json_object(last, '$.backfill_id'),
            if(epoch = 0, plan, null),
            get_json_object(last, '$.query_hash') = {{ dbt_backfill.string_literal(creation.query_hash) }}
                and get_json_object(last, '$.query_columns') = {{ dbt_backfill.string_literal(creation.query_columns) }}
                and (epoch > 0 or get_json_object(last, '$.kind') = {{ dbt_backfill.string_literal(creation.kind) }})
        from {{ relations.progress.render() }}
        where vnode = 0
    );
    {%- for statement in making or [dbt_backfill.get_create_mv_sql(relations.mv, columns, creation.backfill_id)] %}
    set create_mv = replace(
        {{ dbt_backfill.string_literal(statement) }},
        {{ dbt_backfill.string_literal(creation.backfill_id) }},
        created_id
    );
    if is_ours then
        execute immediate create_mv;
    end if;
    {%- endfor %}
{%- endmacro %}


{#-
    Statements that put away the state which a first run of another model has left, and nothing else: they look for its id.
    Dropping a Delta table in a location of the user's leaves its files, so there it is replaced; an Iceberg table is
    dropped, because a Hive metastore does not let a column be replaced by one of another type.
-#}
{% macro _get_give_way_statements(relations, creation, first) -%}
    if (
        select count(*) from {{ relations.progress.render() }}
        where get_json_object(last, '$.backfill_id') = {{ dbt_backfill.string_literal(creation.replaces) }}
    ) > 0 then
    {%- if dbt_backfill.get_file_format() == 'iceberg' %}
        drop table if exists {{ relations.progress.render() }};
    {%- else %}
        create or replace table {{ relations.progress.render() }}
        {{ dbt_backfill.table_clauses(relations.progress, dbt_backfill.progress_properties(creation)) }}
        as
        {{ dbt_backfill.get_not_started_sql(creation, first) }};
    {%- endif %}
    end if;
{%- endmacro %}


{#- The variables of a script with these statements. -#}
{% macro declare_creation() -%}
    declare created_id string;
    declare standing string;
    declare is_ours boolean;
    declare create_mv string;
{%- endmacro %}


{#- One row per vnode of the epoch 0, NotStarted: no position, not finished, no rows. -#}
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
    select
        {%- for name, type in dbt_backfill.progress_columns().items() %}
        cast({{ values.get(name, 'null') }} as {{ type }}) as {{ name }}{{ ',' if not loop.last or creation.key }}
        {%- endfor %}
        {%- for key in creation.key %}
        cast(null as {{ dbt_backfill.type_sql(key.type) }}) as {{ dbt_backfill.identifier(key.position) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from range(0, {{ creation.vnode_count }}, 1, 1)
{%- endmacro %}
