{#-
    Step 1 of a barrier: what is committed and planned, and that it belongs to this MV. Where there is nothing yet,
    the state is that of an MV about to be created (`missing`). Where an earlier run died while it created the
    tables, the rest of them is created first. Every other combination is refused by its name.
-#}
{% macro observe_state(backfill) %}
    {%- set existing = dbt_backfill.get_existing_relations({
        'mv': backfill.mv, 'progress': backfill.progress, 'barriers': backfill.barriers,
    }) -%}
    {%- if existing.mv is none and existing.progress is none and existing.barriers is not none
            and dbt_backfill._has_only_barriers(backfill) -%}
        {%- do dbt_backfill._refuse_missing_state(backfill, existing) -%}
    {%- elif existing.mv is none and (existing.progress is none or existing.barriers is not none) -%}
        {%- if existing.progress is not none and dbt_backfill.read_state(backfill).epoch > 0 -%}
            {%- do dbt_backfill._refuse_missing_mv(backfill) -%}
        {%- endif -%}
        {%- set state = dbt_backfill.get_missing_state(backfill) -%}
        {%- if existing.barriers is none or dbt_backfill._gives_way(backfill, state) -%} {{ return(state) }} {%- endif -%}
        {%- do dbt_backfill.create_backfill(backfill, state) -%}
        {{ return(dbt_backfill.observe_existing(backfill, backfill.mv)) }}
    {%- elif existing.mv is none or existing.progress is none or existing.barriers is none -%}
        {%- do dbt_backfill._refuse_missing_state(backfill, existing) -%}
    {%- endif -%}
    {{ return(dbt_backfill.observe_existing(backfill, existing.mv)) }}
{% endmacro %}


{#-
    Whether more stands in the table of barriers than what a first run that died leaves there, its plan. dbt's cache may
    be older than the progress table of another first run, so Spark is asked.
-#}
{% macro _has_only_barriers(backfill) %}
    {%- set had = dbt_backfill.run_json(
        'observe the state',
        "select to_json(named_struct('had', coalesce(max(epoch) > 1 or count(committed_at) > 0, false))) from "
            ~ backfill.barriers.render()
    )[0].had -%}
    {{ return(had and dbt_backfill.find_table(backfill.progress) is none) }}
{% endmacro %}


{#-
    Whether what a first run has left, that failed or died before it had created the MV, is for another model than today's:
    it gives way to this one, because nothing was ever merged. Its id is noted in the plan that creates the tables.
-#}
{% macro _gives_way(backfill, state) %}
    {%- set left = dbt_backfill.run_json(
        'observe what was begun',
        "select to_json(named_struct('plan', max_by(struct(*), epoch), 'settings', "
            ~ dbt_backfill.settings_expression() ~ ')) from ' ~ backfill.barriers.render() ~ ' where epoch <= 1'
    )[0] -%}
    {%- if not left.get('plan') or not dbt_backfill._query_difference(backfill, left, left.plan) -%} {{ return(false) }} {%- endif -%}
    {%- do state.committed.update({'replaces': left.plan.backfill_id}) -%}
    {{ return(true) }}
{% endmacro %}


{#- The state of three tables that exist. -#}
{% macro observe_existing(backfill, existing) %}
    {%- do dbt_backfill._check_mv_is_ours(backfill, existing) -%}
    {%- set state = dbt_backfill.read_state(backfill, dbt_backfill.get_uncached_relations(backfill)) -%}
    {%- do dbt_backfill.check_string_literals(state.settings, backfill.get('name')) -%}
    {%- do dbt_backfill.check_catalog_cache(backfill, state.get('caches')) -%}
    {%- do dbt_backfill.check_idempotent_writes(backfill, state.get('txn_app_id', '')) -%}
    {%- do dbt_backfill._check_state(backfill, state) -%}
    {%- do dbt_backfill._check_mv_was_not_replaced(backfill, state) -%}
    {{ return(state) }}
{% endmacro %}


{#- The state of an MV that is about to be created: the epoch 0, at which no vnode has started. -#}
{% macro get_missing_state(backfill) %}
    {%- do dbt_backfill.check_catalog_cache(backfill) -%}
    {%- do dbt_backfill.check_settings(backfill) -%}
    {%- do dbt_backfill.check_idempotent_writes(backfill) -%}
    {%- do dbt_backfill.check_table_overrides(backfill) -%}
    {%- do dbt_backfill.explain_backfill(backfill) -%}
    {%- do dbt_backfill.check_key_order(backfill) -%}
    {%- set id = local_md5(invocation_id ~ model.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- set plan = dbt_backfill.new_plan(backfill, {'epoch': -1, 'backfill_id': id}, 'create') -%}
    {%- do plan.update({'next_bounds': [], 'bounds_complete': false}) -%}
    {{ return({
        'missing': true, 'epoch': 0, 'backfill_id': id, 'committed': plan, 'uniform': true,
        'finished': false, 'any_finished': false, 'dirty': false, 'row_count': 0,
    }) }}
{% endmacro %}


{#- Create the three tables for such a state, without a barrier: an empty MV in a run that reads nothing. -#}
{% macro create_backfill(backfill, state) %}
    {%- do dbt_backfill.prepare_creation(backfill) -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.declare_creation() }}
            {{ dbt_backfill.get_create_statements(backfill, state.committed, backfill.columns) }}
        end
    {%- endset -%}
    {%- do dbt_backfill.run_table('create the tables', sql) -%}
    {%- do dbt_backfill.finish_creation(backfill, state) -%}
{% endmacro %}


{#- What has to be known about the query's columns before the tables are created. -#}
{% macro prepare_creation(backfill) %}
    {#- Not of the model's own text: the barriers' name for the upstream has no metadata columns and no branches. -#}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- do dbt_backfill.check_table_properties() -%}
    {%- do dbt_backfill.check_columns(columns, dbt_backfill.mv_table_properties([], '')) -%}
    {%- do dbt_backfill.check_constraints(
        dbt_backfill.get_query_sql(backfill.query, backfill.upstream.relation, 'select * from ' ~ backfill.upstream.relation.render())
    ) -%}
    {%- do dbt_backfill._check_columns_of_clauses(columns | map(attribute='name') | map('lower') | list) -%}
    {%- do backfill.update({'columns': columns}) -%}
{% endmacro %}


{#- Refuse a column to partition or cluster by that the query does not return; Iceberg's transforms are left to Spark. -#}
{% macro _check_columns_of_clauses(names) %}
    {%- for option in ['partition_by', 'clustered_by'] -%}
        {%- set columns = config.get(option) or [] -%}
        {%- for column in ([columns] if columns is string else columns)
                if modules.re.fullmatch('\\w+', column) and column | lower not in names -%}
            {%- do dbt_backfill.refuse(
                option ~ " names the column '" ~ column ~ "', which its query does not return",
                'Select that column, or name another one'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{% macro finish_creation(backfill, state) %}
    {%- do state.update({'missing': false}) -%}
    {%- do backfill.update({'created': true}) -%}
{% endmacro %}


{% macro _refuse_missing_mv(backfill) %}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' does not exist, but its state does (' ~ backfill.progress.render() ~ ', '
            ~ backfill.barriers.render() ~ ')',
        'Restore the MV, or drop the two state tables to build it anew',
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro _refuse_missing_state(backfill, existing) %}
    {%- if existing.progress is none and existing.barriers is none
            and 'dbt_backfill.id' not in dbt_backfill.read_table_properties(backfill.mv) -%}
        {%- do dbt_backfill._refuse_foreign_mv(backfill) -%}
    {%- endif -%}
    {%- set missing = [] -%}
    {%- for name in ['progress', 'barriers'] if existing[name] is none -%}
        {%- do missing.append(backfill[name].render()) -%}
    {%- endfor -%}
    {%- do dbt_backfill.refuse(
        'its state is missing: ' ~ missing | join(' and ') ~ (' do' if missing | length > 1 else ' does') ~ ' not exist',
        'Restore what is missing, or drop what is left of ' ~ backfill.mv.render() ~ ', '
            ~ backfill.progress.render() ~ ' and ' ~ backfill.barriers.render() ~ ' to build it anew',
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro _refuse_foreign_mv(backfill) %}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' exists, and was not made by this materialization',
        'Drop or rename it, or give the model another alias',
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro _check_mv_is_ours(backfill, existing) %}
    {%- set properties = {} if existing.is_view else dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill._refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- set format = 'iceberg' if properties.get('format', '').startswith('iceberg') else 'delta' -%}
    {%- if format != backfill.options.file_format -%}
        {%- do dbt_backfill.refuse(
            'file_format changed from ' ~ format ~ ' to ' ~ backfill.options.file_format ~ ' since ' ~ backfill.mv.render() ~ ' was made',
            'Undo the change, or drop ' ~ backfill.mv.render() ~ ' and its two state tables to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_properties(backfill, properties) -%}
    {%- do backfill.update({
        'mv_id': properties['dbt_backfill.id'],
        'mv_snapshot_id': properties.get('current-snapshot-id'),
        'docs': properties.get('dbt_backfill.docs'),
        'constraints': dbt_backfill.read_constraints(properties),
    }) -%}
{% endmacro %}


{#- Refuse an MV whose owner, or catalog, has since set a property that exactness needs otherwise. -#}
{% macro _check_properties(backfill, properties) %}
    {%- set exact = dbt_backfill.exact_table_properties(backfill.options.file_format) -%}
    {%- for name, value in exact.items() if properties.get(name, value) | lower != value | lower -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ " has the table property '" ~ name ~ "' = '" ~ properties[name]
                ~ "', under which barriers are not exact",
            'ALTER TABLE ' ~ backfill.mv.render() ~ " SET TBLPROPERTIES ('" ~ name ~ "' = '" ~ value ~ "')",
            mv=backfill.get('name')
        ) -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Refuse an Iceberg MV that has left the snapshot of the last barrier: CREATE OR REPLACE, dbt's `table`
    materialization too, keeps the properties and with them our id. A reset replaces the MV itself before it is
    committed or given up. A snapshot that has expired tells nothing, unless the table began anew since that barrier.
-#}
{% macro _check_mv_was_not_replaced(backfill, state) %}
    {%- set known = state.committed.get('mv_snapshot_id') -%}
    {%- if known in [none, backfill.mv_snapshot_id] or (state.get('planned') or {}).get('kind') in ['reset', 'abandon'] -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set history = dbt_backfill.run_json(
        'read the history of ' ~ backfill.mv.identifier,
        "select to_json(named_struct('entries', count_if(snapshot_id = " ~ known ~ '), '
            ~ "'ancestors', count_if(snapshot_id = " ~ known ~ ' and is_current_ancestor), '
            ~ "'begun', count_if(is_current_ancestor and parent_id is null and made_current_at > "
            ~ '(select max(committed_at) from ' ~ backfill.barriers.render() ~ ')))) '
            ~ 'from ' ~ backfill.mv.render() ~ '.history'
    )[0] -%}
    {%- if (history.entries or history.begun) and not history.ancestors -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ ' was replaced or rolled back by something else since the barrier ' ~ state.epoch
                ~ ', which left it at the snapshot ' ~ known,
            'Undo that, or drop it and its two state tables to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _check_state(backfill, state) %}
    {%- if not state.get('committed') or [state.backfill_id, state.committed.backfill_id] != [backfill.mv_id, backfill.mv_id] -%}
        {%- do dbt_backfill.refuse(
            'its state tables ' ~ backfill.progress.render() ~ ' and ' ~ backfill.barriers.render() ~ ' belong to another MV',
            'Restore the ones that were made with ' ~ backfill.mv.render() ~ ', or drop all three to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- elif state.epoch != state.last_epoch or state.rows != state.committed.vnode_count
            and not dbt_backfill.is_abandoned_reset(state.committed) -%}
        {%- do dbt_backfill.refuse(
            backfill.progress.render() ~ ' is damaged: it has ' ~ state.rows ~ ' rows for ' ~ state.committed.vnode_count
                ~ ' vnodes, of the epochs ' ~ state.epoch ~ ' to ' ~ state.last_epoch,
            'Restore an earlier version of it, or drop it with ' ~ backfill.mv.render() ~ ' and '
                ~ backfill.barriers.render() ~ ' to build the MV anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}
