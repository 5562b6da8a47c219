{#-
    Refuse a query that is not row-wise over one read of the upstream, or of which a row depends on more than the upstream's row:
    merged slice by slice it would not give what the whole query gives.

    The analyzed plan is read: in the optimized one `now()` is already a literal, and an unused window is gone. Only the optimized one
    shows a filter that is always false.
-#}
{% macro check_query(explained, query, upstream) %}
    {%- set instead = "Keep filters and expressions over the upstream's rows here, and put the rest into a model downstream" -%}
    {%- set words = {
        'Aggregate': 'an aggregate (GROUP BY, HAVING or an aggregate function)', 'Window': 'a window function',
        'Distinct': 'a DISTINCT', 'Deduplicate': 'a DISTINCT', 'GlobalLimit': 'a LIMIT', 'LocalLimit': 'a LIMIT', 'Offset': 'an OFFSET',
        'Join': 'a join', 'LateralJoin': 'a lateral join', 'Union': 'a set operation (UNION)',
        'Intersect': 'a set operation (INTERSECT)', 'Except': 'a set operation (EXCEPT)',
        'Generate': 'a generator (explode, inline, stack or LATERAL VIEW)', 'Expand': 'grouping sets or an UNPIVOT',
        'Pivot': 'a PIVOT', 'Sample': 'a TABLESAMPLE', 'View': 'a view', 'Sort': 'an ORDER BY',
        'RepartitionByExpression': 'a DISTRIBUTE BY', 'UnionLoop': 'a recursive query',
    } -%}
    {%- set reads = [] -%}
    {%- for line in explained.analyzed -%}
        {%- set operator = dbt_backfill.plan_operator(line, loop.first) -%}
        {%- if operator == 'Relation' -%}
            {%- do reads.append(line) -%}
        {%- elif operator and operator not in [
            'Project', 'Filter', 'SubqueryAlias', 'WithCTE', 'CTERelationDef', 'CTERelationRef', 'ResolvedHint',
        ] -%}
            {%- do dbt_backfill.refuse(
                'its query has ' ~ words.get(operator, 'the operator ' ~ operator) ~ ', so it is not a row-wise query', instead
            ) -%}
        {%- endif -%}
        {#- Spark prints the columns that a subquery takes from outside behind it; a column may be called like one. -#}
        {%- if modules.re.search('(?<![\\w.])(scalar-subquery|exists|list|lateral-subquery)#\\d+ \\[', line) -%}
            {%- do dbt_backfill.refuse('its query has a subquery, so a row of it depends on more than one row', instead) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if reads | length != 1 -%}
        {%- do dbt_backfill.refuse(
            'its query reads ' ~ reads | length ~ ' tables', 'Read the upstream ' ~ upstream.render() ~ ' once, and no other table'
        ) -%}
    {%- endif -%}
    {%- set tokens = dbt_backfill.tokens(query) | rejectattr('kind', 'equalto', 'comment') | list -%}
    {#- RECURSIVE lets a common table expression of the upstream's name read itself, where it is to read the barrier's rows. -#}
    {%- set code = tokens | selectattr('kind', 'equalto', 'code') | map(attribute='text') | join(' ') -%}
    {%- if modules.re.search('(?i)\\bwith\\s+recursive\\b', code) -%}
        {%- do dbt_backfill.refuse(
            'its query has WITH RECURSIVE, so it is not a row-wise query',
            'Remove the word RECURSIVE if nothing in it is; else put what is recursive into a model downstream'
        ) -%}
    {%- endif -%}
    {#- A setting in braces has its value already when the query is parsed, so no plan shows it. -#}
    {%- set setting = modules.re.search('[$][{][^\\s}]+[}]', tokens | map(attribute='text') | join) -%}
    {%- if setting -%}
        {%- do dbt_backfill.refuse(
            'its query has ' ~ setting.group() ~ ', which Spark replaces by a setting of the session that runs it',
            'Write the value out; in a text, write \\u0024 for the dollar sign'
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_repeatable(explained.analyzed | join('\n'), tokens) -%}
    {%- if explained.optimized[0].startswith('LocalRelation <empty>') -%}
        {%- do dbt_backfill.refuse('the filter of its query is always false', 'Correct the filter') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse a query that gives another value when the same row is read again: by a function, or by a text that Spark takes for a time of
    today.

    Arguments:
      analyzed (string): the analyzed plan.
      tokens (list): the query's, without comments.
-#}
{% macro _check_repeatable(analyzed, tokens) %}
    {%- set strings, code, found = [], [], [] -%}
    {%- for token in tokens -%}
        {#- A text before a bracket is a name, where double quotes are for names. -#}
        {%- set is_name = token.kind != 'string' or not loop.last and loop.nextitem.text.lstrip().startswith('(') -%}
        {%- do (code if is_name else strings).append(token.text | lower) -%}
    {%- endfor -%}
    {%- set strings, code = strings | join(' '), code | join(' ') -%}
    {%- for name in dbt_backfill._unrepeatable_functions() -%}
        {#- A column may be called `now()`. -#}
        {%- set call = '(?i)(?<![\\w.#])(' ~ name ~ ')' ~ ('(?=\\(|#)' if name == '_metadata' else '\\((?!\\)#)') -%}
        {%- set match = modules.re.search(call, analyzed) -%}
        {#- Spark prints a text as it prints a function of that name, so a name that the query has in texts only is let pass. -#}
        {%- if match and (modules.re.search('\\b' ~ name ~ '\\b', code) or match.group(1) | lower not in strings) -%}
            {%- do found.append(match.group(1) | lower ~ ('' if name == '_metadata' else '()')) -%}
        {%- endif -%}
    {%- endfor -%}
    {#- 'now' or 'today' as a date or time, or a time alone, as '12:30'. A cast shows in the plan; a typed literal has its value already. -#}
    {%- set days = '(?:now|today|tomorrow|yesterday)\\b|t?\\d{1,2}:\\d' -%}
    {%- set is_cast = modules.re.search(
        '(?i)(?:cast|date|timestamp\\w*)\\(\\s*(?:' ~ days ~ ')(?!#)[^()]*(?: as (?:date|timestamp)|\\)|, None\\b)', analyzed
    ) -%}
    {%- for token in tokens if token.text | trim -%}
        {%- set before = '' if loop.first else loop.previtem.text -%}
        {%- set day = modules.re.fullmatch('(?is)r?[\'"]\\s*((?:' ~ days ~ ').*?)\\s*[\'"]', token.text) if token.kind == 'string' else none -%}
        {%- if day and (is_cast or modules.re.search('(?i)\\b(?:date|timestamp(?:_ntz|_ltz)?)\\s*$', before)) -%}
            {%- do found.append("'" ~ day[1] ~ "' as a date or time") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if found -%}
        {%- do dbt_backfill.refuse(
            'its query uses ' ~ found[0] ~ ', which gives another value when the same row is read again',
            'Take the value from a column of the upstream, or add it in a model downstream of this one'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Return their names, as Spark prints them. test_functions_of_spark.py tries all that Spark has. -#}
{% macro _unrepeatable_functions() %}
    {{ return([
        'rand', 'randn', 'random', 'randstr', 'uniform', 'uuid', 'shuffle', 'monotonically_increasing_id', 'spark_partition_id',
        'input_file_name', 'input_file_block_start', 'input_file_block_length', 'now', 'current_timestamp', 'current_date', 'current_time',
        'localtimestamp', 'current_timezone', 'current_user', 'session_user', 'user', 'current_database',
        'current_catalog', 'current_schema', 'version', 'reflect', 'java_method', 'try_reflect', 'variablereference', '_metadata',
        'aes_encrypt', 'kll_sketch_merge_\\w+',
    ]) }}
{% endmacro %}


{#-
    Return the names of those settings of common_settings_sql on which the query's values may depend. To name one too many costs little: it is
    recorded, and may then not change.
-#}
{% macro find_used_settings(explained, query) %}
    {%- set analyzed, optimized, used = [], [], [] -%}
    {%- for line in explained.analyzed if '+- Relation' not in line -%} {%- do analyzed.append(line) -%} {%- endfor -%}
    {#- A function that stands for another one hides in the analyzed plan what that casts; the optimized one shows it, unless it is constant. -#}
    {%- for line in explained.optimized if dbt_backfill.plan_operator(line, line == explained.optimized[0]) != 'Relation' -%}
        {%- do optimized.append(line) -%}
    {%- endfor -%}
    {#-
        The time zone. Spark prints it with some of the expressions that use it, as `Some(UTC)`, and not with a comparison with a
        literal, or arithmetic. So any column of a type with a zone counts unless the query only passes it on, and so does whatever makes
        such a value of something else. A timestamp literal is printed bare, with or without a zone.
    -#}
    {%- set makes_moments = 'Some\\(|TimestampType|\\btimestamp\\b(?!#)|timestamp\\w*\\(|\\b(extract|date_part|datepart)\\('
        ~ '|\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d' -%}
    {%- set plan = dbt_backfill.mask_names(explained, query) -%}
    {%- set items = dbt_backfill.plan_expressions(plan, query) -%}
    {%- set attributes, moments, read = dbt_backfill.plan_attributes(plan), {}, [] -%}
    {%- for column in explained.upstream_columns if modules.re.search('\\b(timestamp|variant|unknown)\\b', column.type) -%}
        {%- for attribute in attributes if attribute.id == column.id -%} {%- do moments.update({column.id: attribute.name}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set moments = dbt_backfill.follow_columns(plan, items, moments) | list -%}
    {%- for item in items if not dbt_backfill.passed_column(item) -%}
        {%- do read.extend(modules.re.findall('#(\\d+)', item)) -%}
    {%- endfor -%}
    {%- if read | select('in', moments) | list or modules.re.search(makes_moments, (items + optimized) | join('\n')) -%}
        {%- do used.append('spark.sql.session.timeZone') -%}
    {%- endif -%}
    {#-
        ANSI mode: casts, arithmetic, elements, and the functions that then fail or return another value. dbt-spark turns it off in a
        session, and cannot on a Thrift server.
    -#}
    {%- set functions = 'cast|size|cardinality|element_at|elt|conv|abs|negative|pmod|mod|div|round|bround|ceil|floor|next_day'
        ~ '|parse_url|to_\\w+|make_\\w+|unix_\\w+|gettimestamp|date_\\w+|add_months|months_\\w+' -%}
    {%- set by_ansi_mode = '(?i)\\b(' ~ functions ~ ')\\(| [-+*/%] |[\\w)]\\[|(?<!\\w)-[a-z_(]' -%}
    {%- if modules.re.search(by_ansi_mode, (analyzed + optimized) | join('\n')) -%} {%- do used.append('spark.sql.ansi.enabled') -%} {%- endif -%}
    {#- Double quotes: the session says whether they hold a text or a name. -#}
    {%- set strings = dbt_backfill.tokens(query) | selectattr('kind', 'equalto', 'string') | map(attribute='text') -%}
    {%- if '"' in strings | map('last') | list -%} {%- do used.append('spark.sql.ansi.doubleQuotedIdentifiers') -%} {%- endif -%}
    {{ return(used) }}
{% endmacro %}
