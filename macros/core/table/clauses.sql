{#- What says that a table is one of ours: whose, and of which format of the state. -#}
{% macro own_table_properties(backfill_id) %}
    {{ return({'dbt_backfill.id': backfill_id, 'dbt_backfill.format': dbt_backfill.state_format()}) }}
{% endmacro %}


{#-
    The same of the MV, with what exactness needs. Its name tells a copy of it, which has these too. As soon as a table has
    them it is no table any more that adopt_table has marked.
-#}
{% macro own_mv_properties(mv, backfill_id) %}
    {{ return(dict(
        dbt_backfill.exact_table_properties(), **dict(
            dbt_backfill.own_table_properties(backfill_id), **{'dbt_backfill.mv': mv.render(), 'dbt_backfill.adopt': ''}
        )
    )) }}
{% endmacro %}


{#-
    What a table gets that is adopted as an MV: what is ours and what exactness needs, the user's `tblproperties`, and of our
    defaults those that it has not set itself. Others may read the table, so it keeps its format: Iceberg's version and
    Delta's deletion vectors change only where `tblproperties` say so.

    Arguments:
      columns (list of {'name', 'type'}): of the table.
      present (dict): its properties.
      partitions (list): see find_partitions.
-#}
{% macro adopted_properties(mv, columns, present, backfill_id, partitions=[]) %}
    {%- set own = dbt_backfill.own_mv_properties(mv, backfill_id) -%}
    {%- set all = dict(dbt_backfill.mv_table_properties(columns | map(attribute='name') | list, backfill_id), **own) -%}
    {%- set given, adopted = config.get('tblproperties') or {}, {} -%}
    {%- for name, value in all.items() -%}
        {%- set is_default = name not in own and name not in given -%}
        {%- set of_a_new_table = modules.re.match(
            'format-version|delta\\.(enableDeletionVectors|columnMapping|feature|constraints)|dbt_backfill\\.', name
        ) -%}
        {%- set is_older = name == 'format-version' and value | int <= present.get(name, 0) | int -%}
        {%- if not is_older and not (is_default and (of_a_new_table or present.get(name))) -%}
            {%- do adopted.update({name: value}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for name in ['dbt_backfill.docs', 'dbt_backfill.reset', 'dbt_backfill.partitions'] if present.get(name) -%} {%- do adopted.update({name: ''}) -%} {%- endfor -%}
    {{ return(dict(adopted, **dbt_backfill.partition_properties(partitions))) }}
{% endmacro %}


{#-
    Properties of the MV: ours by default, the user's, and those that exactness needs. Another backfilled_mv can
    read it: by Delta's change data feed, or Iceberg's row lineage of format 3. Deletion vectors and merge-on-read
    make merging scattered changes cheap; without redistribution a range costs Iceberg little more than an INSERT.

    Arguments:
      column_names (list): of the columns and of the fields in them.
      types (list): of the columns.
      reset_id (string): see get_reset_id; none where it is created.
-#}
{% macro mv_table_properties(column_names, backfill_id, types=[], reset_id=none) %}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set properties = {'format-version': '3', 'write.merge.distribution-mode': 'none'} -%}
        {%- do properties.update(dbt_backfill.write_modes_of_iceberg('merge-on-read')) -%}
        {%- set needed = dbt_backfill.exact_table_properties() -%}
        {#- A table that is replaced keeps its properties, but not the comments on its columns: see apply_docs. -#}
        {%- do needed.update({'dbt_backfill.docs': '', 'dbt_backfill.reset': reset_id or ''}) -%}
    {%- else -%}
        {%- set properties = {'delta.enableChangeDataFeed': 'true', 'delta.enableDeletionVectors': 'true'} -%}
        {%- do properties.update(dbt_backfill.get_needed_features(column_names, types)) -%}
        {%- set needed = dbt_backfill.exact_table_properties() -%}
        {%- do needed.update(dbt_backfill.constraint_properties()) -%}
    {%- endif -%}
    {%- do properties.update(config.get('tblproperties') or {}) -%}
    {%- do properties.update(needed) -%}
    {%- do properties.update(dbt_backfill.own_table_properties(backfill_id)) -%}
    {{ return(properties) }}
{% endmacro %}


{% macro write_modes_of_iceberg(mode) %}
    {{ return({'write.merge.mode': mode, 'write.update.mode': mode, 'write.delete.mode': mode}) }}
{% endmacro %}


{#-
    What exactness needs of each table of an MV, whatever the user, the session or the catalog has for new tables.
    Under `snapshot` isolation two runs doubled a range; under write-audit-publish a session with `spark.wap.branch` or
    `spark.wap.id` writes where nobody reads; a table that takes any schema resolves no column of a MERGE; and a table
    that only allows appends takes no change.
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


{#- Properties without which Delta keeps no such columns: where a table is replaced, a feature has to be named. -#}
{% macro get_needed_features(column_names, types) %}
    {%- set properties = {'delta.columnMapping.mode': 'name'} if dbt_backfill.needs_column_mapping(column_names) else {} -%}
    {%- if 'timestamp_ntz' in types | join -%} {%- do properties.update({'delta.feature.timestampNtz': 'supported'}) -%} {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Refuse what the user set and the MV would be built with, to fail or to be inexact at its first change. -#}
{% macro check_table_properties() %}
    {%- set properties = config.get('tblproperties') or {} -%}
    {%- set exact = dbt_backfill.exact_table_properties() -%}
    {%- for name, value in properties.items()
            if name in exact and 'isolation' not in name and value | string | lower != exact[name] -%}
        {%- do dbt_backfill._refuse_property(name, value, exact[name]) -%}
    {%- endfor -%}
    {%- if dbt_backfill.get_file_format() != 'iceberg' -%} {{ return(none) }} {%- endif -%}
    {%- set modes = ['copy-on-write', 'merge-on-read'] -%}
    {%- set choices = {
        'write.merge.mode': modes, 'write.update.mode': modes, 'write.delete.mode': modes,
        'write.merge.distribution-mode': ['none', 'hash', 'range'], 'write.format.default': ['parquet', 'avro', 'orc'],
    } -%}
    {%- for name, value in properties.items() if value | string | lower not in choices.get(name, [value | string | lower]) -%}
        {%- do dbt_backfill._refuse_property(name, value, choices[name] | join(' or ')) -%}
    {%- endfor -%}
    {%- if properties.get('format-version') | string == '1' and properties.get('write.merge.mode') != 'copy-on-write' -%}
        {%- do dbt_backfill._refuse_property('format-version', 1, '2 or 3') -%}
    {%- endif -%}
{% endmacro %}


{% macro _refuse_property(name, value, expected) %}
    {%- do dbt_backfill.refuse(
        "its tblproperties have '" ~ name ~ "': '" ~ value ~ "', under which changes cannot be merged exactly",
        'Leave it out, or set it to ' ~ expected
    ) -%}
{% endmacro %}


{#- Delta keeps a name with one of these characters only under column mapping. -#}
{% macro needs_column_mapping(column_names) %}
    {{ return(modules.re.search('[ ,;{}()\\n\\t=]', column_names | join) is not none) }}
{% endmacro %}


{#- USING, LOCATION and TBLPROPERTIES of a table of an MV. -#}
{% macro table_clauses(relation, properties) -%}
    using {{ dbt_backfill.get_file_format() }}
    {%- if config.get('location_root') %}
    {{ dbt_backfill.location_root_clause(config.get('location_root'), relation) }}
    {%- endif %}
    tblproperties {{ dbt_backfill.property_list(properties) }}
{%- endmacro %}


{#- LOCATION of a table under `root`, the model's location_root; nothing where that is none. -#}
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


{#- The number of the state's format. Nothing that was made with another one is read. -#}
{% macro state_format() %}
    {{ return('2') }}
{% endmacro %}
