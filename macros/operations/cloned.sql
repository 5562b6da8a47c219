{% macro check_clone_arguments(name, given, unknown) %}
    {%- do dbt_backfill.check_argument_names('clone_backfill', unknown, given.keys() | list, name) -%}
    {%- if given.source is not string or not given.source | trim -%}
        {%- do dbt_backfill.refuse_argument(name, 'source', given.source, 'the MV to copy, with its schema, such as prod.my_mv') -%}
    {%- elif given.replace is not boolean -%}
        {%- do dbt_backfill.refuse_argument(name, 'replace', given.replace, 'true or false') -%}
    {%- endif -%}
{% endmacro %}


{#-
    The statements that make a clone, in order, as pairs of a step and its SQL. Each can be repeated, and does nothing where
    its table is there: the MV, the state, and the history, if there is one to copy. Without that a run goes on, too.
-#}
{% macro get_clone_statements(clone, original, id) %}
    {%- set statements = [
        ['copy the MV', dbt_backfill._get_copy_sql(clone, original, id)],
        ['copy the state', dbt_backfill._get_state_copy_sql(clone, original, id)],
    ] -%}
    {%- if original.existing.barriers is not none -%}
        {%- do statements.append(['copy the history', dbt_backfill._get_history_copy_sql(clone, original, id)]) -%}
    {%- endif -%}
    {{ return(statements) }}
{% endmacro %}


{#- Delta shares the files of the original; Iceberg has no clone, so its rows are copied, with its partitions. -#}
{% macro _get_copy_sql(clone, original, id) -%}
    {%- set own = {
        'dbt_backfill.id': id, 'dbt_backfill.mv': clone.mv.render(), 'dbt_backfill.clone': original.mv.render(),
        'dbt_backfill.adopt': '',
    } -%}
    {%- set version = original.versions.mv -%}
    {%- if clone.options.file_format == 'delta' -%}
        create table if not exists {{ clone.mv.render() }}
        shallow clone {{ original.mv.render() }} version as of {{ version }}
        tblproperties {{ dbt_backfill.property_list(own) }}
        {{ dbt_backfill.location_root_clause(clone.location_root, clone.mv) }}
    {%- else -%}
        {%- set shown = dbt_backfill.run_table('show ' ~ original.mv.identifier, 'show create table ' ~ original.mv.render(), clone.mv)[0][0] -%}
        {%- set partitions = modules.re.search('(?m)^PARTITIONED BY .*$', shown) -%}
        create table if not exists {{ clone.mv.render() }}
        using iceberg
        {{ partitions.group(0) if partitions else '' }}
        {{ dbt_backfill.location_root_clause(clone.location_root, clone.mv) }}
        tblproperties {{ dbt_backfill.property_list(dict(
            dbt_backfill._read_kept_properties(original.mv), **dict(own, **{'dbt_backfill.docs': '', 'dbt_backfill.reset': ''})
        )) }}
        as
        select * from {{ original.mv.render() }} {{ 'version as of ' ~ version if version != 'none' else 'where false' }}
    {%- endif -%}
{%- endmacro %}


{% macro _get_history_copy_sql(clone, original, id) -%}
    {%- set columns = [] -%}
    {%- for name in dbt_backfill.shown_columns() -%}
        {%- do columns.append(dbt_backfill.string_literal(id) ~ ' as backfill_id' if name == 'backfill_id' else name) -%}
    {%- endfor -%}
    create table if not exists {{ clone.barriers.render() }}
    using {{ clone.options.file_format }}
    {{ dbt_backfill.location_root_clause(clone.location_root, clone.barriers) }}
    tblproperties {{ dbt_backfill.property_list(dbt_backfill._read_kept_properties(original.barriers)) }}
    as
    select {{ columns | join(', ') }}
    from {{ original.barriers.render() }}
    where epoch <= {{ original.state.epoch }}
{%- endmacro %}


{#-
    The rows of the state as they are, but for the id, and for what is not known of the copy: the barriers that its history may
    lack, and the snapshot at which a barrier left an Iceberg MV.
-#}
{% macro _get_state_copy_sql(clone, original, id) -%}
    {%- set last = dict(original.state.committed, backfill_id=id) -%}
    {%- for name in ['mv_snapshot_id', 'mv_root_id', 'mv_reset_id'] -%} {%- do last.pop(name, none) -%} {%- endfor -%}
    {%- set changed, columns = {
        'last': 'if(vnode = 0, ' ~ dbt_backfill.string_literal(tojson(last)) ~ ', cast(null as string)) as last',
        'unwritten': 'cast(null as array<string>) as unwritten',
    }, [] -%}
    {%- for name in dbt_backfill.read_progress_columns(original) -%}
        {%- do columns.append(changed.get(name, dbt_backfill.identifier(name))) -%}
    {%- endfor -%}
    create table if not exists {{ clone.progress.render() }}
    using {{ clone.options.file_format }}
    {{ dbt_backfill.location_root_clause(clone.location_root, clone.progress) }}
    tblproperties {{ dbt_backfill.property_list(dict(
        dbt_backfill._read_kept_properties(original.progress), **{'dbt_backfill.id': id}
    )) }}
    as
    select {{ columns | join(', ') }}
    from {{ original.progress.render() }} version as of {{ original.versions.progress }}
{%- endmacro %}


{#- The properties that a copy gets: those that were set, and not those that tell what the table is, or that Spark does not show. -#}
{% macro _read_kept_properties(relation) %}
    {%- set kept = {} -%}
    {%- for name, value in dbt_backfill.read_table_properties(relation).items()
            if not dbt_backfill.is_redacted(value) and modules.re.fullmatch(
                'delta\\.(isolationLevel|appendOnly|enable\\w+|dataSkipping\\w+|columnMapping\\.mode|feature\\.\\w+)'
                    ~ '|(write|read|commit|history)\\..*|format-version|dbt_backfill\\..*', name
            ) -%}
        {%- do kept.update({name: value}) -%}
    {%- endfor -%}
    {{ return(kept) }}
{% endmacro %}
