{#-
    True if a plan's query is the model's, written with other comments or white space. The hash keeps one space for any white space, and is
    stored; so the texts are compared too, in which `a,b` is `a, b`. A keyword in letters of another case, or common table
    expressions in another order, make it another query: a name may be a value (`to_json(struct(Id))`), and what a name means may depend
    on the order.
-#}
{% macro is_same_query(backfill, plan) %}
    {{ return(plan.query_hash == backfill.query_hash
        or dbt_backfill.get_plain_text(plan.query) == dbt_backfill.get_plain_text(backfill.query)) }}
{% endmacro %}


{#- Return the text of a query without comments, and without white space that separates no words, numbers or texts. -#}
{% macro get_plain_text(query) %}
    {%- set pieces, plain = [], [] -%}
    {%- for token in dbt_backfill.tokens(query | trim | trim(';')) -%}
        {%- set is_code, text = token.kind in ['comment', 'code'], ' ' if token.kind == 'comment' else token.text -%}
        {%- do pieces.append((true, pieces.pop()[1] ~ text) if is_code and pieces and pieces[-1][0] else (is_code, text)) -%}
    {%- endfor -%}
    {%- for is_code, text in pieces -%}
        {%- do plain.append(modules.re.sub('\\s+', ' ', modules.re.sub('\\s*([^\\w\\s.+-])\\s*', '\\1', text)) if is_code else text) -%}
    {%- endfor -%}
    {{ return(plain | join | trim) }}
{% endmacro %}


{#- True if a query is another one with some of its words left out. -#}
{% macro leaves_words_out(query, other) %}
    {%- set left = dbt_backfill._split_words(query) -%}
    {%- for word in dbt_backfill._split_words(other) -%}
        {%- if left and left[0] == word -%} {%- do left.pop(0) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(not left) }}
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
    {%- set parts, ids = [], {} -%}
    {#- Each second part is an id. -#}
    {%- for part in modules.re.split('#(\\d+)', optimized | join('\n')) -%}
        {%- do parts.append('#' ~ ids.setdefault(part, ids | length) if loop.index0 % 2 else part) -%}
    {%- endfor -%}
    {{ return({'columns': dbt_backfill.plan_section(plan, 'Analyzed')[0], 'plan': parts | join}) }}
{% endmacro %}
