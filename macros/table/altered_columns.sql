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
