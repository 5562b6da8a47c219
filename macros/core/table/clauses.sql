{#- Return the properties that have the id of a table's backfill and the format of the state. -#}
{% macro own_table_properties(backfill_id) %}
    {{ return({'dbt_backfill.id': backfill_id, 'dbt_backfill.format': dbt_backfill.state_format()}) }}
{% endmacro %}


{#- Return the properties that this package sets on the MV, including the properties on which exactness depends. A copy of the MV has the same
    properties; it is recognized because one of the properties has the name of the MV. The properties also remove the mark that adopt_table has set on
    a table. -#}
{% macro own_mv_properties(mv, backfill_id) %}
    {%- set own = dict(dbt_backfill.own_table_properties(backfill_id), **{'dbt_backfill.mv': mv.render(), 'dbt_backfill.adopt': ''}) -%}
    {{ return(dict(dbt_backfill.exact_table_properties(), **own)) }}
{% endmacro %}


{#-
    Return the properties that a table gets when it is adopted: the package's own properties, the properties on which exactness depends, the user's
    `tblproperties`, and defaults for properties that the table does not set. Iceberg's format version and Delta's deletion vectors change only if
    `tblproperties` sets them, because other programs may read the table. `present`: the properties of the table; `partitions`: the names of the
    columns by which it is partitioned, in lower case.
-#}
{% macro adopted_properties(mv, columns, present, backfill_id, partitions=[]) %}
    {%- set own = dbt_backfill.own_mv_properties(mv, backfill_id) -%}
    {%- set all = dict(dbt_backfill.mv_table_properties(columns | map(attribute='name') | list, backfill_id), **own) -%}
    {%- set given, adopted = config.get('tblproperties') or {}, {} -%}
    {%- for name, value in all.items() -%}
        {%- set is_default = name not in own and name not in given -%}
        {%- set of_a_new_table = name.startswith((
            'format-version', 'delta.enableDeletionVectors', 'delta.columnMapping', 'delta.feature', 'delta.constraints', 'dbt_backfill.',
        )) -%}
        {%- set is_older = name == 'format-version' and value | int <= present.get(name, 0) | int -%}
        {%- if not is_older and not (is_default and (of_a_new_table or present.get(name))) -%} {%- do adopted.update({name: value}) -%} {%- endif -%}
    {%- endfor -%}
    {%- for name in ['dbt_backfill.docs', 'dbt_backfill.partitions'] if present.get(name) -%} {%- do adopted.update({name: ''}) -%} {%- endfor -%}
    {%- if partitions -%} {%- do adopted.update({'dbt_backfill.partitions': tojson(partitions)}) -%} {%- endif -%}
    {{ return(adopted) }}
{% endmacro %}


{#-
    Return the properties of a table that is created as the MV: the package's defaults, the user's properties, and the properties on which exactness
    depends. Another backfilled_mv can read the MV's changes from Iceberg's row lineage (format 3), or from Delta's change data feed, which only an MV
    with a follower has. Deletion vectors and merge-on-read make it cheap to merge scattered changes. A property stops Iceberg from redistributing
    rows before a write, so the MERGE of a range costs little more than an INSERT. `column_names`: the names of columns and their fields.
-#}
{% macro mv_table_properties(column_names, backfill_id, types=[]) %}
    {%- set needed = dbt_backfill.exact_table_properties() -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set mode = 'merge-on-read' -%}
        {%- set properties = {
            'format-version': '3', 'write.merge.distribution-mode': 'none',
            'write.merge.mode': mode, 'write.update.mode': mode, 'write.delete.mode': mode,
        } -%}
        {#- A table that is replaced keeps its properties but loses the comments on its columns, see apply_docs. -#}
        {%- do needed.update({'dbt_backfill.docs': ''}) -%}
    {%- else -%}
        {%- set properties = {'delta.enableDeletionVectors': 'true'} -%}
        {#- With the feed, a MERGE shuffles and writes all columns of the rows that it changes. -#}
        {%- if dbt_backfill.has_follower(model.unique_id) -%} {%- do properties.update({'delta.enableChangeDataFeed': 'true'}) -%} {%- endif -%}
        {%- do properties.update(dbt_backfill.get_needed_features(column_names, types)) -%}
        {#- The table is created together with its constraints, so that a crash cannot leave a table without them. A property lists the constraints of
            the contract. So when the contract changes, the constraints that the table's owner has added can stay. -#}
        {%- set constraints = dbt_backfill.get_constraints() -%}
        {%- for name, expression in constraints.items() -%} {%- do needed.update({'delta.constraints.' ~ name: expression}) -%} {%- endfor -%}
        {%- if constraints -%} {%- do needed.update({'dbt_backfill.constraints': tojson(constraints.keys() | list)}) -%} {%- endif -%}
    {%- endif -%}
    {%- for later in [config.get('tblproperties') or {}, needed, dbt_backfill.own_table_properties(backfill_id)] -%}
        {%- do properties.update(later) -%}
    {%- endfor -%}
    {{ return(properties) }}
{% endmacro %}


{#-
    Return the properties on which exactness depends, for every table of an MV. These properties override the properties that the user, the session or
    the catalog sets for new tables. With `snapshot` isolation, two runs could both write the same range. With write-audit-publish, a session that
    sets `spark.wap.branch` or `spark.wap.id` writes to a branch or a staged snapshot that no reader sees. If a table accepts any schema, a MERGE
    cannot resolve the table's columns. If a table only allows appends, changes cannot be merged.
-#}
{% macro exact_table_properties(file_format=none) %}
    {%- if (file_format or dbt_backfill.get_file_format()) != 'iceberg' -%}
        {{ return({'delta.isolationLevel': 'Serializable', 'delta.appendOnly': 'false'}) }}
    {%- endif -%}
    {%- set level = 'serializable' -%}
    {{ return({
        'write.merge.isolation-level': level, 'write.update.isolation-level': level, 'write.delete.isolation-level': level,
        'write.wap.enabled': 'false', 'write.spark.accept-any-schema': 'false',
    }) }}
{% endmacro %}


{#- Return the properties that Delta needs for columns with these names and types. Delta does not set them when it replaces a table. -#}
{% macro get_needed_features(column_names, types) %}
    {#- Delta allows a name with one of these characters only with column mapping. -#}
    {%- set properties = {'delta.columnMapping.mode': 'name'} if modules.re.search('[ ,;{}()\\n\\t=]', column_names | join) else {} -%}
    {%- if 'timestamp_ntz' in types | join -%} {%- do properties.update({'delta.feature.timestampNtz': 'supported'}) -%} {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Refuse `tblproperties` with which the MV could be built, but would fail or become inexact at its first change. -#}
{% macro check_table_properties() %}
    {%- set given, exact, refused = config.get('tblproperties') or {}, dbt_backfill.exact_table_properties(), [] -%}
    {%- for name, value in given.items() if name in exact and 'isolation' not in name and value | string | lower != exact[name] -%}
        {%- do refused.append((name, value, exact[name])) -%}
    {%- endfor -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set modes = ['copy-on-write', 'merge-on-read'] -%}
        {%- set choices = {
            'write.merge.mode': modes, 'write.update.mode': modes, 'write.delete.mode': modes,
            'write.merge.distribution-mode': ['none', 'hash', 'range'], 'write.format.default': ['parquet', 'avro', 'orc'],
        } -%}
        {%- for name, value in given.items() if value | string | lower not in choices.get(name, [value | string | lower]) -%}
            {%- do refused.append((name, value, choices[name] | join(' or '))) -%}
        {%- endfor -%}
        {%- if given.get('format-version') | string == '1' and given.get('write.merge.mode') != 'copy-on-write' -%}
            {%- do refused.append(('format-version', 1, '2 or 3')) -%}
        {%- endif -%}
    {%- endif -%}
    {%- for name, value, expected in refused -%}
        {%- do dbt_backfill.refuse("its tblproperties have '" ~ name ~ "': '" ~ value ~ "', so changes cannot be merged exactly",
            'Remove this property, or set it to ' ~ expected, id='tblproperties-inexact') -%}
    {%- endfor -%}
{% endmacro %}


{#- Return USING, LOCATION and TBLPROPERTIES of a table of an MV. -#}
{% macro table_clauses(relation, properties) -%}
    {#- A Delta table of a next generation has no location: DROP TABLE leaves the files there, and Delta creates no table where files are. -#}
    {%- set is_next = dbt_backfill.get_file_format() == 'delta' and relation.identifier.startswith(this.identifier ~ '__next') -%}
    using {{ dbt_backfill.get_file_format() }}
    {{ dbt_backfill.location_root_clause(none if is_next else config.get('location_root'), relation) }}
    tblproperties {{ dbt_backfill.property_list(properties) }}
{%- endmacro %}


{#- Return the LOCATION of a table under `root`, the model's location_root; empty if `root` is none. -#}
{% macro location_root_clause(root, relation) -%}
    {{ return('location ' ~ dbt_backfill.string_literal(root ~ '/' ~ relation.identifier) if root else '') }}
{%- endmacro %}


{% macro property_list(properties) -%}
    (
        {%- for name, value in properties.items() %}
        {{ dbt_backfill.string_literal(name) }} = {{ dbt_backfill.string_literal(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}


{% macro get_set_properties_sql(relation, properties) -%}
    alter table {{ relation.render() }} set tblproperties {{ dbt_backfill.property_list(properties) }}
{%- endmacro %}


{#-
    This part is about the columns by which the MV is partitioned. Delta stores the values of these columns as text, in its log and in names of
    folders. Delta reads two kinds of values back differently. An empty string becomes null. When clocks are set back, an hour occurs twice, and a
    time in the second hour becomes a time in the first hour. So each statement that writes new rows to the MV raises an error for such a row. A
    statement that rewrites a file in another time zone would alter unchanged rows in the same way. So all barriers use the same time zone, see
    analyze_query. Iceberg keeps each value.
-#}


{#- Return the names of the partition columns from the config, in lower case; [] on Iceberg. A table that this run creates has these partitions. -#}
{% macro get_configured_partitions() %}
    {%- set names = [] -%}
    {%- if dbt_backfill.get_file_format() == 'delta' -%}
        {%- for name in modules.re.findall('`(?:[^`]|``)+`|[^,`\\s]+', dbt_backfill.as_list(config.get('partition_by') or []) | join(',')) -%}
            {%- do names.append((name[1:-1] | replace('``', '`') if name.startswith('`') else name) | lower) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(names) }}
{% endmacro %}


{#- Return the rows of a table's description that describe its partitioning: the column's name, and on Iceberg the transform. -#}
{% macro find_partitions(described) %}
    {%- set found, headings = [], [''] -%}
    {%- for row in described if row[0] and row[0] != '# col_name' -%}
        {%- if row[0].startswith('# ') -%}
            {%- do headings.append(row[0]) -%}
        {%- elif headings[-1].startswith('# Partition') -%}
            {%- do found.append(row) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Return the number of the state's format. A state with another number is refused. -#}
{% macro state_format() %}
    {{ return('2') }}
{% endmacro %}
