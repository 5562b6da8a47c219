{#-
    The three tables of an MV: {'mv', 'progress', 'barriers'}, as relations.

    `<mv>__progress` has one row per vnode and is the only truth about what is committed; `<mv>__barriers`
    has one row per plan. `state/` is the only place that knows their columns.
-#}
{% macro get_relations(mv) %}
    {{ return({
        'mv': mv,
        'progress': mv.incorporate(path={'identifier': mv.identifier ~ '__progress'}),
        'barriers': mv.incorporate(path={'identifier': mv.identifier ~ '__barriers'}),
    }) }}
{% endmacro %}


{#- Which of them exist. -#}
{% macro get_existing_relations(relations) %}
    {%- set existing = {} -%}
    {%- for name, relation in relations.items() -%}
        {%- do existing.update({name: dbt_backfill.load_table(relation)}) -%}
    {%- endfor -%}
    {{ return(existing) }}
{% endmacro %}


{#- The columns of the progress table that it has whatever the key is. -#}
{% macro progress_columns() %}
    {{ return(['vnode', 'backfill_finished', 'row_count', 'epoch', 'upstream_version', 'dirty', 'backfill_id']) }}
{% endmacro %}


{#- The progress table's column for a key column: the upstream's name, unless the table has it already. -#}
{% macro position_column(upstream_column) %}
    {{ return(('pk_' if upstream_column | lower in dbt_backfill.progress_columns() else '') ~ upstream_column) }}
{% endmacro %}


{% macro position_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(dbt_backfill.position_column(key.upstream))) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The columns of the upstream's key, quoted, each with `prefix` in front. -#}
{% macro upstream_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.upstream)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The columns of the MV that carry the key, quoted, each with `prefix` in front. -#}
{% macro mv_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.name)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}
