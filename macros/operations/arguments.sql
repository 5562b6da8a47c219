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


{% macro refuse_argument(name, argument, value, expected) %}
    {%- do dbt_backfill.refuse(argument ~ ' is ' ~ tojson(value, value | string), 'Set it to ' ~ expected, mv=name) -%}
{% endmacro %}
