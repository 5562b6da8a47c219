{#- The key of a rebuild with the progress table's columns for its position. Only a full refresh may give it others. -#}
{% macro place_positions(backfill, state, key) %}
    {%- set columns = none -%}
    {%- if not dbt_backfill.has_shape_of(state.committed, key, backfill.options.vnode_count)
            or dbt_backfill.is_abandoned_reset(state.committed) -%}
        {%- set columns = dbt_backfill.read_progress_columns(backfill) -%}
    {%- endif -%}
    {{ return(dbt_backfill._with_positions(
        key, state.committed.key | map(attribute='position') | list if columns is none else [], columns
    )) }}
{% endmacro %}


{#- The key of a query with the columns of the committed plan for its position; where it is not that plan's, with new ones. -#}
{% macro keep_positions(key, committed) %}
    {%- set kept = [] -%}
    {%- for column in key -%}
        {%- set same = ((committed or {}).get('key') or []) | selectattr('upstream', 'equalto', column.upstream) | list -%}
        {%- do kept.append(same[0].position if same else none) -%}
    {%- endfor -%}
    {{ return(dbt_backfill._with_positions(key, kept)) }}
{% endmacro %}


{#- A key with these columns for its position, and where there is none with one that no other column of it has. -#}
{% macro _with_positions(key, positions, present=none) %}
    {%- set placed, taken = [], positions | select('string') | map('lower') | list -%}
    {%- for column in key -%}
        {%- set position = positions[loop.index0] if positions else none -%}
        {%- if position is none -%}
            {%- set position = dbt_backfill.get_position_column(column.upstream, column.type, present or {}, taken) -%}
            {%- do taken.append(position | lower) -%}
        {%- endif -%}
        {%- do placed.append(dict(column, position=position)) -%}
    {%- endfor -%}
    {{ return(placed) }}
{% endmacro %}


{#-
    The column of the progress table for a column of the key: the upstream's name, unless the table has it already, for
    itself, for another column of the key, or for a key of before a full refresh that had another type.

    Arguments:
      present (dict): names in lower case -> types of the columns that the table has, empty where it is made.
      taken (list): names in lower case that other columns of the key have.
-#}
{% macro get_position_column(upstream_column, type, present={}, taken=[]) %}
    {%- for number in range(100) -%}
        {%- set name = ['', 'pk_'][number] ~ upstream_column if number < 2 else 'pk' ~ number ~ '_' ~ upstream_column -%}
        {%- if name | lower not in dbt_backfill.progress_columns() and name | lower not in taken
                and present.get(name | lower, type) == type -%}
            {{ return(name) }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
