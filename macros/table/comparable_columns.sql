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
