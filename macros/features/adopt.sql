{#-
    Return how a run takes over a table that has the MV's name, but is not an MV yet; none if the run does not take over the table:

      adopt    if adopt_table has marked the table for this model: the table keeps its rows, and the next barriers compare these rows with the query,
        see is_sweeping
      replace  in a full refresh of a model with `replace_existing`: the first barrier is a reset, which replaces the rows

    `existing`: the result of get_existing_relations, with a table of the MV's name; `properties`: the properties of that table.
-#}
{% macro find_takeover(backfill, existing, properties) %}
    {%- set adopts = properties.get('dbt_backfill.adopt') == local_md5(model.unique_id) -%}
    {%- set replaces = backfill.options.replace_existing and should_full_refresh() -%}
    {%- if not adopts and not replaces -%} {{ return(none) }} {%- endif -%}
    {#- The statement that marks the table may arrive late, after a run has taken the table over. In this case the table and its state have the same
        id. -#}
    {%- if existing.progress is not none and 'dbt_backfill.id' in properties and properties['dbt_backfill.id']
            == dbt_backfill.read_table_properties(backfill.progress).get('dbt_backfill.id') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if adopts and not replaces and should_full_refresh() -%}
        {%- do dbt_backfill.refuse(backfill.mv.render() ~ ' is to be adopted, but a full refresh would empty it',
            'Run without --full-refresh, or set replace_existing to true to replace the table', id='adopt-with-full-refresh') -%}
    {%- endif -%}
    {{ return('replace' if replaces else 'adopt') }}
{% endmacro %}


{#-
    Take over the table, as a part of observe_state. First create the state of the table, with the epoch 0 and the kind `how`. Then one ALTER
    makes the table the MV of this state. A view is replaced by a table. Each step can be repeated: if a run dies between two steps, the next run
    completes the work. If the query of the next run differs, this run replaces the state, because no barrier has merged anything yet.

    Refuse a table that cannot be taken over, before anything is written. Return the result of observe_state. `found`: see observe_tables.
-#}
{% macro take_over_table(backfill, found) %}
    {%- set existing, properties, how, mv = found.existing, found.properties, found.takeover, backfill.mv.render() -%}
    {%- do dbt_backfill.check_leftovers_are_ours(backfill, existing) -%}
    {%- set missing = dbt_backfill.observe_missing(backfill, found.settings, none if existing.mv.is_view else existing.mv) -%}
    {%- set columns = dbt_backfill.prepare_creation(backfill) -%}
    {%- set left = dbt_backfill.read_left_state(backfill, existing) -%}
    {%- if left is not none and (not left.committed or left.epoch > 0) -%} {%- do dbt_backfill.refuse_other_state(backfill) -%} {%- endif -%}
    {#- This run continues a leftover state of the same kind and query. It replaces any other leftover state. -#}
    {%- set continues = left is none or left.committed.kind == how
        and not dbt_backfill.find_difference(backfill, missing.state.settings, missing.analysis, left.committed) -%}
    {%- set creation = dict(missing.state.committed, kind=how, sweeps=how == 'adopt', replaces=none if continues else left.committed.backfill_id) -%}
    {%- set partitions = [] -%}
    {%- if how == 'adopt' -%}
        {%- set checked = dbt_backfill.check_adopted(backfill, existing.mv, properties, columns, creation.key) -%}
        {%- set creation = dict(creation, mv_version=checked.version) -%}
        {%- set partitions, rows = checked.partitions, dbt_backfill.get_count_text(checked.row_count, 'row') -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ' adopts ' ~ mv ~ ': its ' ~ rows ~ (' is' if checked.row_count == 1 else ' are')
                ~ ' compared with its query' ~ dbt_backfill.get_slices_text(backfill.options.backfill_rate_limit)
                ~ ', and only what differs is written', info=true
        ) -%}
    {%- elif not existing.mv.is_view -%}
        {#- `create or replace` cannot change the format of a table, nor the location, which prepare_creation checks. This package does not drop the
            table, because a DROP TABLE that arrives late could drop the MV. It drops a view, because a late `drop view` cannot drop an MV. -#}
        {%- set format, wanted = dbt_backfill.get_table_format(existing.mv, backfill.mv) | lower, backfill.options.file_format -%}
        {%- if format != wanted -%}
            {%- do dbt_backfill.refuse(mv ~ ' is a table of the format ' ~ format ~ ', but ' ~ wanted ~ ' tables cannot replace it in one step',
                'Drop or rename that table, and run again', id='replace-other-format') -%}
        {%- endif -%}
    {%- endif -%}
    {%- if existing.mv.is_view -%}
        {%- set statements = ['drop view if exists ' ~ mv, dbt_backfill.get_create_mv_sql(backfill.mv, columns, creation.backfill_id)] -%}
    {%- else -%}
        {%- set taken = dbt_backfill.adopted_properties(backfill.mv, columns, properties, creation.backfill_id, partitions)
            if how == 'adopt' else dbt_backfill.own_mv_properties(backfill.mv, creation.backfill_id) -%}
        {%- set statements = [dbt_backfill.get_set_properties_sql(backfill.mv, taken)] -%}
    {%- endif -%}
    {%- do dbt_backfill.create_backfill(backfill, dict(missing.state, committed=creation), columns, statements) -%}
    {#- A view was replaced by a table above. -#}
    {%- set made = dbt_backfill.observe_existing(backfill, existing, found.settings, dbt_backfill.read_table_properties(backfill.mv)) -%}
    {{ return(dict(made, analysis=missing.analysis)) }}
{% endmacro %}


{#- Refuse to take over a table, because `<mv>__progress` is the state of another table. -#}
{% macro refuse_other_state(backfill) %}
    {%- do dbt_backfill.refuse(backfill.progress.render() ~ ' exists, but is the state of an earlier table with the name ' ~ backfill.mv.render(),
        'Drop the state and the history: ' ~ dbt_backfill.get_drop_text(backfill, keep_mv=true), mv=backfill.get('name'),
        id='state-of-earlier-table') -%}
{% endmacro %}


{#- Refuse a table that cannot become an MV with its rows, for reasons that do not depend on the model's query. `backfill`: the relations of the MV,
    'options': {'file_format'}, and 'name' outside of a run of the model. `tblproperties`: the model's option. -#}
{% macro check_adoptable(backfill, existing, properties, tblproperties) %}
    {%- set name, file_format = backfill.mv.render(), backfill.options.file_format -%}
    {%- if existing.is_view -%}
        {%- do dbt_backfill.refuse(name ~ ' is a view, which has no rows of its own to adopt',
            'Drop the view, or set replace_existing to true and run the model once with --full-refresh', mv=backfill.get('name'),
            id='adopt-a-view') -%}
    {%- endif -%}
    {%- set format = dbt_backfill.get_table_format(existing, backfill.mv) | lower -%}
    {%- do dbt_backfill.refuse_first([
        {'when': format != file_format, 'fact': name ~ ' is a table of the format ' ~ format ~ ', but file_format is ' ~ file_format,
         'id': 'adopt-other-format', 'change': "Set file_format='" ~ format ~ "'" if format in ['delta', 'iceberg']
            else 'Convert the table to Delta or Iceberg, or build the model under another alias'},
        {'when': properties.get('format-version') == '1' and tblproperties.get('format-version') | string not in ['2', '3'],
         'id': 'adopt-old-iceberg-format', 'fact': name ~ ' is an Iceberg table of format 1, in which single rows cannot be deleted',
         'change': "Set tblproperties={'format-version': '2'}: the table is upgraded when it is adopted"},
    ], mv=backfill.get('name')) -%}
{% endmacro %}


{#-
    Refuse a table whose columns differ from the query's columns in name, type or order. Refuse a table on which barriers would fail: for example,
    Spark merges no rows into a table with an identity column. Refuse a table with duplicate or null keys, which no MERGE could repair. The check of
    the keys takes one or two passes over the key columns. Return {'row_count': the table's number of rows, 'version': its version before the check of
    the keys, 'partitions': the names of its partition columns in lower case}. `columns`, `keys`: the query's columns and key.
-#}
{% macro check_adopted(backfill, existing, properties, columns, keys) %}
    {%- do dbt_backfill.check_adoptable(backfill, existing, properties, config.get('tblproperties') or {}) -%}
    {#- The version is read before the keys are checked. So the next barrier finds every later write as a foreign write. -#}
    {%- set version = dbt_backfill.read_version(backfill, 'mv') -%}
    {%- set name, present = backfill.mv.render(), dbt_backfill.get_table_columns(backfill.mv) -%}
    {%- set types = dbt_backfill.types_by_name(present) -%}
    {%- set described = dbt_backfill.run_table('describe ' ~ backfill.mv.identifier, 'describe table ' ~ name) -%}
    {#- A select returns a char(n) or varchar(n) as a string, and Delta also describes it as a string. -#}
    {%- for row in described -%} {%- if row[0] | lower in types and 'char(' in (row[1] or '') -%}
        {%- do types.update({row[0] | lower: row[1]}) -%}
    {%- endif -%} {%- endfor -%}
    {%- if 'string' in types.values() | join(' ') -%}
        {%- for column, char in dbt_backfill.find_char_columns([backfill.mv])[0].items() -%} {%- if 'string' in types.get(column, '') -%}
            {%- do types.update({column: dbt_backfill.type_with_char(types[column], char)}) -%}
        {%- endif -%} {%- endfor -%}
    {%- endif -%}
    {%- for column in columns if types.get(column.name | lower) != column.type -%}
        {%- set type = types.get(column.name | lower) -%}
        {%- do dbt_backfill.refuse(
            name ~ ' has no column ' ~ column.name ~ ', which its query returns' if type is none
                else name ~ ' has the column ' ~ column.name ~ ' of the type ' ~ type ~ ', but its query returns ' ~ column.type,
            'Add this column to the table as ' ~ column.type ~ ', or remove it from the query' if type is none
                else 'Cast the column in the query, or give the column of the table the type of the query', id='adopt-columns-differ') -%}
    {%- endfor -%}
    {%- set wanted = columns | map(attribute='name') | map('lower') | list -%}
    {%- for column in present if column.name | lower not in wanted -%}
        {%- do dbt_backfill.refuse(name ~ ' has the column ' ~ column.name ~ ', which its query does not return',
            'Select this column in the query, or drop it from the table', id='adopt-extra-column') -%}
    {%- endfor -%}
    {%- if present | map(attribute='name') | map('lower') | list != wanted -%}
        {%- do dbt_backfill.refuse(
            name ~ ' has its columns in the order ' ~ present | map(attribute='name') | join(', ') ~ ', but its query returns them in the order '
                ~ columns | map(attribute='name') | join(', '), 'Select the columns in the order of the table', id='adopt-column-order') -%}
    {%- endif -%}
    {%- set sql -%}
        explain extended
        merge into {{ name }} as mv
        using (
            {{ dbt_backfill.get_fence_over_no_rows_sql(columns, 'true') }}
        ) as changes
        on {{ dbt_backfill.equal_keys(keys, 'mv.', 'changes.') }}
        when matched then update set *
        when not matched then insert *
    {%- endset -%}
    {%- set error = dbt_backfill.find_plan_error(dbt_backfill.run_table('check that rows can be merged', sql)[0][0]) -%}
    {%- if error is not none -%}
        {%- do dbt_backfill.refuse(
            'Spark cannot merge the rows of the model into ' ~ name ~ ': ' ~ error, 'Change the table, or build the model under another alias',
            id='adopt-cannot-merge') -%}
    {%- endif -%}
    {%- set mv_keys, scan, change = dbt_backfill.get_mv_keys(keys), 'select * from ' ~ name, '; the barriers add the correct rows' -%}
    {%- set checked = dbt_backfill.run_json(
        'check the keys of ' ~ backfill.mv.identifier,
        'select to_json((' ~ dbt_backfill.get_key_check_sql(scan, '0', mv_keys, backfill.options.vnode_count, true, many=true) ~ '))'
    )[0] -%}
    {%- set key = mv_keys | map(attribute='name') | join(', ') -%}
    {%- if checked.null_keys -%}
        {%- do dbt_backfill.refuse(name ~ ' has ' ~ dbt_backfill.get_count_text(checked.null_keys, 'row') ~ ' with a null in ' ~ key,
            'Delete these rows from the table' ~ change, id='adopt-null-in-key') -%}
    {%- endif -%}
    {%- set twice = dbt_backfill.run_json('find the duplicate keys', dbt_backfill.get_duplicate_keys_sql(scan, mv_keys))
        if checked.duplicates else [] -%}
    {%- if twice -%}
        {%- do dbt_backfill.refuse(
            'the key ' ~ key ~ ' is not unique in ' ~ name ~ '; duplicate keys: ('
                ~ twice | map(attribute='key') | map('join', ', ') | join('), (') ~ ')',
            'Delete the rows of these keys from the table' ~ change, id='adopt-duplicate-keys') -%}
    {%- endif -%}
    {{ return({
        'row_count': checked.row_count, 'version': version,
        'partitions': dbt_backfill.find_partitions(described) | map('first') | map('lower') | list
            if backfill.options.file_format == 'delta' else [],
    }) }}
{% endmacro %}
