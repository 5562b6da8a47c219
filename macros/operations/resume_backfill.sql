{#-
    Lift what pause_backfill has set: a throttle rules again, or the config.

    Usage:
      dbt run-operation resume_backfill --args '{model: my_mv}'

    Arguments: those of pause_backfill.
-#}
{% macro resume_backfill(model=none, models=none, all=false, by=none) %}
    {%- set given = {'model': model, 'models': models, 'all': all, 'by': by} -%}
    {%- do dbt_backfill.run_controls('resume_backfill', given, kwargs, 'pause', 'false', 'false') -%}
{% endmacro %}
