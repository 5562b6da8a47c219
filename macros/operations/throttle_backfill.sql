{#-
    Set how many rows of the upstream a barrier of MVs reads, from the next one on, also of runs that are at work. It wins over
    `backfill_rate_limit` until it is lifted.

    Usage:
      dbt run-operation throttle_backfill --args '{model: my_mv, rows: 10000}'
      dbt run-operation throttle_backfill --args '{model: my_mv, rows: default}'

    Arguments:
      rows (integer or string): the number of rows, or `default` to lift it.
      The others: those of pause_backfill.
-#}
{% macro throttle_backfill(model=none, models=none, all=false, rows=none, by=none) %}
    {%- if rows != 'default' and (rows is not integer or rows < 1) -%}
        {%- do dbt_backfill.refuse_argument(
            'throttle_backfill', 'rows', rows, 'a whole number of 1 or more, or default. To read none: pause_backfill'
        ) -%}
    {%- endif -%}
    {%- set given = {'model': model, 'models': models, 'all': all, 'rows': rows, 'by': by} -%}
    {%- do dbt_backfill.run_controls('throttle_backfill', given, kwargs, 'rate_limit', rows | string, 'default') -%}
{% endmacro %}
