{#-
    Return the upstream's current version and its ancestors: {
      'relation',
      'version', 'committed_at': of the current snapshot of the main branch, as texts; 0 and none for a table without one,
      'id': such as 'iceberg/3/0': the table's format version, and the schema of the current snapshot,
      'altered': whether more than the snapshot was committed since, so that the table's schema may be a newer one,
      'log': a list of {'version', 'parent', 'committed_at', 'operation', 'delete_files'}: the current snapshot and its
        ancestors, newest first,
      'snapshots': the ids of all snapshots that have not expired,
      'holds': our tags by their names, see iceberg_hold, each with its snapshot,
      'is_new': whether nothing was read of it yet
    }

    Snapshot ids are random: another table of the same name does not have them, so the id need not distinguish tables. The format is
    asked for (one more statement) only where the committed plan does not have it: a table of format 3 keeps its format, and any table
    that did not change does too.

    Arguments:
      since (dict or none): the source of the committed plan.
      log (list or none): what iceberg_log_sql returned, if the state was read with it.
-#}
{% macro iceberg_read_upstream(upstream, since, log=none) %}
    {%- set relation = upstream.relation -%}
    {%- if log is none -%}
        {%- set log = dbt_backfill.run_json(
            'read the log of the upstream', 'select to_json(' ~ dbt_backfill.iceberg_log_sql(upstream) ~ ')'
        )[0] -%}
    {%- endif -%}
    {%- set snapshots, main, holds, commits = {}, {}, {}, [] -%}
    {%- for entry in log -%}
        {%- if entry.get('delete_files') is not none -%} {%- do snapshots.update({entry.version: entry}) -%}
        {%- elif entry.get('ref') == 'main' -%} {%- do main.update({'version': entry.version}) -%}
        {%- elif entry.get('ref') -%} {%- do holds.update({entry.ref: entry.version}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for entry in log if entry.get('schema') is not none and entry.get('version') == main.get('version') -%}
        {%- do commits.append(entry) -%}
    {%- endfor -%}
    {%- set current = snapshots.get(main.get('version')) -%}
    {%- if main and current is none -%}
        {%- do dbt_backfill.refuse(
            'the snapshot ' ~ main.version ~ ' of ' ~ relation.render() ~ ' expired while its log was read',
            'Nothing is lost; run again to continue'
        ) -%}
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
        'altered': commits | length > 1, 'log': ancestors, 'snapshots': snapshots.keys() | list, 'holds': holds, 'is_new': read is none,
    } -%}
    {%- set format = dbt_backfill.parse_iceberg_id(since.id).format if read is not none and since.get('kind') == 'iceberg' else none -%}
    {%- if not (format is not none and read == version or format == '3' and read in snapshots) -%}
        {%- do upstream.update({'properties': dbt_backfill.read_table_properties(relation)}) -%}
        {%- set format = upstream.properties.get('format-version', '2') -%}
    {%- endif -%}
    {%- set schema = '/' ~ (commits | sort(attribute='committed_at') | last).schema if current and commits else '' -%}
    {{ return(dict(upstream, id='iceberg/' ~ format ~ schema)) }}
{% endmacro %}


