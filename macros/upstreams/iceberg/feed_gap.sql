{#-
    Why the changes since the committed version cannot be reported, see new_gap; none if they can.

    Row lineage shows nothing after a rollback, and before an upgrade to format 3 `_row_id` is null: the committed snapshot has to be an
    ancestor of the current one, and of the same format. No feed reports what a change of the schema does to rows that were written
    before it: a column that was dropped and added anew is null in all of them. So both snapshots have to be of the same schema, and of
    format 2 the table too, see _iceberg_shows_other_columns.
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
    alter the table makes no snapshot. A column that was dropped and added anew is null in it, also if it is the key, and a row that
    has changed in such a column alone is not in it.

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
