{#-
    Make the MV of a model a copy of another MV, with its state, so that it goes on from the position of that one: for CI, or
    another target. A Delta MV is a shallow clone, an Iceberg MV a copy of its rows. The copy has an id of its own; nothing of
    the original is written.

    Both are copied at versions that belong together: those that the MV and its state have while the state stands still, with
    no barrier begun. Until the copy has its state it is a clone without one, which no run takes for an MV. If the operation is
    broken off, repeat it.

    Usage:
      dbt run-operation clone_backfill --args '{model: my_mv, source: prod.my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
      source (string): the MV to copy, with its schema; or only a schema, for the MV of the same name there.
      replace (boolean): whether a clone without a state that stands in its place may be dropped before.
-#}
{% macro clone_backfill(model=none, source=none, replace=false) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'clone_backfill') -%}
    {%- set clone = dbt_backfill.get_operated(node) -%}
    {%- do dbt_backfill.check_clone_arguments(clone.name, {'model': model, 'source': source, 'replace': replace}, kwargs) -%}
    {%- set schemas = dbt_backfill.read_schemas() -%}
    {%- set original = dbt_backfill.observe_original(clone, source | trim, schemas) -%}
    {#- dbt makes the schemas of models that it runs, and none for an operation. -#}
    {%- if clone.mv.schema | lower not in schemas -%} {%- do adapter.create_schema(clone.mv) -%} {%- endif -%}
    {%- if not dbt_backfill.prepare_clone(clone, original, replace) -%} {{ return(none) }} {%- endif -%}
    {%- set id = local_md5(invocation_id ~ node.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- for step, sql in dbt_backfill.get_clone_statements(clone, original, id) -%}
        {%- do dbt_backfill.run_table(step, sql, clone.mv) -%}
    {%- endfor -%}
    {%- do dbt_backfill.finish_clone(clone, original) -%}
{% endmacro %}


{#-
    The original: as observe_operated describes it, and 'versions': of 'mv', 'progress', at which they belong together. `schemas`:
    those that there are.
-#}
{% macro observe_original(clone, source, schemas) %}
    {%- set relation = dbt_backfill.parse_relation(source if '.' in source else source ~ '.' ~ clone.mv.identifier) -%}
    {%- if relation is none or relation.render() | lower == clone.mv.render() | lower -%}
        {%- do dbt_backfill.refuse_argument(clone.name, 'source', source, 'another MV with its schema, such as my_schema.my_mv') -%}
    {%- endif -%}
    {%- set original = dict(clone, **dbt_backfill.get_relations(relation)) -%}
    {%- set has_schema = dbt_backfill.get_catalog(relation) is not none or relation.schema | lower in schemas -%}
    {%- set existing = {} -%}
    {%- for table in ['mv', 'progress', 'barriers'] -%}
        {%- do existing.update({table: dbt_backfill.find_table(original[table]) if has_schema else none}) -%}
    {%- endfor -%}
    {%- if existing.mv is none or existing.progress is none -%}
        {%- do dbt_backfill.refuse(
            original[('mv' if existing.mv is none else 'progress')].render() ~ ' does not exist, so there is no MV with its state to copy',
            'Name one that dbt run has made', mv=clone.name
        ) -%}
    {%- endif -%}
    {%- set version = dbt_backfill.read_version(original, 'progress') -%}
    {%- set state = dbt_backfill.observe_existing(original, existing).state -%}
    {%- set versions = {'mv': dbt_backfill.read_version(original, 'mv'), 'progress': version} -%}
    {%- do dbt_backfill.check_barrier_is_committed(state, clone.name, 'Copy ' ~ relation.render() ~ ' once a run has committed it') -%}
    {%- if dbt_backfill.read_version(original, 'progress') != version -%}
        {%- do dbt_backfill.refuse(
            'a run of ' ~ relation.render() ~ ' went on while it was looked at', 'Copy it while no barrier runs', mv=clone.name
        ) -%}
    {%- endif -%}
    {{ return(dict(original, existing=existing, state=state, versions=versions)) }}
{% endmacro %}


{#-
    Refuse to put a clone in the place of anything but an unfinished one, or, if it is said, one without a state, which is
    dropped. Returns whether there is something to do.
-#}
{% macro prepare_clone(clone, original, replace) %}
    {%- set name = clone.mv.render() -%}
    {%- set mv, progress = dbt_backfill.find_table(clone.mv), dbt_backfill.find_table(clone.progress) -%}
    {%- set properties = dbt_backfill.read_listed_properties(mv, clone.mv) -%}
    {%- if mv is not none and 'dbt_backfill.id' not in properties -%}
        {%- do dbt_backfill.refuse(name ~ ' exists, and is no clone of an MV', 'Drop or rename it', mv=clone.name) -%}
    {%- elif progress is not none and properties.get('dbt_backfill.clone')
            and dbt_backfill.read_table_properties(clone.progress).get('dbt_backfill.id') == properties['dbt_backfill.id'] -%}
        {%- do dbt_backfill.finish_clone(clone, original) -%}
        {{ return(false) }}
    {%- elif progress is not none -%}
        {%- do dbt_backfill.refuse(
            clone.progress.render() ~ ' exists: there is an MV with its own state, or what is left of one',
            'Drop it: ' ~ dbt_backfill.get_operation_text('drop_backfill', '{model: ' ~ clone.name ~ '}'), mv=clone.name
        ) -%}
    {%- elif mv is not none -%}
        {%- if not properties.get('dbt_backfill.clone') and not replace -%}
            {%- do dbt_backfill.refuse(name ~ ' exists, without a state', 'Add replace: true to drop it before', mv=clone.name) -%}
        {%- endif -%}
        {%- do dbt_backfill.run_table('drop the clone without a state', 'drop table if exists ' ~ name, clone.mv) -%}
    {%- endif -%}
    {{ return(true) }}
{% endmacro %}


{#- The last statement of it, and a line that says what there is. -#}
{% macro finish_clone(clone, original) %}
    {%- do dbt_backfill.run_table(
        'finish the clone', dbt_backfill.get_set_properties_sql(clone.mv, {'dbt_backfill.clone': ''}), clone.mv
    ) -%}
    {%- do log(
        clone.name ~ ': ' ~ clone.mv.render() ~ ' is a clone of ' ~ original.mv.render() ~ ' with its state, at the barrier '
            ~ original.state.epoch ~ ' (' ~ dbt_backfill.get_progress_text(original.state) ~ '). The next run goes on from there', info=true
    ) -%}
{% endmacro %}


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
