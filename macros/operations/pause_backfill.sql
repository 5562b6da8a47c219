{#-
    Have no more rows of the upstream read for MVs, from their next barrier on, also by runs that are at work. Changes are still
    merged, so each MV goes on being exact as far as it is filled.

    Usage:
      dbt run-operation pause_backfill --args '{model: my_mv}'
      dbt run-operation pause_backfill --args '{models: [my_mv, other_mv]}'
      dbt run-operation pause_backfill --args '{all: true}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
      models (list): several of them.
      all (boolean): all enabled MVs of the project.
      by (string): who says so, Spark's current user by default.
-#}
{% macro pause_backfill(model=none, models=none, all=false, by=none) %}
    {%- set given = {'model': model, 'models': models, 'all': all, 'by': by} -%}
    {%- do dbt_backfill.run_controls('pause_backfill', given, kwargs, 'pause', 'true', 'false') -%}
{% endmacro %}
