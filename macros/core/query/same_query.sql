{#-
    True if a plan's query is the model's, written otherwise: with other white space, comments, letters of another case, or its common
    table expressions in another order. The order may change which of them a name means, so Spark's optimized plans of both are compared
    too, where the words are the same. They alone would not do: they print `1` for 1 and 1L, and 'a, b' like two texts.
-#}
{% macro is_same_query(backfill, plan) %}
    {%- if plan.query_hash == backfill.query_hash -%} {{ return(true) }} {%- endif -%}
    {%- if dbt_backfill.get_query_words(plan.query) != dbt_backfill.get_query_words(backfill.query) -%} {{ return(false) }} {%- endif -%}
    {%- set explained = dbt_backfill.explain_comparably(backfill, backfill.query) -%}
    {{ return(explained is not none and explained == dbt_backfill.explain_comparably(backfill, plan.query)) }}
{% endmacro %}


{#- Return the words and signs of a query, as a list of texts: each of its outermost common table expressions, sorted, and the rest. -#}
{% macro get_query_words(query) %}
    {%- set words = dbt_backfill._split_words(query) -%}
    {%- if words[0] != 'with' -%} {{ return([words | join(' ')]) }} {%- endif -%}
    {%- set at, expressions, rest = namespace(depth=0, ended=false), [[]], [] -%}
    {%- for word in words[1:] -%}
        {%- set is_outside = at.depth == 0 and not at.ended -%}
        {%- set at.depth = at.depth + {'(': 1, ')': -1}.get(word, 0) -%}
        {#- Behind the bracket of the last one, unless that held the names of its columns. -#}
        {%- set at.ended = at.ended or is_outside and not loop.first and loop.previtem == ')' and word not in [',', 'as'] -%}
        {%- if is_outside and not at.ended and word == ',' -%}
            {%- do expressions.append([]) -%}
        {%- else -%}
            {%- do (rest if at.ended else expressions[-1]).append(word) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(expressions | map('join', ' ') | sort(case_sensitive=true) + [rest | join(' ')]) }}
{% endmacro %}


{#- True if a query is another one with some of its words left out. -#}
{% macro leaves_words_out(query, other) %}
    {%- set words, at = dbt_backfill._split_words(query), namespace(word=0) -%}
    {%- for word in dbt_backfill._split_words(other) -%}
        {%- if at.word < words | length and words[at.word] == word -%} {%- set at.word = at.word + 1 -%} {%- endif -%}
    {%- endfor -%}
    {{ return(at.word == words | length) }}
{% endmacro %}


{#- Return the texts and numbers in a query, as they are written, in lower case but for what is in quotes. -#}
{% macro get_constants(query) %}
    {%- set constants = [] -%}
    {%- for token in dbt_backfill.tokens(query) -%}
        {%- if token.kind == 'string' -%}
            {%- do constants.append(token.text) -%}
        {%- elif token.kind == 'code' -%}
            {%- do constants.extend(modules.re.findall('(?<![\\w.])[.]?\\d[\\w.]*', token.text | lower)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(constants) }}
{% endmacro %}


{#- Return the words and signs of a query in order, without comments; those outside of quotes in lower case. -#}
{% macro _split_words(query) %}
    {%- set words = [] -%}
    {%- for token in dbt_backfill.tokens(query | trim | trim(';')) if token.kind != 'comment' -%}
        {%- do words.extend(modules.re.findall('\\w+|[^\\w\\s]', token.text | lower) if token.kind == 'code' else [token.text]) -%}
    {%- endfor -%}
    {{ return(words) }}
{% endmacro %}


{#-
    Return how Spark reads a query over the upstream, to be compared: {'columns': their names and types, 'plan': its optimized plan with the
    ids of expressions in the order in which they appear}; none if it does not run.

    Through a LIMIT no filter is pushed down. Without it a plan does not show those that the source evaluates itself: Iceberg those that
    select whole partitions, PostgreSQL nearly all.

    Arguments:
      columns (list or none): those of its columns that are compared, none for all of them.
-#}
{% macro explain_comparably(backfill, query, columns=none) %}
    {%- set upstream = backfill.upstream.relation -%}
    {%- set sql -%}
        explain extended
        select {{ dbt_backfill.identifiers(columns) if columns else '*' }}
        from (
            {{ dbt_backfill.get_query_sql(query, upstream, 'select * from ' ~ upstream.render() ~ ' limit 2147483647') }}
        )
    {%- endset -%}
    {%- set plan = dbt_backfill.run_explain('compare the query', sql) -%}
    {%- set optimized = dbt_backfill.plan_section(plan, 'Optimized') -%}
    {%- if not optimized -%} {{ return(none) }} {%- endif -%}
    {%- set text, parts, ids, at = optimized | join('\n'), [], {}, namespace(end=0) -%}
    {%- for match in modules.re.finditer('#(\\d+)', text) -%}
        {%- do parts.append(text[at.end:match.start()] ~ '#' ~ ids.setdefault(match.group(1), ids | length)) -%}
        {%- set at.end = match.end() -%}
    {%- endfor -%}
    {{ return({'columns': dbt_backfill.plan_section(plan, 'Analyzed')[0], 'plan': parts | join ~ text[at.end:]}) }}
{% endmacro %}
