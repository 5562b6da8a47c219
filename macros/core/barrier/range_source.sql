{#- Return what a plan reads, as text after FROM: the upstream at the plan's version, or the rows that were staged for the plan. -#}
{% macro get_planned_read(backfill, plan) %}
    {%- set upstream, version, stage = backfill.upstream, dbt_backfill.get_source(plan).version, dbt_backfill.get_source(plan, 'stage') -%}
    {%- if not stage -%} {{ return(dbt_backfill.ask(upstream, 'upstream_read')(upstream, version)) }} {%- endif -%}
    {{ return(dbt_backfill.get_source_read(dbt_backfill.ask(upstream, 'staged_source')(upstream, version, stage, plan.key), plan.key)) }}
{% endmacro %}


{#- Return the relation from which a range is read, as text after FROM: the upstream, or a copy of the upstream. Only the run that made the plan reads
    a copy, which is the `source` of `backfill`. A run that adopts the plan reads the upstream itself. To find the bounds of ranges, a copy can be
    read without its overlay. Rows that were added or deleted after the copy was made only make a range larger or smaller. -#}
{% macro get_range_read(backfill, plan) %}
    {%- set copied = plan.kind == 'advance' and backfill.get('source') -%}
    {{ return(dbt_backfill.get_source_read(backfill.source, plan.key) if copied else dbt_backfill.get_planned_read(backfill, plan)) }}
{% endmacro %}


{#-
    Return the rows of a range source, as text after FROM. The rows of a source were copied: they were read once from a live database, or they are a
    replica of an upstream that is not ordered by its key. A source is {
      'relation', 'kind', 'version': a table, its kind and its version,
      'columns': the names of the columns that are read,
      'where': a predicate of the rows that are read; none for all,
      'overlay': the last state of the keys that changed after these rows were copied, as text after FROM, with the column `__bf_deleted`;
        none if no key changed,
      only for a copy that several plans read: 'recorded': the copy as a source of a plan, 'setup': the statements that make the overlay, see
      get_copied_source
    }
-#}
{% macro get_source_read(source, keys) %}
    {%- set names = dbt_backfill.identifiers(source.columns) -%}
    {%- set rows = 'select ' ~ names ~ ' from ' ~ dbt_backfill.ask(source, 'upstream_read')(source, source.version)
        ~ (' where ' ~ source.where if source.where else '') -%}
    {%- if not source.overlay -%} {{ return('(' ~ rows ~ ')') }} {%- endif -%}
    {%- set sql -%}
    (
        select kept.*
        from (
            {{ rows }}
        ) as kept
        left anti join {{ source.overlay }} as late
        on {{ dbt_backfill.equal_keys(keys, 'kept.', 'late.', 'upstream', 'upstream') }}
        union all
        select {{ names }} from {{ source.overlay }} where not __bf_deleted
    )
    {%- endset -%}
    {{ return(sql) }}
{% endmacro %}


{#- Return the range source of a copy, without an overlay of later changes. The bounds of ranges are found in this source. -#}
{% macro new_copied_source(copy) %}
    {{ return({
        'relation': dbt_backfill.parse_relation(copy.relation), 'kind': copy.kind, 'version': copy.version,
        'columns': fromjson(copy.definition).columns, 'where': none, 'overlay': none, 'recorded': copy, 'setup': none,
    }) }}
{% endmacro %}


{#- True if a copy has all rows that are still to be read. -#}
{% macro is_whole(copy) %}
    {{ return(fromjson(copy.definition).ranges is none) }}
{% endmacro %}


{#-
    Return the range source of a copy, with the changes up to the version of a plan. The script that plans the barrier makes a cached view of the keys
    of the range that have changed since the copy was made. The view has the last state of each of these keys, see get_last_states_view_sql. The
    script also sets the variable `overlaid`, which is null if the changes are gone: {
      'count': the number of keys in the view,
      'doubtful': the number of keys whose state in the version of the plan is unknown. The state of a key is known if its first event agrees with the
        number of rows that the copy has of the key (one or none). The state of a null key is never known. `doubtful` is one higher if a column's type
        in the plan's version differs from its type in the copy, for example because a struct has a new field
    }
    'setup' has the parts of the script: {'declarations', 'statements', 'views': the names of the views that they make}. If the copy already has the
    plan's version, nothing can have changed, and 'setup' is none. `copy`: as a source of the plan, see features/replica.sql.
-#}
{% macro get_copied_source(backfill, state, observed, plan, copy) %}
    {%- set shown, version, source = fromjson(copy.definition), dbt_backfill.get_source(plan).version, dbt_backfill.new_copied_source(copy) -%}
    {%- if shown.version == version -%} {{ return(source) }} {%- endif -%}
    {%- set keys, names = plan.key, dbt_backfill.get_stage_names(backfill, plan) -%}
    {%- set changes = dbt_backfill.ask(backfill.upstream, 'upstream_changes')(observed, shown.version, version, keys, names.overlay_events) -%}
    {%- set events = dbt_backfill.get_range_scan_sql('(' ~ changes.events ~ ')', plan, state, backfill, keys, with_null_keys=true) -%}
    {%- set copied = dbt_backfill.get_source_read(source, keys) -%}
    {%- set columns, listed, types = dbt_backfill.upstream_columns(keys), dbt_backfill.identifiers(shown.columns), [] -%}
    {#- Both selects return the types of the columns. An aggregate returns one row even over no rows, so these selects read no rows. -#}
    {%- for read in [names.overlay, copied] -%}
        {%- do types.append('(select typeof(any_value(struct(' ~ listed ~ '))) from (select ' ~ listed ~ ' from ' ~ read ~ ' limit 0))') -%}
    {%- endfor -%}
    {#- If the feed may have altered a key, this key is in doubt even if its row was deleted: perhaps the row of another key was deleted. -#}
    {%- set altered = dbt_backfill.altered_key_predicate(changes, keys, 'overlay.') -%}
    {%- set doubts = [
        'overlay.__bf_unclear', dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys, 'overlay.')),
        'coalesce(kept.__bf_rows, 0) <> if(overlay.__bf_inserted, 0, 1)',
    ] + ([altered] if altered else []) -%}
    {%- set overlaid -%}
        set overlaid = (
            select struct(count(*), count_if({{ doubts | join(' or ') }}) + if({{ types | join(' = ') }}, 0, 1))
            from {{ names.overlay }} as overlay
            left join (
                select {{ columns | join(', ') }}, count(*) as __bf_rows
                from (
                    {{ dbt_backfill.get_range_scan_sql(copied, plan, state, backfill, keys) }}
                )
                group by {{ columns | join(', ') }}
            ) as kept
            on {{ dbt_backfill.equal_keys(keys, 'overlay.', 'kept.', 'upstream', 'upstream') }}
        )
    {%- endset -%}
    {{ return(dict(source, overlay=names.overlay, setup={
        'declarations': changes.get('declarations', []) + ['declare overlaid struct<count: bigint, doubtful: bigint>'],
        'statements': changes.get('setup', []) + [
            dbt_backfill.get_last_states_view_sql(names.overlay, events, keys, changes), 'cache table ' ~ names.overlay, overlaid,
        ],
        'views': [names.overlay] + changes.get('views', []),
    })) }}
{% endmacro %}


{#- Return the sources of a plan that no longer reads its copy. The record of the copy stays in the plan, but without its version: it also records how
    often the upstream would be read without a copy. `given_up`: the sources of the plan that this plan replaces. -#}
{% macro with_void_copy(sources, given_up=[]) %}
    {%- set copy = dbt_backfill.get_source({'sources': sources + given_up}, 'replica') -%}
    {{ return(sources | rejectattr('role', 'equalto', 'replica') | list + ([dict(copy, version=none)] if copy else [])) }}
{% endmacro %}


{#- Return the upstream's columns that the query names and those of the key, as {'name', 'type'}; all columns if the query has a star. -#}
{% macro get_needed_columns(backfill, plan) %}
    {%- set columns = dbt_backfill.get_query_columns('select * from ' ~ dbt_backfill.get_planned_read(backfill, plan)) -%}
    {%- set needed = [] -%}
    {%- set named = dbt_backfill.get_named_columns(plan.query, columns | map(attribute='name') | list) -%}
    {%- set keys = plan.key | map(attribute='upstream') | map('lower') | list -%}
    {%- for column in columns if column.name | lower in keys or column.name in named -%} {%- do needed.append(column) -%} {%- endfor -%}
    {{ return(needed) }}
{% endmacro %}


{#- Return USING, LOCATION and TBLPROPERTIES of a copy. A copy of Delta has the catalog's default location even if the model has a location_root: DROP
    TABLE would leave its files there, and Delta creates no table with other columns where files are. A copy that a run-operation makes also has the
    default location. `properties`: the properties of this copy only. -#}
{% macro get_clauses_of_copy(backfill, relation, properties) -%}
    {%- set format = backfill.options.file_format -%}
    {%- set own = {'dbt_backfill.format': dbt_backfill.state_format()} -%}
    {#- Some catalogs, such as Nessie's, set this property to false. With false, a table cannot be dropped together with its files. -#}
    {%- if format == 'iceberg' -%} {%- do own.update({'gc.enabled': 'true'}) -%} {%- endif -%}
    {%- set all = dict(dbt_backfill.exact_table_properties(format), **dict(properties, **own)) -%}
    {%- if format == 'iceberg' and not backfill.get('name') -%} {{ return(dbt_backfill.table_clauses(relation, all)) }} {%- endif -%}
    using {{ format }} tblproperties {{ dbt_backfill.property_list(all) }}
{%- endmacro %}


{#- Return the current properties of a copy that is to be dropped; none if there is no table with the property `mark`, which only this package sets.
    The properties are read from Spark, because dbt listed the tables at the start of the invocation. -#}
{% macro find_own_copy(relation, mark='dbt_backfill.format') %}
    {%- set existing = dbt_backfill.find_table(relation) -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing, relation) -%}
    {{ return(properties if mark in properties else none) }}
{% endmacro %}


{#- Return a statement that drops a copy with its files. Without PURGE, the files of an Iceberg table in a metastore would stay. If the catalog has
    overridden the table property `gc.enabled` with false, PURGE is an error and is left out. `properties`: none if they have not been read. -#}
{% macro get_drop_copy_sql(file_format, relation, properties=none) -%}
    {%- if properties is none and file_format == 'iceberg' -%} {%- set properties = dbt_backfill.read_table_properties(relation) -%} {%- endif -%}
    {%- set purges = file_format == 'iceberg' and properties.get('gc.enabled', 'true') | lower != 'false' -%}
    drop table if exists {{ relation.render() }} {{- ' purge' if purges }}
{%- endmacro %}
