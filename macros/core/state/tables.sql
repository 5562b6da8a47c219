{#-
    Return the tables of an MV: {'mv', 'progress', 'barriers', 'controls', 'staged', 'replica', 'live'}, as relations. `state/` defines and
    reads their columns. The statements that change the progress table are in state/plan.sql, barrier/recover.sql, barrier/commit.sql,
    barrier/foreign_writes.sql and features/rescale.sql. The fence (get_fence), the history, the swap, reports (state/progress.sql), the live view,
    verify_backfill and the test backfill_complete also read the progress table. If vnodes have different positions, position/keys.sql and
    barrier/choose_plan.sql read it as well. A clone copies the progress table.

    `<mv>__progress` has one row per vnode. Only this table says which barrier is committed and which plan is stored. `<mv>__barriers` has one row per
    committed barrier; it is for users, and no decision of a run depends on it. `<mv>__controls` has the pauses and rate limits that users have set,
    see state/read_state.sql. `<mv>__staged` exists for a live database: it has the rows that were read for the next barrier, see run_stage.
    `<mv>__replica` has a copy of the upstream's columns that the query reads, ordered by the key, see make_replica. `<mv>__live` is a view that
    exists if the model sets `live_view`, see run_live_view.
-#}
{% macro get_relations(mv) %}
    {%- set relations = {'mv': mv} -%}
    {%- for name in ['progress', 'barriers', 'controls', 'staged', 'replica', 'live'] -%}
        {%- do relations.update({name: mv.incorporate(path={'identifier': mv.identifier ~ '__' ~ name})}) -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}


{#- Return the tables of the next generation of an MV, in the form of get_relations. The next generation has the controls of the MV. -#}
{% macro get_next_relations(mv) %}
    {{ return(dbt_backfill.get_relations(mv.incorporate(path={'identifier': mv.identifier ~ '__next'}))) }}
{% endmacro %}


{#- Return the id of the MV whose next generation has this state; none without a state, or if a user has called an MV `<mv>__next`. -#}
{% macro read_next_of(next) %}
    {{ return(dbt_backfill.read_listed_properties(dbt_backfill.load_table(next.progress), next.progress).get('dbt_backfill.next_of')) }}
{% endmacro %}


{#- Return the names of the tables beside the MV, such as `barriers` for `<mv>__barriers`, in the order in which they are dropped: the state comes last. -#}
{% macro companion_names() %}
    {{ return(['barriers', 'controls', 'staged', 'replica', 'progress']) }}
{% endmacro %}


{#- Return the tables of an MV, see get_relations. Refuse the MV if another node of the project makes a table with the name of the MV's state,
    history, live view or next generation. Otherwise dbt would replace one of the two tables by the other, or this package would treat the other
    node's table as a table of the MV. -#}
{% macro get_checked_relations(mv, options) %}
    {%- set relations = dbt_backfill.get_relations(mv) -%}
    {%- set own, next = [], dbt_backfill.get_next_relations(mv).values() | list if options.full_refresh_mode == 'beside' else [] -%}
    {%- for name in dbt_backfill.companion_names() + (['live'] if options.live_view else []) -%} {%- do own.append(relations[name]) -%} {%- endfor -%}
    {%- for relation in own + next -%}
        {%- set node = dbt_backfill.find_maker(relation) -%}
        {%- if node is not none -%}
            {%- do dbt_backfill.refuse(
                relation.render() ~ ' is the name of ' ~ ('its next generation' if loop.index > own | length
                    else 'its live view' if relation == relations.live else 'its state')
                    ~ ', but the ' ~ node.resource_type ~ ' ' ~ dbt_backfill.get_model_name(node) ~ ' creates a table of the same name',
                'Give the MV or that node another alias', id='table-name-conflict') -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}


{#-
    Return the columns that the progress table has for every key: {name: type}. `epoch`, `dirty`, `upstream_version`, and the id and kind of the next
    epoch's plan (null while nothing is planned) are the same in all rows. Only the row of vnode 0 has these JSON texts: `plan`, the next epoch's plan
    (see get_plan_json_sql); `last`, the last committed barrier, with its outcome; `unwritten`, the earlier barriers that the history may still lack.
-#}
{% macro progress_columns() %}
    {{ return({
        'vnode': 'int', 'epoch': 'bigint', 'backfill_finished': 'boolean', 'row_count': 'bigint', 'upstream_version': 'string',
        'dirty': 'boolean', 'plan_id': 'string', 'plan_kind': 'string', 'plan': 'string', 'last': 'string',
        'unwritten': 'array<string>',
    }) }}
{% endmacro %}


{#-
    Return the properties of a state table: the progress table or the history. With serializable isolation, two runs that plan or commit the same
    epoch conflict. The isolation is set explicitly, because a session or catalog may have another default than Delta and Iceberg. Both tables are
    small and copied on write, so the progress table stays one file. Delta gathers statistics only of the history's first column, the epoch: other
    statistics cost more than they save.

    Arguments:
      backfill_id (string): the id of the MV, for the progress table; none for the history. A full refresh may add columns for the position to the
        progress table, with any name and type that a key may have. So a progress table on Delta has the table features for all such names and types
        from the start.
-#}
{% macro state_table_properties(backfill_id=none) %}
    {%- set properties, of_progress = dbt_backfill.exact_table_properties(), backfill_id is not none -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set mode = 'copy-on-write' -%}
        {%- do properties.update({
            'format-version': '2', 'write.metadata.delete-after-commit.enabled': 'true',
            'write.merge.mode': mode, 'write.update.mode': mode, 'write.delete.mode': mode,
        }) -%}
    {%- else -%}
        {%- do properties.update({
            'delta.enableDeletionVectors': 'false', 'delta.enableChangeDataFeed': 'false',
            'delta.dataSkippingNumIndexedCols': '0' if of_progress else '1',
        }) -%}
        {%- if of_progress -%}
            {%- do properties.update({'delta.columnMapping.mode': 'name', 'delta.feature.timestampNtz': 'supported'}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if of_progress -%} {%- do properties.update(dbt_backfill.own_table_properties(backfill_id)) -%} {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Return the current version of a table of an MV, as text; `none` for an Iceberg table without a snapshot. -#}
{% macro read_version(relations, table) %}
    {%- set relation = relations[table] -%}
    {%- if relations.options.file_format == 'iceberg' -%}
        {{ return(dbt_backfill.read_table_properties(relation).get('current-snapshot-id', 'none')) }}
    {%- endif -%}
    {{ return(dbt_backfill.run_table(
        'read the version of ' ~ relation.identifier, 'describe history ' ~ relation.render() ~ ' limit 1', relations.mv
    )[0]['version'] | string) }}
{% endmacro %}


{#- True if `relation` exists now and belongs to the backfill with the id `id`. -#}
{% macro exists_with_id(relation, id) %}
    {{ return(dbt_backfill.find_table(relation) is not none and dbt_backfill.read_table_properties(relation).get('dbt_backfill.id') == id) }}
{% endmacro %}


{#- Create the tables of a missing MV without a barrier. In a run that reads nothing, the MV is empty. In a takeover, an existing table becomes the
    MV. Return the state of the MV. `columns`: see prepare_creation; none if they are not known yet. `making`: see get_create_statements. -#}
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


{#- Refuse an MV that does not belong to the state. This happens in three cases. Another run has created the state. This run has replaced the state of
    another run that was still alive, and the other run created its MV at the same time. Or another program, such as a pre-hook, has created a table
    of this name after dbt listed the tables: `create table if not exists` succeeds even if another table of this name exists. -#}
{% macro check_created(backfill, state, backfill_id, is_ours=true) %}
    {%- set belongs = is_ours and dbt_backfill.read_table_properties(backfill.mv).get('dbt_backfill.id') == backfill_id -%}
    {%- if not belongs and (not is_ours or state.committed.get('replaces')) -%}
        {%- do dbt_backfill.refuse(
            'another run, with another query, created the tables of the MV at the same time', 'Run only one deployment of the model, and run again',
            id='created-with-another-query') -%}
    {%- elif not belongs -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ ' was created by something else than this run, after dbt listed the tables, so this run did not write to it',
            'Remove the hook or the program that creates ' ~ backfill.mv.render() ~ ', drop or rename the table, and run again',
            id='table-created-meanwhile') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return the statements, each with its semicolon, that create first the progress table and then the MV, if they are missing. Each statement can be
    repeated. The statements are part of a script with the variables of `declare_creation`. The statements set the variable `stored_plan` to the plan
    of epoch 1 as JSON, or to null if there is no such plan.

    `creation` is the plan of epoch 0: the MV has no rows, and no vnode has started. Its kind is `create`. If the MV's table exists already, the kind
    says how the table becomes the MV, see find_takeover. The backfill_id of this plan is stored as the table property `dbt_backfill.id` of both
    tables. If two first runs are alive at the same time, only one of them creates the progress table, with its own plans for the epochs 0 and 1. The
    other run reads the id and the plan from the progress table. It makes the MV only if both runs have the same query (`is_ours`). `first`: the plan
    of the first barrier; none if no barrier follows. `making`: the statements that turn an existing table into the MV; none for a new table.
-#}
{% macro get_create_statements(relations, creation, columns, first=none, making=none) -%}
    {%- set progress, next_of = relations.progress.render(), {} -%}
    {%- if relations.get('generation') == 'next' -%} {%- do next_of.update({'dbt_backfill.next_of': relations.controls_of}) -%} {%- endif -%}
    {%- set definition -%}
        {{ progress }}
        {{ dbt_backfill.table_clauses(relations.progress, dict(dbt_backfill.state_table_properties(creation.backfill_id), **next_of)) }}
        as
        {{ dbt_backfill.get_not_started_sql(creation, first) }}
    {%- endset -%}
    {%- if creation.get('replaces') -%}
    {#- Replace only the state that a first run of another model has left: the condition compares the id of this state. A Delta table is replaced and
        not dropped, because a drop would leave the files of a table at a location of the user. An Iceberg table is dropped, because a Hive metastore
        refuses to replace a column by a column of another type. #}
    if (
        select count(*) from {{ progress }}
        where get_json_object(last, '$.backfill_id') = {{ dbt_backfill.string_literal(creation.replaces) }}
    ) > 0 then
        {{ 'drop table if exists ' ~ progress if dbt_backfill.get_file_format() == 'iceberg' else 'create or replace table ' ~ definition }};
    end if;
    {%- endif %}
    create table if not exists {{ definition }};
    set (created_id, stored_plan, is_ours) = (
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


{#- Return the declarations of the variables that get_create_statements needs. -#}
{% macro declare_creation() -%}
    declare created_id string;
    declare stored_plan string;
    declare is_ours boolean;
    declare create_mv string;
{%- endmacro %}


{#- Return a select of one row per vnode in the state NotStarted at epoch 0: no position, not finished, no rows. -#}
{% macro get_not_started_sql(creation, first=none) -%}
    {%- set values = {
        'vnode': 'id', 'epoch': '0', 'backfill_finished': 'false', 'row_count': '0', 'dirty': 'false',
        'last': 'if(id = 0, ' ~ dbt_backfill.get_plan_json_sql(creation) ~ ', null)',
    } -%}
    {%- if first -%}
        {%- do values.update({
            'plan_id': dbt_backfill.string_literal(first.plan_id), 'plan_kind': dbt_backfill.string_literal(first.kind),
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
