{% macro iceberg_upstream_read(upstream, version) %}
    {%- set name = upstream.relation.render() -%}
    {{ return('(select * from ' ~ name ~ ' where false)' if version | int == 0 else name ~ ' version as of ' ~ version) }}
{% endmacro %}


{#-
    Return the number of rows that the snapshot records. (Counting the rows of a table with delete files would read the whole table.) The number
    includes rows that an equality delete has removed.
-#}
{% macro iceberg_row_count_sql(upstream, version) %}
    {%- if version | int == 0 -%} {{ return('0') }} {%- endif -%}
    {{ return("(select cast(summary['total-records'] as bigint) - coalesce(cast(summary['total-position-deletes'] as bigint), 0) from "
        ~ upstream.relation.render() ~ '.snapshots where snapshot_id = ' ~ version ~ ')') }}
{% endmacro %}


{#- Return the format version of the source, which a copy needs: format 3 has types that format 2 lacks. -#}
{% macro iceberg_copy_properties(source) %}
    {{ return({'format-version': dbt_backfill.parse_iceberg_id(source.id).format}) }}
{% endmacro %}


{% macro iceberg_byte_count(upstream) %}
    {%- set sql = 'select coalesce(sum(file_size_in_bytes), 0) from ' ~ upstream.relation.render() ~ '.files' -%}
    {{ return(dbt_backfill.run_table('measure the upstream', sql)[0][0] | int) }}
{% endmacro %}


{#- Return the changes. After version 0 these are all rows. Otherwise format 3 uses row lineage, and format 2 Iceberg's changelog. -#}
{% macro iceberg_upstream_changes(observed, from_version, to_version, keys, view) %}
    {%- if from_version | int == 0 -%}
        {%- set added = [] -%}
        {%- for version in dbt_backfill._iceberg_versions_of_rows(observed, from_version, to_version, keys) -%}
            {%- set table = dbt_backfill.iceberg_upstream_read(observed, version) -%}
            {%- do added.append('select *, 0 as __bf_version, true as __bf_is_upsert from ' ~ table) -%}
        {%- endfor -%}
        {{ return({'events': added | join('\nunion all\n'), 'one_commit': true}) }}
    {%- elif dbt_backfill.parse_iceberg_id(observed.id).format == '3' -%}
        {#- The name of the variable contains the version, because one script may read the changes after two different versions. -#}
        {%- set name = '__bf_lineage_' ~ from_version -%}
        {{ return({
            'declarations': ['declare ' ~ name ~ ' struct<committed: string, bounds: string, added: string, removed: string, changed: string>'],
            'setup': ['set ' ~ name ~ ' = ('
                ~ dbt_backfill._iceberg_lineage_sql(observed.relation, from_version, to_version, keys) ~ ')'],
            'events': dbt_backfill._iceberg_events_sql(observed, from_version, to_version, keys, name),
            'literals': [name ~ '.committed', name ~ '.bounds', name ~ '.added', name ~ '.removed', name ~ '.changed'],
            'one_commit': true,
        }) }}
    {%- endif -%}
    {#- The table's catalog has the procedure. A name without a catalog means a table in the session's catalog. -#}
    {%- set catalog = dbt_backfill.get_catalog(observed.relation) -%}
    {%- set procedure -%}
        call {{ catalog ~ '.' if catalog }}system.create_changelog_view(
            table => {{ dbt_backfill.string_literal(observed.relation.render()) }},
            changelog_view => {{ dbt_backfill.string_literal(view) }},
            options => map('start-snapshot-id', '{{ from_version }}', 'end-snapshot-id', '{{ to_version }}')
        )
    {%- endset -%}
    {{ return({
        'setup': [procedure], 'views': [view], 'tells_before': true, 'alters_values': true,
        'events': "select * except (_change_type, _change_ordinal, _commit_snapshot_id), "
            ~ "_change_ordinal as __bf_version, _change_type = 'INSERT' as __bf_is_upsert from " ~ view,
    }) }}
{% endmacro %}


{#- True if a snapshot in the range may have removed rows. A snapshot that only appends rows, or moves rows to other files, removes none. -#}
{% macro _iceberg_deletes_between(observed, from_version, to_version) %}
    {%- set operations = dbt_backfill.iceberg_snapshots_between(observed, from_version, to_version)
        | map(attribute='operation') | unique | list -%}
    {#- The list is empty if another run's plan reads a snapshot that is not in this run's log. -#}
    {{ return(operations == [] or operations | reject('in', ['append', 'replace']) | list != []) }}
{% endmacro %}


{#-
    Return the versions whose new rows the events list. With keys, this is only `to_version`. Without keys (for a table to which rows are only added),
    the list also has each version right before a snapshot that may have removed rows. Together these versions show every row that was added after
    `from_version`. Some rows appear twice.
-#}
{% macro _iceberg_versions_of_rows(observed, from_version, to_version, keys) %}
    {%- if keys is not none -%} {{ return([to_version]) }} {%- endif -%}
    {%- set between, versions = dbt_backfill.iceberg_snapshots_between(observed, from_version, to_version), [to_version] -%}
    {%- if not between and from_version | int != to_version | int -%}
        {%- do dbt_backfill.refuse(
            'another run committed a barrier while this run was reading the log of ' ~ observed.relation.render(),
            'Nothing is lost; run again to continue. If this repeats, give the plan up with the run-operation abandon_plan'
        ) -%}
    {%- endif -%}
    {%- for i in range(between | length - 1) if between[i].operation not in ['append', 'replace'] -%}
        {%- do versions.append(between[i + 1].version) -%}
    {%- endfor -%}
    {{ return(versions) }}
{% endmacro %}


{#-
    True if the feed may leave out a key. Row lineage only compares two snapshots, so it does not list a row that was inserted and deleted between
    them. The events after version 0 (no snapshot) are the rows of the last version, so they do not list such a row either. The changelog of format 2
    reads each snapshot, so the changelog leaves out no key.
-#}
{% macro iceberg_forgets_keys(observed, committed, source) %}
    {%- set compares = dbt_backfill.parse_iceberg_id(observed.id).format == '3' or committed.version | int == 0 -%}
    {{ return(compares and source.version != observed.version | string
        and dbt_backfill._iceberg_deletes_between(observed, source.version, observed.version)) }}
{% endmacro %}


{#-
    Return the change events from row lineage. A row of the new version was written later if its `_last_updated_sequence_number` is above the last
    number of the old version; all other rows are unchanged. Only the added files (files that the old version does not have) can contain rows that
    were written later. A row of the old version was updated or deleted in two cases. First, the new version has the row's file, but marks the row as
    deleted (`_deleted`). Second, the new version does not have the row's file, and the row is not among the unchanged rows of the added files. If a
    file was removed and added again under the same path, the file counts as removed and as added.

    The events match rows by their key and not by `_row_id`, for two reasons. In a snapshot from before an upgrade to format 3, the `_row_id` is null.
    If an engine rewrites a file without keeping the `_row_id`, all rows of the file would look deleted. A row without a sequence number, as in a
    snapshot from before an upgrade, counts as written later.

    If observed.needs_deleted_rows is false, nothing reads the values of a deleted row. Then its event has only the key, and nulls in the other
    columns. So Spark shuffles only the keys of the files that differ. In this case, the columns of the key come last in each event.

    The names of the files that differ, and the bounds of their keys, are literals in the events. So Spark skips files outside of the bounds, and the
    events read no metadata table. With a metadata table, Spark would not recognize the cached events: Spark never treats two reads of a metadata
    table as equal. `lineage`: the variable with the result of _iceberg_lineage_sql.
-#}
{% macro _iceberg_events_sql(observed, from_version, to_version, keys, lineage) -%}
    {%- set names, columns = dbt_backfill.upstream_columns(keys or []) | join(', '), dbt_backfill.upstream_columns(keys or [], 'source.') | join(', ') -%}
    {%- set needs_rows = keys is none or observed.get('needs_deleted_rows', true) -%}
    {%- set is_written = 'coalesce(source._last_updated_sequence_number > ' ~ lineage ~ '.committed, true)' -%}
    {%- set before = dbt_backfill.iceberg_upstream_read(observed, from_version) ~ ' as source where ' ~ lineage ~ '.bounds and ' -%}
    {%- set after = dbt_backfill.iceberg_upstream_read(observed, to_version) ~ ' as source where ' ~ lineage ~ '.bounds and ' -%}
    {%- for version in dbt_backfill._iceberg_versions_of_rows(observed, from_version, to_version, keys) %}
    {{ 'union all' if not loop.first }}
    select {{ 'source.*' if needs_rows else 'source.* except (' ~ names ~ '), ' ~ columns }}, 1 as __bf_version, true as __bf_is_upsert
    from {{ dbt_backfill.iceberg_upstream_read(observed, version) }} as source
    where {{ is_written }} and {{ lineage }}.bounds and {{ lineage }}.added
    {%- endfor %}
    {%- if keys is not none and dbt_backfill._iceberg_deletes_between(observed, from_version, to_version) %}
    union all
    select
        {{ 'gone.*' if needs_rows else 'no_row.* except (' ~ names ~ '), ' ~ dbt_backfill.upstream_columns(keys, 'gone.') | join(', ') }},
        0 as __bf_version,
        false as __bf_is_upsert
    from (
        select {{ 'source.*' if needs_rows else columns }} from {{ before }}{{ lineage }}.removed
        union all
        select deleted.* except (__bf_file, __bf_at)
        from (
            select {{ 'source.*' if needs_rows else columns }}, source._file as __bf_file, source._pos as __bf_at
            from {{ after }}{{ lineage }}.changed and source._deleted
        ) as deleted
        left anti join (select source._file, source._pos from {{ before }}{{ lineage }}.changed and source._deleted) as earlier
        on earlier._file = deleted.__bf_file and earlier._pos = deleted.__bf_at
    ) as gone
    left anti join (select {{ columns }} from {{ after }}{{ lineage }}.added and not {{ is_written }}) as kept
    on {{ dbt_backfill.equal_keys(keys, 'kept.', 'gone.', 'upstream', 'upstream') }}
    {%- if not needs_rows %}
    left join (select * from {{ dbt_backfill.iceberg_upstream_read(observed, to_version) }} where false) as no_row
    on false
    {%- endif %}
    {%- endif %}
{%- endmacro %}


{#-
    Return a select of five texts that select the rows of the events. `committed` is the greatest sequence number of the old version, or 0 if it has
    no files. `bounds` is a predicate for the keys. Three texts are predicates for files: `added` for files that only the new version has, `removed`
    for files that only the old version has, and `changed` for files that have different deletes in the two versions. In two cases all files are read:
    then every file counts as added and as removed, and no file as changed. First, if more than 10,000 files differ, a list of their names would cost
    more than it saves. Second, if a delete file that names no data file has changed, this delete file may affect any data file.
-#}
{% macro _iceberg_lineage_sql(relation, from_version, to_version, keys) -%}
    {%- if keys is none %}
    select struct(
        cast(coalesce(committed, 0) as string) as committed, 'true' as bounds, 'true' as added, 'true' as removed, 'false' as changed
    )
    from (
        select max(sequence_number) as committed from {{ relation.render() }}.entries version as of {{ from_version }}
    )
    {%- else -%}
    {%- set bounded, bounds = [], ["'true'"] -%}
    {#- Strings get no bounds: Spark reads Iceberg's uuid as a string, but Iceberg orders uuids differently than strings. -#}
    {%- for key in keys
            if key.type in ['int', 'bigint', 'date', 'timestamp', 'timestamp_ntz'] or key.type.startswith('decimal(') -%}
        {%- do bounded.append(key) -%}
        {%- set column, number = 'source.' ~ dbt_backfill.identifier(key.upstream), loop.index -%}
        {%- for operator, bound in [(' >= ', 'low_'), (' <= ', 'high_')] -%}
            {%- set literal = dbt_backfill.literal_expression(bound ~ number, key.type) -%}
            {%- do bounds.append('concat(' ~ dbt_backfill.string_literal(column ~ operator) ~ ', ' ~ literal ~ ')') -%}
        {%- endfor -%}
    {%- endfor %}
    select struct(
        cast(coalesce(committed, 0) as string) as committed,
        if(any_file, 'true', concat_ws(' and ', {{ bounds | join(', ') }})) as bounds
        {%- for files in ['added', 'removed', 'changed'] %},
        case
            when any_file or size(added) + size(removed) + size(changed) > 10000 then '{{ 'false' if files == 'changed' else 'true' }}'
            when size({{ files }}) = 0 then 'false'
            else concat('source._file in (', array_join(transform({{ files }}, path -> {{ dbt_backfill.literal_expression('path', 'string') }}), ', '), ')')
        end as {{ files }}
        {%- endfor %}
    )
    from (
        {{ dbt_backfill._iceberg_changed_files_sql(relation, from_version, to_version, bounded) }}
    )
    {%- endif %}
{%- endmacro %}


{#-
    Return a select of one row: the last sequence number of the old version, the names of the data files that differ between the versions, the bounds
    of the keys over all these files, and a boolean: true if a delete file that may affect any data file has changed.

    The innermost selects read the manifest entries of a version: its data files, and its delete files (`delete_file`). For a delete file, `path` is
    the path of the data file that it names. An entry with the status 2 is a file that the version has removed.

    The middle select has one row per data file, with the bounds of the file's keys (null if the file has no bounds or has a null key). The columns
    `before` and `after` list the sequence numbers of the file's entries in the old and the new version. The column `differs` is true if these numbers
    differ, or if the file has different deletes in the two versions. Its deletes are in delete files that name it, and in delete files that name no
    file (equality deletes, position deletes of several files). All delete files that name no file share a row without a path.
-#}
{% macro _iceberg_changed_files_sql(relation, from_version, to_version, bounded) -%}
    {%- set bounds, is_data = [], 'data_file.content = 0' -%}
    {%- for key in bounded -%}
        {%- set number, metrics = loop.index, 'readable_metrics.' ~ dbt_backfill.identifier(key.upstream) -%}
        {%- for name, bound, extreme in [('low_', 'lower_bound', 'min'), ('high_', 'upper_bound', 'max')] -%}
            {%- set value = 'if(' ~ is_data ~ ' and ' ~ metrics ~ '.null_value_count = 0, ' ~ metrics ~ '.' ~ bound ~ ', null)' -%}
            {%- do bounds.append({'name': name ~ number, 'value': value, 'extreme': extreme}) -%}
        {%- endfor -%}
    {%- endfor %}
    select
        max(committed) as committed,
        {%- for bound in bounds %}
        if(
            count({{ bound.name }}) filter (where differs) = count(path) filter (where differs),
            {{ bound.extreme }}({{ bound.name }}) filter (where differs),
            null
        ) as {{ bound.name }},
        {%- endfor %}
        coalesce(bool_or(differs and path is null), false) as any_file,
        collect_list(path) filter (where before <> after and size(after) > 0) as added,
        collect_list(path) filter (where before <> after and size(before) > 0) as removed,
        collect_list(path) filter (where differs and before = after) as changed
    from (
        select
            max(if(is_new, null, sequence_number)) as committed,
            {%- for name, is_of in [('before', 'not is_new'), ('after', 'is_new')] %}
            sort_array(collect_list(if({{ is_of }} and delete_file is null, coalesce(sequence_number, 0), null))) as {{ name }},
            {%- endfor %}
            (path is null or bool_or(delete_file is null))
                and sort_array(collect_list(if(is_new, struct(sequence_number, delete_file), null)))
                    <> sort_array(collect_list(if(is_new, null, struct(sequence_number, delete_file)))) as differs,
            path
            {%- for bound in bounds %},
            any_value({{ bound.name }}, true) as {{ bound.name }}
            {%- endfor %}
        from (
            {%- for version, is_new in [(from_version, 'false'), (to_version, 'true')] %}
            {{ 'union all' if not loop.first }}
            select
                {{ is_new }} as is_new,
                sequence_number,
                if({{ is_data }}, data_file.file_path, data_file.referenced_data_file) as path,
                if({{ is_data }}, null, struct(data_file.file_path, data_file.content_offset)) as delete_file
                {%- for bound in bounds %},
                {{ bound.value }} as {{ bound.name }}
                {%- endfor %}
            from {{ relation.render() }}.entries version as of {{ version }}
            where status <> 2
            {%- endfor %}
        )
        group by path
    )
{%- endmacro %}
