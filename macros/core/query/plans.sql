{#- Return the lines of one section of EXPLAIN EXTENDED's output. -#}
{% macro plan_section(plan, name) %}
    {%- set header = '== ' ~ name ~ ' Logical Plan ==\n' -%}
    {{ return(plan.split(header)[1].split('\n\n== ')[0].split('\n') if header in plan else []) }}
{% endmacro %}


{#-
    Return the operator of a line of a plan: `Relation` for whatever reads a table, and nothing for a line that continues a text of the
    line before.
-#}
{% macro plan_operator(line, first) %}
    {%- set match = modules.re.match("[\\s:]*(?:[+:]- )" ~ ('?' if first else '') ~ "'?(\\w+)", line) -%}
    {%- set name = match.group(1) if match else '' -%}
    {{ return('Relation' if name in ['RelationV2', 'DataSourceV2Relation', 'HiveTableRelation'] else name) }}
{% endmacro %}


{#- Return the attributes of the relations that a plan scans, or of another operator, as a list of {'name', 'id'}. -#}
{% macro plan_attributes(plan, operator='Relation') %}
    {%- set attributes = [] -%}
    {%- for line in plan if dbt_backfill.plan_operator(line, line == plan[0]) == operator -%}
        {%- set list = modules.re.search('\\[(.*)\\]', line.split('Data Cols: ') | last) -%}
        {%- for match in modules.re.finditer('(.+?)#(\\d+)L?(?:, ?|$)', list.group(1) if list else '') -%}
            {%- do attributes.append({'name': match.group(1), 'id': match.group(2)}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(attributes) }}
{% endmacro %}


{#- Return the analyzed plan with an @ for each name that is not of letters: those of the upstream, and those in backticks. -#}
{% macro mask_names(explained, query) %}
    {%- set names, odd = explained.upstream_columns | map(attribute='name') | list, [] -%}
    {%- for token in dbt_backfill.tokens(query) if token.kind == 'quoted' -%}
        {%- do names.append(token.text[1:-1] | replace('``', '`')) -%}
    {%- endfor -%}
    {%- for name in names if not modules.re.fullmatch('\\w+', name) -%} {%- do odd.append(modules.re.escape(name)) -%} {%- endfor -%}
    {%- if not odd -%} {{ return(explained.analyzed) }} {%- endif -%}
    {{ return(modules.re.sub('(?i)(?:' ~ odd | join('|') ~ ')(?=#\\d)', '@', explained.analyzed | join('\n')).split('\n')) }}
{% endmacro %}


{#-
    Return the expressions of a plan: the entries of its projections, and its filters. A projection stays whole where a text of the query
    has a closing bracket without its opening one, also as an escape: a plan prints texts without quotes.
-#}
{% macro plan_expressions(plan, query) %}
    {%- set closing, operators, expressions = [], [], [] -%}
    {%- for token in dbt_backfill.tokens(query) if token.kind == 'string' -%}
        {%- set at = namespace(depth=0) -%}
        {%- for match in modules.re.finditer('[\\[(]|[\\])]|\\\\[uU]|\\\\[0-7]{3}', token.text) -%}
            {%- set at.depth = at.depth + (1 if match.group() in '[(' else -1) -%}
            {%- if at.depth < 0 or match.group()[0] == '\\' -%} {%- do closing.append(token.text) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for line in plan -%}
        {%- set operator = dbt_backfill.plan_operator(line, loop.first) -%}
        {%- if operator -%}
            {%- do operators.append({'name': operator, 'text': line}) -%}
        {%- elif operators -%}
            {%- do operators[-1].update({'text': operators[-1].text ~ '\n' ~ line}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for operator in operators if operator.name in ['Project', 'Filter'] -%}
        {%- if operator.name == 'Project' and not closing -%}
            {%- do expressions.extend(dbt_backfill.split_list(operator.text.split('Project [', 1)[1][:-1])) -%}
        {%- else -%}
            {%- do expressions.append(operator.text) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(expressions) }}
{% endmacro %}


{#- Return the entries of a list: what is between the commas outside of brackets. -#}
{% macro split_list(text) %}
    {%- set at, entries = namespace(depth=0, begin=0), [] -%}
    {%- for match in modules.re.finditer('[\\[(]|[\\])]|, ', text) -%}
        {%- if match.group() != ', ' -%}
            {%- set at.depth = at.depth + (1 if match.group() in '[(' else -1) -%}
        {%- elif at.depth == 0 -%}
            {%- do entries.append(text[at.begin:match.start()]) -%}
            {%- set at.begin = match.end() -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(entries + [text[at.begin:]]) }}
{% endmacro %}


{#- Return the names and ids of a column, or a field of it, that an entry of a projection only passes on; none if it does more. -#}
{% macro passed_column(item) %}
    {%- set passed = modules.re.fullmatch('(?s)(@|\\w+)#(\\d+)L?(?:(?:[.]\\w+)* AS ([^#]+)#(\\d+)L?)?', item) -%}
    {{ return({
        'id': passed.group(2), 'new_id': passed.group(4) or passed.group(2), 'new_name': passed.group(3) or passed.group(1),
    } if passed else none) }}
{% endmacro %}


{#-
    Return columns of a plan together with what only passes them on, under other names.

    Arguments:
      plan (list), items (list): see mask_names and plan_expressions.
      columns (dict): names by ids, as in the result.
-#}
{% macro follow_columns(plan, items, columns) %}
    {%- set followed, passed = dict(columns), [] -%}
    {%- for item in items -%} {%- do passed.append(dbt_backfill.passed_column(item)) -%} {%- endfor -%}
    {%- set references = dbt_backfill.plan_attributes(plan, 'CTERelationRef') -%}
    {#- A column may go through as many names as there are entries; a common table expression's have new ids. -#}
    {%- for _ in items -%}
        {%- for reference in references if reference.name | lower in followed.values() | map('lower') -%}
            {%- do followed.update({reference.id: reference.name}) -%}
        {%- endfor -%}
        {%- for column in passed -%}
            {%- if column and column.id in followed -%} {%- do followed.update({column.new_id: column.new_name}) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(followed) }}
{% endmacro %}


{#-
    Return the primary key as a list of {'name': the MV's column, 'upstream': the upstream's, 'type': of both}, in the order of unique_key.

    The upstream's column is taken from the topmost projection of the optimized plan, which has unchanged columns as `column#1` or
    `column#1 AS name#2`; its name from the relation, as the query may write that in another case.

    Raises: a column of unique_key is an expression, is another column than upstream_key says, or has a type of which no positions can be
      made.
-#}
{% macro key_lineage(explained, unique_key, upstream_key) %}
    {%- set plan, keys = explained.optimized, [] -%}
    {%- set attributes, projection = dbt_backfill.plan_attributes(plan), namespace(rest=plan[0] | replace('Project [', '', 1)) -%}
    {%- for column in unique_key -%}
        {%- set name, type, found = modules.re.escape(column), explained.key_types[loop.index0], [] -%}
        {%- set match = modules.re.match('(?i)(.+?)#(\\d+)L?(?: AS ' ~ name ~ '#\\d+L?)?(?:, |\\]$)', projection.rest) -%}
        {%- for attribute in attributes if match and attribute.id == match.group(2) and attribute.name | lower == match.group(1) | lower -%}
            {%- do found.append(attribute.name) -%}
        {%- endfor -%}
        {%- if not found -%}
            {#- Spark pads a char(n) as it reads it: an expression, of which it pushes nothing to files. -#}
            {%- set below = match.group(1) ~ '#' ~ match.group(2) if match else column ~ '#' -%}
            {%- set padded = 'readSidePadding\\([^()]*\\)\\) AS (' ~ modules.re.escape(below) ~ '\\b|' ~ modules.re.escape(column ~ '#') ~ ')' -%}
            {%- if modules.re.search(padded, plan | join('\n')) -%}
                {%- do dbt_backfill.refuse(
                    "'" ~ column ~ "' of unique_key has the type char(n), of which no positions can be made",
                    'Give the upstream a key of the type string or varchar(n)'
                ) -%}
            {%- endif -%}
            {%- do dbt_backfill.refuse(
                "'" ~ column ~ "' of unique_key is not a column of the upstream but an expression",
                'Select the primary key of the upstream unchanged (another name is fine)'
            ) -%}
        {%- endif -%}
        {%- if upstream_key and upstream_key[loop.index0] | lower != found[0] | lower -%}
            {%- do dbt_backfill.refuse(
                "upstream_key says that '" ~ column ~ "' carries '" ~ upstream_key[loop.index0]
                    ~ "', and the query takes it from '" ~ found[0] ~ "'",
                'Correct upstream_key, or leave it out'
            ) -%}
        {%- endif -%}
        {%- if found[0] in keys | map(attribute='upstream') -%}
            {%- do dbt_backfill.refuse(
                "two columns of unique_key carry '" ~ found[0] ~ "' of the upstream", 'Name each column of the primary key once'
            ) -%}
        {%- endif -%}
        {#-
            Spark compares positions and renders them as text. Left out on purpose: float and double (NaN and statistics of files disagree),
            strings with a collation (equal keys with unequal hashes), and everything that has no order.
        -#}
        {%- set ordered = ['tinyint', 'smallint', 'int', 'bigint', 'string', 'date', 'timestamp', 'timestamp_ntz', 'boolean', 'binary'] -%}
        {%- if type not in ordered and not modules.re.fullmatch('decimal\\(\\d+,\\d+\\)', type) -%}
            {%- do dbt_backfill.refuse(
                "'" ~ column ~ "' of unique_key has the type " ~ type ~ ', of which no positions can be made',
                'Use a key of integers, strings (without a collation), dates, timestamps, decimals, booleans or binary'
            ) -%}
        {%- endif -%}
        {%- do keys.append({'name': column, 'upstream': found[0], 'type': type}) -%}
        {%- set projection.rest = projection.rest[match.end():] -%}
    {%- endfor -%}
    {{ return(keys) }}
{% endmacro %}


{#- Return those of these names of columns that the code of a query has in it, in any case; all of them where it may read others too. -#}
{% macro get_named_columns(query, names) %}
    {%- set tokens = dbt_backfill.tokens(query) | rejectattr('kind', 'equalto', 'comment') | list -%}
    {%- if dbt_backfill._reads_unnamed_columns(tokens) -%} {{ return(names) }} {%- endif -%}
    {%- set code, found = tokens | map(attribute='text') | join(' ') | replace('``', '`'), [] -%}
    {%- for name in names if modules.re.search('(?i)(?<!\\w)' ~ modules.re.escape(name) ~ '(?!\\w)', code) -%}
        {%- do found.append(name) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- True if a query may read columns that it does not name; rather one too many. `tokens` are without comments. -#}
{% macro _reads_unnamed_columns(tokens) %}
    {%- set texts = [] -%}
    {%- for token in tokens -%} {%- do texts.append('string' if token.kind == 'string' else token.text) -%} {%- endfor -%}
    {%- set text = texts | join(' ') -%}
    {#- A star for columns (the others multiply what is before them), or a name that IDENTIFIER spells. -#}
    {%- if modules.re.search('(?i)(?:[,.(]|\\b(?:select|distinct|all))\\s*[*]|\\bidentifier\\s*[(]', text) -%} {{ return(true) }} {%- endif -%}
    {#- Behind any other word a bracket holds the arguments of a function. -#}
    {%- set no_functions = ['', 'select', 'from', 'join', 'in', 'as', 'and', 'or', 'not', 'where', 'on', 'exists', 'except'] -%}
    {#- TABLE, a pipe, or a FROM without a SELECT before it. In `brackets`, for the query and what each open bracket holds: may it have a FROM? -#}
    {%- set code = tokens | selectattr('kind', 'equalto', 'code') | map(attribute='text') | join(' ') | lower -%}
    {%- set brackets = [false] -%}
    {%- for match in modules.re.finditer('(\\w*)\\s*[(]|[)]|\\bdistinct\\s+from\\b|\\b(select|from|table)\\b|[|]>', code) -%}
        {%- if match.group().endswith('(') -%}
            {%- do brackets.append(match.group(1) not in no_functions) -%}
        {%- elif match.group() == ')' -%}
            {%- do brackets.pop() if brackets | length > 1 -%}
        {%- elif match.group() == 'select' -%}
            {%- do brackets.pop() -%}
            {%- do brackets.append(true) -%}
        {%- elif match.group() in ['table', '|>'] or match.group() == 'from' and not brackets[-1] -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {#-
        Other names for the columns of a table, as in `from orders as t(k, v)`. In brackets it may have another name before. What is in
        brackets before such a list has a SELECT, or was found above.
    -#}
    {%- set name = '(?:\\w+|`(?:[^`]|``)*`)' -%}
    {%- set table = '\\bfrom\\b[(\\s]*(?!(?:select|with)\\b)' ~ name ~ '(?:\\s*[.]\\s*' ~ name ~ ')*' -%}
    {%- set within = '(?:[)\\s]*(?<!\\w)(?:as\\s+)?' ~ name ~ '\\s*[)])*[)\\s]*' -%}
    {%- for match in modules.re.finditer('(?i)' ~ table ~ within ~ '(?<!\\w)(as\\s+)?(' ~ name ~ ')\\s*[(]', text) -%}
        {%- if match.group(1) or match.group(2) | lower not in no_functions -%} {{ return(true) }} {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Return the columns of tables in which a char(n) is: of each table a dict of names in lower case. Such a column has other values than a
    string, because Spark pads it with blanks. A select returns it as a string, and a Delta table is described with one; the padding is in
    Spark's plan.
-#}
{% macro find_char_columns(relations) %}
    {%- set selects, found = [], [{}] -%}
    {%- for relation in relations -%} {%- do selects.append('select 1 from ' ~ relation.render()) -%} {%- endfor -%}
    {%- set plan = dbt_backfill.run_explain('look for char(n)', 'explain extended ' ~ selects | join(' union all ')) -%}
    {%- for line in dbt_backfill.plan_section(plan, 'Analyzed')[1:] -%}
        {%- if dbt_backfill.plan_operator(line, loop.first) == 'Relation' -%}
            {%- do found.append({}) -%}
        {%- elif 'readSidePadding(' in line -%}
            {%- for item in dbt_backfill.split_list(line.split('Project [', 1)[1][:-1]) if 'readSidePadding(' in item -%}
                {%- set lengths = modules.re.findall('readSidePadding\\([^()]*?(\\d+)\\)', item) -%}
                {%- set name = (item.split(' AS ') | last).rsplit('#', 1)[0] -%}
                {%- do found[-1].update({name | lower: 'char(' ~ lengths | join('), char(') ~ ')'}) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found[:-1] + [{}] * (relations | length)) }}
{% endmacro %}


{#- Return a type as it is described, with what find_char_columns has found in it. -#}
{% macro type_with_char(type, char) %}
    {{ return(type if not char else char if type == 'string' else type ~ ' of ' ~ char) }}
{% endmacro %}
