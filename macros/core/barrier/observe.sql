{#-
    Return what a run observes of an MV before its first barrier, and refuse what does not belong to this MV: {
      'state': as read_state returned it, or, of an MV that is about to be created, see observe_missing,
      'mv': the MV as the run has found it, see read_mv; none if there was none,
      'late_reset': why it is to be reset although nobody asked for it, none as a rule,
      'analysis': what it took to know of the query, see new_analysis
    }

    It writes in two cases only: it takes over a table that is to become the MV, see take_over_table, and it creates the MV of an earlier
    run that died after it had created the state.
-#}
{% macro observe_state(backfill, reads_nothing=false) %}
    {%- set found = dbt_backfill.observe_tables(backfill, reads_nothing) -%}
    {%- if found.get('observed') -%}
        {{ return(found.observed) }}
    {%- elif found.get('takeover') -%}
        {{ return(dbt_backfill.take_over_table(backfill, found)) }}
    {%- endif -%}
    {%- set missing = found.missing -%}
    {%- if found.is_of_another_model -%}
        {#- The plan that creates the tables says which state it replaces, and drops it. -#}
        {%- set creation = dict(missing.state.committed, replaces=found.left.committed.backfill_id) -%}
        {{ return(dict(missing, state=dict(missing.state, committed=creation))) }}
    {%- endif -%}
    {%- do dbt_backfill.create_backfill(backfill, missing.state) -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- set made = dbt_backfill.observe_existing(backfill, found.existing, found.settings, properties) -%}
    {{ return(dict(made, mv=none, analysis=missing.analysis)) }}
{% endmacro %}


{#-
    Return what exists of an MV; nothing is written. Each other combination of tables has its own refusal. {
      'observed': of an MV that goes on, or is about to be created, see observe_state; for any other one it is absent, and there is
      'takeover': how the table of its name becomes the MV, see find_takeover, with its 'properties'; or
      'left': the state of a first run that died before the MV existed, with
          'missing', what is observed without it, see observe_missing, and 'is_of_another_model', see _is_of_another_model,
      'existing': see get_existing_relations; 'settings': the session's, see read_settings
    }

    Arguments:
      reads_nothing (boolean): true if the run is of `--empty` or `--sample`, which takes no table.
-#}
{% macro observe_tables(backfill, reads_nothing=false) %}
    {%- set settings = dbt_backfill.read_settings() -%}
    {%- do dbt_backfill.check_settings(backfill, settings) -%}
    {%- set existing = dbt_backfill.get_existing_relations(backfill) -%}
    {%- if existing.progress is not none and existing.mv is none -%}
        {#- dbt's list of tables is as old as the invocation, and another run may have been creating the MV. -#}
        {%- set existing = dict(existing, mv=dbt_backfill.find_table(backfill.mv)) -%}
    {%- endif -%}
    {%- if existing.mv is none -%}
        {%- set left = dbt_backfill.read_left_state(backfill, existing) -%}
        {%- if left is none -%}
            {%- do dbt_backfill.check_leftovers_are_ours(backfill, existing) -%}
        {%- elif left.epoch > 0 -%}
            {%- do dbt_backfill.refuse_missing_mv(backfill) -%}
        {%- endif -%}
        {%- set missing = dbt_backfill.observe_missing(backfill, settings) -%}
        {{ return({'observed': missing} if left is none else {
            'left': left, 'missing': missing, 'is_of_another_model': dbt_backfill._is_of_another_model(backfill, missing, left),
            'existing': existing, 'settings': settings,
        }) }}
    {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.mv, backfill.mv) -%}
    {#- adopt_table has marked the table, or the model may replace one. -#}
    {%- set may_take = not reads_nothing and (properties.get('dbt_backfill.adopt') or backfill.options.replace_existing) -%}
    {%- set takeover = dbt_backfill.find_takeover(backfill, existing, properties) if may_take else none -%}
    {%- if takeover -%}
        {{ return({'takeover': takeover, 'existing': existing, 'properties': properties, 'settings': settings}) }}
    {%- elif existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(backfill, properties) -%}
    {%- endif -%}
    {{ return({'observed': dbt_backfill.observe_existing(backfill, existing, settings, properties)}) }}
{% endmacro %}


{#- Return those of these tables that exist, none for the others; by default of those that a run looks for. -#}
{% macro get_existing_relations(relations, names=['mv', 'progress', 'barriers']) %}
    {%- set existing = {} -%}
    {%- for name in names -%} {%- do existing.update({name: dbt_backfill.load_table(relations[name])}) -%} {%- endfor -%}
    {{ return(existing) }}
{% endmacro %}


{#- Return the state beside a table, none if there is none. Refuse one that is not of this package, or that this version does not read. -#}
{% macro read_left_state(backfill, existing) %}
    {%- if existing.progress is none -%} {{ return(none) }} {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.progress, backfill.progress) -%}
    {%- if 'dbt_backfill.id' not in properties and 'dbt_backfill.format' not in properties -%}
        {%- do dbt_backfill.refuse(
            backfill.progress.render() ~ ' exists, and is no state of this package; it has the name that the state of '
                ~ backfill.mv.render() ~ ' would have',
            'Rename it, or give the model another alias', mv=backfill.get('name')
        ) -%}
    {%- elif properties.get('dbt_backfill.format') != dbt_backfill.state_format() -%}
        {%- do dbt_backfill.refuse_state_format(backfill, properties) -%}
    {%- endif -%}
    {{ return(dbt_backfill.read_state(backfill)) }}
{% endmacro %}


{#-
    Refuse a table where the history, or the controls, of a new MV would be, unless it is one that an earlier MV has left and that the new
    MV can write to. If a lookup costs a statement, as in another catalog, the first barrier's commit looks at the controls.
-#}
{% macro check_leftovers_are_ours(backfill, existing) %}
    {%- if existing.barriers -%}
        {%- set properties = dbt_backfill.read_listed_properties(existing.barriers, backfill.barriers) -%}
        {%- if properties.get('dbt_backfill.format') != dbt_backfill.state_format()
                or properties.get('format', '').startswith('iceberg') != (backfill.options.file_format == 'iceberg') -%}
            {%- do dbt_backfill.refuse(
                backfill.barriers.render() ~ ' exists, and is no history that this version of the package writes to '
                    ~ backfill.options.file_format,
                'Drop or rename it; it has nothing but a history of barriers', mv=backfill.get('name')
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set controls = none if dbt_backfill.get_catalog(backfill.controls) else dbt_backfill.load_table(backfill.controls) -%}
    {%- if controls is not none and not dbt_backfill.has_own_controls(backfill) -%}
        {%- do dbt_backfill.refuse_foreign_controls(backfill) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return what is observed of an MV that is about to be created, see observe_state: the epoch 0, at which no vnode has started. Refuse a
    query that cannot be followed. `settings`: the session's, see read_settings.
-#}
{% macro observe_missing(backfill, settings) %}
    {%- set analysis = dbt_backfill.check_key_order(backfill, dbt_backfill.analyze_query(backfill, dbt_backfill.new_analysis())) -%}
    {%- set settings = dbt_backfill.read_result_settings(settings) -%}
    {%- set id = local_md5(invocation_id ~ model.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- set plan = dbt_backfill.new_plan(backfill, {'epoch': -1, 'committed': {'backfill_id': id}, 'settings': settings}, analysis, 'create') -%}
    {%- set state = {
        'missing': true, 'epoch': 0, 'committed': dict(plan, next_bounds=[], bounds_complete=false), 'uniform': true,
        'finished': false, 'any_finished': false, 'dirty': false, 'row_count': 0, 'written': none, 'settings': settings,
    } -%}
    {{ return({'state': state, 'mv': none, 'late_reset': none, 'analysis': analysis}) }}
{% endmacro %}


{#-
    True if the state that a first run has left, which failed or died before it had created the MV, is of another model than today's, or
    of a table that was to be taken and is gone: it is replaced, because nothing was ever merged.
-#}
{% macro _is_of_another_model(backfill, missing, left) %}
    {{ return(left.committed and (left.committed.kind != 'create'
        or dbt_backfill.find_difference(backfill, missing.state.settings, missing.analysis, left.planned or left.committed) is not none)) }}
{% endmacro %}


{#-
    Return what is observed of an MV whose tables exist, see observe_state. Refuse a state of another MV, a damaged one, a copy, and an
    Iceberg MV that something else has replaced. It is to be reset once more (`late_reset`) if an earlier reset came late: this run finds it so, or
    the last commit did.

    Arguments:
      existing (dict): as get_existing_relations returned it.
      settings (dict): the session's, see read_settings; none if they were not read.
      properties (dict): of the MV, if they were read.
-#}
{% macro observe_existing(backfill, existing, settings=none, properties=none) %}
    {%- if settings is none -%}
        {%- set settings = dbt_backfill.read_settings() -%}
        {%- do dbt_backfill.check_settings(backfill, settings) -%}
    {%- endif -%}
    {%- set mv = dbt_backfill.read_mv(
        backfill, dbt_backfill.read_listed_properties(existing.mv, backfill.mv) if properties is none else properties
    ) -%}
    {%- set state = dbt_backfill.read_state(
        backfill, settings, history_of=mv.id if existing.barriers else none, controls_of=backfill.get('controls_of') or mv.id
    ) -%}
    {%- set committed, table, progress = state.committed, backfill.mv.render(), backfill.progress.render() -%}
    {%- if not committed or committed.backfill_id != mv.id -%}
        {%- do dbt_backfill.refuse(
            'its state ' ~ progress ~ ' belongs to another MV',
            'Restore the one that was made with ' ~ table ~ ', or drop both to build it again, ' ~ dbt_backfill.or_adopt_text(backfill),
            mv=backfill.get('name')
        ) -%}
    {%- elif state.epoch != state.last_epoch or state.epoch != committed.epoch
            or state.rows != committed.vnode_count and not dbt_backfill.is_abandoned_reset(committed) -%}
        {%- do dbt_backfill.refuse(
            progress ~ ' is damaged: it has ' ~ state.rows ~ ' rows for ' ~ committed.vnode_count ~ ' vnodes, of the epochs '
                ~ state.epoch ~ ' to ' ~ state.last_epoch,
            'Restore an earlier version of it, or drop it with ' ~ table ~ ' to build the MV again', mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- if mv.original -%} {%- do dbt_backfill.refuse_copy(backfill, mv.original) -%} {%- endif -%}
    {%- set other = dbt_backfill.read_other_snapshot(backfill, mv.snapshot_id, mv.reset_id, state) -%}
    {%- if other is not none and not other.by_late_reset -%}
        {%- do dbt_backfill.refuse(
            table ~ ' was replaced or rolled back by something else since the barrier ' ~ state.epoch ~ ', which left it at the snapshot '
                ~ committed.mv_snapshot_id,
            'Undo that, or drop it and ' ~ progress ~ ' to build it again, ' ~ dbt_backfill.or_adopt_text(backfill), mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- set came_late = other is not none or committed.get('begun_anew') -%}
    {{ return({
        'state': state, 'mv': mv, 'analysis': dbt_backfill.new_analysis(),
        'late_reset': table ~ ' was reset, as by a full refresh that came late' if came_late else none,
    }) }}
{% endmacro %}


{#-
    Return what the properties of an MV say: {
      'id': of its backfill,
      'snapshot_id': its current one, on Iceberg; none on Delta,
      'reset_id': see get_reset_id,
      'docs': see apply_docs, none if it has none,
      'properties': all of them,
      'original': see find_original,
      'partitions': the names by which it is partitioned since it was made or adopted; the config may have others by now
    }

    Refuse a table not created by this package, and one whose owner, or catalog, has since set a property that exactness needs otherwise.
-#}
{% macro read_mv(backfill, properties) %}
    {%- set mv, file_format = backfill.mv.render(), backfill.options.file_format -%}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- if properties.get('dbt_backfill.format') != dbt_backfill.state_format() -%}
        {%- do dbt_backfill.refuse_state_format(backfill, properties) -%}
    {%- endif -%}
    {%- set format = 'iceberg' if properties.get('format', '').startswith('iceberg') else 'delta' -%}
    {%- if format != file_format -%}
        {%- do dbt_backfill.refuse(
            'file_format changed from ' ~ format ~ ' to ' ~ file_format ~ ' since ' ~ mv ~ ' was made',
            'Undo the change, or drop ' ~ mv ~ ' and ' ~ backfill.progress.render() ~ ' to build it again', mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- set exact = dbt_backfill.exact_table_properties(file_format) -%}
    {%- for name, value in exact.items() if properties.get(name, value) | lower != value | lower -%}
        {%- do dbt_backfill.refuse(
            mv ~ " has the table property '" ~ name ~ "' = '" ~ properties[name] ~ "', under which barriers are not exact",
            'ALTER TABLE ' ~ mv ~ " SET TBLPROPERTIES ('" ~ name ~ "' = '" ~ value ~ "')", mv=backfill.get('name')
        ) -%}
    {%- endfor -%}
    {{ return({
        'id': properties['dbt_backfill.id'], 'snapshot_id': properties.get('current-snapshot-id'),
        'reset_id': properties.get('dbt_backfill.reset', ''), 'docs': properties.get('dbt_backfill.docs'),
        'properties': properties, 'original': dbt_backfill.find_original(backfill.mv, properties),
        'partitions': fromjson(properties.get('dbt_backfill.partitions') or '[]'),
    }) }}
{% endmacro %}


{#- Return the name of the MV that a table with these properties is a copy of; none if it is no copy, as far as they say. -#}
{% macro find_original(mv, properties) %}
    {%- set original = properties.get('dbt_backfill.mv') or mv.render() -%}
    {#- Spark does not show the name of a table in which it sees a secret, such as `password_resets`. -#}
    {%- if dbt_backfill.is_redacted(original) -%} {{ return(none) }} {%- endif -%}
    {%- set own, noted = (mv.render() | lower | replace('`', '')).split('.'), (original | lower | replace('`', '')).split('.') -%}
    {#- The session's own catalog may be named, or not. -#}
    {%- set known = [own | length, noted | length] | min -%}
    {{ return(none if own[-known:] == noted[-known:] else original) }}
{% endmacro %}


{#-
    Return how an Iceberg MV has left the snapshot of the last barrier: none, or {
      'by_late_reset': true if by a reset of this package that came late, which Iceberg lets replace a table whatever was committed since: it
          has left its id and another oldest ancestor, or the table began again and is empty, so that there is nothing to lose,
      'rows': it has now
    }

    CREATE OR REPLACE, dbt's `table` materialization too, keeps the properties and with them our id. A reset replaces the MV itself before it
    is committed or given up. Two runs may both have executed one reset, and the id is that of the last: so it counts only if the oldest
    ancestor is another one than at the last commit. A snapshot that has expired says nothing, unless the table began again since that barrier.

    Arguments:
      relations (dict): see get_relations.
      snapshot_id (string), reset_id (string): of the MV now, see read_mv.
-#}
{% macro read_other_snapshot(relations, snapshot_id, reset_id, state) %}
    {%- set committed, planned, mv = state.committed, state.get('planned'), relations.mv.render() -%}
    {%- set known = committed.get('mv_snapshot_id') -%}
    {%- if known in [none, snapshot_id] or planned and (dbt_backfill.replaces_mv(planned) or planned.kind == 'abandon') -%}
        {{ return(none) }}
    {%- endif -%}
    {#- How often the known snapshot is in the history, and among the ancestors of the current one; whether the table began again after the
        barrier; the oldest ancestor of the current one, absent if it has expired. -#}
    {%- set sql -%}
        select to_json(named_struct(
            'entries', count_if(snapshot_id = {{ known }}),
            'ancestors', count_if(snapshot_id = {{ known }} and is_current_ancestor),
            'begun', count_if(
                is_current_ancestor and parent_id is null
                and made_current_at > timestamp{{ dbt_backfill.string_literal(committed.committed_at) }}
            ),
            'root', max(if(is_current_ancestor and parent_id is null, cast(snapshot_id as string), null)),
            'rows', (select count(*) from {{ mv }})
        ))
        from {{ mv }}.history
    {%- endset -%}
    {%- set history = dbt_backfill.run_json('read the history of ' ~ relations.mv.identifier, sql, relations.mv)[0] -%}
    {%- if history.ancestors -%}
        {{ return(none) }}
    {%- elif reset_id != (committed.get('mv_reset_id') or '')
            and (history.get('root') is none or history.root != committed.get('mv_root_id')) -%}
        {{ return({'by_late_reset': true, 'rows': history.rows}) }}
    {%- elif not (history.entries or history.begun) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({'by_late_reset': history.begun > 0 and not history.rows, 'rows': history.rows}) }}
{% endmacro %}


{% macro refuse_missing_mv(backfill) %}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' does not exist, but its state does (' ~ backfill.progress.render() ~ ')',
        'Restore the MV, or drop ' ~ backfill.progress.render() ~ ' to build it again', mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#- Refuse a table with these properties, without a state: not created by this package, a copy of an MV (dbt's `clone`, say), or an MV. -#}
{% macro refuse_missing_state(backfill, properties) %}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- set mv, name = backfill.mv.render(), dbt_backfill.get_name_of(backfill) -%}
    {%- set adopt = dbt_backfill.get_operation_text('adopt_table', '{model: ' ~ name ~ '}') -%}
    {#- One that clone_backfill has not finished has its own name already. -#}
    {%- set original = properties.get('dbt_backfill.clone') or dbt_backfill.find_original(backfill.mv, properties) -%}
    {%- if original -%}
        {%- set clone = dbt_backfill.get_operation_text('clone_backfill', '{model: ' ~ name ~ ', source: ' ~ original ~ ', replace: true}') -%}
        {%- do dbt_backfill.refuse(
            mv ~ ' is a clone of the MV ' ~ original ~ ', without its state',
            'To go on from there: ' ~ clone ~ '. To have its rows compared with the query: ' ~ adopt, mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.refuse(
        'its state is missing: ' ~ backfill.progress.render() ~ ' does not exist',
        'Restore it, or drop ' ~ mv ~ ' to build it again, or have its rows compared with the query: ' ~ adopt, mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#- Refuse tables whose state this version does not read. `properties`: of the MV, or of the progress table. The first format had no number. -#}
{% macro refuse_state_format(backfill, properties) %}
    {%- set state = backfill.progress.render() -%}
    {%- do dbt_backfill.refuse(
        'its state ' ~ state ~ ' has the format ' ~ properties.get('dbt_backfill.format', '1') ~ ', and this version of the package reads '
            ~ dbt_backfill.state_format(),
        'Use the version that made it, or drop ' ~ backfill.mv.render() ~ ', ' ~ state ~ ' and ' ~ backfill.barriers.render()
            ~ ' to build it again', mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro refuse_foreign_mv(backfill) %}
    {%- set adopt = dbt_backfill.get_operation_text('adopt_table', '{model: ' ~ dbt_backfill.get_name_of(backfill) ~ '}') -%}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' exists, and was not made by this materialization',
        'To keep its rows: ' ~ adopt ~ '. To replace it: set replace_existing to true, and run the model once with --full-refresh. '
            ~ 'Or drop or rename it', mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#- Return the end of a sentence on what to drop. -#}
{% macro or_adopt_text(backfill) %}
    {%- set drop = dbt_backfill.get_operation_text('drop_backfill', '{model: ' ~ dbt_backfill.get_name_of(backfill) ~ ', keep_mv: true}') -%}
    {{ return('or only the state (' ~ drop ~ ') to adopt the table') }}
{% endmacro %}


{#- Refuse a copy of an MV (`original`: see find_original) beside a copy of its state: a barrier may have come between the two. -#}
{% macro refuse_copy(backfill, original) %}
    {%- set mv = backfill.mv.render() -%}
    {%- do dbt_backfill.refuse(
        mv ~ ' is a copy of the MV ' ~ original ~ ', and its state is a copy too, by something else than clone_backfill, so that nobody '
            ~ 'knows whether they are of one barrier',
        'Drop them and run clone_backfill, ' ~ dbt_backfill.or_adopt_text(backfill) ~ '. If it was only renamed, with its state: ALTER TABLE ' ~ mv
            ~ " SET TBLPROPERTIES ('dbt_backfill.mv' = '" ~ mv ~ "')", mv=backfill.get('name')
    ) -%}
{% endmacro %}
