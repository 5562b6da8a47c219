{#-
    The step "commit" of a barrier: move the progress to the plan's epoch, by one statement that is guarded by the epoch before it and by
    the plan: an UPDATE, or a MERGE where the vnodes or the columns of the key change. The outcome is recorded with the plan. Return the
    committed state.

    Arguments:
      counts (dict): as get_merge_counts returned it; empty if the barrier had no changes.
      ends (boolean): whether the run ends with it, so that the history can be written along with it.
      views (list): the temporary views that are of no use after it.
      left_at (string or none): see run_replacement.
      seconds (number or none): how long it has taken up to here, without a copy of the upstream.
-#}
{% macro commit_barrier(backfill, state, plan, counts={}, ends=false, views=[], left_at=none, seconds=none) %}
    {%- set sql -%}
        begin
            declare outcome string;
            declare state string;
            declare __bf_control string;
            set outcome = ({{ dbt_backfill.get_outcome_sql(backfill, state, plan, counts, left_at, seconds) }});
            {{ dbt_backfill.get_commit_sql(backfill, state, plan) }}
            {#- The next barrier of the run reads the log; whoever needs it after all has a statement for it. #}
            {{ dbt_backfill.get_control_statement(backfill, backfill.get('controls_of') or plan.backfill_id) }}
            set state = ({{ dbt_backfill.get_state_sql(
                backfill, plan=plan, followed=none if ends else backfill.feed or backfill.upstream, control=true
            ) }});
            {%- if ends and state.written == plan.epoch - 1 %}
            {{ dbt_backfill.get_last_barrier_statements(backfill, plan.epoch) }}
            {%- elif ends %}
            {{ dbt_backfill.get_history_statements(backfill, state.written, plan.epoch) }}
            {%- endif %}
            {{ dbt_backfill.get_drop_stages_sql(views) }}
            select state;
        end
    {%- endset -%}
    {%- set sent = namespace(state=none) -%}
    {#- On Delta a conflict is no error (get_yielding_sql). If the plan is still there, the conflict was with an OPTIMIZE, say: send it again. -#}
    {%- for _ in range(3) -%}
        {%- if sent.state is none or dbt_backfill.is_executable(sent.state, plan) -%}
            {%- set read = dbt_backfill.run_json('commit the barrier ' ~ plan.epoch, sql, backfill.mv)[0] -%}
            {%- set sent.state = dbt_backfill.parse_state(read, read.epoch if ends else state.written, state.settings) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set committed = sent.state -%}
    {#- A reset that was overtaken may have emptied the MV again: Iceberg replaces a table whatever was committed to it. -#}
    {%- set overtaken = dbt_backfill.replaces_mv(plan) and committed.epoch > plan.epoch -%}
    {%- if overtaken or not committed.get('executed') -%} {%- do dbt_backfill.refuse_concurrent_run(plan, backfill.get('name')) -%} {%- endif -%}
    {%- if committed.control.get('foreign') -%} {%- do dbt_backfill.refuse_foreign_controls(backfill) -%} {%- endif -%}
    {{ return(committed) }}
{% endmacro %}


{#- True if a plan is the one to execute by a state that was read, as executable_plan_predicate asks it of the table. -#}
{% macro is_executable(state, plan) %}
    {%- set planned = state.get('planned') or {} -%}
    {{ return([state.epoch, planned.get('plan_id'), planned.get('kind')] == [plan.epoch - 1, plan.plan_id, plan.kind]) }}
{% endmacro %}


{#- True if the MV is a new table after the barrier, whose query, key and number of vnodes may be others. -#}
{% macro replaces_mv(plan) %}
    {{ return(dbt_backfill.kind_of(plan).table != 'keep') }}
{% endmacro %}


{#- Refuse to go on with a plan where another run went on, as the fence does inside of a statement. -#}
{% macro refuse_concurrent_run(plan, mv=none) %}
    {%- do dbt_backfill.refuse(
        'another run went on while this one executed the barrier ' ~ plan.epoch,
        'Nothing is lost; run again to continue', mv=mv
    ) -%}
{% endmacro %}


{#-
    Return a select of the outcome of a barrier, as the JSON that is added to its plan:

      committed_at, committed_by: when, and an id of this execution of the script
      changed_row_count, deleted_row_count
      sized_rows, seconds: with the option barrier_seconds, the size of its range, and, if the plan is of this run, how long it took
      mv_snapshot_id, mv_root_id, mv_reset_id: of an Iceberg MV, the snapshot at which it was left, its oldest known ancestor, and
        get_reset_id
      begun_anew: of an Iceberg MV, true if something else has replaced it: that ancestor is another one than at the barrier before, or,
        of a barrier that replaces the MV, the snapshot that this made is no ancestor
-#}
{% macro get_outcome_sql(backfill, state, plan, counts, left_at=none, seconds=none) -%}
    {%- set is_iceberg = backfill.options.file_format == 'iceberg' -%}
    {%- set replaces = dbt_backfill.replaces_mv(plan) -%}
    {%- set root = state.committed.get('mv_root_id') if not replaces else none -%}
    {%- set barrier_seconds = backfill.options.get('barrier_seconds') -%}
    select to_json(struct(
        current_timestamp() as committed_at,
        uuid() as committed_by,
        cast({{ counts.get('changed', 0) }} as bigint) as changed_row_count,
        cast({{ counts.get('deleted', 0) }} as bigint) as deleted_row_count
        {%- if barrier_seconds %},
        cast({{ dbt_backfill.get_sized_rows(barrier_seconds, state.committed, backfill.options.backfill_rate_limit) }} as bigint) as sized_rows
        {%- if seconds is not none and plan.get('invocation_id') == invocation_id %},
        cast({{ seconds }} as double) as seconds
        {%- endif %}
        {%- endif %}
        {%- if is_iceberg %},
        snapshot as mv_snapshot_id,
        root as mv_root_id,
        {{ dbt_backfill.string_literal(dbt_backfill.get_reset_id(plan) if replaces else state.committed.get('mv_reset_id')) }} as mv_reset_id
        {%- if root %},
        if(root <> {{ dbt_backfill.string_literal(root) }}, true, null) as begun_anew
        {%- elif left_at %},
        if(snapshot <> {{ dbt_backfill.string_literal(left_at) }} and not coalesce(stands, false), true, null) as begun_anew
        {%- endif %}
        {%- endif %}
    ), map('ignoreNullFields', 'true'))
    {%- if is_iceberg %}
    from (
        select
            max_by(cast(snapshot_id as string), made_current_at) as snapshot,
            max(if(is_current_ancestor and parent_id is null, cast(snapshot_id as string), null)) as root
            {%- if left_at %},
            {#- A compaction may have come on top of it. #}
            bool_or(is_current_ancestor and cast(snapshot_id as string) = {{ dbt_backfill.string_literal(left_at) }}) as stands
            {%- endif %}
        from {{ backfill.mv.render() }}.history
    )
    {%- endif %}
{%- endmacro %}


{#- Return the statements of the script that move the progress table, if the plan is the one to execute. -#}
{% macro get_commit_sql(backfill, state, plan) -%}
    {%- if plan.kind == 'rescale' -%}
        {{ dbt_backfill.get_rescale_statement(backfill, state, plan) }}
    {%- elif dbt_backfill.replaces_mv(plan) and not dbt_backfill.has_shape_of(state.committed, plan.key, plan.vnode_count) -%}
        {{ dbt_backfill.get_reshape_statements(backfill, state, plan) }}
    {%- else -%}
        {%- set sql -%}
            update {{ backfill.progress.render() }} as progress
            set {% for column, value in dbt_backfill.get_committed_columns(state, plan).items() -%}
                {{ column }} = {{ value }}{{ ', ' if not loop.last }}
            {%- endfor %}
            where {{ dbt_backfill.executable_plan_predicate(plan) }}
        {%- endset -%}
        {{ dbt_backfill.get_state_statement(backfill, sql, {'__bf_outcome__': dbt_backfill.literal_expression('outcome', 'string')}) }}
    {%- endif -%}
{%- endmacro %}


{#- True if a progress table as the committed plan has left it also serves this key and number of vnodes. -#}
{% macro has_shape_of(committed, keys, vnode_count) %}
    {%- set same_names = committed.key | map(attribute='upstream') | list == keys | map(attribute='upstream') | list -%}
    {%- set same_types = committed.key | map(attribute='type') | list == keys | map(attribute='type') | list -%}
    {{ return(same_names and same_types and committed.vnode_count == vnode_count and not dbt_backfill.is_abandoned_reset(committed)) }}
{% endmacro %}


{#-
    Return the columns of the progress table that the commit of a plan sets: {name: SQL over a row of it, `progress`}. With every kind the
    epoch moves, nothing is planned any more, the plan and its outcome are the last barrier, and the barrier before it goes to those that
    the history may not have yet. The rest follows from the field `positions` of the kind:

      advance   the vnodes of the range move to its end, and finish with the last one; without a range only the version moves
      keep      only the version moves
      reset     no vnode has started
      finish    all have finished, with the rows that those of the next generation had
      rescale   a vnode that stays; the statement also adds and takes away some, see get_rescale_statement
      give_up   nothing moves; what the plan could write to is recorded for the re-anchor that follows
-#}
{% macro get_committed_columns(state, plan) %}
    {%- set does, positions = dbt_backfill.kind_of(plan).positions, dbt_backfill.position_columns(plan.key) -%}
    {%- set given_up = dbt_backfill.add_given_up(state.committed, plan) if does == 'give_up' else none -%}
    {%- set added = ',' ~ ('"given_up":' ~ tojson(given_up) ~ ',' if given_up else '') -%}
    {%- set written = state.written if state.written is not none else -1 -%}
    {%- set columns = {
        'epoch': plan.epoch,
        'dirty': 'true' if does == 'give_up' else 'false',
        'plan_id': 'null',
        'plan_kind': 'null',
        'plan': 'null',
        'last': 'if(progress.vnode = 0, concat(left(plan, length(plan) - 1), ' ~ dbt_backfill.string_literal(added)
            ~ ', substr(__bf_outcome__, 2)), null)',
        'unwritten': 'if(progress.vnode = 0, filter(array_append(coalesce(unwritten, array()), last), '
            ~ "barrier -> cast(get_json_object(barrier, '$.epoch') as bigint) > " ~ written ~ '), null)',
    } -%}
    {%- if does == 'give_up' -%}
        {{ return(columns) }}
    {%- elif does == 'rescale' -%}
        {%- for column in positions -%} {%- do columns.update({column: 'vnodes.__bf_position.' ~ column}) -%} {%- endfor -%}
        {{ return(dict(columns, backfill_finished='vnodes.__bf_finished', row_count='vnodes.__bf_row_count')) }}
    {%- endif -%}
    {%- do columns.update({'upstream_version': dbt_backfill.string_literal(dbt_backfill.get_source(plan).get('version'))}) -%}
    {%- set counts = dbt_backfill.string_literal(tojson(plan.get('vnode_row_counts') or {})) -%}
    {%- set counted = 'coalesce(from_json(' ~ counts ~ ", 'map<string, bigint>')[cast(progress.vnode as string)], 0)" -%}
    {%- if does in ['reset', 'finish'] -%}
        {%- for column in positions -%} {%- do columns.update({column: 'null'}) -%} {%- endfor -%}
        {%- do columns.update({
            'backfill_finished': 'true' if does == 'finish' else 'false', 'row_count': counted if does == 'finish' else '0',
        }) -%}
    {%- elif does == 'advance' and (plan.last_range or plan.get('range_row_count') is not none) -%}
        {%- set moves = 'true' if plan.get('vnodes') is none else 'progress.vnode in (' ~ plan.vnodes | join(', ') ~ ')' -%}
        {%- do columns.update({
            'backfill_finished': 'progress.backfill_finished or ' ~ moves if plan.last_range else 'progress.backfill_finished',
            'row_count': 'progress.row_count + ' ~ counted,
        }) -%}
        {#-
            Where positions differ, because only some vnodes were read before, the range begins at the lowest of them and may end
            below others, which stay where they are.
        -#}
        {%- set prefixed, passed = dbt_backfill.position_columns(plan.key, 'progress.'), moves -%}
        {%- if moves != 'true' and not plan.last_range -%}
            {%- set passed = moves ~ ' and (' ~ prefixed[0] ~ ' is null or '
                ~ dbt_backfill.ordered_predicate(plan.key, prefixed, '<', plan.range_high) ~ ')' -%}
        {%- endif -%}
        {%- for column in positions if not plan.last_range -%}
            {%- do columns.update({
                column: 'if(' ~ passed ~ ', ' ~ plan.range_high[loop.index0] ~ ', progress.' ~ column ~ ')',
            }) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(columns) }}
{% endmacro %}


{#-
    Return statements that commit a reset, or a swap, to another key or number of vnodes: missing columns are added, which changes nothing
    that is committed, and one MERGE gives the table its rows. It is not replaced: Iceberg would do that whatever was committed since.
    Columns of a previous key stay, empty.
-#}
{% macro get_reshape_statements(backfill, state, plan) -%}
    {%- set present = dbt_backfill.get_column_types(backfill.progress) -%}
    {%- set columns = dbt_backfill.get_committed_columns(state, plan) -%}
    {%- set own = dbt_backfill.progress_columns() -%}
    {%- set positions = plan.key | map(attribute='position') | map('lower') | list -%}
    {%- for name in present if name not in own and name not in positions -%}
        {%- do columns.update({dbt_backfill.identifier(name): 'null'}) -%}
    {%- endfor -%}
    {%- for key in plan.key if key.position | lower not in present %}
    begin
        declare exit handler for sqlexception begin end;
        alter table {{ backfill.progress.render() }} add columns ({{ dbt_backfill.identifier(key.position) }} {{ dbt_backfill.type_sql(key.type) }});
    end;
    {%- endfor %}
    {%- set new = {
        'vnode': 'vnodes.id', 'epoch': plan.epoch, 'dirty': 'false', 'backfill_finished': columns.backfill_finished,
        'row_count': columns.row_count | replace('progress.vnode', 'vnodes.id'), 'upstream_version': columns.upstream_version,
    } -%}
    {%- set vnodes -%}
        select cast(id as int) as id
        from range(0, {{ plan.vnode_count }}, 1, 1)
        where (select count(*) from {{ backfill.progress.render() }} where vnode = 0 and {{ dbt_backfill.executable_plan_predicate(plan) }}) = 1
    {%- endset -%}
    {{ dbt_backfill.get_vnodes_statement(backfill, plan, vnodes, 'id', columns, new) }}
{%- endmacro %}


{#-
    Return a statement of a script that commits a plan by giving the progress table one row per vnode of a select. Each branch of it
    finds nothing to do once the plan has been committed.

    Arguments:
      vnodes (string): the select; it has no row once the plan is not the one to execute any more.
      id (string): its column with the vnode's number.
      columns (dict): what a row gets that is there, over `progress` and `vnodes`.
      new (dict): what another one gets, over `vnodes`.
-#}
{% macro get_vnodes_statement(backfill, plan, vnodes, id, columns, new) -%}
    {%- set stands = dbt_backfill.executable_plan_predicate(plan, 'progress.') -%}
    {%- set sql -%}
        merge into {{ backfill.progress.render() }} as progress
        using (
            {{ vnodes }}
        ) as vnodes
        on progress.vnode = vnodes.{{ id }}
        when matched and {{ stands }} then update set {% for column, value in columns.items() -%}
            {{ column }} = {{ value }}{{ ', ' if not loop.last }}
        {%- endfor %}
        when not matched then insert ({{ new.keys() | join(', ') }}) values ({{ new.values() | join(', ') }})
        when not matched by source and {{ stands }} then delete
    {%- endset -%}
    {{ dbt_backfill.get_state_statement(backfill, sql, {'__bf_outcome__': dbt_backfill.literal_expression('outcome', 'string')}) }}
{%- endmacro %}


{#-
    Return statements of a script that drop the temporary views of a barrier, which would stay in a session that others share:
    each before those that it reads. One that is not there is no error: after a lost connection it is another session.
-#}
{% macro get_drop_stages_sql(stages) -%}
    {%- for stage in stages | unique %}
    begin
        declare exit handler for sqlexception begin end;
        uncache table if exists {{ stage }};
        drop view {{ stage }};
    end;
    {%- endfor %}
{%- endmacro %}


{#- Drop temporary views before a run is refused that has staged something, or at the end of an operation; `mv` see run_table. -#}
{% macro drop_stages(stages, mv=none) %}
    {%- if stages -%}
        {%- do dbt_backfill.run_table(
            'drop the staged changes', 'begin ' ~ dbt_backfill.get_drop_stages_sql(stages) ~ ' end', mv
        ) -%}
    {%- endif -%}
{% endmacro %}
