{#-
    Refuse a query unless each of its rows depends on one row of the upstream only. Any other query could not be merged slice by slice: the MV would
    differ from the result of the whole query.

    The checks read the analyzed plan, because in the optimized plan `now()` is already a literal, and an unused window function is gone. One check
    reads the optimized plan, because only the optimized plan shows that a filter is always false. `explained`: see explain_query; `may_grow`: true if
    the upstream may get another column without a gap, see upstream_traits; `lasting`: see explain_lasting_query, without volatile columns it is
    `explained` with the 'query'; `views`: see read_through_views.
-#}
{% macro check_query(explained, query, upstream, may_grow, lasting, views=[]) %}
    {%- set instead = "Keep only filters and expressions over single rows of the upstream in this model, and put the rest into a model downstream" -%}
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
    {#- The innermost view comes first, so the refusal names the view that has the operator. -#}
    {%- for read in views + [{'operators': explained.analyzed, 'name': none}] -%}
        {%- do operators.clear() -%}
        {%- set through = ' through the view ' ~ read.name if read.name else '' -%}
        {#- Spark prints a subquery with its outer columns in brackets. The brackets distinguish it from a column with a name like `exists`. -#}
        {%- if modules.re.search('(?<![\\w.])(scalar-subquery|exists|list)#\\d+ \\[', read.operators | join('\n')) -%}
            {%- do dbt_backfill.refuse('its query' ~ through ~ ' has a subquery, so a row of the result depends on more than one row of the upstream',
                instead, id='query-subquery') -%}
        {%- endif -%}
        {%- for line in read.operators -%}
            {%- set operator = dbt_backfill.plan_operator(line) -%}
            {#- This package adds a LIMIT of its own, see get_query_sql. This LIMIT has two operators, which are the first limits of the plan. -#}
            {%- set is_own = line.endswith('Limit 2147483647') and operator not in operators -%}
            {%- if operator and operator not in passed and not is_own -%}
                {%- set has = words.get(operator, 'the operator ' ~ operator) -%}
                {%- do dbt_backfill.refuse('its query' ~ through ~ ' has ' ~ has ~ ', so it is not a row-wise query',
                    instead, id='query-not-row-wise') -%}
            {%- endif -%}
            {%- do operators.append(operator) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set tables, names = operators.count('Relation'), dbt_backfill.tokens(query, upstream) | map(attribute='kind') | list -%}
    {%- do dbt_backfill.refuse_first([
        {'when': tables != 1, 'id': 'query-table-count', 'fact': 'its query reads ' ~ tables ~ ' tables',
         'change': 'Read the upstream ' ~ upstream.render() ~ ' once, and no other table'},
        {'when': names.count('upstream') > 1, 'fact': 'its query contains the name of the upstream ' ~ names.count('upstream') ~ ' times',
         'id': 'upstream-named-repeatedly', 'change': 'Read the upstream once; if one of these names is a field of the column ' ~ upstream.schema
            ~ ', write an alias of the upstream before the column'},
    ]) -%}
    {%- set plan = lasting.analyzed | join('\n') -%}
    {%- set makes_moments = modules.re.search(' as [^()]*timestamp|to_timestamp', plan) is not none -%}
    {%- set words = dbt_backfill.get_words(lasting.query) -%}
    {%- do dbt_backfill._check_words(words, may_grow, makes_moments, lasting.optimized | join('\n')) -%}
    {#- Only a struct or a map has fields. -#}
    {%- if may_grow and '<' in explained.upstream_columns | map(attribute='type') | join -%} {%- do dbt_backfill._check_fields(words, plan) -%} {%- endif -%}
    {#- If the upstream later gets a column with the name of an alias, Spark would read the column wherever the same SELECT reads the alias. In the
        plan, the expression that reads the alias is in a projection right above the projection of the alias. -#}
    {%- for line in lasting.analyzed if may_grow -%}
        {%- set above = loop.previtem | default('') -%}
        {%- set is_split = dbt_backfill.plan_operator(line) == 'Project' and dbt_backfill.plan_operator(above) == 'Project' -%}
        {%- for name, id in modules.re.findall(' AS ([^#]+)#(\\d+)', line if is_split else '') if '#' ~ id in above -%}
            {%- do dbt_backfill.refuse(
                "its query uses the alias '" ~ name ~ "' in the SELECT or pipe that defines this alias, but if the upstream got "
                    ~ 'a column of that name, the name would no longer mean only the alias',
                'Repeat the expression instead of the alias', id='alias-beside-its-definition') -%}
        {%- endfor -%}
    {%- endfor -%}
    {#- Spark prints a string literal without quotes. So a literal that looks like a call is refused as well. A column named `now()` is not
        refused. -#}
    {%- set call = modules.re.search('(?i)(?<![\\w.#])(' ~ dbt_backfill._unrepeatable_functions() | join('|') ~ ')\\((?!\\)#)', plan) -%}
    {%- set cast = modules.re.search(
        '(?i)(?:cast|date|timestamp\\w*)\\(\\s*((?:now|today|tomorrow|yesterday)\\b)(?!#)([^(),]*?)\\s*(?: as (?:date|timestamp)|\\)|, None\\b)', plan
    ) -%}
    {#- A volatile column may not use the file either: Spark reports no file in a query that reads keys again. -#}
    {%- set call = call or modules.re.search('(?i)(?<![\\w.#])(input_file_\\w+)\\((?!\\)#)', explained.analyzed | join) -%}
    {%- if call -%} {%- do dbt_backfill.refuse_unrepeatable(call.group(1) | lower ~ '()') -%} {%- endif -%}
    {%- if cast -%} {%- do dbt_backfill.refuse_unrepeatable("'" ~ cast.groups() | join ~ "' as a date or time") -%} {%- endif -%}
    {%- if explained.optimized[0].startswith('LocalRelation <empty>') -%}
        {%- do dbt_backfill.refuse('the filter of its query is always false', 'Correct the filter', id='filter-always-false') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse words of the query that no plan shows. In a plan, a setting in braces, a typed literal such as `date 'today'`, and a session variable that
    contains a name or a type are already replaced by their values. A star inside an expression, as in `md5(to_json(struct(*)))`, is already replaced
    by the columns. Such a star is right after a bracket, a comma or a point, and it is not in the select list of a query.

    If the query casts something to a timestamp (`makes_moments`), a literal that is only a time is refused wherever it is: in `cast(coalesce(text,
    '12:30') as timestamp)` Spark adds the date of the run. A literal that begins with a space is most likely added to a date, so it is not refused.

    A literal such as 'today' is refused if it is not in the optimized plan any more. Spark has probably replaced it by a date, as in
    `cast(trim('today') as date)` or `day between '2024-01-01' and 'today'`, whose analyzed plan shows no cast of the literal.
-#}
{% macro _check_words(words, may_grow, makes_moments, optimized) %}
    {%- set brackets, arguments, setting = ['query'], {'identifier': 'constant'}, (words | join).partition('${')[2].partition('}') -%}
    {%- if setting[1] -%}
        {%- set setting = '${' ~ setting[0] ~ '}' -%}
        {%- do dbt_backfill.refuse(
            'its query contains ' ~ setting ~ ', but Spark would replace this text with the value of a setting',
            'If you mean the setting, write its value. If you mean these characters in a string literal, write \\u0024 instead of the dollar sign',
            id='query-text-substituted') -%}
    {%- endif -%}
    {#- Spark evaluates the arguments `constant` when it analyzes the query. -#}
    {%- for format in ['json', 'csv', 'xml', 'avro', 'protobuf'] -%}
        {%- do arguments.update({'from_' ~ format: 'value, constant', 'to_' ~ format: 'value, constant', 'schema_of_' ~ format: 'constant'}) -%}
    {%- endfor -%}
    {%- do arguments.update({'collate': 'value, constant'}) -%}
    {%- for name in ['variant_get', 'try_variant_get'] -%} {%- do arguments.update({name: 'value, value, constant'}) -%} {%- endfor -%}
    {%- for word in words -%}
        {%- set next, last = words[loop.index:loop.index + 2] | map('lower') | list + ['', ''], loop.previtem | default('') | lower -%}
        {%- if word == '(' -%}
            {%- set is_query = next[0] in ['select', 'with', 'from', 'table', 'values'] and next[1] not in [',', ')'] -%}
            {%- do brackets.append('constant' if brackets[-1] == 'constant'
                else arguments.get(last.split('.')[-1].strip('`'), 'query' if is_query else 'expression')) -%}
        {%- elif word == ')' -%}
            {%- do brackets.pop() -%}
        {%- elif word == ',' and brackets[-1].startswith('value, ') -%}
            {%- do brackets.append(brackets.pop()[7:]) -%}
        {%- elif brackets[-1] == 'constant' and modules.re.search('^(?:`|[^\\W\\d])', word) and word[-1] not in ['"', "'"] and next[0] != '(' -%}
            {%- do dbt_backfill.refuse(
                "its query takes a name, a type or an option from the session variable '" ~ word ~ "', which may have another value in the next run",
                'Write the value of the variable as a string literal', id='query-session-variable') -%}
        {%- elif word == '*' and may_grow and brackets[-1] != 'query' and last[-1:] in ['(', ',', '.'] -%}
            {%- do dbt_backfill.refuse(
                'its query has a star inside an expression, so the value of the expression would change if the upstream got another column',
                'Write out the columns instead of the star', id='star-in-expression') -%}
        {%- elif word[-1] in ['"', "'"] -%}
            {%- set is_typed = last in ['date', 'timestamp', 'timestamp_ntz', 'timestamp_ltz'] -%}
            {%- set text = word.strip('rR"\'' ~ (' ' if is_typed else '')) -%}
            {%- set day = modules.re.search('(?i)^(now|today|tomorrow|yesterday)(\\s+\\S+)?$', text | trim) -%}
            {%- if (is_typed or makes_moments and last not in ['time', 'interval']) and modules.re.match('[tT]?\\d{1,2}:\\d', text)
                    or is_typed and text.lower().startswith(('now', 'today', 'tomorrow', 'yesterday'))
                    or day and not modules.re.search('(?i)\\b' ~ day.group(1) ~ '\\b(?!#)', optimized) -%}
                {%- do dbt_backfill.refuse_unrepeatable("'" ~ text ~ "' as a date or time") -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Refuse a struct's field that Spark would no longer read if the upstream got another column: Spark first takes `event.type` for the column `type`
    of the table or alias `event`, and only then for the field `type` of the column `event`. -#}
{% macro _check_fields(words, plan) %}
    {%- set aliases, text = modules.re.findall('subqueryalias (.+)', plan | lower | replace('`', '')), [] -%}
    {%- for word in words if word[-1] != "'" -%} {%- do text.append(word) -%} {%- endfor -%}
    {%- set pairs = '(?<![\\w.`"])(`[^`]*`|"[^"]*"|\\w+)[.](`[^`]*`|"[^"]*"|\\w+)' -%}
    {%- for name, field in modules.re.findall(pairs, modules.re.sub(' ?[.] ?', '.', text | join(' '))) -%}
        {%- set name, field = name.strip('`"'), field.strip('`"') -%}
        {#- Spark prints a field as `event#1.type`, and a value of a map as `event#1[type]`. -#}
        {%- set read = '(?i)(?<!lambda )(?<!\\w)' ~ modules.re.escape(name) ~ '#\\d+(?:[.]|\\[)' ~ modules.re.escape(field) ~ '(?!\\w)' -%}
        {%- if name | lower in aliases and modules.re.search(read, plan) -%}
            {%- do dbt_backfill.refuse(
                "its query reads the field '" ~ field ~ "' of the column '" ~ name ~ "', which is also the name of a table or alias, but if the upstream "
                    ~ 'got a column ' ~ field ~ ', Spark would read this column',
                'Write ' ~ name ~ '.' ~ name ~ '.' ~ field ~ ', or give the upstream another alias', id='struct-field-ambiguous') -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{% macro refuse_unrepeatable(what) %}
    {%- do dbt_backfill.refuse(
        'its query uses ' ~ what ~ ', which gives another value when the same row is read again',
        'Take the value from a column of the upstream, or add the value in a downstream model. '
            ~ ('' if what == '_metadata' or what.startswith('input_file_') else 'If a column says when or by which run its row was written, '
                ~ 'write it as <expression> AS <name>, and list the name in volatile_columns. ')
            ~ 'If ' ~ what ~ ' is only text in a string literal, build this literal with concat', id='query-not-repeatable') -%}
{% endmacro %}


{#- Return the functions, as Spark prints them, that may return different values for the same row. A test tries all functions of Spark. -#}
{% macro _unrepeatable_functions() %}
    {{ return([
        'rand', 'randn', 'random', 'randstr', 'uniform', 'uuid', 'shuffle', 'monotonically_increasing_id', 'spark_partition_id',
        'input_file_name', 'input_file_block_start', 'input_file_block_length', 'now', 'current_timestamp', 'current_date', 'current_time',
        'localtimestamp', 'current_timezone', 'current_user', 'session_user', 'user', 'current_database', 'current_catalog',
        'current_schema', 'version', 'reflect', 'java_method', 'try_reflect', 'variablereference', 'aes_encrypt', 'kll_sketch_merge_\\w+',
    ]) }}
{% endmacro %}


{#-
    Return the names of those settings of common_settings_sql on which the query's values may depend. If this is not certain, the setting is returned
    as well. A returned setting must not change between barriers.

    Both plans are searched. Only the analyzed plan shows constants. Some functions are replaced by other functions in the optimized plan, and only
    this plan shows the casts of the replacements.
-#}
{% macro find_used_settings(explained, query) %}
    {%- set lines, used = explained.optimized[:-1], [] -%}
    {%- for line in explained.analyzed if dbt_backfill.plan_operator(line) != 'Relation' -%} {%- do lines.append(line) -%} {%- endfor -%}
    {%- set plans = lines | join('\n') -%}
    {#- Find out if the query depends on the time zone. Spark prints the time zone of some expressions, as `Some(UTC)`, but not of arithmetic or of a
        comparison with a literal. So the query counts as dependent in two more cases: an expression uses a column of a type with a time zone, or
        makes a value of such a type. Spark prints a timestamp literal in the same way with and without a time zone. -#}
    {%- set makes_moments = 'Some\\(|TimestampType|\\btimestamp\\b(?!#)|timestamp\\w*\\(|\\b(extract|date_part|datepart)\\('
        ~ '|\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d' -%}
    {%- if modules.re.search(makes_moments, plans) or dbt_backfill._computes_moments(explained) -%}
        {%- do used.append('spark.sql.session.timeZone') -%}
    {%- endif -%}
    {#- Find out if the query depends on the ANSI mode. It depends on the mode if it has casts, arithmetic, access to elements, or functions that fail
        or return another value in the mode. dbt-spark turns the mode off in a session, but cannot do so on a Thrift server. -#}
    {%- set functions = 'cast|size|cardinality|element_at|elt|conv|abs|negative|pmod|mod|div|round|bround|ceil|floor|next_day'
        ~ '|parse_url|to_\\w+|make_\\w+|unix_\\w+|gettimestamp|date_\\w+|add_months|months_\\w+' -%}
    {%- if modules.re.search('(?i)\\b(' ~ functions ~ ')\\(| [-+*/%] |[\\w)]\\[|(?<!\\w)-[a-z_(]', plans) -%}
        {%- do used.append('spark.sql.ansi.enabled') -%}
    {%- endif -%}
    {#- Search for double quotes. A setting of the session decides if they enclose a string literal or a name. -#}
    {%- if '"' in dbt_backfill.get_words(query) | map('last') -%} {%- do used.append('spark.sql.ansi.doubleQuotedIdentifiers') -%} {%- endif -%}
    {{ return(used) }}
{% endmacro %}


{#- True if an expression of the query uses a column of a type with a time zone. False if the query only passes such columns on. The result is true as
    well if the entries of the topmost projection cannot be separated, or if a lower projection has an expression. -#}
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
            {#- A bracket in a string literal may have split an entry wrongly. In this case the whole line is searched. -#}
            {%- set is_whole = entries | length == names | length and entry.rpartition('#')[0].endswith(names[loop.index0]) -%}
            {%- if not is_whole or entry.split(' AS ')[0] not in passed -%} {%- do computed.append(entry if is_whole else line) -%} {%- endif -%}
        {%- endfor -%}
        {%- if not entries or projections and ' AS ' in line -%} {%- do computed.append(line) -%} {%- endif -%}
        {%- if entries -%} {%- do projections.append(line) -%} {%- endif -%}
    {%- endfor -%}
    {%- for id in modules.re.findall('#(\\d+)', computed | join(' ')) if id in moments -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}
