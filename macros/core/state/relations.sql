{#-
    The tables of an MV: {'mv', 'progress', 'barriers', 'controls', 'staged', 'replica', 'live'}, as relations.

    `<mv>__progress` has one row per vnode and is the only truth: what is committed, and what is planned.
    `<mv>__barriers` has one row per committed barrier; it is for people, and nothing that decides reads it.
    `<mv>__controls` has what people have set for its backfill, if they have, see controls_columns.
    `<mv>__staged` has the rows that were read for the next barrier, of an upstream whose versions cannot be read again, see run_stage.
    `<mv>__replica` has a copy of what the query reads of the upstream, ordered by its key, see make_replica.
    `<mv>__live` is a view, if the model asks for it, see run_live_view.
    `state/` is the only place that knows their columns.
-#}
{% macro get_relations(mv) %}
    {{ return({
        'mv': mv,
        'progress': mv.incorporate(path={'identifier': mv.identifier ~ '__progress'}),
        'barriers': mv.incorporate(path={'identifier': mv.identifier ~ '__barriers'}),
        'controls': mv.incorporate(path={'identifier': mv.identifier ~ '__controls'}),
        'staged': mv.incorporate(path={'identifier': mv.identifier ~ '__staged'}),
        'replica': mv.incorporate(path={'identifier': mv.identifier ~ '__replica'}),
        'live': mv.incorporate(path={'identifier': mv.identifier ~ '__live'}),
    }) }}
{% endmacro %}


{#- The tables of the next generation of an MV, as get_relations returns them; the MV's controls rule it too. -#}
{% macro get_next_relations(mv) %}
    {{ return(dbt_backfill.get_relations(mv.incorporate(path={'identifier': mv.identifier ~ '__next'}))) }}
{% endmacro %}


{#- What get_relations has, in the order in which they are dropped: the state last. -#}
{% macro table_names() %}
    {{ return(['mv', 'barriers', 'controls', 'staged', 'replica', 'progress']) }}
{% endmacro %}


{#- Those that stand beside the MV, by what their names end in. -#}
{% macro companion_names() %}
    {{ return(dbt_backfill.table_names() | reject('equalto', 'mv') | list) }}
{% endmacro %}


{#- Which of them exist; by default of those that a run looks for. -#}
{% macro get_existing_relations(relations, names=['mv', 'progress', 'barriers']) %}
    {%- set existing = {} -%}
    {%- for name in names -%}
        {%- do existing.update({name: dbt_backfill.load_table(relations[name])}) -%}
    {%- endfor -%}
    {{ return(existing) }}
{% endmacro %}


{#-
    The columns of the progress table that it has whatever the key is: {name: type}. The same in all rows are `epoch`,
    `dirty`, `upstream_version`, and the id and kind of the plan of the next epoch, null while nothing is planned. Only on
    the row of vnode 0, as JSON: `plan`, that plan (see plan_fields); `last`, the barrier that was committed last, with
    what became of it; `unwritten`, those before it that the history may not have yet.
-#}
{% macro progress_columns() %}
    {{ return({
        'vnode': 'int', 'epoch': 'bigint', 'backfill_finished': 'boolean', 'row_count': 'bigint', 'upstream_version': 'string',
        'dirty': 'boolean', 'plan_id': 'string', 'plan_kind': 'string', 'plan': 'string', 'last': 'string',
        'unwritten': 'array<string>',
    }) }}
{% endmacro %}


{#- The columns that the table has: {name in lower case: type}. -#}
{% macro read_progress_columns(relations) %}
    {{ return(dbt_backfill.get_column_types(relations.progress)) }}
{% endmacro %}


{#- The version that one of the tables of an MV now has, as text; `none` of an Iceberg table without a snapshot. `relations` with 'options'. -#}
{% macro read_version(relations, table) %}
    {%- set relation = relations[table] -%}
    {%- if relations.options.file_format == 'iceberg' -%} {{ return(dbt_backfill._get_snapshot(dbt_backfill.read_table_properties(relation))) }} {%- endif -%}
    {{ return(dbt_backfill.run_table(
        'read the version of ' ~ relation.identifier, 'describe history ' ~ relation.render() ~ ' limit 1', relations.mv
    )[0]['version'] | string) }}
{% endmacro %}


{#- {'version': as read_version tells it, 'properties'}: of that version, or of a later one. -#}
{% macro read_version_and_properties(relations, table) %}
    {%- set version = none if relations.options.file_format == 'iceberg' else dbt_backfill.read_version(relations, table) -%}
    {%- set properties = dbt_backfill.read_table_properties(relations[table]) -%}
    {{ return({'version': version or dbt_backfill._get_snapshot(properties), 'properties': properties}) }}
{% endmacro %}


{% macro _get_snapshot(properties) %}
    {{ return(properties.get('current-snapshot-id', 'none')) }}
{% endmacro %}


{#- Whether a table of the MV or state with this id, of its backfill, stands there now. -#}
{% macro stands_with_id(relation, id) %}
    {%- set found = dbt_backfill.find_table(relation) -%}
    {{ return(found is not none and dbt_backfill.read_table_properties(relation).get('dbt_backfill.id') == id) }}
{% endmacro %}
