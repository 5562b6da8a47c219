{#-
    The columns by which the MV is partitioned. Delta keeps their values as text, in its log and in names of folders, and some come back as
    others: an empty text as null, and of an hour that the session's zone has twice only the first one. So each statement that brings rows
    into the MV raises an error on such a row. A statement that writes a file anew alters the rows in it that stay in the same way: so all
    barriers have one zone, see depends_on_zone. Iceberg keeps each value.
-#}


{#- Return the names in lower case, as the config has them: those of a table that this run creates. [] on Iceberg. -#}
{% macro get_configured_partitions() %}
    {%- set names = [] -%}
    {%- if dbt_backfill.get_file_format() == 'delta' -%}
        {%- for name in modules.re.findall('`(?:[^`]|``)+`|[^,`\\s]+', dbt_backfill.get_layout_columns('partition_by') | join(',')) -%}
            {%- do names.append((name[1:-1] | replace('``', '`') if name.startswith('`') else name) | lower) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(names) }}
{% endmacro %}


{#- Return the names that a table's properties list since it was created or adopted: the config may have others by the time rows come. -#}
{% macro read_partitions(properties) %}
    {{ return(fromjson(properties.get('dbt_backfill.partitions') or '[]')) }}
{% endmacro %}


{#- Return the names for a table that is not ours, by its description. -#}
{% macro find_partitions(described) %}
    {%- set names, at = [], namespace(inside=false) -%}
    {%- for row in described -%}
        {%- if row[0] and row[0].startswith('# ') -%}
            {%- set at.inside = row[0] == '# Partition Information' or at.inside and row[0] == '# col_name' -%}
        {%- elif row[0] and at.inside -%}
            {%- do names.append(row[0] | lower) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{#-
    Return a SQL expression over a row that the MV is to get: true of one that it keeps as it is, and an error for any other one. None
    where it keeps all.

    Arguments:
      backfill (dict): with 'partitions', see get_backfill.
      columns (list of {'name', 'type'}): of the row.
-#}
{% macro get_kept_predicate(backfill, columns, prefix='') %}
    {%- if backfill.options.file_format != 'delta' -%} {{ return(none) }} {%- endif -%}
    {%- set cases = [] -%}
    {%- for column in dbt_backfill._get_partition_columns(backfill, columns) -%}
        {%- set value, type = prefix ~ dbt_backfill.identifier(column.name), column.type -%}
        {%- set text = 'cast(' ~ value ~ ' as string)' -%}
        {%- set altered = {
            'string': text ~ " in ('', '__HIVE_DEFAULT_PARTITION__') or not is_valid_utf8(" ~ text ~ ')',
            'timestamp': 'not (try_cast(' ~ text ~ ' as timestamp_ltz) <=> ' ~ value ~ ')',
        }.get('string' if type in ['char', 'varchar', 'binary'] else type) -%}
        {%- if altered -%}
            {%- set fact = 'backfilled_mv ' ~ backfill.mv.identifier ~ ': its query returns the ' ~ type ~ " '" -%}
            {%- set shown = 'hex(' ~ value ~ ')' if type == 'binary' else text -%}
            {%- set change = "' in the column " ~ column.name ~ ', by which the MV is partitioned, and Delta would keep another value. Correct '
                ~ 'the row upstream; or let the query return another value there, or partition_by name another column, and rebuild with '
                ~ '--full-refresh.' -%}
            {%- do cases.append('when ' ~ altered ~ ' then raise_error(concat(' ~ dbt_backfill.string_literal(fact) ~ ', ' ~ shown ~ ', '
                ~ dbt_backfill.string_literal(change) ~ '))') -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return('case ' ~ cases | join(' ') ~ ' else true end' if cases else none) }}
{% endmacro %}


{#- Return those of the columns by which the table is partitioned; their types without what these have in brackets. -#}
{% macro _get_partition_columns(backfill, columns) %}
    {%- set partitions, found = backfill.get('partitions'), [] -%}
    {%- if partitions is none -%} {%- set partitions = dbt_backfill.get_configured_partitions() -%} {%- endif -%}
    {%- for column in columns if column.name | lower in partitions -%}
        {%- do found.append({'name': column.name, 'type': modules.re.split('[ (]', column.type)[0]}) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- True if what the table keeps depends on the zone of the session that writes it. -#}
{% macro depends_on_zone(backfill, columns) %}
    {{ return(backfill.options.file_format == 'delta'
        and 'timestamp' in dbt_backfill._get_partition_columns(backfill, columns) | map(attribute='type') | list) }}
{% endmacro %}


{#- Return get_kept_predicate over the columns of a plan's query, as one more condition of a source; '' where the MV keeps all. -#}
{% macro and_kept(backfill, plan, prefix='', unless=none) -%}
    {%- set kept = dbt_backfill.get_kept_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns), prefix) -%}
    {%- if not kept -%} {{ return('') }} {%- endif -%}
    {{ return('and ' ~ ('(' ~ unless ~ ' or ' ~ kept ~ ')' if unless else kept)) }}
{%- endmacro %}
