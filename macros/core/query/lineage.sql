{#-
    The primary key as a list of {'name': the MV's column, 'upstream': the upstream's, 'type': of both},
    in the order of unique_key.

    The upstream's column is read off the topmost projection of the optimized plan, in which unchanged
    columns stand as `column#1` or `column#1 AS name#2`, or taken from upstream_key.

    Raises: a column of unique_key is an expression, is another column than upstream_key says, or has a type
    that positions cannot be made of.
-#}
{% macro key_lineage(explained, unique_key, upstream_key) %}
    {%- set keys = [] -%}
    {%- set projection = namespace(rest=explained.optimized[0] | replace('Project [', '', 1)) -%}
    {%- for column in unique_key -%}
        {%- set match = modules.re.match(
            '(?i)(.+?)#(\\d+)L?(?: AS ' ~ modules.re.escape(column) ~ '#\\d+L?)?(?:, |\\]$)', projection.rest
        ) -%}
        {%- set upstream = dbt_backfill._relation_column(explained.optimized, match.group(1), match.group(2)) if match else none -%}
        {%- if not upstream -%}
            {%- do dbt_backfill._refuse_padded(explained.optimized, column, match) -%}
            {%- do dbt_backfill.refuse(
                "'" ~ column ~ "' of unique_key is not a column of the upstream but an expression",
                'Select the primary key of the upstream unchanged (another name is fine)'
            ) -%}
        {%- endif -%}
        {%- set projection.rest = projection.rest[match.end():] -%}
        {%- set type = explained.key_types[loop.index0] -%}
        {%- if upstream_key and upstream_key[loop.index0] | lower != upstream | lower -%}
            {%- do dbt_backfill.refuse(
                "upstream_key says that '" ~ column ~ "' carries '" ~ upstream_key[loop.index0]
                    ~ "', and the query takes it from '" ~ upstream ~ "'",
                'Correct upstream_key, or leave it out'
            ) -%}
        {%- endif -%}
        {%- if upstream in keys | map(attribute='upstream') -%}
            {%- do dbt_backfill.refuse(
                "two columns of unique_key carry '" ~ upstream ~ "' of the upstream",
                'Name each column of the primary key once'
            ) -%}
        {%- endif -%}
        {%- if not dbt_backfill.is_key_type(type) -%}
            {%- do dbt_backfill.refuse(
                "'" ~ column ~ "' of unique_key has the type " ~ type ~ ', of which no positions can be made',
                'Use a key of integers, strings (without a collation), dates, timestamps, decimals, booleans or binary'
            ) -%}
        {%- endif -%}
        {%- do keys.append({'name': column, 'upstream': upstream, 'type': type}) -%}
    {%- endfor -%}
    {{ return(keys) }}
{% endmacro %}


{#- Refuse a key of the type char(n), which Spark pads as it reads it: an expression, of which it pushes nothing to files. -#}
{% macro _refuse_padded(plan, column, match) %}
    {%- set below = match.group(1) ~ '#' ~ match.group(2) if match else column ~ '#' -%}
    {%- set names = modules.re.escape(below) ~ '\\b|' ~ modules.re.escape(column ~ '#') -%}
    {%- if modules.re.search('readSidePadding\\([^()]*\\)\\) AS (' ~ names ~ ')', plan | join('\n')) -%}
        {%- do dbt_backfill.refuse(
            "'" ~ column ~ "' of unique_key has the type char(n), of which no positions can be made",
            'Give the upstream a key of the type string or varchar(n)'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    The column of the relation that a plan scans behind the attribute `name#id`, as the table spells it; none if there is
    none. An attribute has the name that the query gave it, in whatever case.
-#}
{% macro _relation_column(plan, name, id) %}
    {%- for attribute in dbt_backfill.plan_attributes(plan) if attribute.id == id and attribute.name | lower == name | lower -%}
        {{ return(attribute.name) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Of these names of columns those that the code of a query has in it; all of them where it takes columns without naming them. Their
    case does not matter.
-#}
{% macro get_named_columns(query, names) %}
    {%- set tokens = dbt_backfill.tokens(query) | rejectattr('kind', 'equalto', 'comment') | list -%}
    {%- if dbt_backfill._have_star(tokens) or dbt_backfill._read_without_select(tokens) or dbt_backfill._rename_columns(tokens) -%}
        {{ return(names) }}
    {%- endif -%}
    {%- set code, found = tokens | map(attribute='text') | join(' '), [] -%}
    {%- for name in names if modules.re.search('(?i)(?<!\\w)' ~ modules.re.escape(name) ~ '(?!\\w)', code | replace('``', '`')) -%}
        {%- do found.append(name) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Whether a star of a query stands for columns: the others multiply what is before them. `tokens` are without comments. -#}
{% macro _have_star(tokens) %}
    {%- set texts = [] -%}
    {%- for token in tokens -%}
        {%- do texts.append("''" if token.kind == 'string' else token.text) -%}
    {%- endfor -%}
    {{ return(modules.re.search('(?i)(?:[,.(]|\\b(?:select|distinct|all))\\s*[*]', texts | join(' ')) is not none) }}
{% endmacro %}


{#- Whether a bracket behind this word, '' for none, holds the arguments of a function. -#}
{% macro _is_call(word) %}
    {{ return(word | lower not in [
        '', 'select', 'from', 'join', 'in', 'as', 'and', 'or', 'not', 'where', 'on', 'exists', 'except',
    ]) }}
{% endmacro %}


{#- Whether a query has TABLE, a pipe, or a FROM without a SELECT before it, all of which take all columns; rather one too many. -#}
{% macro _read_without_select(tokens) %}
    {%- set code = tokens | selectattr('kind', 'equalto', 'code') | map(attribute='text') | join(' ') -%}
    {#- Whether what each open bracket holds, and the query itself, may have a FROM: after a SELECT, or of a function. -#}
    {%- set brackets = [false] -%}
    {%- set signs = '(\\w*)\\s*[(]|[)]|\\bdistinct\\s+from\\b|\\b(select|from|table)\\b|[|]>' -%}
    {%- for match in modules.re.finditer(signs, code | lower) -%}
        {%- if match.group().endswith('(') -%}
            {%- do brackets.append(dbt_backfill._is_call(match.group(1))) -%}
        {%- elif match.group() == ')' -%}
            {%- do brackets.pop() if brackets | length > 1 -%}
        {%- elif match.group() == 'select' -%}
            {%- do brackets.pop() -%}
            {%- do brackets.append(true) -%}
        {%- elif match.group() in ['table', '|>'] or match.group() == 'from' and not brackets[-1] -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Whether a query gives the columns of a table other names, as in `from orders as t(k, v)`, or spells a name by IDENTIFIER; rather one
    too many. What stands in brackets before such a list has a SELECT, or is found as what reads without.
-#}
{% macro _rename_columns(tokens) %}
    {%- set texts = [] -%}
    {%- for token in tokens -%} {%- do texts.append('string' if token.kind == 'string' else token.text) -%} {%- endfor -%}
    {%- set code = texts | join(' ') -%}
    {%- if modules.re.search('(?i)\\bidentifier\\s*[(]', code) -%} {{ return(true) }} {%- endif -%}
    {%- set name = '(?:\\w+|`(?:[^`]|``)*`)' -%}
    {%- set table = '\\bfrom\\b[(\\s]*(?!(?:select|with)\\b)' ~ name ~ '(?:\\s*[.]\\s*' ~ name ~ ')*' -%}
    {#- In brackets it may have another name before. -#}
    {%- set within = '(?:[)\\s]*(?<!\\w)(?:as\\s+)?' ~ name ~ '\\s*[)])*[)\\s]*' -%}
    {%- for match in modules.re.finditer('(?i)' ~ table ~ within ~ '(?<!\\w)(as\\s+)?(' ~ name ~ ')\\s*[(]', code) -%}
        {%- if match.group(1) or dbt_backfill._is_call(match.group(2)) -%} {{ return(true) }} {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    The columns of tables in which a char(n) is: of each table a dict of names in lower case. It has other values than a string, because
    Spark fills it up with blanks. A select gives it out as a string, and a Delta table is described with one; what fills it up stands
    in Spark's plan.
-#}
{% macro find_char_columns(relations) %}
    {%- set selects, found, at = [], [], namespace(chars={}) -%}
    {%- for relation in relations -%} {%- do selects.append('select 1 from ' ~ relation.render()) -%} {%- endfor -%}
    {%- set plan = dbt_backfill.run_explain('look for char(n)', 'explain extended ' ~ selects | join(' union all ')) -%}
    {%- for line in dbt_backfill.plan_section(plan, 'Analyzed')[1:] -%}
        {%- if dbt_backfill.plan_operator(line, loop.first) in dbt_backfill.reading_operators() -%}
            {%- do found.append(at.chars) -%}
            {%- set at.chars = {} -%}
        {%- elif 'readSidePadding(' in line -%}
            {%- for item in dbt_backfill.split_list(line.split('Project [', 1)[1][:-1]) if 'readSidePadding(' in item -%}
                {%- set lengths = modules.re.findall('readSidePadding\\([^()]*?(\\d+)\\)', item) -%}
                {%- set name = (item.split(' AS ') | last).rsplit('#', 1)[0] -%}
                {%- do at.chars.update({name | lower: 'char(' ~ lengths | join('), char(') ~ ')'}) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found + [{}] * (relations | length)) }}
{% endmacro %}


{#- A type as it is described, with what find_char_columns has found in it. -#}
{% macro type_with_char(type, char) %}
    {{ return(type if not char else char if type == 'string' else type ~ ' of ' ~ char) }}
{% endmacro %}
