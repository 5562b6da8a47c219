{#-
    Run the step "commit" of a barrier: one statement moves the progress to the plan's epoch. The statement has a condition: the previous epoch and
    this plan are stored. It is an UPDATE, or a MERGE if the vnodes or the columns of the key change. It records the plan with the outcome of the
    barrier. Return the committed state.

    Arguments:
      counts (dict): as get_merge_counts returned it; empty if the barrier had no changes.
      ends (boolean): true if the run ends with this barrier. In this case the same script writes the history.
      views (list): the temporary views that are not needed after the commit.
      commits (integer or none): how many commits the steps made to a Delta MV; none if that is not known.
      seconds (number or none): the time of the barrier so far, without the time to copy the upstream.
-#}
{% macro commit_barrier(backfill, state, plan, counts={}, ends=false, views=[], commits=none, seconds=none) %}
    {%- set is_iceberg = backfill.options.file_format == 'iceberg' -%}
    {#- A barrier that repairs the MV has repaired every foreign write up to the version that this run saw before the barrier. -#}
    {%- set known = state.get('mv_seen' if dbt_backfill.kind_of(plan).repairs else 'mv_version') -%}
    {%- set left = known | int + commits if commits is not none and known is not none and not is_iceberg else none -%}
    {%- set sql -%}
        begin
            declare outcome string;
            declare state string;
            {%- if not ends %}
            declare __bf_control string;
            {%- endif %}
            {%- if left is not none %}
            declare __bf_moved boolean;
            {{ dbt_backfill.get_probe_statements(backfill.mv, left + 1, known=false) }}
            {%- endif %}
            set outcome = ({{ dbt_backfill.get_outcome_sql(backfill, state, plan, counts, known, left, seconds) }});
            {{ dbt_backfill.get_commit_sql(backfill, state, plan) }}
            {%- if not ends %}
            {#- Read the control for the next barrier of this run. The select of the state also reads the log of the followed table. #}
            {{ dbt_backfill.get_control_statement(backfill, backfill.get('controls_of') or plan.backfill_id) }}
            {%- endif %}
            set state = ({{ dbt_backfill.get_state_sql(
                backfill, plan=plan, followed=none if ends else backfill.feed or backfill.upstream, control=not ends
            ) }});
            {%- if ends and state.written == plan.epoch - 1 %}
            {{ dbt_backfill.get_last_barrier_statements(backfill, plan.epoch) }}
            {%- elif ends %}
            {{ dbt_backfill.get_history_statements(backfill, state.written, plan.epoch) }}
            {%- endif %}
            {{ dbt_backfill.get_drop_stages_sql(views) }}
            {%- if is_iceberg %}
            {{ dbt_backfill.get_execute_with_literals_sql(dbt_backfill.get_mark_statement(plan.backfill_id), {}) }};
            {%- endif %}
            select state;
        end
    {%- endset -%}
    {%- set sent = namespace(state=none) -%}
    {#- On Delta a conflict raises no error (get_yielding_sql). If the plan is still stored after a conflict, no other run has committed the plan, so
        the script is sent again. (An OPTIMIZE may cause such a conflict.) -#}
    {%- for _ in range(3) -%}
        {%- if sent.state is none or dbt_backfill.is_executable(sent.state, plan) -%}
            {%- set read = dbt_backfill.run_json('commit the barrier ' ~ plan.epoch, sql, backfill.mv)[0] -%}
            {%- set sent.state = dbt_backfill.parse_state(read, read.epoch if ends else state.written, state.settings) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set committed = sent.state -%}
    {%- if not committed.get('executed') -%} {%- do dbt_backfill.refuse_concurrent_run(plan, backfill.get('name')) -%} {%- endif -%}
    {%- if committed.control.get('foreign') -%} {%- do dbt_backfill.refuse_foreign_controls(backfill) -%} {%- endif -%}
    {{ return(committed) }}
{% endmacro %}


{#- True if a plan is still to be executed, according to a state that was read. executable_plan_predicate is the same check in SQL. -#}
{% macro is_executable(state, plan) %}
    {%- set planned = state.get('planned') or {} -%}
    {{ return([state.epoch, planned.get('plan_id'), planned.get('kind')] == [plan.epoch - 1, plan.plan_id, plan.kind]) }}
{% endmacro %}


{#- True if the barrier replaces the MV by a new table, which may have another query, key and number of vnodes. -#}
{% macro replaces_mv(plan) %}
    {{ return(dbt_backfill.kind_of(plan).table != 'keep') }}
{% endmacro %}


{#- Refuse to continue with a plan that another run has committed or replaced. (Inside a statement, the fence does this.) -#}
{% macro refuse_concurrent_run(plan, mv=none) %}
    {%- do dbt_backfill.refuse('another run changed the state while this run executed the barrier ' ~ plan.epoch,
        'Nothing is lost; run again to continue, and let only one run of the model work at a time', mv=mv, id='committed-by-another-run') -%}
{% endmacro %}


{#-
    Return a select of the outcome of a barrier, as the JSON that is added to its plan:

      committed_at, committed_by: the time, and an id of this execution of the script
      changed_row_count, deleted_row_count
      sized_rows, seconds: only with the option barrier_seconds: the number of rows that barrier_seconds allowed for a range; and the time of the
        barrier, if this run made the plan
      mv_version: the version of the MV (on Iceberg its snapshot) up to which every commit is known. As a rule this is the version after the barrier;
        with mv_unclear it is an earlier version. Absent if no version is known
      mv_unclear: only of a Delta MV: true if commits after mv_version may belong to another writer. The next barrier reads the log of the MV
      foreign_write: only of an Iceberg MV: a write since the previous barrier that no barrier has made, see observe_mv

    Arguments:
      known (string or none): the version of the MV up to which every commit is known, see observe_mv.
      left (integer or none): the version in which the barrier leaves a Delta MV, if nothing else is committed; none if that is not known.
-#}
{% macro get_outcome_sql(backfill, state, plan, counts, known=none, left=none, seconds=none) -%}
    {%- set is_iceberg = backfill.options.file_format == 'iceberg' -%}
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
        mv.version as mv_version,
        {#- A plan that does not repair the MV leaves an earlier foreign write for the next plan. #}
        {%- set left = state.get('foreign_write') if not dbt_backfill.kind_of(plan).repairs else none %}
        coalesce(mv.foreign_write, {{ 'from_json(' ~ dbt_backfill.string_literal(tojson(left)) ~ ", 'text string, replaced boolean, plan string')"
            if left else 'null' }}) as foreign_write
        {%- elif left is not none %},
        string(if(__bf_moved, {{ known }}, {{ left }})) as mv_version,
        nullif(__bf_moved, false) as mv_unclear
        {%- elif known is not none %},
        '{{ known }}' as mv_version,
        true as mv_unclear
        {%- endif %}
    ), map('ignoreNullFields', 'true'))
    {%- if is_iceberg %}
    from (
        {{ dbt_backfill.get_foreign_write_sql(
            backfill, plan.backfill_id, known, [plan.plan_id], [plan.plan_id] if dbt_backfill.replaces_mv(plan) else []
        ) }}
    ) as mv
    {%- endif %}
{%- endmacro %}


{#- Return the statements of a script that commit the plan in the progress table, if the plan is still to be executed. -#}
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


{#- True if the progress table already has the columns and rows for this key and number of vnodes. -#}
{% macro has_shape_of(committed, keys, vnode_count) %}
    {%- set same_names = committed.key | map(attribute='upstream') | list == keys | map(attribute='upstream') | list -%}
    {%- set same_types = committed.key | map(attribute='type') | list == keys | map(attribute='type') | list -%}
    {{ return(same_names and same_types and committed.vnode_count == vnode_count and not dbt_backfill.is_abandoned_reset(committed)) }}
{% endmacro %}


{#-
    Return the columns of the progress table that the commit of a plan sets: {name: a SQL expression over the row `progress`}. For every kind, the
    epoch moves, the stored plan is removed, and the plan with its outcome becomes the last barrier. The previous barrier is added to `unwritten`, the
    barriers that the history may not have yet. The other columns depend on the field `positions` of the kind:

      advance   the vnodes of the range move to its end, and finish with the last range; without a range only the version moves
      keep      only the version moves
      reset     no vnode has started
      finish    all vnodes have finished, with the numbers of rows of the next generation's vnodes
      rescale   the columns of each vnode that stays are set; the statement also adds and removes vnodes, see get_rescale_statement
      give_up   nothing moves; the ranges that the plan could write to are recorded for the next re-anchor
-#}
{% macro get_committed_columns(state, plan) %}
    {%- set does, positions = dbt_backfill.kind_of(plan).positions, dbt_backfill.position_columns(plan.key) -%}
    {%- set given_up = dbt_backfill.add_given_up(state.committed, plan) if does == 'give_up' else none -%}
    {%- set added = ',' ~ ('"given_up":' ~ tojson(given_up) ~ ',' if given_up else '') -%}
    {%- set written = state.written if state.written is not none else -1 -%}
    {%- set columns = {
        'epoch': plan.epoch,
        'dirty': 'true' if does == 'give_up' else 'false', 'plan_id': 'null', 'plan_kind': 'null', 'plan': 'null',
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
        {%- do columns.update({'backfill_finished': 'true' if does == 'finish' else 'false', 'row_count': counted if does == 'finish' else '0'}) -%}
    {%- elif does == 'advance' and (plan.last_range or plan.get('range_row_count') is not none) -%}
        {%- set moves = 'true' if plan.get('vnodes') is none else 'progress.vnode in (' ~ plan.vnodes | join(', ') ~ ')' -%}
        {%- do columns.update({
            'backfill_finished': 'progress.backfill_finished or ' ~ moves if plan.last_range else 'progress.backfill_finished',
            'row_count': 'progress.row_count + ' ~ counted,
        }) -%}
        {#- If an earlier range read only some vnodes, a vnode may already have a position above the end of this range, which it keeps. -#}
        {%- set prefixed, passed = dbt_backfill.position_columns(plan.key, 'progress.'), moves -%}
        {%- if moves != 'true' and not plan.last_range -%}
            {%- set passed = moves ~ ' and (' ~ prefixed[0] ~ ' is null or '
                ~ dbt_backfill.ordered_predicate(plan.key, prefixed, '<', plan.range_high) ~ ')' -%}
        {%- endif -%}
        {%- for column in positions if not plan.last_range -%}
            {%- do columns.update({column: 'if(' ~ passed ~ ', ' ~ plan.range_high[loop.index0] ~ ', progress.' ~ column ~ ')'}) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return statements that commit a reset or a swap that changes the key or the number of vnodes. First, missing columns are added to the progress
    table. These columns do not change the committed state. Then one MERGE writes the rows. The progress table is not replaced, because Iceberg would
    replace it even if another run has committed after the statement began. Columns of a previous key stay, but are null. -#}
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


{#- Return a statement of a script that commits a plan: it gives the progress table one row for each vnode of the select `vnodes`, which returns no
    row if the plan is no longer to be executed. `id`: the select's column with the number of the vnode; `columns`: the values of an existing row,
    over `progress` and `vnodes`; `new`: the values of a new row, over `vnodes`. -#}
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


{#- Return statements of a script that drop the temporary views of a barrier, and the variable with the filter of its keys, see get_merged_statements.
    Other runs may share the session. Each view is dropped before the views that it reads. A missing view is no error: a session may have ended. -#}
{% macro get_drop_stages_sql(stages) -%}
    {%- for stage in stages | unique %}
    begin
        declare exit handler for sqlexception begin end;
        uncache table if exists {{ stage }};
        drop view {{ stage }};
    end;
    {%- if stage.endswith('__rows`') %}
    execute immediate {{ dbt_backfill.string_literal('drop temporary variable if exists ' ~ stage) }};
    {%- endif %}
    {%- endfor %}
{%- endmacro %}


{#- Drop temporary views before a refusal, or at the end of an operation. `mv`: see run_table. -#}
{% macro drop_stages(stages, mv=none) %}
    {%- if stages -%}
        {%- do dbt_backfill.run_table('drop the staged changes', 'begin ' ~ dbt_backfill.get_drop_stages_sql(stages) ~ ' end', mv) -%}
    {%- endif -%}
{% endmacro %}
