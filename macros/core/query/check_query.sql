{#-
    Refuse a query that is not row-wise over one read of the upstream, or of which a row depends on more than the upstream's row:
    merged slice by slice it would not give what the whole query gives.

    The analyzed plan is read: in the optimized one `now()` is already a literal, and an unused window is gone. Only the optimized one
    shows a filter that is always false.

    Arguments:
      explained (dict): see explain_query.
      may_grow (boolean): whether the upstream may get another column without a gap, see upstream_traits.
-#}
{% macro check_query(explained, query, upstream, may_grow) %}
    {%- set instead = "Keep filters and expressions over the upstream's rows here, and put the rest into a model downstream" -%}
    {%- set words = {
        'Aggregate': 'an aggregate (GROUP BY, HAVING or an aggregate function)', 'Window': 'a window function', 'Distinct': 'a DISTINCT',
        'Deduplicate': 'a DISTINCT', 'GlobalLimit': 'a LIMIT', 'LocalLimit': 'a LIMIT', 'Offset': 'an OFFSET', 'Join': 'a join',
        'LateralJoin': 'a lateral join', 'Union': 'a set operation (UNION)', 'Intersect': 'a set operation (INTERSECT)',
        'Except': 'a set operation (EXCEPT)', 'Generate': 'a generator (explode, inline, stack or LATERAL VIEW)',
        'Expand': 'grouping sets or an UNPIVOT', 'Pivot': 'a PIVOT', 'Sample': 'a TABLESAMPLE', 'View': 'a view', 'Sort': 'an ORDER BY',
        'RepartitionByExpression': 'a DISTRIBUTE BY', 'UnionLoop': 'a recursive query',
    } -%}
    {%- set plan, operators = explained.analyzed | join('\n'), [] -%}
    {%- set passed = ['Relation', 'Project', 'Filter', 'SubqueryAlias', 'WithCTE', 'CTERelationDef', 'CTERelationRef', 'ResolvedHint'] -%}
    {#- Spark prints the columns that a subquery takes from outside behind it; a column may be called like one. -#}
    {%- if modules.re.search('(?<![\\w.])(scalar-subquery|exists|list)#\\d+ \\[', plan) -%}
        {%- do dbt_backfill.refuse('its query has a subquery, so a row of it depends on more than one row', instead) -%}
    {%- endif -%}
    {%- for line in explained.analyzed -%}
        {%- set operator = dbt_backfill.plan_operator(line) -%}
        {#- The first two limits are of get_query_sql. -#}
        {%- set is_own = line.endswith('Limit 2147483647') and operator not in operators -%}
        {%- if operator and operator not in passed and not is_own -%}
            {%- do dbt_backfill.refuse(
                'its query has ' ~ words.get(operator, 'the operator ' ~ operator) ~ ', so it is not a row-wise query', instead
            ) -%}
        {%- endif -%}
        {%- do operators.append(operator) -%}
    {%- endfor -%}
    {%- set tables, names = operators.count('Relation'), dbt_backfill.tokens(query, upstream) | map(attribute='kind') | list -%}
    {%- if tables != 1 -%}
        {%- do dbt_backfill.refuse(
            'its query reads ' ~ tables ~ ' tables', 'Read the upstream ' ~ upstream.render() ~ ' once, and no other table'
        ) -%}
    {%- elif names.count('upstream') > 1 -%}
        {%- do dbt_backfill.refuse(
            'its query has the name of the upstream ' ~ names.count('upstream') ~ ' times',
            'Read the upstream once; if one of them is a field of a column ' ~ upstream.schema ~ ', write an alias of the upstream before it'
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_words(dbt_backfill.get_words(query), may_grow) -%}
    {%- if may_grow -%} {%- do dbt_backfill._check_aliases(explained.analyzed) -%} {%- endif -%}
    {#- Spark prints a text without quotes, so one that reads like a call is refused too. A column may be called `now()`. -#}
    {%- set call = modules.re.search('(?i)(?<![\\w.#])(' ~ dbt_backfill._unrepeatable_functions() | join('|') ~ ')\\((?!\\)#)', plan) -%}
    {%- set cast = modules.re.search(
        '(?i)(?:cast|date|timestamp\\w*)\\(\\s*((?:now|today|tomorrow|yesterday)\\b|t?\\d{1,2}:\\d)(?!#)([^(),]*?)\\s*'
            ~ '(?: as (?:date|timestamp)|\\)|, None\\b)', plan
    ) -%}
    {%- if call -%} {%- do dbt_backfill.refuse_unrepeatable(call[1] | lower ~ '()') -%} {%- endif -%}
    {%- if cast -%} {%- do dbt_backfill.refuse_unrepeatable("'" ~ cast[1] ~ cast[2] ~ "' as a date or time") -%} {%- endif -%}
    {%- if explained.optimized[0].startswith('LocalRelation <empty>') -%}
        {%- do dbt_backfill.refuse('the filter of its query is always false', 'Correct the filter') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse what no plan shows: a setting in braces and a typed literal such as `date 'today'`, which have their values already, and a star
    inside of an expression, as in `md5(to_json(struct(*)))`. Such a star is right after a bracket, a comma or a point, and what the
    innermost bracket holds is no query.
-#}
{% macro _check_words(words, may_grow) %}
    {%- set brackets, setting = ['query'], (words | join).partition('${')[2].partition('}') -%}
    {%- if setting[1] -%}
        {%- set setting = '${' ~ setting[0] ~ '}' -%}
        {%- do dbt_backfill.refuse(
            'its query has ' ~ setting ~ ', which Spark replaces by a setting of the session that runs it',
            'Write the value out; in a text, write \\u0024 for the dollar sign'
        ) -%}
    {%- endif -%}
    {%- for word in words -%}
        {%- set next, last = words[loop.index:loop.index + 2] | map('lower') | list + ['', ''], loop.previtem | default('') | lower -%}
        {%- if word == '(' -%}
            {%- set is_query = next[0] in ['select', 'with', 'from', 'table', 'values'] and next[1] not in [',', ')'] -%}
            {%- do brackets.append('query' if is_query else 'expression') -%}
        {%- elif word == ')' -%}
            {%- do brackets.pop() -%}
        {%- elif word == '*' and may_grow and brackets[-1] == 'expression' and last[-1:] in ['(', ',', '.'] -%}
            {%- do dbt_backfill.refuse(
                'its query has a star inside of an expression, whose value would change once the upstream has another column',
                'Write out the columns instead of the star'
            ) -%}
        {%- elif word[-1] in ['"', "'"] and last in ['date', 'timestamp', 'timestamp_ntz', 'timestamp_ltz'] -%}
            {%- set text = word.strip('rR"\' ') -%}
            {%- if text.lower().startswith(('now', 'today', 'tomorrow', 'yesterday')) or ':' in text.lstrip('tT')[:3] -%}
                {%- do dbt_backfill.refuse_unrepeatable("'" ~ text ~ "' as a date or time") -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Refuse a query that reads an alias of its own SELECT: once the upstream had a column of that name, Spark would read the column. Spark makes
    what reads an alias a projection right above that of the alias.
-#}
{% macro _check_aliases(analyzed) %}
    {%- for line in analyzed -%}
        {%- set above = loop.previtem | default('') -%}
        {%- set is_split = dbt_backfill.plan_operator(line) == 'Project' and dbt_backfill.plan_operator(above) == 'Project' -%}
        {%- for name, id in modules.re.findall(' AS ([^#]+)#(\\d+)', line if is_split else '') -%}
            {%- if '#' ~ id in above -%}
                {%- do dbt_backfill.refuse(
                    "its query reads its alias '" ~ name ~ "' in the same SELECT, where a column of that name would be read once the upstream has one",
                    'Write the expression out where the alias is read'
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{% macro refuse_unrepeatable(what) %}
    {%- do dbt_backfill.refuse(
        'its query uses ' ~ what ~ ', which gives another value when the same row is read again',
        'Take the value from a column of the upstream, or add it in a model downstream of this one; put a text of that form together by concat'
    ) -%}
{% endmacro %}


{#- Return their names, as Spark prints them. test_functions_of_spark.py tries all that Spark has. -#}
{% macro _unrepeatable_functions() %}
    {{ return([
        'rand', 'randn', 'random', 'randstr', 'uniform', 'uuid', 'shuffle', 'monotonically_increasing_id', 'spark_partition_id',
        'input_file_name', 'input_file_block_start', 'input_file_block_length', 'now', 'current_timestamp', 'current_date', 'current_time',
        'localtimestamp', 'current_timezone', 'current_user', 'session_user', 'user', 'current_database', 'current_catalog',
        'current_schema', 'version', 'reflect', 'java_method', 'try_reflect', 'variablereference', 'aes_encrypt', 'kll_sketch_merge_\\w+',
    ]) }}
{% endmacro %}


{#-
    Return the names of those settings of common_settings_sql on which the query's values may depend; rather one too many, which may then not
    change.

    The analyzed plan shows constants. In it a function that stands for another one hides what that casts; the optimized one shows it.
-#}
{% macro find_used_settings(explained, query) %}
    {%- set lines, used = explained.optimized[:-1], [] -%}
    {%- for line in explained.analyzed if dbt_backfill.plan_operator(line) != 'Relation' -%} {%- do lines.append(line) -%} {%- endfor -%}
    {%- set plans = lines | join('\n') -%}
    {#-
        The time zone. Spark prints it with some of the expressions that use it, as `Some(UTC)`, and not with a comparison with a
        literal, or arithmetic. So any column of a type with a zone counts unless the query only passes it on, and so does whatever makes
        such a value of something else. A timestamp literal is printed bare, with or without a zone.
    -#}
    {%- set makes_moments = 'Some\\(|TimestampType|\\btimestamp\\b(?!#)|timestamp\\w*\\(|\\b(extract|date_part|datepart)\\('
        ~ '|\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d' -%}
    {%- if modules.re.search(makes_moments, plans) or dbt_backfill._computes_moments(explained) -%}
        {%- do used.append('spark.sql.session.timeZone') -%}
    {%- endif -%}
    {#-
        ANSI mode: casts, arithmetic, elements, and the functions that then fail or return another value. dbt-spark turns it off in a
        session, and cannot on a Thrift server.
    -#}
    {%- set functions = 'cast|size|cardinality|element_at|elt|conv|abs|negative|pmod|mod|div|round|bround|ceil|floor|next_day'
        ~ '|parse_url|to_\\w+|make_\\w+|unix_\\w+|gettimestamp|date_\\w+|add_months|months_\\w+' -%}
    {%- if modules.re.search('(?i)\\b(' ~ functions ~ ')\\(| [-+*/%] |[\\w)]\\[|(?<!\\w)-[a-z_(]', plans) -%}
        {%- do used.append('spark.sql.ansi.enabled') -%}
    {%- endif -%}
    {#- Double quotes: the session says whether they hold a text or a name. -#}
    {%- if '"' in dbt_backfill.get_words(query) | map('last') -%} {%- do used.append('spark.sql.ansi.doubleQuotedIdentifiers') -%} {%- endif -%}
    {{ return(used) }}
{% endmacro %}


{#-
    True if a column of a type with a time zone is in an expression of a query, and not only passed on; rather once too often: also where
    the entries of the topmost projection cannot be distinguished, or one below it has an expression.
-#}
{% macro _computes_moments(explained) %}
    {%- set types, moments, passed, computed, projections = {}, {}, {}, [], [] -%}
    {%- for column in explained.upstream_columns -%} {%- do types.update({column.name: column.type}) -%} {%- endfor -%}
    {%- for id, name in dbt_backfill.get_attributes(explained.optimized[-1]).items() -%}
        {%- set type = types.get(name, 'variant') | replace('timestamp_ntz', '') -%}
        {%- if 'timestamp' in type or 'variant' in type -%}
            {%- do moments.update({id: true}) -%}
            {%- do passed.update({name ~ '#' ~ id: true}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for line in explained.optimized[:-1] if moments -%}
        {%- set entries = dbt_backfill.split_list(line.split('Project [', 1)[1][:-1]) if 'Project [' in line else [] -%}
        {%- set names = explained.names if entries and not projections else [] -%}
        {%- for entry in entries if names -%}
            {#- A bracket in a text may have cut an entry: then the whole line counts. -#}
            {%- set is_whole = entries | length == names | length and entry.rpartition('#')[0].endswith(names[loop.index0]) -%}
            {%- if not is_whole or entry.split(' AS ')[0] not in passed -%} {%- do computed.append(entry if is_whole else line) -%} {%- endif -%}
        {%- endfor -%}
        {%- if not entries or projections and ' AS ' in line -%} {%- do computed.append(line) -%} {%- endif -%}
        {%- if entries -%} {%- do projections.append(line) -%} {%- endif -%}
    {%- endfor -%}
    {%- for id in modules.re.findall('#(\\d+)', computed | join(' ')) if id in moments -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}
