{#-
    Mark an existing table with a table property. The next run of the model then adopts the table: it becomes the model's MV and keeps its rows. That
    run checks the columns and keys of the table and creates the state. Then barriers compare the rows with the query, slice by slice, and merge the
    differences. The operation can be repeated.

    Usage:
      dbt run-operation adopt_table --args '{model: my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
-#}
{% macro adopt_table(model=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'adopt_table') -%}
    {%- set adopted = dbt_backfill.get_operated(node) -%}
    {%- set mv, name = adopted.mv, adopted.name -%}
    {%- do dbt_backfill.check_arguments('adopt_table', {'model': model}, kwargs, mv=name) -%}
    {%- set existing = dbt_backfill.get_existing_relations(adopted) -%}
    {%- if existing.mv is none -%}
        {%- do dbt_backfill.refuse(mv.render() ~ ' does not exist',
            'Run the model, which builds it: dbt run --select ' ~ name, mv=name, id='adopt-table-missing') -%}
    {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing.mv, mv) -%}
    {%- do dbt_backfill.check_adoptable(adopted, existing.mv, properties, node.config.get('tblproperties') or {}) -%}
    {%- set state = dbt_backfill.read_left_state(adopted, existing) -%}
    {%- if state is not none and state.committed and state.committed.backfill_id == properties.get('dbt_backfill.id') -%}
        {%- do log(name ~ ': there is nothing to adopt; ' ~ mv.render() ~ ' is its MV, at the barrier ' ~ state.epoch, info=true) -%}
        {{ return(none) }}
    {%- elif state is not none and (not state.committed or state.epoch > 0) -%}
        {%- do dbt_backfill.refuse_other_state(adopted) -%}
    {%- endif -%}
    {#- The mark is a hash: the name of a model may look like a secret, and Spark hides a property whose text looks like a secret. -#}
    {%- set mark = {'dbt_backfill.adopt': local_md5(node.unique_id)} -%}
    {%- do dbt_backfill.run_table('mark ' ~ mv.identifier, dbt_backfill.get_set_properties_sql(mv, mark), mv) -%}
    {%- set rows = dbt_backfill.run_json(
        'count the rows of ' ~ mv.identifier, "select to_json(named_struct('count', count(*))) from " ~ mv.render(), mv
    )[0]['count'] -%}
    {%- do log(
        name ~ ': ' ~ mv.render() ~ ' will be adopted with its ' ~ dbt_backfill.get_count_text(rows, 'row')
            ~ '. Stop all other writers of the table, and run the model: dbt run --select ' ~ name
            ~ '. The run checks the columns and keys of the table, and begins to compare its rows with the query'
            ~ dbt_backfill.get_slices_text(dbt_backfill.get_option_of(node, 'backfill_rate_limit')), info=true
    ) -%}
{% endmacro %}


{#-
    Create the MV of a model as a copy of another MV and its state, for CI or another target. The copy has its own id and continues from the position
    of the original. On Delta the copy is a shallow clone. On Iceberg the rows are copied.

    The MV and the state are copied at two versions that belong together. To ensure this, check that no barrier has begun, and that the state has not
    changed while the versions were read. The state is copied after the MV: until then, no run treats the clone as an MV. If the operation ends early,
    repeat the operation.

    Usage:
      dbt run-operation clone_backfill --args '{model: my_mv, source: prod.my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
      source (string): the MV to copy, with its schema; or only a schema, to copy the MV of the same name in this schema.
      replace (boolean): true to drop an existing clone that has the MV's name but no state.
-#}
{% macro clone_backfill(model=none, source=none, replace=false) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'clone_backfill') -%}
    {%- set clone = dbt_backfill.get_operated(node) -%}
    {%- do dbt_backfill.check_arguments('clone_backfill', {'model': model, 'source': source, 'replace': replace}, kwargs, {
        'source': [source is string and source | trim, 'the MV to copy, with its schema, such as prod.my_mv'],
        'replace': [replace is boolean, 'true or false'],
    }, clone.name) -%}
    {%- set schemas = dbt_backfill.read_schemas() -%}
    {%- set source = source | trim -%}
    {%- set relation = dbt_backfill.parse_relation(source if '.' in source else source ~ '.' ~ clone.mv.identifier) -%}
    {%- if relation is none or relation.render() | lower == clone.mv.render() | lower -%}
        {%- do dbt_backfill.refuse_option('source', source, 'another MV with its schema, such as my_schema.my_mv', clone.name) -%}
    {%- endif -%}
    {%- set original = dict(clone, is_original=true, **dbt_backfill.get_relations(relation)) -%}
    {%- set has_schema = dbt_backfill.get_catalog(relation) is not none or relation.schema | lower in schemas -%}
    {%- set existing = {} -%}
    {%- for table in ['mv', 'progress', 'barriers'] -%}
        {%- do existing.update({table: dbt_backfill.find_table(original[table]) if has_schema else none}) -%}
        {%- if existing[table] is none and table != 'barriers' -%}
            {%- do dbt_backfill.refuse(original[table].render() ~ ' does not exist, but clone_backfill needs an MV and its state',
                'Set source to an MV that dbt run has created', mv=clone.name, id='clone-source-missing') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set version, mv_version = dbt_backfill.read_version(original, 'progress'), dbt_backfill.read_version(original, 'mv') -%}
    {%- set state = dbt_backfill.observe_existing(original, existing).state -%}
    {%- set foreign = dbt_backfill.observe_mv(original, state).foreign_write -%}
    {%- if foreign -%}
        {%- do dbt_backfill.refuse(
            relation.render() ~ ' has a write that none of its barriers made (' ~ foreign.text ~ '), and no barrier has repaired it yet',
            'Run the model of ' ~ relation.render() ~ ' first, and then clone it', mv=clone.name, id='clone-source-not-repaired') -%}
    {%- endif -%}
    {%- do dbt_backfill.check_barrier_is_committed(state, clone.name, 'Let a run of its model commit it, and then copy ' ~ relation.render()) -%}
    {%- if dbt_backfill.read_version(original, 'progress') != version -%}
        {%- do dbt_backfill.refuse('a run changed the state of ' ~ relation.render() ~ ' while clone_backfill was reading this state',
            'Repeat the operation while no barrier runs', mv=clone.name, id='clone-source-changed') -%}
    {%- endif -%}
    {%- set original = dict(original, existing=existing, state=state, versions={'mv': mv_version, 'progress': version}) -%}
    {#- dbt creates the schemas for a run of models, but not for an operation. -#}
    {%- if clone.mv.schema | lower not in schemas -%} {%- do adapter.create_schema(clone.mv) -%} {%- endif -%}
    {%- if dbt_backfill.prepare_clone(clone, original, replace) -%}
        {%- set id = local_md5(invocation_id ~ node.unique_id ~ modules.datetime.datetime.now()) -%}
        {%- for step, sql in dbt_backfill.get_copies(clone, original, id).items() -%}
            {%- do dbt_backfill.run_table(step, sql, clone.mv) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do dbt_backfill.run_table('finish the clone', dbt_backfill.get_set_properties_sql(clone.mv, {'dbt_backfill.clone': ''}), clone.mv) -%}
    {%- do log(
        clone.name ~ ': ' ~ clone.mv.render() ~ ' is a clone of ' ~ original.mv.render() ~ ' with its state, at the barrier '
            ~ original.state.epoch ~ ' (' ~ dbt_backfill.get_progress(original.state).text ~ '). The next run continues from there', info=true
    ) -%}
{% endmacro %}


{#- Return true if the tables have to be copied, and false if only the last step of a clone is missing. First drop an unfinished clone that has no
    state. With `replace`, also drop any other clone without a state. Refuse to replace any other table. -#}
{% macro prepare_clone(clone, original, replace) %}
    {%- set name = clone.mv.render() -%}
    {%- set mv, progress = dbt_backfill.find_table(clone.mv), dbt_backfill.find_table(clone.progress) -%}
    {%- set properties = dbt_backfill.read_listed_properties(mv, clone.mv) -%}
    {%- set drop = dbt_backfill.get_drop_text(clone) -%}
    {%- if mv is not none and 'dbt_backfill.id' not in properties -%}
        {%- do dbt_backfill.refuse(name ~ ' exists, but is not a clone of an MV',
            'Drop or rename that table', mv=clone.name, id='clone-name-taken') -%}
    {%- elif progress is not none and properties.get('dbt_backfill.clone')
            and dbt_backfill.read_table_properties(clone.progress).get('dbt_backfill.id') == properties['dbt_backfill.id'] -%}
        {%- if properties['dbt_backfill.clone'] != original.mv.render() -%}
            {%- do dbt_backfill.refuse(name ~ ' is an unfinished clone of ' ~ properties['dbt_backfill.clone'],
                'Run clone_backfill with that source again, or drop the clone: ' ~ drop, mv=clone.name, id='clone-unfinished') -%}
        {%- endif -%}
        {{ return(false) }}
    {%- elif progress is not none -%}
        {%- do dbt_backfill.refuse(
            clone.progress.render() ~ ' exists, so the model already has a state', 'Drop the MV with its state: ' ~ drop, mv=clone.name,
            id='clone-has-state') -%}
    {%- elif mv is not none -%}
        {%- if not properties.get('dbt_backfill.clone') and not replace -%}
            {%- do dbt_backfill.refuse(name ~ ' exists, but has no state',
                'Add replace: true to drop that table first', mv=clone.name, id='clone-exists') -%}
        {%- endif -%}
        {%- do dbt_backfill.run_table('drop the clone without a state', 'drop table if exists ' ~ name, clone.mv) -%}
    {%- endif -%}
    {{ return(true) }}
{% endmacro %}


{#-
    Return the statements that copy the tables of the original: {step: SQL}. Each statement does nothing if its table exists.

    On Delta the copy of the MV shares the files of the original. Iceberg has no clone, so the rows are copied, with the same partitions. The copied
    state has another id and another version of the MV, and does not list barriers that the history may lack.
-#}
{% macro get_copies(clone, original, id) %}
    {%- set mv, version = original.mv.render(), original.versions.mv -%}
    {%- set own = {'dbt_backfill.id': id, 'dbt_backfill.mv': clone.mv.render(), 'dbt_backfill.clone': mv, 'dbt_backfill.adopt': ''} -%}
    {%- if clone.options.file_format == 'delta' -%}
        {%- set copy_of_mv -%}
            create table if not exists {{ clone.mv.render() }}
            shallow clone {{ mv }} version as of {{ version }}
            tblproperties {{ dbt_backfill.property_list(own) }}
            {{ dbt_backfill.location_root_clause(clone.location_root, clone.mv) }}
        {%- endset -%}
    {%- else -%}
        {%- set shown = dbt_backfill.run_table('show ' ~ original.mv.identifier, 'show create table ' ~ mv, clone.mv)[0][0] -%}
        {%- set partitions = modules.re.search('(?m)^PARTITIONED BY .*$', shown) -%}
        {%- set copy_of_mv = dbt_backfill._get_copy_sql(
            clone, original, 'mv', dict(own, **{'dbt_backfill.docs': ''}),
            'select *\nfrom ' ~ mv ~ (' version as of ' ~ version if version != 'none' else ' where false'),
            partitions.group(0) if partitions else ''
        ) -%}
    {%- endif -%}
    {%- set last = dict(original.state.committed, backfill_id=id) -%}
    {%- do last.pop('mv_unclear', none) -%}
    {#- A new Delta table has the version 0. The first snapshot of an Iceberg table is known only when the copy is made. -#}
    {%- do last.update({'mv_version': '0' if clone.options.file_format == 'delta' else '__bf_snapshot__'}) -%}
    {%- set text = dbt_backfill.string_literal(tojson(last)) -%}
    {%- set text = text if clone.options.file_format == 'delta' else 'replace(' ~ text ~ ", '__bf_snapshot__', (select coalesce(cast(max(snapshot_id) "
        ~ "as string), 'none') from " ~ clone.mv.render() ~ '.snapshots where parent_id is null))' -%}
    {%- set changed, columns = {
        'last': 'if(vnode = 0, ' ~ text ~ ', cast(null as string)) as last',
        'unwritten': 'cast(null as array<string>) as unwritten',
    }, [] -%}
    {%- for name in dbt_backfill.get_column_types(original.progress) -%}
        {%- do columns.append(changed.get(name, dbt_backfill.identifier(name))) -%}
    {%- endfor -%}
    {%- set copies = {'copy the MV': copy_of_mv, 'copy the state': dbt_backfill._get_copy_sql(
        clone, original, 'progress', {'dbt_backfill.id': id},
        'select ' ~ columns | join(', ') ~ '\nfrom ' ~ original.progress.render() ~ ' version as of ' ~ original.versions.progress
    )} -%}
    {%- if original.existing.barriers is not none -%}
        {%- set recorded, columns = dbt_backfill.history_columns(), [] -%}
        {%- for name in recorded.recorded.keys() | list + recorded.derived.keys() | list -%}
            {%- do columns.append(dbt_backfill.string_literal(id) ~ ' as backfill_id' if name == 'backfill_id' else name) -%}
        {%- endfor -%}
        {%- do copies.update({'copy the history': dbt_backfill._get_copy_sql(
            clone, original, 'barriers', {},
            'select ' ~ columns | join(', ') ~ '\nfrom ' ~ original.barriers.render() ~ '\nwhere epoch <= ' ~ original.state.epoch
        )}) -%}
    {%- endif -%}
    {{ return(copies) }}
{% endmacro %}


{#- Return the statement that creates a copy of the original's table `table` from the select `rows`. The copy gets the properties `own`. It also gets
    the original's table properties that are settings, unless Spark hides them. -#}
{% macro _get_copy_sql(clone, original, table, own, rows, partitions='') -%}
    {%- set kept = {} -%}
    {%- for name, value in dbt_backfill.read_table_properties(original[table]).items()
            if not dbt_backfill.is_redacted(value) and modules.re.search(
                '^(?:delta\\.(isolationLevel|appendOnly|enable\\w+|dataSkipping\\w+|columnMapping\\.mode|feature\\.\\w+)'
                    ~ '|(write|read|commit|history)\\..*|format-version|dbt_backfill\\..*)$', name
            ) -%}
        {%- do kept.update({name: value}) -%}
    {%- endfor -%}
    create table if not exists {{ clone[table].render() }}
    using {{ clone.options.file_format }}
    {{ partitions }}
    {{ dbt_backfill.location_root_clause(clone.location_root, clone[table]) }}
    tblproperties {{ dbt_backfill.property_list(dict(kept, **own)) }}
    as
    {{ rows }}
{%- endmacro %}
