{% macro iceberg_upstream_read(upstream, version) %}
    {%- set name = upstream.relation.render() -%}
    {{ return('(select * from ' ~ name ~ ' where false)' if version | int == 0 else name ~ ' version as of ' ~ version) }}
{% endmacro %}


{#- Return the number of rows that the snapshot records. (Counting the rows of a table with delete files would read the whole table.) The number
    includes rows that an equality delete has removed. -#}
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
    {%- set files = upstream.relation.render() ~ '.files' -%}
    {{ return(dbt_backfill.run_table('measure the upstream', 'select coalesce(sum(file_size_in_bytes), 0) from ' ~ files)[0][0] | int) }}
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
        {%- set name, fields, literals = '__bf_lineage_' ~ from_version, ['columns', 'written', 'bounds', 'added', 'removed', 'changed'], [] -%}
        {%- for field in fields -%} {%- do literals.append(name ~ '.' ~ field) -%} {%- endfor -%}
        {{ return({
            'declarations': ['declare ' ~ name ~ ' struct<' ~ fields | join(': string, ') ~ ': string>'],
            'setup': ['set ' ~ name ~ ' = (' ~ dbt_backfill._iceberg_lineage_sql(observed, from_version, to_version, keys) ~ ')'],
            'events': dbt_backfill._iceberg_events_sql(observed, from_version, to_version, keys, name),
            'literals': literals, 'one_commit': true,
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


{#- Return the operations of the snapshots in (from, to]; an empty list if another run's plan reads a snapshot that is not in this run's log. -#}
{% macro _iceberg_operations_between(observed, from_version, to_version) %}
    {{ return(dbt_backfill.iceberg_snapshots_between(observed, from_version, to_version) | map(attribute='operation') | unique | list) }}
{% endmacro %}


{#- Return the versions whose new rows the events list. With keys, this is only `to_version`. Without keys (for a table to which rows are only added),
    the list also has each version right before a snapshot that may have removed rows. Together these versions show every row that was added after
    `from_version`. Some rows appear twice. -#}
{% macro _iceberg_versions_of_rows(observed, from_version, to_version, keys) %}
    {%- if keys is not none -%} {{ return([to_version]) }} {%- endif -%}
    {%- set between, versions = dbt_backfill.iceberg_snapshots_between(observed, from_version, to_version), [to_version] -%}
    {%- if not between and from_version | int != to_version | int -%}
        {%- do dbt_backfill.refuse('another run committed a barrier while this run was reading the log of ' ~ observed.relation.render(),
            'Nothing is lost; run again to continue. If this repeats, give the plan up with the run-operation abandon_plan',
            id='log-read-during-commit') -%}
    {%- endif -%}
    {%- for i in range(between | length - 1) if between[i].operation not in ['append', 'replace'] -%}
        {%- do versions.append(between[i + 1].version) -%}
    {%- endfor -%}
    {{ return(versions) }}
{% endmacro %}


{#- True if the feed may leave out a key. Row lineage only compares two snapshots, so it does not list a row that was inserted and deleted between
    them. The same is true for the events after version 0, at which the table has no snapshot. The changelog of format 2 reads each snapshot, so it
    leaves out no key. A snapshot that only appends rows, or only moves rows to other files, removes no row. -#}
{% macro iceberg_forgets_keys(observed, committed, source) %}
    {%- set compares = dbt_backfill.parse_iceberg_id(observed.id).format == '3' or committed.version | int == 0 -%}
    {%- set operations = dbt_backfill._iceberg_operations_between(observed, source.version, observed.version) -%}
    {{ return(compares and source.version != observed.version | string
        and (operations == [] or operations | reject('in', ['append', 'replace']) | list != [])) }}
{% endmacro %}


{#-
    Return the change events from row lineage. A row of the new version was written later if its `_last_updated_sequence_number` is above the last
    number of the old version; all other rows are unchanged. Only the added files (files that the old version does not have) can contain rows that
    were written later. A row of the old version was updated or deleted in two cases. First, the new version has the row's file, but marks the row as
    deleted (`_deleted`). Second, the new version does not have the row's file, and the row is not among the unchanged rows of the added files. If a
    file was removed and added again under the same path, the file counts as removed and as added.

    A row of an added file may look unchanged although the old version does not have it: a writer added a file of another table, or a file that was
    removed earlier, and the file contains the lineage of its rows. The events then have two deletes of its key. So they are no chain of states, and
    the barrier reads the key again. If there are only appends, every row of an added file is new, and no older row is read.

    A row is the same if its key, its `_row_id` and its sequence number are the same. In a snapshot from before an upgrade to format 3 the two numbers
    are null: then the key decides, and a row without a sequence number counts as written.

    If nothing reads the rows that were deleted (observed.needs_deleted_rows is false), the events have only the keys of these rows, and nulls in the
    other columns. So Spark shuffles only the keys of the files that differ. The events have the order of the upstream's columns, because a query may
    depend on it, for example with struct(*).

    The names of the files that differ, and the bounds of their keys, are literals in the events. So Spark skips files outside of the bounds, and the
    events read no metadata table. With a metadata table, Spark would not recognize the cached events: Spark never treats two reads of a metadata
    table as equal. `lineage`: the variable with the result of _iceberg_lineage_sql.
-#}
{% macro _iceberg_events_sql(observed, from_version, to_version, keys, lineage) -%}
    {%- set names, either, needs_rows = dbt_backfill.upstream_columns(keys or []), [], observed.get('needs_deleted_rows', true) -%}
    {%- for name in names -%} {%- do either.append('coalesce(gone.' ~ name ~ ', kept.' ~ name ~ ') as ' ~ name) -%} {%- endfor -%}
    {%- set names, columns = names | join(', '), dbt_backfill.upstream_columns(keys or [], '__bf_up.') | join(', ') -%}
    {%- set rows = '__bf_up.*' if needs_rows else columns -%}
    {%- set marks = '__bf_up._pos as __bf_at, __bf_up._row_id as __bf_row, __bf_up._last_updated_sequence_number as __bf_number' -%}
    {%- set before = dbt_backfill.iceberg_upstream_read(observed, from_version) ~ ' as __bf_up where ' ~ lineage ~ '.bounds and ' ~ lineage -%}
    {%- set after = dbt_backfill.iceberg_upstream_read(observed, to_version) ~ ' as __bf_up where ' ~ lineage ~ '.bounds and ' ~ lineage %}
    select {{ lineage }}.columns, __bf_version, __bf_is_upsert
    from (
        {%- for version in dbt_backfill._iceberg_versions_of_rows(observed, from_version, to_version, keys) %}
        {{ 'union all' if not loop.first }}
        select __bf_up.*{{ ' except (' ~ names ~ '), ' ~ columns if keys }}, 1 as __bf_version, true as __bf_is_upsert
        from {{ dbt_backfill.iceberg_upstream_read(observed, version) }} as __bf_up
        where {{ lineage }}.written and {{ lineage }}.bounds and {{ lineage }}.added
        {%- endfor %}
        {%- if keys and dbt_backfill._iceberg_operations_between(observed, from_version, to_version) not in [['append'], ['replace']] %}
        union all
        select
            {{ 'gone.* except (__bf_at, __bf_row, __bf_number, ' if needs_rows else 'no_row.* except (' }}{{ names }}),
            {{ either | join(', ') }},
            0 as __bf_version, explode(if(gone.__bf_at is null, array(false, false), array(false))) as __bf_is_upsert
        from (
            select {{ rows }}, {{ marks }} from {{ before }}.removed
            union all
            select deleted.* except (__bf_file)
            from (select {{ rows }}, {{ marks }}, __bf_up._file as __bf_file from {{ after }}.changed and __bf_up._deleted) as deleted
            left anti join (select __bf_up._file, __bf_up._pos from {{ before }}.changed and __bf_up._deleted) as earlier
            on earlier._file = deleted.__bf_file and earlier._pos = deleted.__bf_at
        ) as gone
        full join (select {{ columns }}, {{ marks }} from {{ after }}.added and not {{ lineage }}.written) as kept
        on {{ dbt_backfill.equal_keys(keys, 'kept.', 'gone.', 'upstream', 'upstream') }}
            and coalesce(kept.__bf_row = gone.__bf_row and kept.__bf_number = gone.__bf_number, true)
        {%- if not needs_rows %}
        left join (select * from {{ dbt_backfill.iceberg_upstream_read(observed, to_version) }} where false) as no_row on false
        {%- endif %}
        where gone.__bf_at is null or kept.__bf_at is null
        {%- endif %}
    )
{%- endmacro %}


{#-
    Return a select of six texts: the columns of the upstream in their order, a predicate for the rows of added files that were written after the old
    version, a predicate for the keys, and three predicates for the files: that only the new version has (`added`), that only the old version has
    (`removed`), and that both versions have, with different deletes (`changed`). In two cases every file counts as added and as removed, and none as
    changed, so that all files are read. If more than 10,000 files differ, the list of their names would cost more than it saves. If a delete file
    that names no data file has changed, this delete file may affect any file.
-#}
{% macro _iceberg_lineage_sql(observed, from_version, to_version, keys) -%}
    {%- set relation, bounded, bounds = observed.relation, [], ["'true'"] -%}
    {#- The bounds of files have the names that the columns have now. If columns were renamed after the snapshot, these may be other columns. Strings
        get no bounds: Spark reads Iceberg's uuid as a string, but Iceberg orders uuids differently than strings. -#}
    {%- set has_names = observed.version == to_version | string and not observed.altered -%}
    {%- for key in keys or [] if has_names and (key.type in ['int', 'bigint', 'date', 'timestamp', 'timestamp_ntz'] or key.type.startswith('decimal(')) -%}
        {%- do bounded.append(key) -%}
        {%- set column, number = '__bf_up.' ~ dbt_backfill.identifier(key.upstream), loop.index -%}
        {%- for operator, bound in [(' >= ', 'low_'), (' <= ', 'high_')] -%}
            {%- set literal = dbt_backfill.literal_expression(bound ~ number, key.type) -%}
            {%- do bounds.append('concat(' ~ dbt_backfill.string_literal(column ~ operator) ~ ', ' ~ literal ~ ')') -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set only_appends = keys is not none and dbt_backfill._iceberg_operations_between(observed, from_version, to_version) == ['append'] %}
    select struct(
        array_join(transform(json_object_keys(names), name -> concat('`', replace(name, '`', '``'), '`')), ', ') as columns,
        if({{ only_appends }} and not all_files, 'true',
            concat('coalesce(__bf_up._last_updated_sequence_number > ', coalesce(committed, 0), ', true)')) as written,
        if(any_file, 'true', concat_ws(' and ', {{ bounds | join(', ') }})) as bounds
        {%- for files in ['added', 'removed', 'changed'] %},
        case
            when all_files then '{{ 'false' if files == 'changed' else 'true' }}'
            when size({{ files }}) = 0 then 'false'
            else concat('__bf_up._file in (', array_join(transform({{ files }}, path -> {{ dbt_backfill.literal_expression('path', 'string') }}), ', '), ')')
        end as {{ files }}
        {%- endfor %}
    )
    from (
        {%- if keys is none %}
        select max(sequence_number) as committed, true as any_file, true as all_files, array() as added, array() as removed, array() as changed
        from {{ relation.render() }}.entries version as of {{ from_version }}
        {%- else %}
        select *, any_file or size(added) + size(removed) + size(changed) > 10000 as all_files
        from ({{ dbt_backfill._iceberg_changed_files_sql(relation, from_version, to_version, bounded) }})
        {%- endif %}
    )
    cross join (
        select to_json(struct(__bf_up.*), map('ignoreNullFields', 'false')) as names
        from (select 1)
        left join (select * from {{ dbt_backfill.iceberg_upstream_read(observed, to_version) }} where false) as __bf_up on false
    )
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
