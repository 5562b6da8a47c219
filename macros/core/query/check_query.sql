{#-
    Refuse a query that is not row-wise over one read of the upstream, or whose rows do not depend on the
    upstream's row alone: merged slice by slice it would not give what the whole query gives.

    The analyzed plan is read, not the optimized one, in which `now()` is already a literal and an unused
    window is gone; the optimized one tells a filter that is always false.
-#}
{% macro check_query(explained, query, upstream) %}
    {%- set reads = namespace(count=0) -%}
    {%- for line in explained.analyzed -%}
        {%- set operator = dbt_backfill.plan_operator(line, loop.first) -%}
        {%- if operator in dbt_backfill.reading_operators() -%}
            {%- set reads.count = reads.count + 1 -%}
        {%- elif operator and operator not in dbt_backfill._row_wise_operators() -%}
            {%- do dbt_backfill.refuse(
                'its query has ' ~ dbt_backfill._operator_words(operator) ~ ', so it is not a row-wise query',
                dbt_backfill._keep_it_row_wise()
            ) -%}
        {%- endif -%}
        {#- A column may have such a name; behind a subquery's stand the columns that it takes from outside. -#}
        {%- if modules.re.search('(?<![\\w.])(scalar-subquery|exists|list|lateral-subquery)#\\d+ \\[', line) -%}
            {%- do dbt_backfill.refuse(
                'its query has a subquery, so a row of it depends on more than one row',
                dbt_backfill._keep_it_row_wise()
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if reads.count != 1 -%}
        {%- do dbt_backfill.refuse(
            'its query reads ' ~ reads.count ~ ' tables',
            'Read the upstream ' ~ upstream.render() ~ ' once, and no other table'
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_text(query) -%}
    {%- do dbt_backfill._check_functions(explained.analyzed | join('\n'), query) -%}
    {%- if explained.optimized[0].startswith('LocalRelation <empty>') -%}
        {%- do dbt_backfill.refuse('the filter of its query is always false', 'Correct the filter') -%}
    {%- endif -%}
{% endmacro %}


{#-
    What shows in the query's own text only. The word RECURSIVE lets a common table expression of the upstream's name read
    itself, where it is to read the barrier's rows; and a setting in braces has its value already when the query is parsed.
-#}
{% macro _check_text(query) %}
    {%- set code = dbt_backfill.tokens(query) | selectattr('kind', 'equalto', 'code') | map(attribute='text') | join(' ') -%}
    {%- if modules.re.search('(?i)\\bwith\\s+recursive\\b', code) -%}
        {%- do dbt_backfill.refuse(
            'its query has WITH RECURSIVE, so it is not a row-wise query',
            'Remove the word RECURSIVE if nothing in it is; else put what is recursive into a model downstream'
        ) -%}
    {%- endif -%}
    {%- set text = dbt_backfill.tokens(query) | rejectattr('kind', 'equalto', 'comment') | map(attribute='text') | join -%}
    {%- set setting = modules.re.search('[$][{][^\\s}]+[}]', text) -%}
    {%- if setting -%}
        {%- do dbt_backfill.refuse(
            'its query has ' ~ setting.group() ~ ', which Spark replaces by a setting of the session that runs it',
            'Write the value out; in a text, write \\u0024 for the dollar sign'
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _keep_it_row_wise() %}
    {{ return("Keep filters and expressions over the upstream's rows here, and put the rest into a model downstream") }}
{% endmacro %}


{% macro _row_wise_operators() %}
    {{ return([
        'Project', 'Filter', 'SubqueryAlias', 'WithCTE', 'CTERelationDef', 'CTERelationRef', 'ResolvedHint',
    ]) }}
{% endmacro %}


{% macro _operator_words(operator) %}
    {{ return({
        'Aggregate': 'an aggregate (GROUP BY, HAVING or an aggregate function)',
        'Window': 'a window function',
        'Distinct': 'a DISTINCT',
        'Deduplicate': 'a DISTINCT',
        'GlobalLimit': 'a LIMIT',
        'LocalLimit': 'a LIMIT',
        'Offset': 'an OFFSET',
        'Join': 'a join',
        'LateralJoin': 'a lateral join',
        'Union': 'a set operation (UNION)',
        'Intersect': 'a set operation (INTERSECT)',
        'Except': 'a set operation (EXCEPT)',
        'Generate': 'a generator (explode, inline, stack or LATERAL VIEW)',
        'Expand': 'grouping sets or an UNPIVOT',
        'Pivot': 'a PIVOT',
        'Sample': 'a TABLESAMPLE',
        'View': 'a view',
        'Sort': 'an ORDER BY',
        'RepartitionByExpression': 'a DISTRIBUTE BY',
        'UnionLoop': 'a recursive query',
    }.get(operator, 'the operator ' ~ operator)) }}
{% endmacro %}


{#-
    A name that Spark prints as a function also stands there for a string literal of that text; so a name
    that the query has in strings only is let pass. (A text before a bracket is a name, where double quotes are for names.)
-#}
{% macro _check_functions(analyzed, query) %}
    {%- set strings, code = [], [] -%}
    {%- for token in dbt_backfill.tokens(query) if token.kind != 'comment' -%}
        {%- set is_name = token.kind != 'string' or not loop.last and loop.nextitem.text.lstrip().startswith('(') -%}
        {%- do (code if is_name else strings).append(token.text | lower) -%}
    {%- endfor -%}
    {%- for name in dbt_backfill._unrepeatable_functions() -%}
        {#- A column may be called `now()`. -#}
        {%- set call = '(?i)(?<![\\w.#])(' ~ name ~ ')' ~ ('(?=\\(|#)' if name == '_metadata' else '\\((?!\\)#)') -%}
        {%- set match = modules.re.search(call, analyzed) -%}
        {%- if match and (modules.re.search('\\b' ~ name ~ '\\b', code | join(' ')) or match.group(1) | lower not in strings | join(' ')) -%}
            {%- do dbt_backfill._refuse_unrepeatable(match.group(1) | lower ~ ('' if name == '_metadata' else '()')) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set day = dbt_backfill._find_special_day(analyzed, query) -%}
    {%- if day -%} {%- do dbt_backfill._refuse_unrepeatable("'" ~ day ~ "' as a date or time") -%} {%- endif -%}
{% endmacro %}


{#- By the names that Spark prints. test_functions_of_spark.py tries all that Spark has. -#}
{% macro _unrepeatable_functions() %}
    {{ return([
        'rand', 'randn', 'random', 'randstr', 'uniform', 'uuid', 'shuffle', 'monotonically_increasing_id',
        'spark_partition_id', 'input_file_name', 'input_file_block_start', 'input_file_block_length',
        'now', 'current_timestamp', 'current_date', 'current_time', 'localtimestamp', 'current_timezone',
        'current_user', 'session_user', 'user', 'current_database', 'current_catalog', 'current_schema',
        'version', 'reflect', 'java_method', 'try_reflect', 'variablereference', '_metadata',
        'aes_encrypt', 'kll_sketch_merge_\\w+',
    ]) }}
{% endmacro %}


{% macro _refuse_unrepeatable(what) %}
    {%- do dbt_backfill.refuse(
        'its query uses ' ~ what ~ ', which gives another value when the same row is read again',
        'Take the value from a column of the upstream, or add it in a model downstream of this one'
    ) -%}
{% endmacro %}


{#-
    'now', 'today', 'tomorrow' or 'yesterday' where Spark takes it for a date or time, and a time alone, such as '12:30',
    where it takes it for one of today; none if there is none. A typed literal has its value already when it is parsed; a
    cast shows in the analyzed plan.
-#}
{% macro _find_special_day(analyzed, query) %}
    {%- set days = '(?:now|today|tomorrow|yesterday)\\b|t?\\d{1,2}:\\d' -%}
    {%- set is_cast = modules.re.search(
        '(?i)(?:cast|date|timestamp\\w*)\\(\\s*(?:' ~ days ~ ')(?!#)[^()]*(?: as (?:date|timestamp)|\\)|, None\\b)', analyzed
    ) -%}
    {%- set last = namespace(code='') -%}
    {%- for token in dbt_backfill.tokens(query) if token.kind != 'comment' and token.text | trim -%}
        {%- set day = modules.re.fullmatch('(?is)r?[\'"]\\s*((?:' ~ days ~ ').*?)\\s*[\'"]', token.text) if token.kind == 'string' else none -%}
        {%- if day and (is_cast or modules.re.search('(?i)\\b(?:date|timestamp(?:_ntz|_ltz)?)\\s*$', last.code)) -%}
            {{ return(day[1]) }}
        {%- endif -%}
        {%- set last.code = token.text -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
