{#-
    Return the upstream's current version and its ancestors: {
      'relation',
      'version', 'committed_at': the id and the time of the current snapshot of the main branch, as texts; `0` and none if the table has no snapshot,
      'id': such as 'iceberg/3/0': the table's format version and the schema id of the current snapshot,
      'altered': true if there were commits after the snapshot. In this case the table may have a newer schema,
      'log': a list of {'version', 'parent', 'committed_at', 'operation', 'delete_files'}: the current snapshot and its
        ancestors, newest first,
      'snapshots': the ids of all snapshots that have not expired,
      'schemas': the schema ids of snapshots, as texts by version. Old snapshots may be missing,
      'holds': the tags of this package, by name, each with its snapshot, see iceberg_hold,
      'is_new': true if no version of the upstream was read yet
    }

    Snapshot ids are random, so another table of the same name has other snapshot ids. Therefore the 'id' does not have to distinguish tables. Reading
    the format costs one more statement. So the macro does not read the format if the committed plan shows it: a table that did not change, and a
    table of format 3, still have the format of that plan.
-#}
{% macro iceberg_read_upstream(upstream, since, log=none) %}
    {%- set relation = upstream.relation -%}
    {%- if log is none -%}
        {%- set log = dbt_backfill.run_json('read the log of the upstream', 'select to_json(' ~ dbt_backfill.iceberg_log_sql(upstream) ~ ')')[0] -%}
    {%- endif -%}
    {%- set snapshots, main, holds, commits, schemas = {}, {}, {}, [], {} -%}
    {%- for entry in log -%}
        {%- if entry.get('delete_files') is not none -%} {%- do snapshots.update({entry.version: entry}) -%}
        {%- elif entry.get('ref') == 'main' -%} {%- do main.update({'version': entry.version}) -%}
        {%- elif entry.get('ref') -%} {%- do holds.update({entry.ref: entry.version}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for entry in log if entry.get('schema') is not none -%}
        {%- do schemas.update({entry.version: entry.schema | string}) -%}
        {%- if entry.version == main.get('version') -%} {%- do commits.append(entry) -%} {%- endif -%}
    {%- endfor -%}
    {%- set current = snapshots.get(main.get('version')) -%}
    {%- if main and current is none -%}
        {%- do dbt_backfill.refuse(
            'the snapshot ' ~ main.version ~ ' of ' ~ relation.render() ~ ' expired while this run was reading the log of that table',
            "Nothing is lost; run again to continue. If this repeats, keep the upstream's snapshots for longer", id='snapshot-expired') -%}
    {%- endif -%}
    {%- set ancestors = [current] if current else [] -%}
    {%- for _ in snapshots if current -%}
        {%- set parent = snapshots.get(ancestors[-1].get('parent')) -%}
        {%- if parent -%} {%- do ancestors.append(parent) -%} {%- endif -%}
    {%- endfor -%}
    {%- set version = current.version if current else 0 -%}
    {%- set read = since.version | int if since is not none and since.get('version') is not none else none -%}
    {%- set upstream = {
        'relation': relation, 'version': version | string, 'committed_at': current.committed_at if current else none,
        'altered': commits | length > 1, 'log': ancestors, 'snapshots': snapshots.keys() | list, 'schemas': schemas, 'holds': holds,
        'is_new': read is none,
    } -%}
    {%- set format = dbt_backfill.parse_iceberg_id(since.id).format if read is not none and since.get('kind') == 'iceberg' else none -%}
    {%- if not (format is not none and read == version or format == '3' and read in snapshots) -%}
        {%- do upstream.update({'properties': dbt_backfill.read_table_properties(relation)}) -%}
        {%- set format = upstream.properties.get('format-version', '2') -%}
    {%- endif -%}
    {%- set schema = '/' ~ (commits | sort(attribute='committed_at') | last).schema if current and commits else '' -%}
    {{ return(dict(upstream, id='iceberg/' ~ format ~ schema)) }}
{% endmacro %}


{#- Return {'format', 'schema'} of an id such as 'iceberg/3/0', as texts; the id of a table without a snapshot has no schema. -#}
{% macro parse_iceberg_id(id) %}
    {%- set parts = id.split('/') -%}
    {{ return({'format': parts[1], 'schema': parts[2] if parts | length > 2 else none}) }}
{% endmacro %}


{#-
    Return a scalar subquery of the table's history: an array of structs. Each struct has the field `version`, the id of a snapshot. There are three
    kinds of structs, listed here without their null fields:
      - {'ref'}: the main branch, and the tags of this package,
      - {'schema', 'committed_at'}: a commit, with the schema of the table after the commit; some commits make no snapshot,
      - {'delete_files', 'committed_at', 'operation', 'parent'}: a snapshot.

    `iceberg_read_upstream` joins the structs in Jinja: Spark loads the table for each metadata table, so a join in Spark would cost twice as much.
    The snapshots are read last. So the main branch cannot point to a snapshot that is missing in the list, even if a snapshot is committed during the
    read.
-#}
{% macro iceberg_log_sql(upstream) -%}
    {%- set relation = upstream.relation -%}
    (
        select collect_list(struct(*))
        from (
            select
                snapshot_id as version, name as ref, null as schema, null as committed_at, null as operation, null as parent,
                null as delete_files
            from {{ relation.render() }}.refs
            where name = 'main' or startswith(name, 'dbt_backfill_')
            union all
            select latest_snapshot_id, null, latest_schema_id, cast(timestamp as string), null, null, null
            from {{ relation.render() }}.metadata_log_entries
            union all
            select
                snapshot_id, null, null, cast(committed_at as string), operation, parent_id,
                cast(coalesce(summary['total-delete-files'], '0') as bigint)
            from {{ relation.render() }}.snapshots
        )
    )
{%- endmacro %}


{#- Refuse a table whose changes cannot be read: format 2 has no row lineage, and its changelog cannot read delete files. -#}
{% macro iceberg_check_feed(upstream) %}
    {%- if upstream.get('properties') is none -%} {{ return(none) }} {%- endif -%}
    {%- set format, relation, merged = dbt_backfill.parse_iceberg_id(upstream.id).format, upstream.relation, [] -%}
    {%- if format == '3' -%} {{ return(none) }} {%- endif -%}
    {%- set name, upgrade = relation.render(), 'Upgrade it: ALTER TABLE ' ~ relation.render() ~ " SET TBLPROPERTIES ('format-version' = '3')" -%}
    {%- for mode in ['write.delete.mode', 'write.update.mode', 'write.merge.mode'] if upstream.properties.get(mode) == 'merge-on-read' -%}
        {%- do merged.append("'" ~ mode ~ "' = 'copy-on-write'") -%}
    {%- endfor -%}
    {%- set delete_files = upstream.log[0].delete_files if upstream.log else 0 -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'iceberg-format-old', 'when': format != '2',
         'fact': name ~ ' is an Iceberg table of format ' ~ format ~ ', which reports no changes of rows', 'change': upgrade},
        {'id': 'iceberg-merge-on-read', 'when': merged,
         'fact': name ~ ' is an Iceberg table of format 2 that is merged on read, so its changes cannot be read',
         'change': upgrade ~ '; or let it copy on write: ALTER TABLE ' ~ name ~ ' SET TBLPROPERTIES (' ~ merged | join(', ') ~ ')'},
        {'id': 'iceberg-delete-files', 'when': delete_files,
         'fact': name ~ ' is an Iceberg table of format 2 with ' ~ delete_files ~ ' delete files, so its changes cannot be read',
         'change': upgrade ~ "; or rewrite its data files, with the option 'delete-file-threshold' = '1'"},
    ]) -%}
    {#- With a column that cannot be sorted, Iceberg's procedure fails: "Identifier field is required as table contains unorderable columns". Even
        with an identifier field, the procedure sorts by all columns and fails. -#}
    {%- set columns = dbt_backfill.get_table_columns(relation) if upstream.is_new else [] -%}
    {%- do dbt_backfill.check_hidden_columns(relation, columns, ['_change_type', '_change_ordinal', '_commit_snapshot_id']) -%}
    {%- for column in columns if 'map<' in column.type -%}
        {%- do dbt_backfill.refuse(
            name ~ ' is an Iceberg table of format 2 with the map ' ~ column.name
                ~ '; its changes cannot be read, because maps have no order', upgrade, id='iceberg-map-column') -%}
    {%- endfor -%}
{% endmacro %}


{#- Return the traits of Iceberg, see upstream_traits. The trait takes_added_columns is false, because a changed schema is a gap. The trait
    may_read_by_zone is false, because a partition stores a timestamp as a number. -#}
{% macro iceberg_upstream_traits() %}
    {{ return({
        'stages_ranges': false, 'enforces_keys': false, 'holds_versions': true, 'log_in_state': true, 'may_be_cached': true,
        'takes_added_columns': false, 'may_read_by_zone': false, 'may_forget_keys': true, 'may_order_texts_otherwise': true,
        'copy_format': 'iceberg', 'lost_conditions': none,
        'metadata_columns': ['_file', '_pos', '_deleted', '_row_id', '_last_updated_sequence_number'],
    }) }}
{% endmacro %}


{% macro iceberg_committed_at(observed, version) %}
    {%- set snapshot = observed.log | selectattr('version', 'equalto', version | int) | list | first | default(none) -%}
    {{ return(snapshot.committed_at if snapshot else none) }}
{% endmacro %}


{#-
    Return why the feed cannot report the changes since the committed version, see new_gap; none if the feed can report them.

    Row lineage does not show a rollback, and has no data from before an upgrade to format 3. So the committed snapshot must be an ancestor of the
    current snapshot, and both snapshots must have the same format. No feed reports how a change of the schema affects older rows. For example, a
    column that was dropped and added again is null in all older rows. So both snapshots must have the same schema, and also those in between, because
    the events of a change table are read from several snapshots. With format 2 the table itself must also have this schema, see
    _iceberg_shows_other_columns.
-#}
{% macro iceberg_upstream_gap(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {%- if committed.kind == 'iceberg' and since == upstream.version | int -%} {{ return(none) }} {%- endif -%}
    {%- set is_cut = upstream.log and (upstream.log | last).get('parent') is not none -%}
    {%- set lost = 'the upstream is another table than at the last barrier' if committed.kind != 'iceberg'
        else none if since == 0
        else 'the snapshot ' ~ since ~ ' of the upstream has expired, or the upstream was replaced' if since not in upstream.snapshots
        else none if since in upstream.log | map(attribute='version')
        else 'snapshots of the upstream after its snapshot ' ~ since ~ ' have expired, or it was rolled back' if is_cut
        else 'the upstream was rolled back or replaced since its snapshot ' ~ since -%}
    {%- if lost -%} {{ return(dbt_backfill.new_gap(lost)) }} {%- endif -%}
    {%- set now, then = dbt_backfill.parse_iceberg_id(upstream.id), dbt_backfill.parse_iceberg_id(committed.id) -%}
    {%- set between = dbt_backfill.iceberg_snapshots_between(upstream, since, upstream.version) -%}
    {%- set schemas, start = ([then.schema] if since else []), ('its snapshot ' ~ since if since else 'it had no snapshot') -%}
    {%- for snapshot in between -%} {%- do schemas.append(upstream.get('schemas', {}).get(snapshot.version, now.schema)) -%} {%- endfor -%}
    {%- if since == 0 and schemas | unique | list | length < 2 -%} {{ return(none) }} {%- endif -%}
    {%- set deleting = (between if now.format == '2' else []) | selectattr('delete_files') | map(attribute='version') | list -%}
    {%- set why = 'the upstream was upgraded to format ' ~ now.format if since and now.format != then.format
        else 'columns of the upstream were changed since ' ~ start if schemas | reject('equalto', now.schema) | list
        else 'the snapshot ' ~ deleting[0] ~ ' of the upstream has delete files' if deleting
        else 'columns of the upstream were changed since its snapshot ' ~ upstream.version
            if dbt_backfill._iceberg_shows_other_columns(upstream) else none -%}
    {{ return(dbt_backfill.new_gap(why) if why else none) }}
{% endmacro %}


{#-
    True if the changelog of a table of format 2 has other columns than the current snapshot. The changelog has the columns of the table, and altering
    the table makes no snapshot. A column that was dropped and added again is null in the changelog, even if the column is the key. A row that has
    changed only in such a column is not in the changelog.

    Only the plan of a query shows the schema of the table. The schema is read only if there were commits after the snapshot. Such a commit may be an
    ALTER, a tag of this package, or a change of a property.
-#}
{% macro _iceberg_shows_other_columns(upstream) %}
    {%- set id = dbt_backfill.parse_iceberg_id(upstream.id) -%}
    {%- if id.format != '2' or not upstream.altered -%} {{ return(false) }} {%- endif -%}
    {%- if 'shows_other_columns' not in upstream -%}
        {%- set plan = dbt_backfill.run_table('read the schema of the upstream', 'explain select * from ' ~ upstream.relation.render())[0][0] -%}
        {%- set schema = modules.re.search('IcebergScan\\(.*?schemaId=(\\d+)', plan) -%}
        {%- do upstream.update({'shows_other_columns': not schema or schema.group(1) != id.schema}) -%}
    {%- endif -%}
    {{ return(upstream.shows_other_columns) }}
{% endmacro %}


{% macro iceberg_continues_upstream(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {%- if committed.kind != 'iceberg' -%} {{ return(false) }} {%- endif -%}
    {%- if since == 0 or since == upstream.version | int -%} {{ return(true) }} {%- endif -%}
    {{ return(since in upstream.log | map(attribute='version')
        and dbt_backfill.parse_iceberg_id(upstream.id).schema == dbt_backfill.parse_iceberg_id(committed.id).schema
        and not dbt_backfill._iceberg_shows_other_columns(upstream)) }}
{% endmacro %}


{% macro iceberg_upstream_readable(upstream, source) %}
    {%- set version = source.version | int -%}
    {{ return(source.id.startswith('iceberg/') and (version == 0 or version in upstream.snapshots)) }}
{% endmacro %}


{% macro iceberg_upstream_lag(upstream, source) %}
    {%- set since = source.version | int -%}
    {%- if source.kind != 'iceberg' or since != 0 and since not in upstream.log | map(attribute='version') -%} {{ return(none) }} {%- endif -%}
    {%- set newer = dbt_backfill.iceberg_snapshots_between(upstream, since, upstream.version) -%}
    {{ return({'versions': newer | length, 'since': newer[-1].committed_at if newer else none}) }}
{% endmacro %}


{#- Return the snapshots in (from, to], newest first. -#}
{% macro iceberg_snapshots_between(upstream, from_version, to_version) %}
    {%- set versions, first, last = upstream.log | map(attribute='version') | list, from_version | int, to_version | int -%}
    {%- if last not in versions -%} {{ return([]) }} {%- endif -%}
    {%- set end = versions.index(first) if first in versions else none -%}
    {{ return(upstream.log[versions.index(last):end]) }}
{% endmacro %}


{#- Hold a version with a tag: Iceberg does not expire a snapshot that has a tag. A table without a snapshot has no version to hold. -#}
{% macro iceberg_hold(source, name) %}
    {%- if source.version == '0' -%} {{ return(false) }} {%- endif -%}
    {%- set sql = 'alter table ' ~ source.relation ~ ' create or replace tag ' ~ name ~ ' as of version ' ~ source.version -%}
    {%- set error = dbt_backfill.try_table('hold the snapshot of the upstream', sql).error -%}
    {%- if error -%}
        {%- do dbt_backfill.refuse(
            "backfill_mode 'snapshot' needs a tag in " ~ source.relation ~ ', but dbt could not create the tag: ' ~ error.split('\n')[0],
            'Allow dbt to alter that table. Or remove backfill_mode: the next run then continues without the tag', id='snapshot-tag-not-created') -%}
    {%- endif -%}
    {{ return(true) }}
{% endmacro %}


{% macro iceberg_release(source, name) %}
    {%- do dbt_backfill.run_table('release the snapshot of the upstream', 'alter table ' ~ source.relation ~ ' drop tag if exists ' ~ name) -%}
{% endmacro %}


{% macro iceberg_held_version(observed, name) %}
    {%- set held = observed.get('holds', {}).get(name) -%}
    {{ return(held | string if held is not none else none) }}
{% endmacro %}


{#-
    Refuse a key of Iceberg's type uuid. Spark shows a uuid as a string, but Iceberg orders uuids differently than strings. So Iceberg would skip
    files that contain keys of a range. To find a uuid, the macro explains a filter that compares the key with a text that is not a uuid. Iceberg
    applies this filter to a string column, but leaves the filter on a uuid column to Spark. Later barriers do not repeat the check, because a column
    cannot become a uuid without a gap.
-#}
{% macro iceberg_check_key_order(upstream, columns) %}
    {%- set relation, comparisons = upstream.relation, [] -%}
    {%- for column in columns -%}
        {%- do comparisons.append(dbt_backfill.identifier(column) ~ " > 'no uuid " ~ loop.index ~ "'") -%}
    {%- endfor -%}
    {%- set plan = dbt_backfill.run_table(
        'check the order of the key',
        'explain select ' ~ dbt_backfill.identifiers(columns) ~ ' from ' ~ relation.render() ~ ' where ' ~ comparisons | join(' and ')
    )[0][0] -%}
    {%- set taken = modules.re.search('IcebergScan\\(.*?filters=(.*)', plan) -%}
    {%- for column in columns -%}
        {%- if taken and "'no uuid " ~ loop.index ~ "'" not in taken.group(1) -%}
            {%- do dbt_backfill.refuse('the key ' ~ column ~ ' of ' ~ relation.render() ~ ' is a uuid, but Iceberg and Spark order uuids differently',
                'Read a table that has this key as a string, or name columns of another type in unique_key', id='key-type-uuid') -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
