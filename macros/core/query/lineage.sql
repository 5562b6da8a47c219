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
        {%- if not dbt_backfill.is_key_type(type) -%}
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
