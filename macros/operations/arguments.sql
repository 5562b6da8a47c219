{#-
    Refuse arguments that an operation does not have.

    Arguments:
      unknown: the names that were given beside its own.
      known (list): its own.
-#}
{% macro check_argument_names(operation, unknown, known, mv) %}
    {%- for argument in unknown -%}
        {%- do dbt_backfill.refuse(
            operation ~ " has no argument '" ~ argument ~ "'",
            ('Its only argument is ' if known | length == 1 else 'Its arguments are ') ~ known | join(', '), mv=mv
        ) -%}
    {%- endfor -%}
{% endmacro %}


{#- The same of drop_backfill. One of model and mv names what is dropped. -#}
{% macro check_drop_arguments(given, unknown) %}
    {%- set name = given.model or given.mv or 'drop_backfill' -%}
    {%- do dbt_backfill.check_argument_names('drop_backfill', unknown, given.keys() | list, name) -%}
    {%- if (given.model is none) == (given.mv is none) -%}
        {%- do dbt_backfill.refuse(
            'neither model nor mv is given' if given.model is none else 'both model and mv are given',
            "Name one MV: --args '{model: my_mv}', or, if its model is gone, --args '{mv: my_schema.my_mv}'",
            mv='drop_backfill'
        ) -%}
    {%- elif given.model is not none and (given.model is not string or not given.model) -%}
        {%- do dbt_backfill._refuse_argument('drop_backfill', 'model', given.model, 'the name of one model') -%}
    {%- elif given.mv is not none and (given.mv is not string or dbt_backfill.parse_relation(given.mv | trim) is none) -%}
        {%- do dbt_backfill._refuse_argument('drop_backfill', 'mv', given.mv, 'one table with its schema, such as my_schema.my_mv') -%}
    {%- elif given.keep_mv is not boolean -%}
        {%- do dbt_backfill._refuse_argument(name, 'keep_mv', given.keep_mv, 'true or false') -%}
    {%- elif given.generation not in [none, 'next'] -%}
        {%- do dbt_backfill._refuse_argument(name, 'generation', given.generation, 'next, or leave it out') -%}
    {%- elif given.generation and given.keep_mv -%}
        {%- do dbt_backfill._refuse_argument(name, 'keep_mv', true, 'false: the MV stays anyway where only its next generation is dropped') -%}
    {%- endif -%}
{% endmacro %}


{#- The same of rescale_backfill. -#}
{% macro check_rescale_arguments(name, vnode_count, unknown) %}
    {%- do dbt_backfill.check_argument_names('rescale_backfill', unknown, ['model', 'vnode_count'], name) -%}
    {%- if vnode_count is not integer or not 1 <= vnode_count <= 32768 -%}
        {%- do dbt_backfill._refuse_argument(name, 'vnode_count', vnode_count, 'a whole number of 1 to 32768') -%}
    {%- endif -%}
{% endmacro %}


{% macro _refuse_argument(name, argument, value, expected) %}
    {%- do dbt_backfill.refuse(argument ~ ' is ' ~ tojson(value, value | string), 'Set it to ' ~ expected, mv=name) -%}
{% endmacro %}
