{#-
    Refuse columns that the MV's format does not take. It would do so only when the state stands already, or at the
    first row or change.

    Arguments:
      columns (list of {'name', 'type'}): as get_query_columns returned them.
      properties (dict): of the MV.
-#}
{% macro check_columns(columns, properties) %}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {%- for name in names if names.count(name) > 1 -%}
        {%- do dbt_backfill.refuse("its query returns the column '" ~ name ~ "' twice", 'Give the columns different names') -%}
    {%- endfor -%}
    {%- set feed = properties.get('delta.enableChangeDataFeed', 'false') | string | lower == 'true' -%}
    {%- for column in columns -%}
        {%- set reason = dbt_backfill._why_no_name(column.name | lower, feed) -%}
        {%- if reason -%}
            {%- do dbt_backfill.refuse(
                "its query returns the column '" ~ column.name ~ "', and " ~ reason, 'Give the column another name'
            ) -%}
        {%- endif -%}
        {%- set reason = dbt_backfill.why_no_type(column.type, properties) -%}
        {%- if reason -%}
            {%- do dbt_backfill.refuse(
                "its query returns the column '" ~ column.name ~ "' of the type " ~ column.type ~ ', and ' ~ reason,
                'Cast it to another type, or leave it out'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Why no table of the MV's format can have a column of this name; none if it can. -#}
{% macro _why_no_name(name, feed) %}
    {%- if name.startswith('__bf_') -%}
        {{ return('names that begin with __bf_ are those of the barriers') }}
    {%- elif dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- if name in ['_file', '_pos', '_deleted', '_spec_id', '_partition', '_row_id', '_last_updated_sequence_number'] -%}
            {{ return('Iceberg keeps this name for itself') }}
        {%- endif -%}
        {{ return('Iceberg takes no column without a name' if name == '' else none) }}
    {#- Of its own MERGE: fails with AMBIGUOUS_REFERENCE, once there is something to change. -#}
    {%- elif name in ['_metadata', '_row_id_', '_file_name_', '_row_dropped_', '_source_row_present_', '_target_row_present_'] -%}
        {{ return('Delta keeps this name for itself') }}
    {%- elif feed and name in ['_change_type', '_commit_version', '_commit_timestamp'] -%}
        {{ return('the change data feed of a Delta table keeps this name for itself') }}
    {#- INVALID_ATTRIBUTE_NAME_SYNTAX, in an UPDATE or MERGE. -#}
    {%- elif feed and '`' in name -%}
        {{ return('Delta cannot merge changes into such a table: '
            ~ 'a change data feed takes no backtick in the name of a column') }}
    {%- endif -%}
{% endmacro %}


{#- Why no table of the MV's format can have a column of this type; none if it can. -#}
{% macro why_no_type(type, properties) %}
    {%- set is_iceberg = dbt_backfill.get_file_format() == 'iceberg' -%}
    {%- set format = 'Iceberg' if is_iceberg else 'Delta' -%}
    {#- Without the names of fields, which may be called like types. -#}
    {%- set words = modules.re.sub('(?:`[^`]*`|[^<>,:`]+):', '', type) -%}
    {%- set refused = modules.re.search('\\b(interval|time|geometry|geography|object)\\b|struct<>', words) -%}
    {%- if refused -%}
        {{ return(format ~ ' has no ' ~ ('struct without fields' if refused.group() == 'struct<>' else refused.group())) }}
    {%- elif 'void' in words and (not is_iceberg or words != 'void') -%}
        {{ return(format ~ ' keeps no values without a type') }}
    {%- elif ' collate ' in words -%}
        {{ return(format ~ ' keeps no collation') }}
    {%- elif is_iceberg and (words == 'void' or 'variant' in words) and properties.get('format-version') | string in ['1', '2'] -%}
        {{ return('Iceberg has it from format 3 on') }}
    {%- endif -%}
{% endmacro %}


{#-
    Columns as they can be compared: {name: expression over `prefix`}. Spark compares neither maps nor variants, but it
    does compare the sorted entries of a map of comparable values, and the JSON of what holds one of these. It takes
    -0.0 for equal to 0.0; their texts differ, so a zero is compared by its text too, and what holds numbers as JSON.

    Arguments:
      columns (list of {'name', 'type'}): as get_query_columns returned them.
-#}
{% macro comparable_columns(columns, prefix='') %}
    {%- set comparable = {} -%}
    {%- for column in columns -%}
        {%- set name = prefix ~ dbt_backfill.identifier(column.name) -%}
        {%- set is_map = column.type.startswith('map<') -%}
        {%- set needs_json = modules.re.search('map<|variant|\\b(float|double)\\b', column.type[4 if is_map else 0:]) -%}
        {%- if column.type in ['float', 'double'] -%}
            {%- set name = "named_struct('value', " ~ name ~ ", 'zero', if(" ~ name ~ ' = 0, cast(' ~ name ~ ' as string), null))' -%}
        {%- elif is_map and needs_json -%}
            {%- set name = 'array_sort(transform(map_entries(' ~ name ~ '), entry -> to_json(entry, ' ~ dbt_backfill.whole_json_options() ~ ')))' -%}
        {%- elif needs_json -%}
            {%- set name = 'to_json(struct(' ~ name ~ '), ' ~ dbt_backfill.whole_json_options() ~ ')' -%}
        {%- elif is_map -%}
            {%- set name = 'array_sort(map_entries(' ~ name ~ '))' -%}
        {%- endif -%}
        {%- do comparable.update({column.name: name}) -%}
    {%- endfor -%}
    {{ return(comparable) }}
{% endmacro %}


{#- These columns under their own names, comma separated. -#}
{% macro get_compared_columns(columns) -%}
    {%- set compared = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns).items() -%}
        {%- do compared.append(column ~ ' as ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {{ return(compared | join(', ')) }}
{%- endmacro %}


{#- Options of to_json with which it shortens no time: its default is the millisecond. -#}
{% macro whole_json_options() %}
    {{ return("map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')") }}
{% endmacro %}


{#-
    Whether two rows of these columns differ. Of two variants nothing tells that they are equal: their JSON is the same of a number and
    of a decimal, of a date and of its text.
-#}
{% macro rows_differ(columns, left, right) -%}
    {%- if modules.re.search('\\bvariant\\b', columns | map(attribute='type') | join(' ')) -%} {{ return('true') }} {%- endif -%}
    {%- set rights = dbt_backfill.comparable_columns(columns, right ~ '.') -%}
    {%- set different = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(columns, left ~ '.').items() -%}
        {%- do different.append('not (' ~ column ~ ' <=> ' ~ rights[name] ~ ')') -%}
    {%- endfor -%}
    {{ return('(' ~ different | join(' or ') ~ ')') }}
{%- endmacro %}


{#-
    Refuse columns that the MV cannot get.

    Arguments:
      columns (list of {'name', 'type'}): that its query returns and the MV has not, as far as the state knows.
      left (list): the names of columns that a plan was to drop and may not have, see get_open_filling.
-#}
{% macro check_new_columns(mv, properties, columns, left) %}
    {%- if not columns -%} {{ return(none) }} {%- endif -%}
    {%- do dbt_backfill.check_columns(columns, properties) -%}
    {%- set types, left = dbt_backfill.get_column_types(mv), left | map('lower') | list -%}
    {%- for column in columns -%}
        {%- set is_left = column.name | lower in left and types.get(column.name | lower) == column.type -%}
        {%- if column.name | lower in types and not is_left -%}
            {%- do dbt_backfill.refuse(
                'its query returns the new column ' ~ column.name ~ ', and ' ~ mv.render() ~ ' has one already that is not of its query',
                'Drop that column of the table, or give the new one another name'
            ) -%}
        {%- elif dbt_backfill.needs_column_mapping([column.name]) and dbt_backfill.get_file_format() == 'delta'
                and properties.get('delta.columnMapping.mode', 'none') == 'none' -%}
            {%- do dbt_backfill.refuse(
                "its query returns the new column '" ~ column.name ~ "', and a Delta table without column mapping keeps no such name",
                'Give the column another name, or rebuild the MV with --full-refresh'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Columns that are to be filled, as new_filling describes them, and why an ALTER of the MV's format does not give one of them its
    type: {'columns', 'why': none if it does}. The table is asked for the type that it has: it may keep one as a wider one, and a
    plan that was given up may have altered it.

    Arguments:
      columns (list of {'name', 'type'}): of today's query.
      retyped (list): those of them to which the committed query gives another type.
-#}
{% macro find_widened(mv, columns, retyped) %}
    {%- if not columns -%} {{ return({'columns': [], 'why': none}) }} {%- endif -%}
    {%- set types, widened = dbt_backfill.get_column_types(mv), [] -%}
    {%- for column in columns -%}
        {%- set type = dbt_backfill.get_kept_type(column.type, dbt_backfill.get_file_format()) -%}
        {%- set was = types.get(column.name | lower, type) -%}
        {%- if dbt_backfill.can_widen(was, type) -%}
            {%- do widened.append(dict(column, was=was)) -%}
        {%- elif was != type and column in retyped -%}
            {{ return({'columns': [], 'why': column.name ~ ' has the type ' ~ column.type ~ ', and no ALTER of '
                ~ (dbt_backfill.get_file_format() | title) ~ ' makes it of ' ~ was}) }}
        {%- else -%}
            {%- do widened.append(column) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'columns': widened, 'why': none}) }}
{% endmacro %}


{#-
    Whether an ALTER of the MV's format makes one type of another, such that each value stays what it is: Iceberg's type
    promotion, or Delta's type widening.
-#}
{% macro can_widen(type, wider) %}
    {%- if [type, wider] in [['int', 'bigint'], ['float', 'double']] -%} {{ return(true) }} {%- endif -%}
    {%- set wholes, is_delta = ['tinyint', 'smallint', 'int', 'bigint'], dbt_backfill.get_file_format() == 'delta' -%}
    {%- if is_delta and type in wholes and wider in wholes -%} {{ return(wholes.index(type) < wholes.index(wider)) }} {%- endif -%}
    {%- if is_delta and type in wholes and wider == 'double' -%} {{ return(type != 'bigint') }} {%- endif -%}
    {%- set was, is = dbt_backfill._decimal_places(type), dbt_backfill._decimal_places(wider) -%}
    {%- if is_delta and type in wholes -%} {%- set was = {'whole': 20 if type == 'bigint' else 10, 'behind': 0} -%} {%- endif -%}
    {%- if not was or not is or type == wider -%} {{ return(false) }} {%- endif -%}
    {{ return(is.whole >= was.whole and (is.behind >= was.behind if is_delta else is.behind == was.behind)) }}
{% endmacro %}


{#- How many digits a decimal has before its point and behind it; none of another type. -#}
{% macro _decimal_places(type) %}
    {%- set places = modules.re.fullmatch('decimal\\((\\d+),(\\d+)\\)', type) -%}
    {%- if not places -%} {{ return(none) }} {%- endif -%}
    {{ return({'whole': places.group(1) | int - places.group(2) | int, 'behind': places.group(2) | int}) }}
{% endmacro %}


{#-
    Refuse columns that this table does not let be dropped or widened. On Delta both take a property that upgrades the
    table's protocol, so that others may no longer read it: that is the user's to decide.

    Arguments:
      columns (dict): {'fills', 'drops'}, see find_other_columns.
-#}
{% macro check_altered_columns(mv, properties, columns) %}
    {%- set changes = [] -%}
    {%- for name in columns.drops -%}
        {%- do changes.append({'name': name, 'words': 'no longer returns ' ~ name, 'widens': false}) -%}
    {%- endfor -%}
    {%- for column in columns.fills if column.get('was') -%}
        {%- set words = 'returns ' ~ column.name ~ ' as ' ~ column.type ~ ' and no longer as ' ~ column.was -%}
        {%- do changes.append({'name': column.name, 'words': words, 'widens': true}) -%}
    {%- endfor -%}
    {%- set layout = dbt_backfill._read_layout(mv, properties) if columns.drops else '' -%}
    {%- if dbt_backfill.is_redacted(layout) -%}
        {%- do dbt_backfill.refuse(
            'its query ' ~ changes[0].words ~ ', and Spark, which sees a secret in it, does not show by what ' ~ mv.render() ~ ' is sorted',
            'Undo the change, or rebuild the MV with --full-refresh'
        ) -%}
    {%- endif -%}
    {%- for change in changes -%}
        {%- do dbt_backfill._check_delta_allows(mv, properties, change) -%}
        {%- if not change.widens and dbt_backfill._names_column(layout, change.name) -%}
            {%- do dbt_backfill.refuse(
                'its query ' ~ change.words ~ ', by which ' ~ mv.render() ~ ' is partitioned, clustered or sorted',
                'Undo the change, or rebuild the MV with --full-refresh'
            ) -%}
        {%- endif -%}
        {%- for name, expression in dbt_backfill.read_constraints(properties).present.items()
                if dbt_backfill._names_column(expression, change.name) -%}
            {%- do dbt_backfill.refuse(
                'its query ' ~ change.words ~ ', on which ' ~ mv.render() ~ ' has the constraint ' ~ name ~ ' (' ~ expression ~ ')',
                'Drop the constraint: ALTER TABLE ' ~ mv.render() ~ ' DROP CONSTRAINT ' ~ dbt_backfill.identifier(name)
                    ~ ', or rebuild the MV with --full-refresh'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{#- `change`: {'name', 'words': what the query does, 'widens': whether the column is widened, and not dropped}. -#}
{% macro _check_delta_allows(mv, properties, change) %}
    {%- if dbt_backfill.get_file_format() != 'delta' -%} {{ return(none) }} {%- endif -%}
    {%- set name, value = ('delta.enableTypeWidening', 'true') if change.widens else ('delta.columnMapping.mode', 'name') -%}
    {%- if properties.get(name, 'none') | lower in ['none', 'false'] -%}
        {%- do dbt_backfill.refuse(
            'its query ' ~ change.words ~ ', and ' ~ mv.render() ~ ' lets no column be ' ~ ('widened' if change.widens else 'dropped')
                ~ ' without the Delta feature of ' ~ name,
            'If all that read the table know that feature: ALTER TABLE ' ~ mv.render() ~ " SET TBLPROPERTIES ('" ~ name ~ "' = '"
                ~ value ~ "'). Or rebuild the MV with --full-refresh"
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- By what the table is partitioned, clustered and sorted, and which columns identify its rows, as one text. -#}
{% macro _read_layout(mv, properties) %}
    {%- if dbt_backfill.get_file_format() == 'delta' -%}
        {%- set detail = dbt_backfill.run_table('describe ' ~ mv.identifier, 'describe detail ' ~ mv.render())[0] -%}
        {{ return(detail['partitionColumns'] ~ ' ' ~ detail['clusteringColumns']) }}
    {%- endif -%}
    {%- set parts = [properties.get('sort-order', ''), properties.get('identifier-fields', '')] -%}
    {%- set at = namespace(inside=false) -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ mv.identifier, 'describe table extended ' ~ mv.render()) -%}
        {%- if (row[0] or '').startswith('# ') or not row[0] -%}
            {%- set heading = modules.re.match('# (Partition|Metadata|Detailed)', row[0] or '') -%}
            {%- if heading -%} {%- set at.inside = heading.group(1) == 'Partition' -%} {%- endif -%}
        {%- elif at.inside -%}
            {%- do parts.append(row[0] ~ ' ' ~ (row[1] or '')) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(parts | join(' ')) }}
{% endmacro %}


{% macro _names_column(text, name) %}
    {{ return(modules.re.search('(?i)(?<!\\w)' ~ modules.re.escape(name) ~ '(?!\\w)', text) is not none) }}
{% endmacro %}
