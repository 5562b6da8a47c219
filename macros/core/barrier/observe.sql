{#-
    At the start of a run: observe what is committed and planned, and refuse what does not belong to this MV. Return what new_observed
    describes; arguments and errors are those of observe_tables.

    If there is nothing yet, the state is that of an MV about to be created (`missing`). If an earlier run died while it created the
    tables, the MV is created first. A table that is to become the MV is taken, see find_takeover.
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
        {{ return(dbt_backfill.new_observed(dict(missing.state, committed=creation), learned=missing.learned)) }}
    {%- endif -%}
    {%- do dbt_backfill.create_backfill(backfill, missing.state) -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- set made = dbt_backfill.observe_existing(backfill, found.existing, found.settings, properties) -%}
    {{ return(dbt_backfill.new_observed(made.state, begun_anew=made.begun_anew, learned=missing.learned)) }}
{% endmacro %}


{#-
    Return what exists of an MV; nothing is written. Any other combination of tables is refused by its name: {
      'observed': of an MV that goes on, or is about to be created, see new_observed; else none, and it is
      'takeover': how the table of its name becomes the MV, see find_takeover, with its 'properties'; or
      'left': the state of a first run that died before the MV existed, with
          'missing', what is observed without it, and 'is_of_another_model', see _is_of_another_model,
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


{#-
    Return what a run observes of an MV before its first barrier: {
      'state': as read_state returned it, or get_missing_state,
      'mv': the MV as the run has found it, see read_mv; none if there was none,
      'begun_anew': why it is to be reset although nobody asked for it, none as a rule,
      'learned': what it took to know of the query, see new_learned
    }
-#}
{% macro new_observed(state, mv=none, begun_anew=none, learned=none) %}
    {{ return({'state': state, 'mv': mv, 'begun_anew': begun_anew, 'learned': learned or dbt_backfill.new_learned()}) }}
{% endmacro %}


{#-
    Return what is observed of an MV that is about to be created, see new_observed: the epoch 0, at which no vnode has started. Refuse a
    query that cannot be followed. `settings`: the session's, see read_settings.
-#}
{% macro observe_missing(backfill, settings) %}
    {%- set learned = dbt_backfill.check_key_order(backfill, dbt_backfill.learn_query(backfill, dbt_backfill.new_learned())) -%}
    {%- set state = dbt_backfill.get_missing_state(backfill, learned, dbt_backfill.read_result_settings(settings)) -%}
    {{ return(dbt_backfill.new_observed(state, learned=learned)) }}
{% endmacro %}


{#- Return the state of an MV that is about to be created: the epoch 0, at which no vnode has started. -#}
{% macro get_missing_state(backfill, learned, settings) %}
    {%- set id = local_md5(invocation_id ~ model.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- set plan = dbt_backfill.new_plan(backfill, {'epoch': -1, 'committed': {'backfill_id': id}, 'settings': settings}, learned, 'create') -%}
    {{ return({
        'missing': true, 'epoch': 0, 'committed': dict(plan, next_bounds=[], bounds_complete=false), 'uniform': true,
        'finished': false, 'any_finished': false, 'dirty': false, 'row_count': 0, 'written': none, 'settings': settings,
    }) }}
{% endmacro %}


{#-
    True if the state that a first run has left, which failed or died before it had created the MV, is of another model than today's, or
    of a table that was to be taken and is gone: it is replaced, because nothing was ever merged.
-#}
{% macro _is_of_another_model(backfill, missing, left) %}
    {%- if not left.committed -%} {{ return(false) }} {%- endif -%}
    {%- if left.committed.kind != 'create' -%} {{ return(true) }} {%- endif -%}
    {{ return(not not dbt_backfill.find_difference(backfill, missing.state.settings, missing.learned, left.planned or left.committed)) }}
{% endmacro %}


{#-
    Return what is observed of an MV whose tables exist, see new_observed. Refuse a state of another MV, a damaged one, a copy, and an MV
    that something else has replaced.

    It is to be reset once more (`begun_anew`) if a reset of before came late: this run finds it so, or the last commit did.

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
            'Restore the one that was made with ' ~ table ~ ', or drop both to build it anew, ' ~ dbt_backfill.or_adopt_text(backfill),
            mv=backfill.get('name')
        ) -%}
    {%- elif state.epoch != state.last_epoch or state.epoch != committed.epoch
            or state.rows != committed.vnode_count and not dbt_backfill.is_abandoned_reset(committed) -%}
        {%- do dbt_backfill.refuse(
            progress ~ ' is damaged: it has ' ~ state.rows ~ ' rows for ' ~ committed.vnode_count ~ ' vnodes, of the epochs '
                ~ state.epoch ~ ' to ' ~ state.last_epoch,
            'Restore an earlier version of it, or drop it with ' ~ table ~ ' to build the MV anew', mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_is_no_copy(backfill, mv.original) -%}
    {%- set other = dbt_backfill.read_other_snapshot(backfill, mv.snapshot_id, mv.reset_id, state) -%}
    {%- if other is not none and not other.begun_anew -%}
        {%- do dbt_backfill.refuse(
            table ~ ' was replaced or rolled back by something else since the barrier ' ~ state.epoch ~ ', which left it at the snapshot '
                ~ committed.mv_snapshot_id,
            'Undo that, or drop it and ' ~ progress ~ ' to build it anew, ' ~ dbt_backfill.or_adopt_text(backfill), mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- set came_late = other is not none or committed.get('begun_anew') -%}
    {{ return(dbt_backfill.new_observed(
        state, mv, table ~ ' was begun anew, as by a full refresh that came late' if came_late else none
    )) }}
{% endmacro %}


{#-
    Return what the properties of an MV say: {
      'id': of its backfill,
      'snapshot_id': its current one, on Iceberg; none on Delta,
      'reset_id': see get_reset_id,
      'docs': see apply_docs, none if it has none,
      'constraints': see read_constraints,
      'original': see find_original,
      'partitions': the names by which it is partitioned since it was made or adopted; the config may have others by now
    }

    Refuse a table not created by this package, and one whose owner, or catalog, has since set a property that exactness needs otherwise.
-#}
{% macro read_mv(backfill, properties) %}
    {%- set mv, file_format = backfill.mv.render(), backfill.options.file_format -%}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- do dbt_backfill.check_state_format(backfill, properties) -%}
    {%- set format = dbt_backfill.get_format_of(properties) -%}
    {%- if format != file_format -%}
        {%- do dbt_backfill.refuse(
            'file_format changed from ' ~ format ~ ' to ' ~ file_format ~ ' since ' ~ mv ~ ' was made',
            'Undo the change, or drop ' ~ mv ~ ' and ' ~ backfill.progress.render() ~ ' to build it anew', mv=backfill.get('name')
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
        'constraints': dbt_backfill.read_constraints(properties), 'original': dbt_backfill.find_original(backfill.mv, properties),
        'partitions': fromjson(properties.get('dbt_backfill.partitions') or '[]'),
    }) }}
{% endmacro %}


{#-
    Return how an Iceberg MV has left the snapshot of the last barrier: none, or {
      'begun_anew': true if by a reset of this package that came late, which Iceberg lets replace a table whatever was committed
          since: it has left its id and another oldest ancestor, or the table began anew and is empty, so that there is
          nothing to lose,
      'rows': it has now
    }

    CREATE OR REPLACE, dbt's `table` materialization too, keeps the properties and with them our id. A reset replaces the
    MV itself before it is committed or given up. Two runs may both have executed one reset, and the id is that of the last:
    so it counts only if the oldest ancestor is another one than at the last commit. A snapshot that has expired says
    nothing, unless the table began anew since that barrier.

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
    {#- How often the known snapshot is in the history, and among the ancestors of the current one; whether the table began anew after the
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
        {{ return({'begun_anew': true, 'rows': history.rows}) }}
    {%- elif not (history.entries or history.begun) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({'begun_anew': history.begun > 0 and not history.rows, 'rows': history.rows}) }}
{% endmacro %}


{#-
    The step "observe" of a barrier: what the upstream has now, see read_upstream; with a change table of the user's own, `feed` is the same of that
    table. Its position is read first, so that the upstream is not behind it.

    Arguments:
      since (dict or none): the committed plan, none if nothing was read yet.
-#}
{% macro observe_upstream(backfill, state, since) %}
    {%- set followed = backfill.feed or backfill.upstream -%}
    {%- set source = dbt_backfill.get_source(since, 'feed' if backfill.feed else 'upstream') -%}
    {%- set observed = dbt_backfill.ask(followed, 'read_upstream')(followed, source, state.get('log')) -%}
    {%- do dbt_backfill.ask(followed, 'check_feed')(observed) -%}
    {%- if not backfill.feed -%} {{ return(observed) }} {%- endif -%}
    {%- set upstream = dbt_backfill.ask(backfill.upstream, 'read_upstream')(backfill.upstream, dbt_backfill.get_source(since)) -%}
    {{ return(dict(upstream, feed=observed)) }}
{% endmacro %}


{#-
    Why the changes since the committed plan cannot be read, as the end of a sentence; none if they can. What cannot be
    followed from now on either is refused.
-#}
{% macro find_feed_gap(backfill, observed, committed) %}
    {%- set feed = dbt_backfill.describe_change_table(backfill.feed) if backfill.feed else none -%}
    {%- if (dbt_backfill.get_source(committed, 'feed') or {}).get('definition') != feed -%} {{ return('change_feed was changed') }} {%- endif -%}
    {%- if not backfill.feed -%}
        {%- set followed = dbt_backfill.get_followed_source(committed) -%}
        {#- By the previous key: a model with another one is refused, or rebuilt, and a former generation may exist because it cannot. -#}
        {%- set names = (committed.get('key') or []) | map(attribute='name') | map('lower') | list -%}
        {%- if dbt_backfill.upstream_traits(backfill.upstream).stages_ranges and backfill.get('generation') != 'former'
                and names == backfill.options.unique_key | map('lower') | list -%}
            {%- do dbt_backfill.ask(backfill.upstream, 'check_followed')(observed, followed) -%}
        {%- endif -%}
        {%- set gap = dbt_backfill.ask(backfill.upstream, 'upstream_gap')(observed, followed) -%}
    {%- elif not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, dbt_backfill.get_source(committed)) -%}
        {{ return('the upstream was replaced, went back to an earlier version or had columns changed') }}
    {%- else -%}
        {%- set gap = dbt_backfill.find_change_table_gap(backfill.feed, observed.feed, committed) -%}
    {%- endif -%}
    {%- if not gap -%} {{ return(none) }} {%- endif -%}
    {%- if gap.refusal -%} {%- do dbt_backfill.refuse(gap.refusal.fact, gap.refusal.change) -%} {%- endif -%}
    {{ return(gap.reason) }}
{% endmacro %}
