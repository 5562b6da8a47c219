{#-
    The upstream's current version and its ancestors: {
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

    Snapshot ids are random: another table of the same name does not have them, so the id need not tell tables
    apart. The format is asked for (one more statement) only where the committed plan does not tell it: a table of
    format 3 stays one, and so does any table that did not change.

    Arguments:
      since (dict or none): the source of the committed plan.
      log (list or none): what get_upstream_log_sql returned, if the state was read with it.
-#}
{% macro iceberg_read_upstream(relation, since, log) %}
    {%- if log is none -%}
        {%- set log = dbt_backfill.run_json(
            'read the log of the upstream', 'select to_json(' ~ dbt_backfill.iceberg_log_sql(relation) ~ ')'
        )[0] -%}
    {%- endif -%}
    {%- set snapshots, holds = {}, {} -%}
    {%- for snapshot in log -%}
        {%- do snapshots.update({snapshot.version: snapshot}) -%}
        {%- for name in snapshot.get('holds') or [] -%} {%- do holds.update({name: snapshot.version}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set current = log | selectattr('is_main') | first | default(none) -%}
    {%- set walk = namespace(snapshot=current) -%}
    {%- set ancestors = [] -%}
    {%- for _ in log if walk.snapshot -%}
        {%- do ancestors.append(walk.snapshot) -%}
        {%- set walk.snapshot = snapshots.get(walk.snapshot.get('parent')) -%}
    {%- endfor -%}
    {%- set version = current.version if current else 0 -%}
    {%- set read = since.version | int if since is not none and since.get('version') is not none else none -%}
    {%- set format = dbt_backfill.parse_iceberg_id(since.id).format if since is not none
        and since.get('kind') == 'iceberg' and read is not none else none -%}
    {%- set upstream = {
        'relation': relation,
        'version': version | string,
        'committed_at': current.committed_at if current else none,
        'altered': current.altered if current else false,
        'log': ancestors,
        'snapshots': snapshots.keys() | list,
        'holds': holds,
        'is_new': read is none,
    } -%}
    {%- if not (format is not none and read == version or format == '3' and read in snapshots) -%}
        {%- do upstream.update({'properties': dbt_backfill.read_table_properties(relation)}) -%}
        {%- set format = upstream.properties.get('format-version', '2') -%}
    {%- endif -%}
    {%- set schema = current.get('schema') if current else none -%}
    {%- do upstream.update({'id': 'iceberg/' ~ format ~ ('/' ~ schema if schema is not none else '')}) -%}
    {{ return(upstream) }}
{% endmacro %}


{#- {'format', 'schema'} of such an id, as text; no schema of a table without a snapshot. -#}
{% macro parse_iceberg_id(id) %}
    {%- set parts = id.split('/') -%}
    {{ return({'format': parts[1], 'schema': parts[2] if parts | length > 2 else none}) }}
{% endmacro %}


{#-
    A scalar subquery: all snapshots of the table, as an array of structs.

    Spark loads the table for each of its metadata tables. The snapshots come last, so that one that is committed
    meanwhile cannot be the main branch's and still be missing among them.
-#}
{% macro iceberg_log_sql(relation) -%}
    (
        select coalesce(collect_list(struct(
            snapshots.snapshot_id as version,
            snapshots.parent_id as parent,
            cast(snapshots.committed_at as string) as committed_at,
            snapshots.operation,
            cast(coalesce(snapshots.summary['total-delete-files'], '0') as bigint) as delete_files,
            coalesce(array_contains(refs.names, 'main'), false) as is_main,
            array_remove(refs.names, 'main') as holds,
            refs.schema,
            refs.altered
        )), array())
        from (
            select
                refs.snapshot_id,
                collect_set(refs.name) as names,
                max_by(entries.latest_schema_id, entries.timestamp) as schema,
                count_if(refs.name = 'main') > 1 as altered
            from {{ relation.render() }}.refs as refs
            left join {{ relation.render() }}.metadata_log_entries as entries
                on entries.latest_snapshot_id = refs.snapshot_id
            where refs.name = 'main' or startswith(refs.name, 'dbt_backfill_')
            group by refs.snapshot_id
        ) as refs
        right join {{ relation.render() }}.snapshots as snapshots on refs.snapshot_id = snapshots.snapshot_id
    )
{%- endmacro %}


{#-
    Format 2 has no row lineage, and its changelog cannot read delete files ("Delete files are currently not
    supported in changelog scans").
-#}
{% macro iceberg_check_feed(upstream) %}
    {%- if upstream.get('properties') is none -%} {{ return(none) }} {%- endif -%}
    {%- set relation, properties = upstream.relation, upstream.properties -%}
    {%- set format = dbt_backfill.parse_iceberg_id(upstream.id).format -%}
    {%- if format != '2' -%}
        {%- if format != '3' -%}
            {%- do dbt_backfill.refuse(
                relation.render() ~ ' is an Iceberg table of format ' ~ format
                    ~ ', which tells no changes of rows',
                dbt_backfill._iceberg_upgrade(relation)
            ) -%}
        {%- endif -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set merged = [] -%}
    {%- for name in ['write.delete.mode', 'write.update.mode', 'write.merge.mode'] if properties.get(name) == 'merge-on-read' -%}
        {%- do merged.append("'" ~ name ~ "' = 'copy-on-write'") -%}
    {%- endfor -%}
    {%- if merged -%}
        {%- do dbt_backfill.refuse(
            relation.render() ~ ' is an Iceberg table of format 2 that is merged on read, so its changes cannot be read',
            dbt_backfill._iceberg_upgrade(relation) ~ '; or let it copy on write: ALTER TABLE ' ~ relation.render()
                ~ ' SET TBLPROPERTIES (' ~ merged | join(', ') ~ ')'
        ) -%}
    {%- elif upstream.log and upstream.log[0].delete_files -%}
        {%- do dbt_backfill.refuse(
            relation.render() ~ ' is an Iceberg table of format 2 with ' ~ upstream.log[0].delete_files
                ~ ' delete files, so its changes cannot be read',
            dbt_backfill._iceberg_upgrade(relation) ~ "; or rewrite its data files, with the option 'delete-file-threshold' = '1'"
        ) -%}
    {%- endif -%}
    {#- "Identifier field is required as table contains unorderable columns"; with one it sorts by all columns all the same. -#}
    {%- for column in (dbt_backfill.get_table_columns(relation) if upstream.is_new else []) if 'map<' in column.type -%}
        {%- do dbt_backfill.refuse(
            relation.render() ~ ' is an Iceberg table of format 2 with the map ' ~ column.name
                ~ ', and its changes cannot be read, because maps have no order',
            dbt_backfill._iceberg_upgrade(relation)
        ) -%}
    {%- endfor -%}
{% endmacro %}


{% macro _iceberg_upgrade(relation) %}
    {{ return('Upgrade it: ALTER TABLE ' ~ relation.render() ~ " SET TBLPROPERTIES ('format-version' = '3')") }}
{% endmacro %}
