{#-
    True if a plan's query is the model's, written with other comments or white space. The hash is stored, and an earlier version made it
    otherwise; so the words are compared too. A keyword in letters of another case, or common table expressions in another order, make it
    another query: a name may be a value (`to_json(struct(Id))`), and what a name means may depend on the order.
-#}
{% macro is_same_query(backfill, plan) %}
    {{ return(plan.query_hash == backfill.query_hash or dbt_backfill.get_words(plan.query) == dbt_backfill.get_words(backfill.query)) }}
{% endmacro %}


{#- True if a query is another one with some of its words left out. -#}
{% macro leaves_words_out(query, other) %}
    {%- set at, words = namespace(found=0), dbt_backfill.get_words(query) + [none] -%}
    {%- for word in dbt_backfill.get_words(other) -%}
        {%- if word == words[at.found] -%} {%- set at.found = at.found + 1 -%} {%- endif -%}
    {%- endfor -%}
    {{ return(words[at.found] is none) }}
{% endmacro %}


{#-
    Return how Spark reads a query over the upstream, to be compared: {'columns': their names and types, 'plan': its optimized plan with the
    ids of expressions in the order in which they appear}; none if it does not run.

    Arguments:
      columns (list or none): those of its columns that are compared, none for all of them.
      scan (string or none): what it reads instead of the upstream of today.
-#}
{% macro explain_comparably(backfill, query, columns=none, scan=none) %}
    {%- set upstream, selected = backfill.upstream.relation, dbt_backfill.identifiers(columns) if columns else '*' -%}
    {%- set read = dbt_backfill.get_query_sql(query, upstream, scan) -%}
    {%- set plan = dbt_backfill.run_explain('compare the query', 'select ' ~ selected ~ ' from (\n' ~ read ~ '\n)') -%}
    {%- if dbt_backfill.find_plan_error(plan) -%} {{ return(none) }} {%- endif -%}
    {%- set parts, ids = [], {} -%}
    {#- Each second part is an id. -#}
    {%- for part in modules.re.split('#(\\d+)', dbt_backfill.plan_section(plan, 'Optimized') | join('\n')) -%}
        {%- do parts.append('#' ~ ids.setdefault(part, ids | length) if loop.index0 % 2 else part) -%}
    {%- endfor -%}
    {{ return({'columns': dbt_backfill.plan_section(plan, 'Analyzed')[0], 'plan': parts | join}) }}
{% endmacro %}