{#- Return {'format', 'schema'} of an id such as 'iceberg/3/0', as text; a table without a snapshot has no schema. -#}
{% macro parse_iceberg_id(id) %}
    {%- set parts = id.split('/') -%}
    {{ return({'format': parts[1], 'schema': parts[2] if parts | length > 2 else none}) }}
{% endmacro %}


{#-
    Return a scalar subquery of the table's past, as an array of structs of three kinds, each with the `version`, a snapshot's id. What
    is null is absent:
      - {'ref'}: its main branch, and our tags,
      - {'schema', 'committed_at'}: of a commit, with the schema since; not every commit makes a snapshot,
      - {'delete_files', 'committed_at', 'operation', 'parent'}: a snapshot.

    They are put together in `iceberg_read_upstream`: Spark loads the table for each of these metadata tables, and joins of them cost it
    twice as much. The snapshots come last, so that one that is committed meanwhile cannot be the main branch's and still be missing.
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


{#-
    Format 2 has no row lineage, and its changelog cannot read delete files ("Delete files are currently not supported in changelog
    scans").
-#}
{% macro iceberg_check_feed(upstream) %}
    {%- if upstream.get('properties') is none -%} {{ return(none) }} {%- endif -%}
    {%- set format, relation, merged = dbt_backfill.parse_iceberg_id(upstream.id).format, upstream.relation, [] -%}
    {%- if format == '3' -%} {{ return(none) }} {%- endif -%}
    {%- set name, upgrade = relation.render(), 'Upgrade it: ALTER TABLE ' ~ relation.render() ~ " SET TBLPROPERTIES ('format-version' = '3')" -%}
    {%- if format != '2' -%}
        {%- do dbt_backfill.refuse(name ~ ' is an Iceberg table of format ' ~ format ~ ', which reports no changes of rows', upgrade) -%}
    {%- endif -%}
    {%- for mode in ['write.delete.mode', 'write.update.mode', 'write.merge.mode'] if upstream.properties.get(mode) == 'merge-on-read' -%}
        {%- do merged.append("'" ~ mode ~ "' = 'copy-on-write'") -%}
    {%- endfor -%}
    {%- if merged -%}
        {%- do dbt_backfill.refuse(
            name ~ ' is an Iceberg table of format 2 that is merged on read, so its changes cannot be read',
            upgrade ~ '; or let it copy on write: ALTER TABLE ' ~ name ~ ' SET TBLPROPERTIES (' ~ merged | join(', ') ~ ')'
        ) -%}
    {%- elif upstream.log and upstream.log[0].delete_files -%}
        {%- do dbt_backfill.refuse(
            name ~ ' is an Iceberg table of format 2 with ' ~ upstream.log[0].delete_files ~ ' delete files, so its changes cannot be read',
            upgrade ~ "; or rewrite its data files, with the option 'delete-file-threshold' = '1'"
        ) -%}
    {%- endif -%}
    {#- "Identifier field is required as table contains unorderable columns"; with one it sorts by all columns all the same. -#}
    {%- for column in (dbt_backfill.get_table_columns(relation) if upstream.is_new else []) if 'map<' in column.type -%}
        {%- do dbt_backfill.refuse(
            name ~ ' is an Iceberg table of format 2 with the map ' ~ column.name
                ~ ', and its changes cannot be read, because maps have no order', upgrade
        ) -%}
    {%- endfor -%}
{% endmacro %}


{#- Another schema is a gap, so no column is added without one. A partition stores a number for a timestamp, so no zone matters. -#}
{% macro iceberg_upstream_traits() %}
    {{ return({
        'stages_ranges': false, 'enforces_keys': false, 'holds_versions': true, 'log_in_state': true, 'may_be_cached': true,
        'takes_added_columns': false, 'may_read_by_zone': false, 'may_forget_keys': true, 'may_order_texts_otherwise': true,
        'copy_format': 'iceberg', 'lost_conditions': none,
    }) }}
{% endmacro %}


{% macro iceberg_committed_at(observed, version) %}
    {%- set snapshot = observed.log | selectattr('version', 'equalto', version | int) | list | first | default(none) -%}
    {{ return(snapshot.committed_at if snapshot else none) }}
{% endmacro %}


{#-
    Why the changes since the committed version cannot be reported, see new_gap; none if they can.

    Row lineage shows nothing after a rollback, and before an upgrade to format 3 `_row_id` is null: the committed snapshot has to be an
    ancestor of the current one, and of the same format. No feed reports what a change of the schema does to rows that were written
    before it: a column that was dropped and added again is null in all of them. So both snapshots must have the same schema; with format
    2 the table must have it too, see _iceberg_shows_other_columns.
-#}
{% macro iceberg_upstream_gap(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {%- if committed.kind != 'iceberg' -%}
        {{ return(dbt_backfill.new_gap('the upstream is another table than at the last barrier')) }}
    {%- elif since == 0 or since == upstream.version | int -%}
        {{ return(none) }}
    {%- elif since not in upstream.snapshots -%}
        {{ return(dbt_backfill.new_gap('the snapshot ' ~ since ~ ' of the upstream has expired, or the upstream was replaced')) }}
    {%- elif since not in upstream.log | map(attribute='version') -%}
        {{ return(dbt_backfill.new_gap(
            'snapshots of the upstream after its snapshot ' ~ since ~ ' have expired, or it was rolled back'
                if upstream.log and (upstream.log | last).get('parent') is not none
                else 'the upstream was rolled back or replaced since its snapshot ' ~ since
        )) }}
    {%- endif -%}
    {%- set now, then = dbt_backfill.parse_iceberg_id(upstream.id), dbt_backfill.parse_iceberg_id(committed.id) -%}
    {%- if now.format != then.format -%}
        {{ return(dbt_backfill.new_gap('the upstream was upgraded to format ' ~ now.format)) }}
    {%- elif now.schema != then.schema -%}
        {{ return(dbt_backfill.new_gap('columns of the upstream were changed since its snapshot ' ~ since)) }}
    {%- elif now.format == '2' -%}
        {%- for snapshot in dbt_backfill.iceberg_snapshots_between(upstream, since, upstream.version) if snapshot.delete_files -%}
            {{ return(dbt_backfill.new_gap('the snapshot ' ~ snapshot.version ~ ' of the upstream has delete files')) }}
        {%- endfor -%}
    {%- endif -%}
    {{ return(
        dbt_backfill.new_gap('columns of the upstream were changed since its snapshot ' ~ upstream.version)
            if dbt_backfill._iceberg_shows_other_columns(upstream) else none
    ) }}
{% endmacro %}


{#-
    True if the changelog, by which format 2 is followed, has other columns than the current snapshot: it has those of the table, and to
    alter the table makes no snapshot. A column that was dropped and added again is null in the changelog, also if it is the key. A row
    that has changed in such a column alone is not in it.

    Only the plan of a query shows the schema of the table. It is asked for, once, where more than the snapshot was committed: that may
    be a tag of this package, or a property.
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


{#- Each version since is a snapshot that leads to the current one. -#}
{% macro iceberg_upstream_lag(upstream, source) %}
    {%- set since = source.version | int -%}
    {%- if source.kind != 'iceberg' or since != 0 and since not in upstream.log | map(attribute='version') -%} {{ return(none) }} {%- endif -%}
    {%- set newer = dbt_backfill.iceberg_snapshots_between(upstream, since, upstream.version) -%}
    {{ return({'versions': newer | length, 'since': newer[-1].committed_at if newer else none}) }}
{% endmacro %}


{#- Return the snapshots in (from, to], newest first. -#}
{% macro iceberg_snapshots_between(upstream, from_version, to_version) %}
    {%- set versions, begin, end = upstream.log | map(attribute='version') | list, to_version | int, from_version | int -%}
    {%- if begin not in versions -%} {{ return([]) }} {%- endif -%}
    {%- set since = upstream.log[versions.index(begin):] -%}
    {%- set versions = since | map(attribute='version') | list -%}
    {{ return(since[:versions.index(end)] if end in versions else since) }}
{% endmacro %}


{#- A tag keeps Iceberg from expiring a version. There is nothing to keep of a table without a snapshot. -#}
{% macro iceberg_hold(source, name) %}
    {%- if source.version == '0' -%} {{ return(false) }} {%- endif -%}
    {%- set sql = 'alter table ' ~ source.relation ~ ' create or replace tag ' ~ name ~ ' as of version ' ~ source.version -%}
    {%- do dbt_backfill.run_table('hold the snapshot of the upstream', sql) -%}
    {{ return(true) }}
{% endmacro %}


{% macro iceberg_release(source, name) %}
    {%- set sql = 'alter table ' ~ source.relation ~ ' drop tag if exists ' ~ name -%}
    {%- do dbt_backfill.run_table('release the snapshot of the upstream', sql) -%}
{% endmacro %}


{% macro iceberg_held_version(observed, name) %}
    {%- set held = observed.get('holds', {}).get(name) -%}
    {{ return(held | string if held is not none else none) }}
{% endmacro %}


{#-
    Refuse a key that Iceberg orders otherwise than Spark: its uuid, which Spark shows as a string, so that files are skipped whose keys
    a range has. In SQL the two differ only in a comparison with a text that is no uuid: Iceberg filters by that of a string, and leaves
    that of a uuid to Spark. A column cannot become a uuid without a gap.
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
            {%- do dbt_backfill.refuse(
                'the key ' ~ column ~ ' of ' ~ relation.render()
                    ~ ' is a uuid, which Iceberg orders otherwise than Spark orders its text',
                'Follow a table that has it as a string, or name columns of another type in unique_key'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
