{#-
    The upstream's current version and its ancestors: {
      'relation',
      'version', 'committed_at': of the current snapshot of the main branch; 0 and none for a table without one,
      'id': 'iceberg/3' or 'iceberg/2', by the table's format version,
      'log': a list of {'version', 'committed_at', 'operation', 'delete_files'}: the current snapshot and its
        ancestors, newest first,
      'snapshots': the ids of all snapshots that have not expired
    }

    Snapshot ids are random: another table of the same name does not have them, so the id need not tell tables
    apart. The format is asked for (one more statement) only where the committed plan does not tell it: a table of
    format 3 stays one, and so does any table that did not change.

    Arguments:
      since (dict or none): the plan of the committed epoch.
      log (list or none): what get_upstream_log_sql returned, if the state was read with it.
-#}
{% macro iceberg_read_upstream(relation, since, log) %}
    {%- if log is none -%}
        {%- set log = dbt_backfill.run_json(
            'read the log of the upstream', 'select to_json(' ~ dbt_backfill.iceberg_log_sql(relation) ~ ')'
        )[0] -%}
    {%- endif -%}
    {%- set snapshots = {} -%}
    {%- for snapshot in log -%} {%- do snapshots.update({snapshot.version: snapshot}) -%} {%- endfor -%}
    {%- set current = log | selectattr('is_main') | first | default(none) -%}
    {%- set walk = namespace(snapshot=current) -%}
    {%- set ancestors = [] -%}
    {%- for _ in log if walk.snapshot -%}
        {%- do ancestors.append(walk.snapshot) -%}
        {%- set walk.snapshot = snapshots.get(walk.snapshot.get('parent')) -%}
    {%- endfor -%}
    {%- set version = current.version if current else 0 -%}
    {%- set read = since.upstream_version | int if since is not none and since.get('upstream_version') is not none else none -%}
    {%- set known = read is not none and since.upstream_kind == 'iceberg'
        and (read == version or since.upstream_id == 'iceberg/3' and read in snapshots) -%}
    {%- set upstream = {
        'relation': relation,
        'version': version,
        'committed_at': current.committed_at if current else none,
        'id': since.upstream_id if known else none,
        'log': ancestors,
        'snapshots': snapshots.keys() | list,
    } -%}
    {%- if not known -%}
        {%- set properties = dbt_backfill.read_table_properties(relation) -%}
        {%- do upstream.update({'id': 'iceberg/' ~ properties.get('format-version', '2'), 'properties': properties}) -%}
    {%- endif -%}
    {{ return(upstream) }}
{% endmacro %}


{#- A scalar subquery: all snapshots of the table, as an array of structs. -#}
{% macro iceberg_log_sql(relation) -%}
    (
        select coalesce(collect_list(struct(
            snapshots.snapshot_id as version,
            snapshots.parent_id as parent,
            cast(snapshots.committed_at as string) as committed_at,
            snapshots.operation,
            cast(coalesce(snapshots.summary['total-delete-files'], '0') as bigint) as delete_files,
            main.name is not null as is_main
        )), array())
        from {{ relation.render() }}.snapshots as snapshots
        left join (select * from {{ relation.render() }}.refs where name = 'main') as main
            on main.snapshot_id = snapshots.snapshot_id
    )
{%- endmacro %}


{#-
    Format 2 has no row lineage, and its changelog cannot read delete files ("Delete files are currently not
    supported in changelog scans").
-#}
{% macro iceberg_check_feed(upstream) %}
    {%- if upstream.get('properties') is none -%} {{ return(none) }} {%- endif -%}
    {%- set relation, properties = upstream.relation, upstream.properties -%}
    {%- if upstream.id != 'iceberg/2' -%}
        {%- if upstream.id != 'iceberg/3' -%}
            {%- do dbt_backfill.refuse(
                relation.render() ~ ' is an Iceberg table of format ' ~ upstream.id[8:]
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
{% endmacro %}


{% macro _iceberg_upgrade(relation) %}
    {{ return('Upgrade it: ALTER TABLE ' ~ relation.render() ~ " SET TBLPROPERTIES ('format-version' = '3')") }}
{% endmacro %}
