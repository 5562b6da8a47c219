{#- Return the columns of the model's query. Refuse options and columns with which a run would fail after the state exists. -#}
{% macro prepare_creation(backfill) %}
    {#- Read the columns from the query that a barrier executes, and not from the model's text. In the executed query, the upstream has no metadata
        columns and no branches. -#}
    {%- set upstream = backfill.upstream.relation -%}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, upstream.render()) -%}
    {%- do dbt_backfill.check_table_properties() -%}
    {%- do dbt_backfill.check_columns(columns, dbt_backfill.mv_table_properties([], '')) -%}
    {%- do dbt_backfill.check_constraints(dbt_backfill.get_query_sql(backfill.query, upstream, 'select * from ' ~ upstream.render())) -%}
    {%- set is_clustered = dbt_backfill.get_file_format() == 'delta' and config.get('clustered_by') -%}
    {%- do dbt_backfill.refuse_first([
        {'when': is_clustered and config.get('buckets'), 'fact': 'buckets is ' ~ config.get('buckets') ~ ', but a Delta table has no buckets',
         'id': 'buckets-on-delta', 'change': 'Remove buckets: clustered_by alone is liquid clustering'},
        {'id': 'partitioned-and-clustered', 'when': is_clustered and config.get('partition_by'),
         'fact': 'partition_by and clustered_by are both set, but a Delta table is either partitioned or clustered', 'change': 'Remove one of them'},
    ]) -%}
    {%- do dbt_backfill.run_check_of_location(backfill.mv) -%}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {#- A next generation is checked with the table of the MV in use, because the next generation will replace this table. -#}
    {%- set existing = dbt_backfill.load_table(this) if dbt_backfill.get_file_format() == 'iceberg' else none -%}
    {%- if existing and not existing.is_view and dbt_backfill.get_table_format(existing, this) == 'iceberg' -%}
        {%- do dbt_backfill.run_check_of_lost_partitions(this, names) -%}
    {%- endif -%}
    {%- set properties, statistics, named = config.get('tblproperties') or {}, 'delta.dataSkippingStatsColumns', [] -%}
    {%- for option in ['partition_by', 'clustered_by'] -%}
        {%- for column in dbt_backfill.as_list(config.get(option) or []) -%} {%- do named.append((option, column)) -%} {%- endfor -%}
    {%- endfor -%}
    {%- if statistics in properties and dbt_backfill.get_file_format() == 'delta' -%}
        {%- for column in properties[statistics].split(',') -%} {%- do named.append((statistics, column.split('.')[0] | trim)) -%} {%- endfor -%}
    {%- endif -%}
    {#- Spark itself checks Iceberg's transforms. -#}
    {%- for option, column in named if modules.re.fullmatch('\\w+', column) and column | lower not in names -%}
        {%- do dbt_backfill.refuse(
            option ~ " names the column '" ~ column ~ "', which its query does not return", 'Select that column, or name another one',
            id='layout-column-unknown') -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Refuse to rebuild a Delta table at another location. Delta would refuse it only after the plan of the rebuild is stored. -#}
{% macro run_check_of_location(mv) %}
    {%- if dbt_backfill.get_file_format() != 'delta' or not config.get('location_root') -%} {{ return(none) }} {%- endif -%}
    {%- set found = dbt_backfill.read_location(mv, true) -%}
    {%- if not found -%} {{ return(none) }} {%- endif -%}
    {%- set wanted, paths = config.get('location_root') ~ '/' ~ mv.identifier, [] -%}
    {%- for location in [wanted, found] -%}
        {#- Delta compares locations without scheme and host. -#}
        {%- do paths.append(modules.re.sub('/+', '/', modules.re.sub('^\\w+:(//[^/]*)?', '', location)).rstrip('/')) -%}
    {%- endfor -%}
    {#- A relative location is a folder below Spark's warehouse. -#}
    {%- set below = '/' ~ modules.re.sub('^(\\.{1,2}/)+', '', paths[0]) -%}
    {%- if not (paths[1] == paths[0] if paths[0].startswith('/') else paths[1].endswith(below)) -%}
        {%- do dbt_backfill.refuse('the table is at ' ~ found ~ ', but with this location_root it would be at ' ~ wanted,
            'Set location_root so that the table keeps its location, or drop the table first (drop an MV with the run-operation drop_backfill)',
            id='location-changed') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Warn if the store of the MV's tables may lose commits as soon as two Spark drivers write. A run cannot know if there is another driver. Refuse a
    Delta log store that is known to lose commits on S3.

    The first run, each full refresh and each adoption call this macro. An operation does not check, because it creates no MV. On S3, Delta's default
    log store locks a commit within one driver only, even if the store has conditional writes. Iceberg's catalog of the type `hadoop` renames a file,
    and S3 has no atomic rename. Databricks has its own commit service.

    Arguments:
      settings (dict): the session's settings, see read_settings. Delta only reads the settings with which Spark was started.
      existing (relation or none): the existing table of the MV, with its location.
-#}
{% macro run_check_of_store(backfill, settings, existing) %}
    {%- if adapter.type() == 'databricks' or flags.WHICH == 'run-operation' -%} {{ return(none) }} {%- endif -%}
    {%- if backfill.options.file_format == 'iceberg' -%}
        {%- set catalog = 'spark.sql.catalog.' ~ (dbt_backfill.get_catalog(backfill.mv) or settings.get('spark.sql.defaultCatalog', 'spark_catalog')) -%}
        {%- set type = (settings.get(catalog ~ '.type') or settings.get(catalog ~ '.catalog-impl', '').split('.') | last) | lower -%}
        {%- if type in ['rest', 'restcatalog'] and not existing -%} {%- do dbt_backfill.run_trial_of_format_3(backfill) -%} {%- endif -%}
        {%- set is_hadoop = type in ['hadoop', 'hadoopcatalog'] -%}
        {%- set is_safe, other = not is_hadoop or settings.get(catalog ~ '.lock-impl'), 'use another type of catalog' -%}
        {%- set location, store = settings.get(catalog ~ '.warehouse') or '', 'an Iceberg catalog of the type hadoop' -%}
    {%- else -%}
        {%- set root = config.get('location_root') or '' -%}
        {%- set location = root if ':' in root and not existing else dbt_backfill.read_location(backfill.mv, existing is not none) -%}
        {%- set name, stores = 'delta.logStore.' ~ location.partition(':')[0] | lower ~ '.impl', [] -%}
        {%- for setting in ['spark.delta.logStore.class', 'delta.logStore.class', 'spark.' ~ name, name] if settings.get(setting) -%}
            {%- do stores.append(settings[setting].split('.') | last) -%}
        {%- endfor -%}
        {%- set store, other = stores[0] if stores else 'S3SingleDriverLogStore', 'start Spark with another log store (spark.' ~ name ~ ')' -%}
        {%- set is_safe = store != 'S3SingleDriverLogStore' -%}
    {%- endif -%}
    {%- if location.partition(':')[0] | lower not in ['s3', 's3a', 's3n'] -%} {{ return(none) }} {%- endif -%}
    {%- if store in ['HDFSLogStore', 'LocalLogStore', 'AzureLogStore', 'GCSLogStore'] -%}
        {%- do dbt_backfill.refuse('its tables are at ' ~ location ~ ', where the log store ' ~ store ~ ' loses commits of concurrent writers',
            'Start Spark with a log store for S3 (spark.' ~ name ~ ')', mv=backfill.get('name'), id='log-store-unsafe') -%}
    {%- elif not is_safe -%}
        {%- do exceptions.warn(
            'backfilled_mv ' ~ (backfill.get('name') or dbt_backfill.get_model_name(model)) ~ ': its tables are at ' ~ location ~ ', where ' ~ store
                ~ ' loses commits if two Spark drivers write at the same time, such as two dbt processes with the method session. Let one driver, such '
                ~ 'as one Thrift server, do all writes, or ' ~ other
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse a REST catalog that cannot store a deleted row in a table of Iceberg's format 3. Its server must know the format, and may check the names of
    files. Only a trial shows it: a table of two rows, from which one is deleted. Without the trial, the second barrier would fail. Other catalogs
    store only where the metadata of a table is. Without the adapter, the run ends with Spark's own error. -#}
{% macro run_trial_of_format_3(backfill) %}
    {%- set properties, name = dbt_backfill.mv_table_properties([], ''), backfill.get('name') or dbt_backfill.get_model_name(model) -%}
    {%- if properties['format-version'] | string != '3' or properties['write.merge.mode'] != 'merge-on-read' -%} {{ return(none) }} {%- endif -%}
    {%- set trial = backfill.mv.incorporate(path={'identifier': 'dbt_backfill_trial_' ~ local_md5(invocation_id ~ backfill.mv.render())}).render() -%}
    {%- set change = "Set tblproperties={'format-version': '2'} if the catalog or its store lacks format 3, or correct the error" -%}
    {%- do log(name ~ ': trying format 3 of Iceberg in the table ' ~ trial ~ '. If Spark reports an error here: drop that table, if it exists. '
        ~ change, info=adapter.type() != 'spark_backfill') -%}
    {%- set clauses = " using iceberg tblproperties ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')" -%}
    {%- set error = dbt_backfill.try_table('try format 3', 'create table ' ~ trial ~ clauses ~ ' as select id from range(0, 2, 1, 1)').error -%}
    {#- Only a table that this run has created is dropped. -#}
    {%- if not error -%}
        {%- set error = dbt_backfill.try_table('try a deletion', 'delete from ' ~ trial ~ ' where id = 0').error -%}
        {%- set left = dbt_backfill.try_table('drop the trial', 'drop table if exists ' ~ trial ~ ' purge').error -%}
        {%- if left -%} {%- do exceptions.warn('backfilled_mv ' ~ name ~ ': could not drop its trial table. Drop ' ~ trial) -%} {%- endif -%}
    {%- endif -%}
    {%- if error -%}
        {%- do dbt_backfill.refuse('its trial of format 3 of Iceberg failed: ' ~ error.strip().split('\n')[0], change, mv=name,
            id='catalog-iceberg-format') -%}
    {%- endif -%}
{% endmacro %}


{#- Return the location of a table, or of its schema if the table does not exist yet; empty if the location is not known. -#}
{% macro read_location(relation, exists) %}
    {%- if exists -%} {{ return((dbt_backfill.read_information(relation) or '').partition('Location: ')[2].split('\n')[0]) }} {%- endif -%}
    {%- set sql = 'describe schema ' ~ relation.include(identifier=false).render() -%}
    {%- for row in dbt_backfill.run_table('find the location of the schema', sql) if row[0] == 'Location' -%} {{ return(row[1]) }} {%- endfor -%}
    {{ return('') }}
{% endmacro %}


{#- Return the statement that creates an empty MV with these columns, if it does not exist. -#}
{% macro get_create_mv_sql(mv, columns, backfill_id) -%}
    create table if not exists {{ mv.render() }} ({{ dbt_backfill.column_definitions(columns) }})
    {{ dbt_backfill.mv_clauses(mv, columns, backfill_id) }}
{%- endmacro %}


{#- Return a select of these columns that returns no rows, but makes Spark evaluate the fence. -#}
{% macro get_fence_over_no_rows_sql(columns, fence) -%}
    select
        {%- for column in columns %}
        cast(null as {{ dbt_backfill.type_sql(column.type) }}) as {{ dbt_backfill.identifier(column.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (select {{ fence }} as fenced)
    where not fenced
{%- endmacro %}


{#- Return the format, location, properties and layout of the MV. `clustered_by` means liquid clustering, unless `buckets` is set. -#}
{% macro mv_clauses(mv, columns, backfill_id) -%}
    {%- set types = columns | map(attribute='type') | list -%}
    {%- set names = columns | map(attribute='name') | list + modules.re.findall('`([^`]*)`', types | join(' ')) -%}
    {%- set properties = dict(dbt_backfill.mv_table_properties(names, backfill_id, types), **{'dbt_backfill.mv': mv.render()}) -%}
    {%- set partitions, clusters = dbt_backfill.get_configured_partitions(), dbt_backfill.as_list(config.get('clustered_by') or []) -%}
    {%- if partitions -%} {%- do properties.update({'dbt_backfill.partitions': tojson(partitions)}) -%} {%- endif -%}
    {{ dbt_backfill.table_clauses(mv, properties) }}
    {{ options_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {%- if clusters and config.get('buckets') %}
    {{ clustered_cols(label='clustered by') }}
    {%- elif clusters %}
    cluster by ({{ clusters | join(', ') }})
    {%- endif %}
{%- endmacro %}


{#-
    Apply persist_docs, if it is on and the descriptions have changed. Each comment is a commit of the MV, and a run that has nothing to do must not
    write. So comments are written only after a change. The table property `dbt_backfill.docs` has a hash of the applied descriptions. The hash does
    not include the description of a column that the MV does not have yet, so that the column gets its comment once it is added. If a description
    cannot be written, the run warns, and no later run tries again until the descriptions change. `found`: the MV as this run found it, see
    observe_state; none if this run created it.
-#}
{% macro apply_docs(backfill, found, state) %}
    {%- set described = [model.description if config.persist_relation_docs() else none] -%}
    {%- set present = dbt_backfill.parse_columns(state.committed.query_columns) | map(attribute='name') | list -%}
    {%- for name, column in model.columns.items() if config.persist_column_docs() and name | lower in present | map('lower') -%}
        {%- do described.append([name, column.description]) -%}
    {%- endfor -%}
    {%- set docs, mv = local_md5(tojson(described)), backfill.mv.render() -%}
    {%- if found and found.docs == docs -%} {{ return(none) }} {%- endif -%}
    {%- set comments = {} -%}
    {%- if config.persist_relation_docs() -%}
        {%- do comments.update({'the MV': 'comment on table ' ~ mv ~ ' is ' ~ dbt_backfill.string_literal(model.description)}) -%}
    {%- endif -%}
    {%- if config.persist_column_docs() -%}
        {#- dbt-spark's own persist_docs loses backslashes and `${…}` of a description. So this macro sends its own statements. In a new MV, a column
            without a description has no comment. In an existing MV, the column may have an old comment, which has to be removed. -#}
        {%- for name, column in validate_doc_columns(backfill.mv, model.columns, present).items()
                if column.description or (found or {}).get('docs') -%}
            {%- do comments.update({'the column ' ~ name: 'alter table ' ~ mv ~ ' alter column ' ~ dbt_backfill.identifier(name)
                ~ ' comment ' ~ dbt_backfill.string_literal(column.description)}) -%}
        {%- endfor -%}
    {%- endif -%}
    {#- The barrier is committed already, so a comment that the catalog does not accept must not fail the model. -#}
    {%- for what, sql in comments.items() -%}
        {%- set error = dbt_backfill.try_table('comment on ' ~ what, sql).error -%}
        {%- if error -%}
            {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': the description of ' ~ what
                ~ ' could not be written. If it is too long for the catalog, shorten it. ' ~ (error | trim).split('\n')[0]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do dbt_backfill.run_table('note the comments', 'alter table ' ~ mv ~ " set tblproperties ('dbt_backfill.docs' = '" ~ docs ~ "')") -%}
{% endmacro %}


{#-
    Return a statement of a script that compacts a table's small files. If another run writes the table at the same time, the statement loses the
    conflict, and the next run compacts the files. On Iceberg such a conflict would raise an error that no handler can catch, but with the option
    `partial-progress` Iceberg only logs the error. `sorting`: the SQL that makes the compaction write all rows in sorted order (on Delta a whole
    statement, on Iceberg arguments of the procedure); empty without a sort. `noted`: see get_yielding_sql.
-#}
{% macro get_compaction_sql(relation, file_format, sorting='', noted='') -%}
    {%- if file_format == 'delta' -%}
        {%- set optimize = 'execute immediate ' ~ dbt_backfill.string_literal('optimize ' ~ relation.render()) -%}
        {{ return(dbt_backfill.get_yielding_sql(sorting or optimize, file_format, noted)) }}
    {%- endif -%}
    {%- set catalog = dbt_backfill.get_catalog(relation) -%}
    call {{ catalog ~ '.' if catalog }}system.rewrite_data_files(
        table => {{ dbt_backfill.string_literal(relation.render()) }},
        {{ sorting }}
        options => map('partial-progress.enabled', 'true', {{ "'rewrite-all', 'true'" if sorting else "'min-input-files', '2'" }})
    );
{%- endmacro %}


{#-
    Return the constraints of an enforced contract as CHECK constraints of a Delta table: {name: expression}. NOT NULL is written as a CHECK
    constraint as well: after a CREATE OR REPLACE … AS SELECT, all columns are nullable, and Delta cannot make them NOT NULL later.

    Primary keys, unique keys and foreign keys are left out, because Delta does not enforce them. Iceberg does not enforce any constraint.
-#}
{% macro get_constraints() %}
    {%- set constraints = {} -%}
    {%- if not (config.get('contract') or {}).enforced or dbt_backfill.get_file_format() != 'delta' -%} {{ return(constraints) }} {%- endif -%}
    {%- for name, declared in model.columns.items() | list + [(none, model)] -%}
        {%- for constraint in declared.constraints or [] -%}
            {%- if constraint.type == 'not_null' and name is not none -%}
                {%- set plain = name | lower if modules.re.fullmatch('\\w+', name) else local_md5(name) -%}
                {%- do constraints.update({'not_null_' ~ plain: dbt_backfill.identifier(name) ~ ' is not null'}) -%}
            {%- elif constraint.type == 'check' -%}
                {#- Delta's names of constraints are in lower case. -#}
                {%- set expression = constraint.expression | trim -%}
                {%- do constraints.update({(constraint.name or 'check_' ~ local_md5(expression)) | lower: expression}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(constraints) }}
{% endmacro %}


{#- Refuse constraints that Spark cannot evaluate: Delta would accept them but fail at each MERGE. Warn on Iceberg, which has no constraints. -#}
{% macro check_constraints(query) %}
    {%- if (config.get('contract') or {}).enforced and dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set types = model.columns.values() | map(attribute='constraints') | sum(start=[]) + (model.constraints or []) -%}
        {%- if types | map(attribute='type') | select('in', ['not_null', 'check']) | list -%}
            {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': the constraints of its contract are not applied, '
                ~ 'because Iceberg enforces none. Put dbt tests on the model instead.') -%}
        {%- endif -%}
    {%- endif -%}
    {%- set constraints = dbt_backfill.get_constraints() -%}
    {%- if not constraints -%} {{ return(none) }} {%- endif -%}
    {%- set error = dbt_backfill.find_plan_error(dbt_backfill.run_table('check the constraints',
        'explain extended\nselect 1 from (\n' ~ query ~ '\n) where (' ~ constraints.values() | join(') and (') ~ ')')[0][0]) -%}
    {%- if error is not none -%}
        {%- do dbt_backfill.refuse('Spark cannot evaluate the constraints of its contract: ' ~ error,
            'Correct the constraints', id='constraint-not-evaluated') -%}
    {%- endif -%}
{% endmacro %}


{#- Give an existing MV the constraints of the current contract. New constraints are added if all rows fulfil them. Constraints that are no longer in
    the contract are dropped. If no constraint changed, this macro sends no statement. `properties`: the MV's properties as this run found them. -#}
{% macro apply_constraints(backfill, properties) %}
    {%- set wanted, present, statements = dbt_backfill.get_constraints(), {}, [] -%}
    {#- Spark may hide the property, if a constraint's name looks like a secret. -#}
    {%- set ours = fromjson(properties.get('dbt_backfill.constraints', '[]'), []) -%}
    {%- for name, value in properties.items() if name.startswith('delta.constraints.') -%} {%- do present.update({name[18:]: value}) -%} {%- endfor -%}
    {%- for name in (ours + wanted.keys() | list) | unique if name in present and present[name] != wanted.get(name) -%}
        {%- do statements.append('drop constraint if exists ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {%- for name, expression in wanted.items() if present.get(name) != expression -%}
        {#- Delta refuses a row for which the expression of a constraint is false or null. So both cases are counted. -#}
        {%- set broken = dbt_backfill.run_json('check the rows for a constraint', "select to_json(named_struct('count', count(*))) from "
            ~ backfill.mv.render() ~ ' where (' ~ expression ~ ') is not true')[0]['count'] -%}
        {%- if broken -%}
            {%- do dbt_backfill.refuse('its contract has the new constraint (' ~ expression ~ '), but ' ~ dbt_backfill.get_count_text(broken, 'row')
                ~ ' of the MV do not fulfil it', 'Correct these rows upstream, or the constraint', id='constraint-violated') -%}
        {%- endif -%}
        {%- do statements.append('add constraint ' ~ dbt_backfill.identifier(name) ~ ' check (' ~ expression ~ ')') -%}
    {%- endfor -%}
    {%- if statements or ours | sort != wanted.keys() | sort -%}
        {%- set names = dbt_backfill.string_literal(tojson(wanted.keys() | list)) -%}
        {%- do statements.append("set tblproperties ('dbt_backfill.constraints' = " ~ names ~ ')') -%}
    {%- endif -%}
    {%- for statement in statements -%}
        {%- do dbt_backfill.run_table('apply the contract', 'alter table ' ~ backfill.mv.render() ~ ' ' ~ statement) -%}
    {%- endfor -%}
{% endmacro %}
