{#-
    Return the tables of an MV: {'mv', 'progress', 'barriers', 'controls', 'staged', 'replica', 'live'}, as relations. `state/` defines and
    reads their columns. The statements that move the progress are in barrier/ (plan_barrier, abandon, commit, kinds, fence); where vnodes
    have positions of their own, position/scans.sql and barrier/next_range.sql join it.

    `<mv>__progress` has one row per vnode and is the only truth: what is committed, and what is planned.
    `<mv>__barriers` has one row per committed barrier; it is for people, and nothing that decides reads it.
    `<mv>__controls` has what people have set for its backfill, if they have, see state/controls.sql.
    `<mv>__staged` has the rows that were read for the next barrier, of an upstream whose versions cannot be read again, see run_stage.
    `<mv>__replica` has a copy of what the query reads of the upstream, ordered by its key, see make_replica.
    `<mv>__live` is a view, if the model asks for it, see run_live_view.
-#}
{% macro get_relations(mv) %}
    {%- set relations = {'mv': mv} -%}
    {%- for name in ['progress', 'barriers', 'controls', 'staged', 'replica', 'live'] -%}
        {%- do relations.update({name: mv.incorporate(path={'identifier': mv.identifier ~ '__' ~ name})}) -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}


{#- Return the tables of the next generation of an MV, like get_relations; the MV's controls apply to it too. -#}
{% macro get_next_relations(mv) %}
    {{ return(dbt_backfill.get_relations(mv.incorporate(path={'identifier': mv.identifier ~ '__next'}))) }}
{% endmacro %}


{#- Return the names in get_relations of what is dropped, in this order: the state last. -#}
{% macro table_names() %}
    {{ return(['mv', 'barriers', 'controls', 'staged', 'replica', 'progress']) }}
{% endmacro %}


{#- Return those of the tables beside the MV, which are also what their identifiers end in. -#}
{% macro companion_names() %}
    {{ return(dbt_backfill.table_names() | reject('equalto', 'mv') | list) }}
{% endmacro %}


{#- Return those of these tables that exist, none for the others; by default of those that a run looks for. -#}
{% macro get_existing_relations(relations, names=['mv', 'progress', 'barriers']) %}
    {%- set existing = {} -%}
    {%- for name in names -%} {%- do existing.update({name: dbt_backfill.load_table(relations[name])}) -%} {%- endfor -%}
    {{ return(existing) }}
{% endmacro %}


{#-
    Return the columns that the progress table has for any key: {name: type}. The same in all rows are `epoch`, `dirty`,
    `upstream_version`, and the id and kind of the plan of the next epoch, null while nothing is planned. Only on the row of vnode 0, as
    JSON: `plan`, that plan (see plan_fields); `last`, the barrier that was committed last, with its outcome; `unwritten`, those before
    it that the history may not have yet.
-#}
{% macro progress_columns() %}
    {{ return({
        'vnode': 'int', 'epoch': 'bigint', 'backfill_finished': 'boolean', 'row_count': 'bigint', 'upstream_version': 'string',
        'dirty': 'boolean', 'plan_id': 'string', 'plan_kind': 'string', 'plan': 'string', 'last': 'string',
        'unwritten': 'array<string>',
    }) }}
{% endmacro %}


{#-
    Return the properties of a state table. Serializable isolation is what makes two runs that plan or commit one epoch conflict; it is
    the default of both formats and set explicitly, so that nothing depends on it. Both tables are small and copied on write, so that the
    progress table stays one file. Only the history's epochs have statistics: those that Delta gathers of the rest cost more than they save.

    Arguments:
      backfill_id (string): of the progress table's MV; none of the history. A full refresh may give the progress table other columns for
        the position, with any name and type of a key, so a Delta table has from the start what these need.
-#}
{% macro state_table_properties(backfill_id=none) %}
    {%- set properties, of_progress = dbt_backfill.exact_table_properties(), backfill_id is not none -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- do properties.update({'format-version': '2', 'write.metadata.delete-after-commit.enabled': 'true'}) -%}
        {%- do properties.update(dbt_backfill.write_modes_of_iceberg('copy-on-write')) -%}
    {%- else -%}
        {%- do properties.update({
            'delta.enableDeletionVectors': 'false', 'delta.enableChangeDataFeed': 'false',
            'delta.dataSkippingNumIndexedCols': '0' if of_progress else '1',
        }) -%}
        {%- if of_progress -%}
            {%- do properties.update({'delta.columnMapping.mode': 'name', 'delta.feature.timestampNtz': 'supported'}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if of_progress -%} {%- do properties.update(dbt_backfill.own_table_properties(backfill_id)) -%} {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Return the version that a table of an MV now has, as text; `none` of an Iceberg table without a snapshot. `relations` with 'options'. -#}
{% macro read_version(relations, table) %}
    {%- set relation = relations[table] -%}
    {%- if relations.options.file_format == 'iceberg' -%}
        {{ return(dbt_backfill.read_table_properties(relation).get('current-snapshot-id', 'none')) }}
    {%- endif -%}
    {{ return(dbt_backfill.run_table(
        'read the version of ' ~ relation.identifier, 'describe history ' ~ relation.render() ~ ' limit 1', relations.mv
    )[0]['version'] | string) }}
{% endmacro %}


{#- True if a table of the MV or state with this id, of its backfill, exists now. -#}
{% macro stands_with_id(relation, id) %}
    {{ return(dbt_backfill.find_table(relation) is not none
        and dbt_backfill.read_table_properties(relation).get('dbt_backfill.id') == id) }}
{% endmacro %}
