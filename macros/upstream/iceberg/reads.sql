{% macro iceberg_upstream_read(relation, version) %}
    {%- if version | int == 0 -%} {{ return('(select * from ' ~ relation.render() ~ ' where false)') }} {%- endif -%}
    {{ return(relation.render() ~ ' version as of ' ~ version) }}
{% endmacro %}


{#-
    The change events in (from_version, to_version], as `upstream/upstream.sql` describes them.

    Format 3 by row lineage: a row that was written since has a later `_last_updated_sequence_number`, and what
    was there before and is not among the older rows any more was updated or deleted. Only files that went, or were
    given other deletes, can have lost a row; so only rows of such files are joined, and with the rows of files that
    came. The key is part of that join only so that Spark prunes both sides by it. Snapshots that only append rows,
    or only move them to other files, delete nothing, so that the join is left out.

    Format 2 by Iceberg's changelog.
-#}
{% macro iceberg_upstream_changes(observed, from_version, to_version, keys) %}
    {%- set relation = observed.relation -%}
    {%- if from_version | int == 0 -%}
        {{ return({'events': 'select *, 0 as __bf_version, true as __bf_is_upsert from '
            ~ dbt_backfill.iceberg_upstream_read(relation, to_version)}) }}
    {%- elif dbt_backfill.parse_iceberg_id(observed.id).format == '3' -%}
        {%- set operations = dbt_backfill.iceberg_snapshots_between(observed, from_version, to_version)
            | map(attribute='operation') | unique | list -%}
        {%- set deletes = keys is not none and operations | reject('in', ['append', 'replace']) | list != [] -%}
        {{ return({'events': dbt_backfill._iceberg_lineage_sql(relation, from_version, to_version, keys, deletes)}) }}
    {%- endif -%}
    {%- set name = 'dbt_backfill_changelog_' ~ local_md5(relation.render() ~ from_version ~ to_version ~ invocation_id) -%}
    {{ return({
        'setup': dbt_backfill._iceberg_changelog_call(relation, from_version, to_version, name),
        'events': "select * except (_change_type, _change_ordinal, _commit_snapshot_id), "
            ~ "_change_ordinal as __bf_version, _change_type = 'INSERT' as __bf_is_upsert from " ~ name,
    }) }}
{% endmacro %}


{#- Joins and no subqueries: Spark does not find a cached view again whose text has a subquery over an Iceberg table. -#}
{% macro _iceberg_lineage_sql(relation, from_version, to_version, keys, deletes) -%}
    {%- set committed -%}
        (
            select coalesce(max(sequence_number), 0) as number
            from {{ relation.render() }}.entries version as of {{ from_version }}
        ) as committed
    {%- endset -%}
    select source.*, 1 as __bf_version, true as __bf_is_upsert
    from {{ relation.render() }} version as of {{ to_version }} as source
    cross join {{ committed }}
    where source._last_updated_sequence_number > committed.number
    {%- if deletes %}
    union all
    select before.* except (__bf_row_id), 0 as __bf_version, false as __bf_is_upsert
    from (
        select source.*, source._row_id as __bf_row_id
        from {{ relation.render() }} version as of {{ from_version }} as source
        left semi join ({{ dbt_backfill._iceberg_files_not_in(relation, from_version, to_version) }}) as gone
        on gone.file_path = source._file
    ) as before
    left anti join (
        select {{ dbt_backfill.upstream_columns(keys, 'source.') | join(', ') }}, source._row_id as __bf_row_id
        from {{ relation.render() }} version as of {{ to_version }} as source
        left semi join ({{ dbt_backfill._iceberg_files_not_in(relation, to_version, from_version) }}) as come
        on come.file_path = source._file
        cross join {{ committed }}
        where source._last_updated_sequence_number <= committed.number
    ) as kept
    on kept.__bf_row_id = before.__bf_row_id
        {%- for column in dbt_backfill.upstream_columns(keys) %} and kept.{{ column }} = before.{{ column }}{% endfor %}
    {%- endif %}
{%- endmacro %}


{#- The data files of one version that another one does not have, or not with the same deletes. -#}
{% macro _iceberg_files_not_in(relation, version, other) -%}
    select file_path
    from (
        {{ dbt_backfill._iceberg_files_sql(relation, version) }}
        except
        {{ dbt_backfill._iceberg_files_sql(relation, other) }}
    )
{%- endmacro %}


{#-
    The data files of a version, each with the delete files that name it, and with all of those that name none (equality
    deletes, and position deletes of several files): what its live rows are depends on nothing else.
-#}
{% macro _iceberg_files_sql(relation, version) -%}
    select
        files.file_path,
        sort_array(collect_list(deletes.delete_file)) as deletes,
        any_value(others.deletes) as other_deletes
    from {{ relation.render() }}.data_files version as of {{ version }} as files
    left join (
        select referenced_data_file, struct(file_path, content_offset) as delete_file
        from {{ relation.render() }}.delete_files version as of {{ version }}
    ) as deletes
    on deletes.referenced_data_file = files.file_path
    cross join (
        select sort_array(collect_list(file_path)) as deletes
        from {{ relation.render() }}.delete_files version as of {{ version }}
        where referenced_data_file is null
    ) as others
    group by files.file_path
{%- endmacro %}


{#- The procedure belongs to the table's catalog: the first of three names, else the session's. -#}
{% macro _iceberg_changelog_call(relation, from_version, to_version, name) -%}
    {%- set catalog = dbt_backfill.get_catalog(relation) -%}
    call {{ catalog ~ '.' if catalog }}system.create_changelog_view(
        table => {{ dbt_backfill.string_literal(relation.render()) }},
        changelog_view => '{{ name }}',
        options => map('start-snapshot-id', '{{ from_version }}', 'end-snapshot-id', '{{ to_version }}')
    )
{%- endmacro %}
