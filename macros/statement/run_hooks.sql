{#-
    Run the hooks of a model, also those that are to run outside of a transaction (`before_begin`, `after_commit`). Spark
    has no transactions, and dbt-spark's own materializations leave such hooks out without a word. Here each runs where it
    would elsewhere: before the others, or after them.

    Arguments:
      hooks (list of {'sql', 'transaction'}): as dbt gives them to a materialization.
      outside_first (boolean): whether those outside come first, as before a model.
-#}
{% macro run_all_hooks(hooks, outside_first) %}
    {%- set inside, outside = [], [] -%}
    {%- for hook in hooks -%}
        {%- do (inside if hook.get('transaction', true) else outside).append(dict(hook, transaction=true)) -%}
    {%- endfor -%}
    {{ run_hooks(outside + inside if outside_first else inside + outside) }}
{% endmacro %}
