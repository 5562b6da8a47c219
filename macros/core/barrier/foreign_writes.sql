{#-
    This file finds writes to the MV that no barrier has made: an INSERT, UPDATE, DELETE or RESTORE of another writer, or a late statement of a plan
    that was given up. Each barrier records the version of the MV after its own statements. In the log of the MV, the commits of a barrier are marked
    with the id of its plan. On Delta a condition of each MERGE has the id (get_mark). On Iceberg a property of each snapshot has the id
    (get_mark_statement). On Delta a CREATE OR REPLACE or an ALTER of a plan has no mark, see read_foreign_write. So the next barrier can distinguish
    the commits of barriers from all other commits. A commit that changes no row is no foreign write: a compaction, a VACUUM, an expiry, or a change
    of properties or comments. After a foreign write, the next barrier compares the MV with the query. The option `on_foreign_write` decides how.
-#}


{#-
    Return the state with three more entries, which say what was committed to the MV after the last barrier: {
      'mv_version': the version of the MV up to which every commit is known. If no barrier has recorded a version, this is the current version,
      'mv_seen': the current version of the MV; it differs from 'mv_version' only after a foreign write,
      'foreign_write': a write that no barrier has made; none if there is none: {
          'text': the operation and its version, such as `UPDATE in version 7, at 2026-11-28 13:44:15`,
          'replaced': true if the MV was replaced or rolled back,
          'plan': the mark of the write if an earlier plan or repair of this MV sent the statement; none or absent if another writer did}
    }
    This macro reads the log of the MV only in three cases: the MV has another version than the last barrier recorded, the last barrier recorded that
    there may be other commits (`mv_unclear`), or no barrier has recorded a version.
-#}
{% macro observe_mv(relations, state) %}
    {%- set committed, planned, is_iceberg = state.committed, state.get('planned'), relations.options.file_format == 'iceberg' -%}
    {%- set first = 'none' if is_iceberg else '0' -%}
    {%- set known, recorded = committed.get('mv_version') or (first if committed.kind == 'create' else none), committed.get('foreign_write') -%}
    {%- set unmoved = dict(state, mv_version=known, mv_seen=known, foreign_write=recorded) -%}
    {%- set moved = state.get('mv_head') not in [none, known] if is_iceberg
        else state.get('mv_moved') or committed.get('mv_unclear') or known is none -%}
    {%- if state.get('missing') or not moved -%} {{ return(unmoved) }} {%- endif -%}
    {#- A connection may send the last statement of the committed plan twice. Until the next plan is stored, the second execution changes nothing. -#}
    {%- set own = [(planned or committed).get('plan_id'), committed.get('plan_id') ~ ' repair']
        + ([committed.plan_id] if committed.get('mv_unclear') else []) -%}
    {%- if is_iceberg and known is none -%}
        {%- set found = {'version': state.mv_head} -%}
    {%- elif is_iceberg -%}
        {%- set sql = 'select to_json(struct(*)) from (' ~ dbt_backfill.get_foreign_write_sql(
            relations, committed.backfill_id, known, own, [planned.plan_id] if planned and dbt_backfill.replaces_mv(planned) else []
        ) ~ ')' -%}
        {%- set found = dbt_backfill.run_json('read the snapshots of ' ~ relations.mv.identifier, sql, relations.mv)[0] -%}
    {%- else -%}
        {#- No barrier executes the plan of epoch 0. Without mv_unclear, the recorded version includes the statements of the committed plan. -#}
        {%- set plans = ([planned] if planned else []) + ([committed] if committed.kind not in ['create', 'adopt', 'replace']
            and committed.get('mv_unclear') else []) -%}
        {%- set found = dbt_backfill.read_foreign_write(relations.mv, known, own, plans) -%}
    {%- endif -%}
    {%- set foreign = recorded or found.get('foreign_write') -%}
    {{ return(dict(state, mv_version=known if foreign else found.version, mv_seen=found.version, foreign_write=foreign)) }}
{% endmacro %}


{#-
    Return the current version of a Delta MV, and the newest foreign write after a version: {'version', 'foreign_write': see observe_mv}. Its entry
    `replaced` is true if any of the foreign writes replaced the MV.

    The statements of a plan that add or drop columns or replace the MV have no mark. The oldest in the log are the plan's own, as many as it sends: one
    that adds columns, one for each column that it drops, and one that replaces the MV. The replacement has also replaced everything that was written
    before. A newer one is a write of another program: for example, an overwrite by `saveAsTable` logs the same operation, and keeps the properties of
    the table. If the plan was executed twice, its own second replacement counts as such a write, too; then the only cost is a comparison.

    Arguments:
      known (string or none): a version of the MV; none to return only the current version.
      own (list): the marks of this MV's own writes after that version, see get_mark.
      plans (list): the plans to which these writes may belong.
-#}
{% macro read_foreign_write(mv, known, own, plans) %}
    {%- set log = dbt_backfill.read_delta_log(mv, 1 if known is none else 50, mv.identifier) -%}
    {%- set missing = (log | last).version - known | int - 1 if known is not none else 0 -%}
    {%- if missing > 0 -%} {%- set log = dbt_backfill.read_delta_log(mv, log | length + missing, mv.identifier) -%} {%- endif -%}
    {%- set version = log[0].version | string -%}
    {%- if known is none -%} {{ return({'version': version}) }} {%- endif -%}
    {#- The log is listed from the newest to the oldest entry. -#}
    {%- set begins, altered, others = [], [], [] -%}
    {%- for plan in plans -%}
        {%- set own_alters = {'ADD COLUMNS': 1 if plan.get('fills') else 0, 'DROP COLUMNS': (plan.get('drops') or []) | length} -%}
        {%- for entry in log | reverse if entry.version > known | int -%}
            {%- if own_alters.get(entry.operation, 0) > 0 and entry.version not in altered -%}
                {%- do altered.append(entry.version) -%}
                {%- do own_alters.update({entry.operation: own_alters[entry.operation] - 1}) -%}
            {%- elif 'REPLACE TABLE' in entry.operation and dbt_backfill.replaces_mv(plan) -%}
                {%- do begins.append(entry.version) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set begin = (begins + [known | int])[0] -%}
    {%- for entry in log if entry.version > begin -%}
        {%- set operation = entry.operation -%}
        {%- set mark = modules.re.search('__bf_plan#\\d+ = (\\w+(?: repair)?)\\)', entry.parameters | string) -%}
        {%- set is_own = mark and mark.group(1) in own or entry.version in altered -%}
        {%- set changes_no_row = operation in [
            'OPTIMIZE', 'REORG', 'VACUUM START', 'VACUUM END', 'SET TBLPROPERTIES', 'UNSET TBLPROPERTIES', 'CHANGE COLUMN', 'CHANGE COLUMNS',
            'ADD CONSTRAINT', 'DROP CONSTRAINT', 'CLUSTER BY', 'UPGRADE PROTOCOL', 'DROP FEATURE', 'COMPUTE STATS', 'ROW TRACKING BACKFILL',
            'ROW TRACKING UNBACKFILL', 'DOMAIN METADATA CLEANUP', 'DELETION VECTOR TOMBSTONES', 'EMPTY COMMIT', 'REMOVE COLUMN MAPPING',
            'REORG TABLE UPGRADE UNIFORM',
        ] -%}
        {%- if not is_own and not changes_no_row -%}
            {%- do others.append({
                'text': operation ~ ' in version ' ~ entry.version ~ ', at ' ~ entry.committed_at,
                'replaced': 'REPLACE TABLE' in operation or operation == 'RESTORE', 'plan': mark.group(1) if mark else none,
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if others -%}
        {{ return({'version': version, 'foreign_write': dict(others[0], replaced=others | selectattr('replaced') | list != [])}) }}
    {%- endif -%}
    {%- set unlisted = begin == known | int and ((log | last).version > known | int + 1 or log[0].version < known | int) -%}
    {{ return({'version': version} if not unlisted else {'version': version, 'foreign_write': {
        'text': 'commits after version ' ~ known ~ ' that its log does not list any more', 'replaced': false,
    }}) }}
{% endmacro %}


{#-
    Return a select of one row about an Iceberg MV. `version` is its current snapshot (the text 'none' if the MV has no snapshot). `foreign_write` is
    the newest write since the snapshot `known` that no barrier has made, see observe_mv. The select walks from the current snapshot to its parent,
    and on to each earlier ancestor. A snapshot of `own` that is no ancestor was rolled back.

    The current snapshot is read first, and the list of snapshots later. So the list contains it, even if another snapshot is committed in between.

    Arguments:
      backfill_id (string): the id of the MV, see get_mark_statement.
      known (string or none): the snapshot at which the walk ends; the text 'none' if the walk ends at the first snapshot of the table. If the
        argument is none, the select returns only the current snapshot.
      own (list): the marks of the snapshots that this MV's own barriers and repairs have made.
      stops (list): those marks of `own` at which the walk ends, because the plan has replaced every earlier write.
-#}
{% macro get_foreign_write_sql(relations, backfill_id, known, own, stops=[]) -%}
    {%- set mv, marked, marks = relations.mv.render(), 'coalesce(commits[walk.at].mark in ({}), false)', "'" ~ own | join("', '") ~ "'" -%}
    {%- set is_own = marked.format(marks) -%}
    {%- set from_start, write = known == 'none', 'struct<text: string, replaced: boolean, plan: string>' -%}
    select
        coalesce(cast(head as string), 'none') as version,
        {%- if known is none %}
        cast(null as {{ write }}) as foreign_write
        {%- else %}
        aggregate(
            sequence(1, size(commits) + 1),
            named_struct('at', head, 'found', cast({{ 'null' if from_start else "case
                when head is null then named_struct('text', 'a replacement by a table without a snapshot', 'replaced', true, 'plan', null)
                when exists(undone, id -> commits[id].mark in (" ~ marks ~ ")) then named_struct('text', 'a rollback', 'replaced', true, 'plan', null)
            end" }} as {{ write }})),
            (walk, _) -> case
                when walk.at is null {{- '' if from_start else ' or walk.at = ' ~ known }} then walk
                when commits[walk.at] is null then named_struct('at', cast(null as bigint), 'found', coalesce(walk.found, named_struct(
                    'text', concat('snapshots up to ', walk.at, ' that have expired'), 'replaced', false, 'plan', cast(null as string)
                )))
                {%- if stops %}
                when {{ marked.format("'" ~ stops | join("', '") ~ "'") }} then named_struct('at', cast(null as bigint), 'found', walk.found)
                {%- endif %}
                else named_struct('at', commits[walk.at].parent, 'found', case
                    {%- if not from_start %}
                    when commits[walk.at].parent is null then named_struct(
                        'text', coalesce(walk.found.text, commits[walk.at].text), 'replaced', true,
                        'plan', if(walk.found is null, commits[walk.at].mark, walk.found.plan)
                    )
                    {%- endif %}
                    when walk.found is not null or commits[walk.at].operation = 'replace' or {{ is_own }} then walk.found
                    else named_struct('text', commits[walk.at].text, 'replaced', false, 'plan', commits[walk.at].mark)
                end)
            end,
            walk -> walk.found
        ) as foreign_write
        {%- endif %}
    from (select max(snapshot_id) as head from {{ mv }}.refs where name = 'main')
    {%- if known is not none %}
    cross join (
        select map_from_entries(collect_list(struct(snapshot_id, named_struct(
            'parent', parent_id, 'operation', operation, 'mark', summary[{{ dbt_backfill.string_literal('dbt_backfill.' ~ backfill_id) }}],
            'text', concat(operation, ' in snapshot ', snapshot_id, ', at ', committed_at)
        )))) as commits
        from {{ mv }}.snapshots
    )
    cross join (
        {#- If a plan replaces the MV and is executed twice, its first snapshot is no ancestor either. #}
        select collect_list(snapshot_id) as undone from {{ mv }}.history where not is_current_ancestor {{- ' and false' if stops }}
    )
    {%- endif %}
{%- endmacro %}


{#- Return a statement after which Spark adds a property to each snapshot that the session commits: the property `dbt_backfill.<id of the MV>`, with
    the mark as its value. All models of a session share its settings, so the name of the property contains the id of the MV. If `mark` is none,
    return the statement after which Spark no longer adds the property. -#}
{% macro get_mark_statement(backfill_id, mark=none) -%}
    {%- set setting = '`spark.sql.iceberg.snapshot-property.dbt_backfill.' ~ backfill_id ~ '`' -%}
    {{ return('set ' ~ setting ~ '=`' ~ mark ~ '`' if mark else 'reset ' ~ setting) }}
{%- endmacro %}


{#- Record the version of the MV in a run that has nothing to do, if maintenance has changed the version. Otherwise the log might later no longer list
    the commits after the version of the last barrier. Then the next barrier would compare the whole MV. -#}
{% macro run_record_of_mv_version(backfill, state) %}
    {%- set recorded = state.committed.get('mv_version') -%}
    {%- if recorded and not state.foreign_write and (recorded != state.mv_version or state.committed.get('mv_unclear')) -%}
        {%- set sql -%}
            update {{ backfill.progress.render() }}
            set last = regexp_replace(replace(last, ',"mv_unclear":true', ''), '"mv_version": ?"[^"]*"', '"mv_version":"{{ state.mv_version }}"')
            where vnode = 0 and epoch = {{ state.epoch }} and plan_id is null
                and get_json_object(last, '$.plan_id') = {{ dbt_backfill.string_literal(state.committed.get('plan_id')) }}
        {%- endset -%}
        {%- do dbt_backfill.run_table(
            'record the version of the MV',
            'begin ' ~ dbt_backfill.get_yielding_sql(sql, 'delta') ~ ' end' if backfill.options.file_format == 'delta' else sql
        ) -%}
    {%- endif -%}
{% endmacro %}
