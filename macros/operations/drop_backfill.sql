{#-
    Drop an MV, and the tables and views beside it, see get_relations. First check that this package created all of them. If a drop ends early, the
    same command drops the rest. The state is dropped last. While a state exists without its MV, each run of the model is refused. The state also
    shows which tag holds a version of the upstream.

    Usage:
      dbt run-operation drop_backfill --args '{model: my_mv}'
      dbt run-operation drop_backfill --args '{mv: my_schema.my_mv}'
      dbt run-operation drop_backfill --args '{mv: my_schema.my_mv, keep_mv: true}'
      dbt run-operation drop_backfill --args '{model: my_mv, generation: next}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
      mv (string): the table of a model that does not exist any more, with its schema, instead of `model`.
      keep_mv (boolean): drop only the tables beside the MV, if the model is not a backfilled_mv any more, or will adopt the table again.
      generation (string): `next` to drop only the next generation, which a full refresh fills beside the MV. The MV stays unchanged.
-#}
{% macro drop_backfill(model=none, mv=none, keep_mv=false, generation=none) %}
    {%- set name = model or mv or 'drop_backfill' -%}
    {%- set given = {'model': model, 'mv': mv, 'keep_mv': keep_mv, 'generation': generation} -%}
    {%- do dbt_backfill.check_arguments('drop_backfill', given, kwargs, mv=name) -%}
    {%- if (model is none) == (mv is none) -%}
        {%- do dbt_backfill.refuse(
            'neither the argument model nor the argument mv is given' if model is none else 'both the argument model and the argument mv are given',
            "Name one MV: --args '{model: my_mv}', or, if its model is gone, --args '{mv: my_schema.my_mv}'", mv='drop_backfill', id='drop-arguments'
        ) -%}
    {%- endif -%}
    {%- set table = dbt_backfill.parse_relation(mv | trim) if mv is string else none -%}
    {%- do dbt_backfill.check_arguments('drop_backfill', given, [], {
        'model': [model is none or model is string and model, 'the name of one model'],
        'mv': [mv is none or table is not none, 'one table with its schema, such as my_schema.my_mv'],
    }) -%}
    {%- set beside = 'false: the MV stays in any case if only its next generation is dropped' -%}
    {%- do dbt_backfill.check_arguments('drop_backfill', given, [], {
        'generation': [generation in [none, 'next'], 'next, or leave it out'],
        'keep_mv': [keep_mv is boolean and not (generation and keep_mv), beside if keep_mv is boolean else 'true or false'],
    }, name) -%}
    {%- set catalog = dbt_backfill.run_table('ask for the catalog', 'select current_catalog()')[0][0] -%}
    {%- set owners = dbt_backfill.get_owners(catalog) -%}
    {%- set node = none if model is none else dbt_backfill.find_model(
        model, "Name an enabled model, or the table of a model that no longer exists: --args '{mv: my_schema.my_mv}'"
    ) -%}
    {%- set relation = dbt_backfill.get_plain_relation(table if node is none else dbt_backfill.get_node_relation(node), catalog) -%}
    {%- set owner = owners.get(dbt_backfill.get_table_key(relation)) -%}
    {%- if node is none and owner is not none and owner.config.materialized == 'backfilled_mv' -%}
        {%- set owning = dbt_backfill.get_model_name(owner) -%}
        {%- do dbt_backfill.refuse(
            'the model ' ~ owning ~ ' builds this table', "Name the model: --args '{model: " ~ owning ~ "}'", mv=relation.render(),
            id='drop-built-by-model') -%}
    {%- endif -%}
    {%- set dropped = dict(dbt_backfill.get_relations(relation), name=relation.render() if node is none else dbt_backfill.get_model_name(node)) -%}
    {#- Drop the next generation first: without the MV, no run would continue it. Check the tables of both before any drop. -#}
    {%- set next, checked = dict(dropped, **dbt_backfill.get_next_relations(dropped.mv)), [] -%}
    {%- set has_next = dbt_backfill.read_next_of(next) is not none -%}
    {%- if generation == 'next' and not has_next and dbt_backfill.load_table(next.progress) is not none -%}
        {%- do dbt_backfill.refuse(next.progress.render() ~ ' is not the state of a next generation, but of another MV',
            'To drop that MV, name it in the argument model or mv', mv=dropped.name, id='not-a-next-generation') -%}
    {%- endif -%}
    {%- set wanted = [(next, false)] if generation == 'next' or has_next else [] -%}
    {%- for tables, keeps in wanted + ([(dropped, keep_mv)] if generation is none else []) -%}
        {%- set existing = dbt_backfill.get_existing_relations(tables, ['mv', 'live'] + dbt_backfill.companion_names()) -%}
        {%- if keeps -%} {%- do existing.update({'mv': none}) -%} {%- endif -%}
        {%- set remains = dbt_backfill.find_remains(tables, existing, owners) -%}
        {%- for table, why in remains.foreign.items() -%}
            {%- set change = 'Drop or rename it yourself, and then drop the rest' if table != 'mv' or tables.mv.render() != dropped.mv.render()
                else 'Add keep_mv: true to drop only the ' ~ dbt_backfill.get_remains_text(remains) ~ ' beside it' if remains.ours
                else 'Name an MV, or a table that has the state of an MV beside it' -%}
            {%- do dbt_backfill.refuse(tables[table].render() ~ ' ' ~ why, change, mv=tables.name, id='drop-not-possible') -%}
        {%- endfor -%}
        {%- do checked.append([tables, existing, remains]) -%}
    {%- endfor -%}
    {%- for tables, existing, remains in checked -%} {%- do dbt_backfill.run_drop(tables, existing, remains) -%} {%- endfor -%}
{% endmacro %}


{#- Drop those tables of an MV that this package created, and the tag that holds a version of the upstream. As in dbt-spark, the statements have no
    PURGE, so the catalog decides whether the files are deleted. Only the replica and the staged rows are dropped with their files, because they are
    copies of the upstream's rows, and nobody needs these files. `dropped`: see get_relations, with the 'name' of the model or table. -#}
{% macro run_drop(dropped, existing, remains) %}
    {%- if not remains.ours -%} {%- do log(dropped.name ~ ': there is nothing to drop', info=true) -%} {%- endif -%}
    {%- set tags = dbt_backfill.find_tags(remains.state) -%}
    {%- for table in ['live', 'mv'] + dbt_backfill.companion_names() -%}
        {%- if table in remains.ours -%}
            {%- set what, relation, found = dbt_backfill.table_words()[table], dropped[table], existing[table] -%}
            {%- set sql = dbt_backfill.get_drop_copy_sql(dbt_backfill.get_table_format(found, relation), relation) if table in ['staged', 'replica']
                else dbt_backfill.get_drop_live_view_sql(relation) if table == 'live' else 'drop table if exists ' ~ relation.render() -%}
            {%- do dbt_backfill.run_table('drop the ' ~ what, sql, dropped.mv) -%}
            {#- DROP TABLE does not delete the files of an external Delta table. -#}
            {%- set information = found.information or '' -%}
            {%- set stay = '; its files stay in ' ~ information.split('Location: ')[1].split('\n')[0]
                if found.is_delta and 'Type: EXTERNAL' in information else '' -%}
            {%- do log(dropped.name ~ ': dropped the ' ~ what ~ ' ' ~ relation.render() ~ stay, info=true) -%}
        {%- endif -%}
        {%- if table == 'mv' -%} {%- do dbt_backfill.run_release(dropped, tags) -%} {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#-
    List the orphans: tables of an MV whose model does not exist any more, is disabled, or is not a backfilled_mv any more. The operation drops
    nothing. It prints one line per MV, with the command that drops the tables of the MV.

    An orphan is found by its state, history, controls or live view. An MV without any of these is not found.

    Usage:
      dbt run-operation backfill_orphans
      dbt run-operation backfill_orphans --args '{schema: my_schema}'

    Arguments:
      schema (string): the schema to search; by default the target's schema and the schemas of all models of the project.
-#}
{% macro backfill_orphans(schema=none) %}
    {%- do dbt_backfill.check_arguments('backfill_orphans', {'schema': schema}, kwargs, {
        'schema': [schema is none or schema is string and schema, 'the name of a schema'],
    }) -%}
    {%- set catalog = dbt_backfill.run_table('ask for the catalog', 'select current_catalog()')[0][0] -%}
    {%- set named, asked, schemas = [target.schema if schema is none else schema], [], [] -%}
    {%- for node in graph.nodes.values() if schema is none and node.resource_type == 'model' -%}
        {%- do named.append(dbt_backfill.get_node_relation(node).schema) -%}
    {%- endfor -%}
    {%- for name in named -%} {%- do asked.append(dbt_backfill.get_plain_schema(name, catalog)) -%} {%- endfor -%}
    {%- set asked, existing = asked | unique(case_sensitive=true) | list, dbt_backfill.read_schemas() -%}
    {#- The name of a schema in another catalog has two parts, and read_schemas does not list such schemas. -#}
    {%- for name in asked if '.' in name or name | replace('`', '') | lower in existing -%} {%- do schemas.append(name) -%} {%- endfor -%}
    {%- if not schemas -%}
        {%- do dbt_backfill.refuse(
            'there is no schema ' ~ asked | join(', '), 'Name a schema that exists, or run a model first', mv='backfill_orphans', id='no-schema-found'
        ) -%}
    {%- endif -%}
    {#- An MV that is a source of this project is no orphan, because another project makes this MV. -#}
    {%- set owners, known, lines = dbt_backfill.get_owners(catalog), [], [] -%}
    {%- for source in graph.sources.values() -%}
        {%- do known.append(dbt_backfill.get_table_key(dbt_backfill.get_plain_relation(dbt_backfill.get_node_relation(source), catalog))) -%}
    {%- endfor -%}
    {%- for key, owner in owners.items() if owner.config.materialized == 'backfilled_mv' -%}
        {%- do known.extend([key, key ~ '__next']) -%}
    {%- endfor -%}
    {%- for searched in schemas -%}
        {#- If the third column is true, the row is a temporary view. -#}
        {%- set rows = dbt_backfill.run_table('list the tables of ' ~ searched, 'show tables in ' ~ searched) -%}
        {%- set tables = rows | rejectattr(2) | map(attribute=1) | map('string') | list -%}
        {%- set names = [] -%}
        {%- for table in tables -%}
            {%- set name, sign, companion = table.rpartition('__') -%}
            {%- if name and companion in dbt_backfill.companion_names() + ['live'] -%} {%- do names.append(name) -%} {%- endif -%}
        {%- endfor -%}
        {%- for name in names | unique(case_sensitive=true) | sort
                if dbt_backfill.get_table_key(api.Relation.create(schema=searched, identifier=name)) not in known -%}
            {%- set mv, existing = api.Relation.create(schema=searched, identifier=name), {} -%}
            {%- set relations = dbt_backfill.get_relations(mv if modules.re.fullmatch('\\w+', name) else mv.quote(identifier=true)) -%}
            {%- for table in dbt_backfill.table_words() -%}
                {%- do existing.update({table: relations[table] if relations[table].identifier in tables else none}) -%}
            {%- endfor -%}
            {%- set remains = dbt_backfill.find_remains(relations, existing, owners) -%}
            {%- if remains.ours | reject('equalto', 'mv') | list -%}
                {%- set name = relations.mv.render() -%}
                {%- set named = '{mv: ' ~ name ~ (', keep_mv: true' if 'mv' in remains.foreign else '') ~ '}' -%}
                {%- do lines.append(
                    name ~ ': ' ~ dbt_backfill.get_remains_text(remains) ~ '; ' ~ dbt_backfill.get_operation_text('drop_backfill', named)
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set found = dbt_backfill.get_count_text(lines | length, 'orphan') if lines else 'no orphans' -%}
    {%- set why = ', which no model of this project and target makes' if lines else '' -%}
    {%- do log(found ~ ' in ' ~ schemas | join(', ') ~ why, info=true) -%}
    {%- for line in lines -%} {%- do log('  ' ~ line, info=true) -%} {%- endfor -%}
{% endmacro %}


{#-
    Return which of the tables of an MV exist, and which of them this package created: {
      `ours`: the names of the tables that this package created, which are keys of get_relations. A live view of another writer is in neither list,
      `foreign`: {name: why} of the tables that another writer created. `why` is the end of a sentence,
      'state': as read_state returned it; none if there is no state that this version reads. A state of another format is also one of `ours`
    }

    `existing`: as get_existing_relations returned it; `owners`: see get_owners.
-#}
{% macro find_remains(relations, existing, owners) %}
    {%- set ours, foreign, properties = [], {}, {} -%}
    {%- for table in dbt_backfill.table_words() if table != 'live' and existing.get(table) is not none -%}
        {%- set owner = owners.get(dbt_backfill.get_table_key(relations[table])) -%}
        {%- if owner is not none and (table != 'mv' or owner.config.materialized != 'backfilled_mv') -%}
            {%- do foreign.update({table: 'is built by the ' ~ owner.resource_type ~ ' ' ~ dbt_backfill.get_model_name(owner)}) -%}
        {%- else -%}
            {%- set found = dbt_backfill.read_listed_properties(existing[table], relations[table]) -%}
            {%- do properties.update({table: found}) -%}
            {#- A history and controls may exist longer than their MV, so they have no id of an MV. -#}
            {%- if 'dbt_backfill.format' in found and ('dbt_backfill.id' in found) == (table in ['mv', 'progress']) -%}
                {%- do ours.append(table) -%}
            {%- else -%}
                {%- do foreign.update({table: 'was not made by this materialization'}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set is_read = 'progress' in ours and properties.progress['dbt_backfill.format'] == dbt_backfill.state_format() -%}
    {%- set state = dbt_backfill.read_state(relations) if is_read else none -%}
    {%- set shown = properties.get('mv') or {} -%}
    {%- set format = 'iceberg' if shown.get('current-snapshot-id') else 'delta' if 'delta.minReaderVersion' in shown else none -%}
    {%- if 'mv' in ours and format and state is not none and state.committed and not owners.get(dbt_backfill.get_table_key(relations.mv)) -%}
        {#- Another program may have replaced the MV, for example because the model became a `table` before somebody removed the model. The new table
            may still have the properties of this package, so only the log of the MV shows the replacement. -#}
        {%- set found = dbt_backfill.observe_mv(
            dict(relations, options={'file_format': format}), dict(state, mv_head=shown.get('current-snapshot-id'), mv_moved=true)
        ).foreign_write -%}
        {%- if found and found.replaced and not found.get('plan') -%}
            {%- do ours.remove('mv') -%}
            {%- do foreign.update({'mv': 'was replaced or rolled back by something else since the barrier ' ~ state.epoch}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if existing.get('live') is not none and dbt_backfill.read_live_view(relations.live) is not none -%}
        {%- do ours.append('live') -%}
    {%- endif -%}
    {{ return({'ours': ours, 'foreign': foreign, 'state': state}) }}
{% endmacro %}


{#- Return the words for the tables in messages, by the keys of get_relations. -#}
{% macro table_words() %}
    {{ return({
        'mv': 'MV', 'progress': 'state', 'barriers': 'history', 'controls': 'controls', 'staged': 'staged rows', 'replica': 'replica',
        'live': 'live view',
    }) }}
{% endmacro %}


{#- Return the tables that this package created as text: `MV, state and history`. -#}
{% macro get_remains_text(remains) %}
    {%- set words = [] -%}
    {%- for table, word in dbt_backfill.table_words().items() if table in remains.ours -%} {%- do words.append(word) -%} {%- endfor -%}
    {{ return((words[:-1] | join(', ') ~ ' and ' if words | length > 1 else '') ~ words[-1]) }}
{% endmacro %}


{#- Return {key of a table: node that makes the table} for all enabled nodes, see get_table_key. `catalog`: the session's current catalog. -#}
{% macro get_owners(catalog) %}
    {%- set owners = {} -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed', 'snapshot'] and node.config.materialized != 'ephemeral' -%}
        {%- set relation = dbt_backfill.get_plain_relation(dbt_backfill.get_node_relation(node), catalog) -%}
        {%- do owners.update({dbt_backfill.get_table_key(relation): node}) -%}
    {%- endfor -%}
    {{ return(owners) }}
{% endmacro %}


{#- Return a relation with its schema in the form of get_plain_schema, so that each table has only one name. -#}
{% macro get_plain_relation(relation, catalog) %}
    {{ return(relation.incorporate(path={'schema': dbt_backfill.get_plain_schema(relation.schema, catalog)})) }}
{% endmacro %}


{#- Return the name of a schema without spaces, without quotes that the name does not need, and without the session's current catalog. -#}
{% macro get_plain_schema(schema, catalog) %}
    {%- set parts = [] -%}
    {%- for part in modules.re.findall('\\s*(`(?:[^`]|``)*`|[^`.]+)', schema) -%}
        {%- set part = part | trim -%}
        {%- do parts.append(part[1:-1] if modules.re.fullmatch('`\\w+`', part) else part) -%}
    {%- endfor -%}
    {{ return((parts[1:] if parts | length > 1 and parts[0] | lower == catalog | lower else parts) | join('.')) }}
{% endmacro %}
