{#-
    Say what a backfill has before it, without writing anything: how many rows, in how many ranges and barriers, how many bytes each
    range reads, whether the ranges are to be read from a replica, and how many statements a barrier sends. What a run of the model
    would refuse is refused here, too.

    It reads what planning reads: at most one pass over the keys that are left.

    Usage:
      dbt run-operation explain_backfill --args '{model: my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
-#}
{% macro explain_backfill(model=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'explain_backfill') -%}
    {%- set name = dbt_backfill.get_model_name(node) -%}
    {%- do dbt_backfill.check_argument_names('explain_backfill', kwargs, ['model'], name) -%}
    {%- do dbt_backfill.speak_for(node) -%}
    {%- for line in dbt_backfill.get_explained_lines(node) -%} {%- do log(name ~ ': ' ~ line, info=true) -%} {%- endfor -%}
{% endmacro %}
