{#-
    Return the facts that a run observes before its first barrier. Refuse tables that do not belong to this MV. {
      'state': as read_state returned it; for an MV that is about to be created, see observe_missing,
      'mv': the MV as the run found it, see observe_existing; none if there was no MV,
      'analysis': what the run already knows about the query, see new_analysis
    }

    This macro writes in three cases only. It takes over a table that is to become the MV, see take_over_table. It creates the MV if an earlier run
    died between the creation of the state and the creation of the MV. It removes a plan of another MV.
-#}
{% macro observe_state(backfill, reads_nothing=false) %}
    {%- set found = dbt_backfill.observe_tables(backfill, reads_nothing) -%}
    {%- if found.get('observed') -%}
        {#- A late script of an earlier MV of this name may have stored its plan. No fence lets its statements pass once the plan is removed. -#}
        {%- set state, planned = found.observed.state, found.observed.state.get('planned') -%}
        {%- if not planned or planned.backfill_id == state.committed.backfill_id -%} {{ return(found.observed) }} {%- endif -%}
        {%- set sql = 'update ' ~ backfill.progress.render() ~ ' set plan_id = null, plan_kind = null, plan = null where plan_id = '
            ~ dbt_backfill.string_literal(planned.plan_id) -%}
        {%- do dbt_backfill.run_table('remove the plan of an earlier MV', 'begin ' ~ dbt_backfill.get_state_statement(backfill, sql) ~ ' end') -%}
        {{ return(dict(found.observed, state=dict(state, planned=none))) }}
    {%- elif found.get('takeover') -%}
        {{ return(dbt_backfill.take_over_table(backfill, found)) }}
    {%- endif -%}
    {%- set missing = found.missing -%}
    {%- if found.is_of_another_model -%}
        {#- The plan of epoch 0 records the id of the state that this plan replaces. -#}
        {%- set creation = dict(missing.state.committed, replaces=found.left.committed.backfill_id) -%}
        {{ return(dict(missing, state=dict(missing.state, committed=creation))) }}
    {%- endif -%}
    {%- do dbt_backfill.create_backfill(backfill, missing.state) -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- set made = dbt_backfill.observe_existing(backfill, found.existing, found.settings, properties) -%}
    {{ return(dict(made, mv=none, analysis=missing.analysis)) }}
{% endmacro %}


{#-
    Return the tables of an MV that exist. Nothing is written. There are three cases, and every other combination of tables is refused.
      - The MV and its state exist, or both are missing: {'observed': see observe_state}.
      - A table is to become the MV: {'takeover': see find_takeover, 'properties': the properties of that table, 'existing', 'settings'}.
      - Only the state exists, because a first run died before the MV was created: {'left': this state, 'missing': see observe_missing,
        'is_of_another_model': see _is_of_another_model, 'existing', 'settings'}.
    'existing': see get_existing_relations; 'settings': the session's settings, see read_settings. A run that reads nothing takes over no table.
-#}
{% macro observe_tables(backfill, reads_nothing=false) %}
    {%- set settings = dbt_backfill.read_settings(backfill) -%}
    {%- set existing = dbt_backfill.get_existing_relations(backfill) -%}
    {%- if existing.progress is not none and existing.mv is none -%}
        {#- dbt listed the tables at the start of the invocation. Another run may have created the MV since then. -#}
        {%- set existing = dict(existing, mv=dbt_backfill.find_table(backfill.mv)) -%}
    {%- endif -%}
    {%- if existing.mv is none -%}
        {%- set left = dbt_backfill.read_left_state(backfill, existing) -%}
        {%- if left is none -%}
            {%- do dbt_backfill.check_leftovers_are_ours(backfill, existing) -%}
        {%- elif not left.committed or left.epoch > 0 -%}
            {%- do dbt_backfill.refuse_missing_mv(backfill) -%}
        {%- endif -%}
        {%- set missing = dbt_backfill.observe_missing(backfill, settings) -%}
        {%- if left is none -%} {{ return({'observed': missing}) }} {%- endif -%}
        {%- set is_other = dbt_backfill._is_of_another_model(backfill, missing, left) -%}
        {{ return({'left': left, 'missing': missing, 'is_of_another_model': is_other, 'existing': existing, 'settings': settings}) }}
    {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.mv, backfill.mv) -%}
    {#- A table is taken over if adopt_table has marked it, or if the model may replace an existing table. -#}
    {%- set may_take = not reads_nothing and (properties.get('dbt_backfill.adopt') or backfill.options.replace_existing) -%}
    {%- set takeover = dbt_backfill.find_takeover(backfill, existing, properties) if may_take else none -%}
    {%- if takeover -%}
        {{ return({'takeover': takeover, 'existing': existing, 'properties': properties, 'settings': settings}) }}
    {%- elif existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(backfill, properties) -%}
    {%- endif -%}
    {%- set observed = dbt_backfill.observe_existing(backfill, existing, settings, properties) -%}
    {%- if should_full_refresh() -%} {%- do dbt_backfill.run_check_of_store(backfill, settings, existing.mv) -%} {%- endif -%}
    {{ return({'observed': observed}) }}
{% endmacro %}


{#- Return the tables `names` as a dict, with none for each table that does not exist. -#}
{% macro get_existing_relations(relations, names=['mv', 'progress', 'barriers']) %}
    {%- set existing = {} -%}
    {%- for name in names -%} {%- do existing.update({name: dbt_backfill.load_table(relations[name])}) -%} {%- endfor -%}
    {{ return(existing) }}
{% endmacro %}


{#- Return the state that an earlier run left, or none. Refuse a table of another writer, and a format that this version does not read. -#}
{% macro read_left_state(backfill, existing) %}
    {%- if existing.progress is none -%} {{ return(none) }} {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.progress, backfill.progress) -%}
    {%- if 'dbt_backfill.id' not in properties and 'dbt_backfill.format' not in properties -%}
        {%- do dbt_backfill.refuse(
            backfill.progress.render() ~ ' has the name of the state of ' ~ backfill.mv.render() ~ ', but was not created by this package',
            'Rename that table, or give the model another alias', mv=backfill.get('name'), id='state-name-taken') -%}
    {%- elif properties.get('dbt_backfill.format') != dbt_backfill.state_format() -%}
        {%- do dbt_backfill.refuse_state_format(backfill, properties) -%}
    {%- endif -%}
    {{ return(dbt_backfill.read_state(backfill)) }}
{% endmacro %}


{#- Refuse a table that has the name of the new MV's history or controls. Accept a table that an earlier MV left and that the new MV can write to. In
    another catalog a lookup of the controls would cost a statement. So there, the first statement that reads the controls finds such a table. -#}
{% macro check_leftovers_are_ours(backfill, existing) %}
    {%- if existing.barriers -%}
        {%- set properties = dbt_backfill.read_listed_properties(existing.barriers, backfill.barriers) -%}
        {%- if properties.get('dbt_backfill.format') != dbt_backfill.state_format()
                or properties.get('format', '').startswith('iceberg') != (backfill.options.file_format == 'iceberg') -%}
            {%- do dbt_backfill.refuse(
                'the table ' ~ backfill.barriers.render() ~ ' has the name of its history, but it is not a history in the format '
                    ~ backfill.options.file_format ~ ' that this version of the package can write',
                'Drop or rename that table; barriers do not need an old history', mv=backfill.get('name'), id='history-name-taken') -%}
        {%- endif -%}
    {%- endif -%}
    {%- set controls = none if dbt_backfill.get_catalog(backfill.controls) else dbt_backfill.load_table(backfill.controls) -%}
    {%- if controls is not none and not dbt_backfill.has_own_controls(backfill) -%}
        {%- do dbt_backfill.refuse_foreign_controls(backfill) -%}
    {%- endif -%}
{% endmacro %}


{#- Return the result of observe_state for an MV that is about to be created: the epoch is 0, and no vnode has started. Refuse a query from which no
    MV can be made, see analyze_query. `settings`: the session's settings, see read_settings; `existing`: the table that is to become the MV. -#}
{% macro observe_missing(backfill, settings, existing=none) %}
    {%- set analysis = dbt_backfill.check_key_order(backfill, dbt_backfill.analyze_query(backfill, dbt_backfill.new_analysis())) -%}
    {%- do dbt_backfill.run_check_of_store(backfill, settings, existing) -%}
    {%- set settings = dbt_backfill.read_result_settings(settings) -%}
    {%- set id = local_md5(invocation_id ~ model.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- set plan = dbt_backfill.new_plan(backfill, {'epoch': -1, 'committed': {'backfill_id': id}, 'settings': settings}, analysis, 'create') -%}
    {%- set state = {
        'missing': true, 'epoch': 0, 'committed': dict(plan, next_bounds=[], bounds_complete=false), 'uniform': true,
        'finished': false, 'any_finished': false, 'dirty': false, 'row_count': 0, 'written': none, 'settings': settings,
    } -%}
    {{ return({'state': state, 'mv': none, 'analysis': analysis}) }}
{% endmacro %}


{#- True if a state without an MV has to be replaced. A first run left this state: it failed or died before it had created the MV, so no rows were
    ever merged. The state is replaced in two cases. The model was changed after the first run. Or the first run was to take over a table, and this
    table is gone. -#}
{% macro _is_of_another_model(backfill, missing, left) %}
    {{ return(left.committed and (left.committed.kind != 'create'
        or dbt_backfill.find_difference(backfill, missing.state.settings, missing.analysis, left.planned or left.committed) is not none)) }}
{% endmacro %}


{#-
    Return the result of observe_state for an MV whose tables exist. Refuse a state of another MV, a damaged state, and a copy of an MV. Refuse an MV
    if its owner or its catalog has set a table property with which barriers are not exact. 'mv' has what the properties of the MV say: {
      'docs': see apply_docs; none if the MV has no such property,
      'properties': all of them,
      'partitions': the columns by which the MV has been partitioned since it was made or adopted. The config may have other columns now
    }
    `existing`: see get_existing_relations; `settings`: see read_settings; `properties`: of the MV; the last two are none if not read yet.
-#}
{% macro observe_existing(backfill, existing, settings=none, properties=none) %}
    {%- if settings is none -%} {%- set settings = dbt_backfill.read_settings(backfill) -%} {%- endif -%}
    {%- if properties is none -%} {%- set properties = dbt_backfill.read_listed_properties(existing.mv, backfill.mv) -%} {%- endif -%}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- if properties.get('dbt_backfill.format') != dbt_backfill.state_format() -%}
        {%- do dbt_backfill.refuse_state_format(backfill, properties) -%}
    {%- endif -%}
    {%- set id, table, progress = properties['dbt_backfill.id'], backfill.mv.render(), backfill.progress.render() -%}
    {%- set file_format, format = backfill.options.file_format, 'iceberg' if properties.get('format', '').startswith('iceberg') else 'delta' -%}
    {%- if format != file_format -%}
        {%- do dbt_backfill.refuse('file_format changed from ' ~ format ~ ' to ' ~ file_format ~ ' since ' ~ table ~ ' was created',
            'Undo the change, or drop the MV and its state to build the MV again: ' ~ dbt_backfill.get_drop_text(backfill),
            mv=backfill.get('name'), id='file-format-changed') -%}
    {%- endif -%}
    {%- for name, value in dbt_backfill.exact_table_properties(file_format).items() if properties.get(name, value) | lower != value | lower -%}
        {%- do dbt_backfill.refuse(table ~ " has the table property '" ~ name ~ "' = '" ~ properties[name] ~ "', so barriers would not be exact",
            'Execute ALTER TABLE ' ~ table ~ " SET TBLPROPERTIES ('" ~ name ~ "' = '" ~ value ~ "')", mv=backfill.get('name'),
            id='mv-property-changed') -%}
    {%- endfor -%}
    {%- set state = dbt_backfill.read_state(
        backfill, settings, history_of=id if existing.barriers else none, controls_of=backfill.get('controls_of') or id, of_mv=true
    ) -%}
    {%- set committed = state.committed -%}
    {%- if not committed or committed.backfill_id != id -%}
        {%- do dbt_backfill.refuse(
            'its state ' ~ progress ~ ' belongs to another MV',
            'Restore the state that was created with ' ~ table ~ ', or drop both to build the MV again: ' ~ dbt_backfill.get_drop_text(backfill)
                ~ dbt_backfill.or_adopt_text(backfill), mv=backfill.get('name'), id='state-of-another-mv') -%}
    {%- elif state.epoch != state.last_epoch or state.epoch != committed.epoch
            or state.rows != committed.vnode_count and not dbt_backfill.is_abandoned_reset(committed) -%}
        {%- do dbt_backfill.refuse(
            progress ~ ' is damaged: it has ' ~ state.rows ~ ' rows for ' ~ committed.vnode_count ~ ' vnodes, and the epochs of these rows are '
                ~ state.epoch ~ ' to ' ~ state.last_epoch,
            'Restore an earlier version of this table, or drop this table and ' ~ table ~ ' to build the MV again: '
                ~ dbt_backfill.get_drop_text(backfill), mv=backfill.get('name'), id='state-damaged') -%}
    {%- endif -%}
    {%- set original = dbt_backfill.find_original(backfill.mv, properties) -%}
    {%- if original -%} {%- do dbt_backfill.refuse_copy(backfill, original) -%} {%- endif -%}
    {%- set partitions = fromjson(properties.get('dbt_backfill.partitions') or '[]') -%}
    {{ return({
        'state': dict(state, mv_head=properties.get('current-snapshot-id')), 'analysis': dbt_backfill.new_analysis(),
        'mv': {'docs': properties.get('dbt_backfill.docs'), 'properties': properties, 'partitions': partitions},
    }) }}
{% endmacro %}


{#- Return the name of the original MV if the properties of a table show that the table is a copy of an MV; otherwise none. -#}
{% macro find_original(mv, properties) %}
    {%- set original = properties.get('dbt_backfill.mv') or mv.render() -%}
    {#- Spark hides a name that looks like a secret, such as `password_resets`. -#}
    {%- if dbt_backfill.is_redacted(original) -%} {{ return(none) }} {%- endif -%}
    {%- set own, noted = (mv.render() | lower | replace('`', '')).split('.'), (original | lower | replace('`', '')).split('.') -%}
    {#- The name may be written with or without the session's own catalog. -#}
    {%- set known = [own | length, noted | length] | min -%}
    {{ return(none if own[-known:] == noted[-known:] else original) }}
{% endmacro %}


{% macro refuse_missing_mv(backfill) %}
    {%- do dbt_backfill.refuse(backfill.mv.render() ~ ' does not exist, but its state does (' ~ backfill.progress.render() ~ ')',
        'Restore the MV, or drop its state to build the MV again: ' ~ dbt_backfill.get_drop_text(backfill), mv=backfill.get('name'),
        id='mv-missing') -%}
{% endmacro %}


{#- Refuse a table with these properties but no state: a table of another writer, a copy of an MV (by dbt's `clone`, for example), or an MV. -#}
{% macro refuse_missing_state(backfill, properties) %}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- set mv, name = backfill.mv.render(), dbt_backfill.get_name_of(backfill) -%}
    {%- set adopt = dbt_backfill.get_operation_text('adopt_table', '{model: ' ~ name ~ '}') -%}
    {#- If a clone_backfill was interrupted, the property dbt_backfill.mv already has the name of the copy. -#}
    {%- set original = properties.get('dbt_backfill.clone') or dbt_backfill.find_original(backfill.mv, properties) -%}
    {%- if original -%}
        {%- set clone = dbt_backfill.get_operation_text('clone_backfill', '{model: ' ~ name ~ ', source: ' ~ original ~ ', replace: true}') -%}
        {%- do dbt_backfill.refuse(
            mv ~ ' is a clone of the MV ' ~ original ~ ', but the state of that MV was not cloned',
            'To continue from the state of that MV: ' ~ clone ~ '. To have the rows of the clone compared with the query: ' ~ adopt,
            mv=backfill.get('name'), id='clone-without-state') -%}
    {%- endif -%}
    {%- do dbt_backfill.refuse(
        'its state is missing: ' ~ backfill.progress.render() ~ ' does not exist',
        'Restore the state, or drop ' ~ mv ~ ' to build the MV again: ' ~ dbt_backfill.get_drop_text(backfill)
            ~ ('' if backfill.get('generation') == 'next' else '. Or have its rows compared with the query: ' ~ adopt), mv=backfill.get('name'),
        id='state-missing') -%}
{% endmacro %}


{#- Refuse a state in a format that this version does not read. `properties`: of the MV or its progress table; the first format has no number. -#}
{% macro refuse_state_format(backfill, properties) %}
    {%- set state = backfill.progress.render() -%}
    {%- do dbt_backfill.refuse(
        'its state ' ~ state ~ ' has the format ' ~ properties.get('dbt_backfill.format', '1') ~ ', but this version of the package reads '
            ~ dbt_backfill.state_format(),
        'Use the version of the package that created the state, or drop ' ~ backfill.mv.render() ~ ', ' ~ state ~ ' and ' ~ backfill.barriers.render()
            ~ ' to build the MV again', mv=backfill.get('name'), id='state-format-unknown') -%}
{% endmacro %}


{% macro refuse_foreign_mv(backfill) %}
    {%- set adopt = dbt_backfill.get_operation_text('adopt_table', '{model: ' ~ dbt_backfill.get_name_of(backfill) ~ '}') -%}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' exists, but was not made by this materialization',
        'Drop or rename that table' if backfill.get('generation') == 'next' or backfill.get('is_original') else 'To keep its rows: ' ~ adopt ~ '. To replace the table: '
            ~ 'set replace_existing to true, and run the model once with --full-refresh. Or drop or rename the table', mv=backfill.get('name'),
        id='existing-table') -%}
{% endmacro %}


{#- Return the command that drops an MV with its state, or only a next generation. The original of a clone is named by its table. -#}
{% macro get_drop_text(backfill, keep_mv=false) %}
    {%- set which = 'mv: ' ~ backfill.mv.render() if backfill.get('is_original') else 'model: ' ~ dbt_backfill.get_name_of(backfill) -%}
    {%- set more = ', generation: next' if backfill.get('generation') == 'next' else ', keep_mv: true' if keep_mv else '' -%}
    {{ return(dbt_backfill.get_operation_text('drop_backfill', '{' ~ which ~ more ~ '}')) }}
{% endmacro %}


{#- Return the hint that rebuilds an MV. A full refresh only continues a next generation, so a next generation has to be dropped. -#}
{% macro get_rebuild_text(backfill) %}
    {{ return('drop the next generation: ' ~ dbt_backfill.get_drop_text(backfill) if backfill.get('generation') == 'next'
        else 'rebuild the MV with --full-refresh') }}
{% endmacro %}


{#- Return the end of a hint: the user can drop only the state and adopt the table. Return '' for a next generation, which is never adopted. -#}
{% macro or_adopt_text(backfill) %}
    {%- set drop = dbt_backfill.get_drop_text(backfill, keep_mv=true) -%}
    {{ return('' if backfill.get('generation') == 'next' else '. Or drop only the state to adopt the table: ' ~ drop) }}
{% endmacro %}


{#- Refuse a copy of an MV that has a copy of the state: a barrier may have been committed between the two copies. `original`: see find_original. -#}
{% macro refuse_copy(backfill, original) %}
    {%- set mv = backfill.mv.render() -%}
    {%- do dbt_backfill.refuse(
        mv ~ ' and its state are copies of the MV ' ~ original ~ ' and its state, but clone_backfill did not make these copies, so '
            ~ 'they may be of different barriers',
        'Drop both copies and run clone_backfill' ~ dbt_backfill.or_adopt_text(backfill)
            ~ '. If you only renamed the MV and its state: ALTER TABLE ' ~ mv
            ~ " SET TBLPROPERTIES ('dbt_backfill.mv' = '" ~ mv ~ "')", mv=backfill.get('name'), id='clone-copied-by-hand') -%}
{% endmacro %}
