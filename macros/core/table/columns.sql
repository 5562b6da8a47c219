{#- Return the columns of a query, as a list of {'name', 'type'}. Spark prints a type without the quotes that names of fields need in SQL, and
    shortens a struct of more than 25 fields. This macro corrects both. -#}
{% macro get_query_columns(query) %}
    {%- set sql, columns = 'describe query\n' ~ query | trim | trim(';'), [] -%}
    {%- set rows = dbt_backfill.run_table('describe the query', sql) -%}
    {%- if ' more fields' in rows | map(attribute=1) | join(' ') -%}
        {%- do dbt_backfill.run_show_whole_types() -%}
        {%- set rows = dbt_backfill.run_table('describe the query', sql) -%}
    {%- endif -%}
    {%- for row in rows -%}
        {%- set type = modules.re.sub('(?<=[<,])(?![A-Za-z_][A-Za-z0-9_]*:)([^<>,:`]+)(?=:)', '`\\1`', row[1]) -%}
        {%- do columns.append({'name': row[0], 'type': type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return the columns of a table. dbt's own listing is not used, because it ends at the first column whose name begins with `#`. -#}
{% macro get_table_columns(relation) %}
    {{ return(dbt_backfill.get_query_columns('select * from ' ~ relation.render())) }}
{% endmacro %}


{#- Return the columns of the MV: the columns of its query in the form that barriers execute. Only this form defines the upstream's name. -#}
{% macro get_mv_columns(backfill, query, upstream) %}
    {{ return(dbt_backfill.get_query_columns(dbt_backfill.get_query_sql(query, backfill.upstream.relation, 'select * from ' ~ upstream))) }}
{% endmacro %}


{#- Return the columns that are not named in `names`, in upper or lower case. -#}
{% macro without_names(columns, names) %}
    {%- set names, left = (names or []) | map('lower') | list, [] -%}
    {%- for column in columns if column.name | lower not in names -%} {%- do left.append(column) -%} {%- endfor -%}
    {{ return(left) }}
{% endmacro %}


{#- Return the types of a table's columns: {name in lower case: type}. -#}
{% macro get_column_types(relation) %}
    {{ return(dbt_backfill.types_by_name(dbt_backfill.get_table_columns(relation))) }}
{% endmacro %}


{% macro types_by_name(columns) %}
    {%- set types = {} -%}
    {%- for column in columns -%} {%- do types.update({column.name | lower: column.type}) -%} {%- endfor -%}
    {{ return(types) }}
{% endmacro %}


{#- Return for each table the columns that contain a char(n): {name in lower case: the char(n)}. Spark pads the values of such a column with blanks,
    so the values differ from those of a string column. A select, and the description of a Delta table, show the type string. Only Spark's plan shows
    the padding. -#}
{% macro find_char_columns(relations) %}
    {%- set selects, found = [], [{}] -%}
    {%- for relation in relations -%} {%- do selects.append('select 1 from ' ~ relation.render()) -%} {%- endfor -%}
    {%- set plan = dbt_backfill.run_explain('look for char(n)', selects | join(' union all ')) -%}
    {%- for line in dbt_backfill.plan_section(plan, 'Analyzed')[1:] -%}
        {%- if dbt_backfill.plan_operator(line) == 'Relation' -%}
            {%- do found.append({}) -%}
        {%- elif 'readSidePadding(' in line -%}
            {%- for item in dbt_backfill.split_list(line.split('Project [', 1)[1][:-1]) if 'readSidePadding(' in item -%}
                {%- set lengths = [] -%}
                {%- for call in item.split('readSidePadding(')[1:] -%} {%- do lengths.append(call.split(')')[0].split(', ') | last) -%} {%- endfor -%}
                {%- set name = (item.split(' AS ') | last).rsplit('#', 1)[0] -%}
                {%- do found[-1].update({name | lower: 'char(' ~ lengths | join('), char(') ~ ')'}) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found[:-1] + [{}] * (relations | length)) }}
{% endmacro %}


{#- Return the described type of a column, together with the char(n) that find_char_columns has found in the column. -#}
{% macro type_with_char(type, char) %}
    {{ return(type if not char else char if type == 'string' else type ~ ' of ' ~ char) }}
{% endmacro %}


{#- Refuse columns that the MV's format does not support with these properties. Without this check, a run would fail later: after the state exists, or
    at the first row or change. `columns`: the result of get_query_columns. -#}
{% macro check_columns(columns, properties) %}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {%- for name in names if names.count(name) > 1 -%}
        {%- do dbt_backfill.refuse("its query returns the column '" ~ name ~ "' twice", 'Give the columns different names', id='column-twice') -%}
    {%- endfor -%}
    {%- set is_iceberg = dbt_backfill.get_file_format() == 'iceberg' -%}
    {#- A feed that is not set is switched on as soon as another backfilled_mv follows the MV, see run_switch_of_feed. -#}
    {%- set feed = not is_iceberg and properties.get('delta.enableChangeDataFeed', 'true') | string | lower == 'true' -%}
    {%- set of_feed = ['_change_type', '_commit_version', '_commit_timestamp'] -%}
    {%- set of_iceberg = ['_file', '_pos', '_deleted', '_spec_id', '_partition', '_row_id', '_last_updated_sequence_number'] -%}
    {#- Delta's MERGE uses these names itself. With a column of such a name, the MERGE would fail with AMBIGUOUS_REFERENCE at the first change. -#}
    {%- set of_delta = ['_metadata', '_row_id_', '_file_name_', '_row_dropped_', '_source_row_present_', '_target_row_present_'] -%}
    {%- for column in columns -%}
        {%- set name = column.name | lower -%}
        {#- With a backtick in a column's name, an UPDATE or MERGE would fail with INVALID_ATTRIBUTE_NAME_SYNTAX. -#}
        {%- set why = 'names that begin with __bf_ are reserved for barriers' if name.startswith('__bf_')
            else ('Iceberg' if is_iceberg else 'Delta') ~ ' reserves this name' if name in (of_iceberg if is_iceberg else of_delta)
            else 'Iceberg does not allow a column without a name' if is_iceberg and name == ''
            else 'the change data feed of a Delta table reserves this name' if feed and name in of_feed
            else 'the change data feed of a Delta table does not allow a backtick in the name of a column' if feed and '`' in name else none -%}
        {%- set why_not = dbt_backfill.why_no_type(column.type, properties) -%}
        {%- do dbt_backfill.refuse_first([
            {'id': 'column-name-unsupported', 'when': why, 'fact': "its query returns the column '" ~ column.name ~ "', but " ~ why,
             'change': 'Give the column another name'},
            {'when': why_not, 'fact': "its query returns the column '" ~ column.name ~ "' of the type " ~ column.type ~ ', but ' ~ why_not,
             'id': 'column-type-unsupported', 'change': 'Cast the column to another type, or remove it from the query'},
        ]) -%}
    {%- endfor -%}
{% endmacro %}


{#- Return why no table of the MV's format can have a column of this type; none if a table can have it. -#}
{% macro why_no_type(type, properties) %}
    {%- set is_iceberg = dbt_backfill.get_file_format() == 'iceberg' -%}
    {%- set format = 'Iceberg' if is_iceberg else 'Delta' -%}
    {#- The names of fields are left out, because a field may have the name of a type. -#}
    {%- set words = modules.re.sub('(?:`[^`]*`|[^<>,:`]+):', '', type) -%}
    {%- set refused = modules.re.search('\\b(interval|time|geometry|geography|object)\\b|struct<>', words) -%}
    {#- Spark prints the name of a field without quotes. So the name has a comma if no type follows the first part of the name, and it has a colon if
        two parts follow. -#}
    {%- set is_unclear = modules.re.search('struct<[^<>,:]*,|,[^<>,:()]+,|:[^<>,]*:', type) -%}
    {%- set is_newer = is_iceberg and (words == 'void' or 'variant' in words) and properties.get('format-version') | string in ['1', '2'] -%}
    {{ return(format ~ ' has no ' ~ refused.group() | replace('struct<>', 'struct without fields') if refused
        else format ~ ' cannot store values without a type' if 'void' in words and (not is_iceberg or words != 'void')
        else format ~ ' cannot store a collation' if ' collate ' in words
        else 'Iceberg supports this type only from format 3 on' if is_newer
        else 'the name of a field cannot have a comma or a colon' if is_unclear else none) }}
{% endmacro %}


{#-
    Return comparable expressions of columns: {name: expression over `prefix`}. Spark cannot compare maps and variants. So a map with comparable
    values is replaced by its sorted entries. Any other value that contains a map or variant is replaced by its JSON. For Spark -0.0 equals 0.0, but
    the two values have different texts. So a zero of the type float or double is also compared as text, and a value that contains a float or double
    is replaced by its JSON.
-#}
{% macro comparable_columns(columns, prefix='') %}
    {%- set comparable, options = {}, dbt_backfill.whole_json_options() -%}
    {%- for column in columns -%}
        {%- set name = prefix ~ dbt_backfill.identifier(column.name) -%}
        {%- set is_map = column.type.startswith('map<') -%}
        {%- set needs_json = modules.re.search('map<|variant|\\b(float|double)\\b', column.type[4 if is_map else 0:]) -%}
        {%- do comparable.update({column.name:
            "named_struct('value', " ~ name ~ ", 'zero', if(" ~ name ~ ' = 0, cast(' ~ name ~ ' as string), null))'
                if column.type in ['float', 'double']
            else 'array_sort(transform(map_entries(' ~ name ~ '), entry -> to_json(entry, ' ~ options ~ ')))' if is_map and needs_json
            else 'to_json(struct(' ~ name ~ '), ' ~ options ~ ')' if needs_json
            else 'array_sort(map_entries(' ~ name ~ '))' if is_map else name
        }) -%}
    {%- endfor -%}
    {{ return(comparable) }}
{% endmacro %}


{#- Return the expressions of comparable_columns under the columns' own names, comma separated. -#}
{% macro get_compared_columns(columns) -%}
    {%- set compared = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns).items() -%}
        {%- do compared.append(column ~ ' as ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {{ return(compared | join(', ')) }}
{%- endmacro %}


{#- Return a SQL expression that is true if two rows of these columns differ. Rows with a variant always count as different, because different
    variants may have the same JSON. An example is a date and the string of this date. -#}
{% macro rows_differ(columns, left, right) -%}
    {%- if modules.re.search('\\bvariant\\b', columns | map(attribute='type') | join(' ')) -%} {{ return('true') }} {%- endif -%}
    {%- set rights, different = dbt_backfill.comparable_columns(columns, right ~ '.'), [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns, left ~ '.').items() -%}
        {%- do different.append('not (' ~ column ~ ' <=> ' ~ rights[name] ~ ')') -%}
    {%- endfor -%}
    {{ return('(' ~ different | join(' or ') ~ ')') }}
{%- endmacro %}


{#- Refuse new columns of the query if the MV cannot get them. `left`: the names of columns that a given-up plan may not have dropped. -#}
{% macro check_new_columns(mv, properties, columns, left) %}
    {%- if not columns -%} {{ return(none) }} {%- endif -%}
    {%- do dbt_backfill.check_columns(columns, properties) -%}
    {%- set types, left = dbt_backfill.get_column_types(mv), left | map('lower') | list -%}
    {%- for column in columns -%}
        {%- set name = column.name | lower -%}
        {%- do dbt_backfill.refuse_first([
            {'when': name in types and not (name in left and types[name] == column.type),
             'id': 'new-column-exists', 'fact': 'its query returns the new column ' ~ column.name ~ ', but ' ~ mv.render()
                ~ ' already has a column of this name that is not from the query',
             'change': 'Drop that column of the table, or give the new column another name'},
            {'id': 'new-column-name', 'when': dbt_backfill.get_file_format() == 'delta' and dbt_backfill.get_needed_features([column.name], [])
                and properties.get('delta.columnMapping.mode', 'none') == 'none',
             'fact': "its query returns the new column '" ~ column.name ~ "', but a Delta table without column mapping does not allow that name",
             'change': 'Give the column another name, or rebuild the MV with --full-refresh'},
        ]) -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Return {'columns': the columns to be filled, as new_filling describes them, 'why': the reason if no ALTER of the MV's format can give a column its
    new type; else none}. The new types are compared with the types in the table and not in the state. The table may store a column with a wider type,
    and a given-up plan may have altered the column. `columns`: the columns of the model's current query; `retyped`: those that have another type in
    the committed query.
-#}
{% macro find_widened(mv, columns, retyped) %}
    {%- if not columns -%} {{ return({'columns': [], 'why': none}) }} {%- endif -%}
    {%- set file_format, types, widened = dbt_backfill.get_file_format(), dbt_backfill.get_column_types(mv), [] -%}
    {%- for column in columns -%}
        {%- set type = dbt_backfill.get_kept_type(column.type, file_format) -%}
        {%- set was = types.get(column.name | lower, type) -%}
        {%- set widens = dbt_backfill.can_widen(was, type) -%}
        {%- if not widens and was != type and column in retyped -%}
            {%- set why = 'no ALTER of ' ~ file_format | title ~ ' can change ' ~ column.name ~ ' from ' ~ was ~ ' to ' ~ column.type -%}
            {{ return({'columns': [], 'why': why}) }}
        {%- endif -%}
        {%- do widened.append(dict(column, was=was) if widens else column) -%}
    {%- endfor -%}
    {{ return({'columns': widened, 'why': none}) }}
{% endmacro %}


{#- True if an ALTER can change `type` to `wider` without changing any value: by Iceberg's type promotion, or by Delta's type widening. -#}
{% macro can_widen(type, wider) %}
    {%- if [type, wider] in [['int', 'bigint'], ['float', 'double']] -%} {{ return(true) }} {%- endif -%}
    {%- set wholes, is_delta, decimal = ['tinyint', 'smallint', 'int', 'bigint'], dbt_backfill.get_file_format() == 'delta', type -%}
    {%- if is_delta and type in wholes -%}
        {%- if wider in wholes -%} {{ return(wholes.index(type) < wholes.index(wider)) }} {%- endif -%}
        {%- if wider == 'double' -%} {{ return(type != 'bigint') }} {%- endif -%}
        {%- set decimal = 'decimal(20,0)' if type == 'bigint' else 'decimal(10,0)' -%}
    {%- endif -%}
    {%- set digits = modules.re.findall('^decimal\\((\\d+),(\\d+)\\) decimal\\((\\d+),(\\d+)\\)$', decimal ~ ' ' ~ wider) -%}
    {%- if not digits or type == wider -%} {{ return(false) }} {%- endif -%}
    {%- set precision, scale, wider_precision, wider_scale = digits[0] | map('int') | list -%}
    {{ return(wider_precision - wider_scale >= precision - scale and (wider_scale >= scale if is_delta else wider_scale == scale)) }}
{% endmacro %}


{#- Refuse columns that cannot be dropped or widened in this table. On Delta, dropping and widening each need a property that upgrades the table's
    protocol. Other readers may be unable to read the table after the upgrade. So the user has to set the property. `columns`: {'fills', 'drops'}, see
    find_other_columns. -#}
{% macro check_altered_columns(mv, properties, columns) %}
    {%- set changes, table, undo = [], mv.render(), 'Undo the change, or rebuild the MV with --full-refresh' -%}
    {%- for name in columns.drops -%}
        {%- set does = 'no longer returns ' ~ name -%}
        {%- do changes.append({'name': name, 'does': does, 'done': 'dropped', 'property': 'delta.columnMapping.mode', 'value': 'name'}) -%}
    {%- endfor -%}
    {%- for column in columns.fills if column.get('was') -%}
        {%- set does = 'returns ' ~ column.name ~ ' as ' ~ column.type ~ ' instead of ' ~ column.was -%}
        {%- do changes.append({'name': column.name, 'does': does, 'done': 'widened', 'property': 'delta.enableTypeWidening', 'value': 'true'}) -%}
    {%- endfor -%}
    {#- `layout` has all columns by which the table is partitioned, clustered or sorted, and the columns that identify its rows. -#}
    {%- set layout = [] -%}
    {%- if columns.drops and dbt_backfill.get_file_format() == 'delta' -%}
        {%- set detail = dbt_backfill.run_table('describe ' ~ mv.identifier, 'describe detail ' ~ table)[0] -%}
        {%- do layout.extend([detail['partitionColumns'], detail['clusteringColumns']]) -%}
    {%- elif columns.drops -%}
        {%- do layout.extend([properties.get('sort-order', ''), properties.get('identifier-fields', '')]) -%}
        {%- set described = dbt_backfill.run_table('describe ' ~ mv.identifier, 'describe table extended ' ~ table) -%}
        {%- for row in dbt_backfill.find_partitions(described) -%} {%- do layout.append(row[0] ~ ' ' ~ (row[1] or '')) -%} {%- endfor -%}
        {%- set present = dbt_backfill.get_table_columns(mv) | map(attribute='name') | list -%}
        {%- do dbt_backfill.run_check_of_lost_partitions(mv, present | reject('in', columns.drops) | list) -%}
    {%- endif -%}
    {%- set layout = layout | join(' ') -%}
    {%- if dbt_backfill.is_redacted(layout) -%}
        {%- do dbt_backfill.refuse('its query ' ~ changes[0].does ~ ', but Spark hides whether ' ~ table ~ ' is sorted by this column',
            undo, id='sort-order-hidden') -%}
    {%- endif -%}
    {%- for change in changes -%}
        {%- set word = '(?i)(?<!\\w)' ~ modules.re.escape(change.name) ~ '(?!\\w)' -%}
        {%- do dbt_backfill.refuse_first([
            {'when': dbt_backfill.get_file_format() == 'delta' and properties.get(change.property, 'none') | lower in ['none', 'false'],
             'fact': 'its query ' ~ change.does ~ ', but a column of ' ~ table ~ ' can be ' ~ change.done ~ ' only with the Delta feature of '
                ~ change.property, 'id': 'column-feature-missing',
             'change': 'If all readers of the table support that feature: ALTER TABLE ' ~ table ~ " SET TBLPROPERTIES ('" ~ change.property ~ "' = '"
                ~ change.value ~ "'). Or rebuild the MV with --full-refresh"},
            {'id': 'column-used-by-layout', 'when': change.done == 'dropped' and modules.re.search(word, layout),
             'fact': 'its query ' ~ change.does ~ ', but ' ~ table ~ ' is partitioned, clustered or sorted by this column', 'change': undo},
        ]) -%}
        {%- for property, expression in properties.items() if property.startswith('delta.constraints.') and modules.re.search(word, expression) -%}
            {%- set name = property[18:] -%}
            {%- do dbt_backfill.refuse(
                'its query ' ~ change.does ~ ', but ' ~ table ~ ' has the constraint ' ~ name ~ ' (' ~ expression ~ ') on this column',
                'Drop the constraint: ALTER TABLE ' ~ table ~ ' DROP CONSTRAINT ' ~ dbt_backfill.identifier(name)
                    ~ ', or rebuild the MV with --full-refresh', id='column-used-by-constraint') -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Refuse a query without a column by which an Iceberg table is partitioned or was partitioned earlier. Iceberg keeps all earlier partitionings of a
    table, even after the table was replaced. If the column of a partitioning is missing, Iceberg cannot merge rows into the table.

    The metadata table `files` has the fields of all partitionings. By default the name of a field is the name of its column, or begins with this
    name. If the name of a field begins with no column that is kept, the field may belong to a missing column, so the query is refused. `kept`: the
    names of the columns that the table will have.
-#}
{% macro run_check_of_lost_partitions(mv, kept) %}
    {%- set kept, lost, fields = kept | map('lower') | list, [], [] -%}
    {%- for column in dbt_backfill.get_table_columns(mv) if column.name | lower not in kept -%} {%- do lost.append(column.name) -%} {%- endfor -%}
    {%- if not lost -%} {{ return(none) }} {%- endif -%}
    {%- set described = dbt_backfill.run_table('describe the partitions of ' ~ mv.identifier, 'describe ' ~ mv.render() ~ '.files') -%}
    {%- for row in described if row[0] == 'partition' -%}
        {%- for field in modules.re.findall('[<,]`?([^:`]+)`?:', row[1]) -%} {%- do fields.append(field | lower) -%} {%- endfor -%}
    {%- endfor -%}
    {%- for field in fields -%}
        {%- set of_kept, of_lost = [], [] -%}
        {%- for name in kept -%} {%- if (field ~ '_').startswith(name ~ '_') -%} {%- do of_kept.append(name) -%} {%- endif -%} {%- endfor -%}
        {%- for name in lost -%} {%- if (field ~ '_').startswith(name | lower ~ '_') -%} {%- do of_lost.append(name) -%} {%- endif -%} {%- endfor -%}
        {%- if of_lost or not of_kept -%}
            {%- do dbt_backfill.refuse(
                'its query no longer returns ' ~ lost | join(', ') ~ ', but ' ~ mv.render() ~ ' is, or was earlier, partitioned by the field ' ~ field
                    ~ ', and without the column of this field Iceberg cannot merge rows into the table',
                'Undo the change, or drop the table (drop an MV with the run-operation drop_backfill) and run again', id='partition-column-dropped'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
