{#-
    What Spark makes of the model's query, read off one EXPLAIN EXTENDED: {
      'columns': the names and types of the query's columns, as Spark prints them,
      'unique_key': its columns, spelled as the query spells them,
      'key_types': their types,
      'upstream_columns': a list of {'name', 'type', 'id': of the attribute in the plans, '' if there is not one of that name},
      'analyzed', 'optimized': the lines of the two plans,
    }

    The key columns are selected once more in front of the query's own, so that they are the first entries of
    the optimized plan's topmost projection. Behind them stands a struct of the upstream's columns: the plans have no
    types, but what an EXPLAIN returns has.

    Arguments:
      read (string): the upstream, as it stands after FROM, of which the columns are told: a version of it may have less than the query
        reads.

    Raises: the query does not run, or lacks a column of unique_key.
-#}
{% macro explain_query(query, unique_key, read) %}
    {%- set plan = dbt_backfill._explain(query, unique_key, read) -%}
    {%- set analyzed = dbt_backfill.plan_section(plan, 'Analyzed') -%}
    {%- set optimized = dbt_backfill.plan_section(plan, 'Optimized') -%}
    {%- if not optimized -%}
        {%- do dbt_backfill._refuse_broken_query(analyzed[0] if analyzed else plan, unique_key) -%}
    {%- endif -%}
    {%- set header, upstream_types = analyzed[0].rsplit(', __bf_upstream: struct<', 1) -%}
    {%- set lines = dbt_backfill._split_upstream_columns(analyzed[1:]) -%}
    {%- set schema = namespace(rest=header, key_types=[]) -%}
    {%- for column in unique_key -%}
        {%- set rest = schema.rest[(column | length) + 2:] -%}
        {%- set type = dbt_backfill._leading_type(rest) -%}
        {%- do schema.key_types.append(type) -%}
        {%- set schema.rest = rest[(type | length) + 2:] -%}
    {%- endfor -%}
    {{ return({
        'columns': schema.rest,
        'unique_key': dbt_backfill._spell_key(unique_key, lines.query[0]),
        'key_types': schema.key_types,
        'upstream_columns': dbt_backfill._read_upstream_columns(lines, upstream_types[:-1]),
        'analyzed': lines.query,
        'optimized': optimized,
    }) }}
{% endmacro %}


{#- The lines of the analyzed plan as those of the 'query' and those of the subquery for the 'upstream' in its first line. -#}
{% macro _split_upstream_columns(lines) %}
    {%- set split = {
        'query': [modules.re.sub(', scalar-subquery#\\d+ \\[\\] AS __bf_upstream#\\d+\\]$', ']', lines[0])], 'upstream': [],
    } -%}
    {%- for line in lines[1:] -%}
        {%- do split['upstream' if split.query | length == 1 and line.startswith(':') else 'query'].append(line) -%}
    {%- endfor -%}
    {{ return(split) }}
{% endmacro %}


{#- The upstream's columns, their types from the struct of them; 'unknown' where that cannot be taken apart. -#}
{% macro _read_upstream_columns(lines, types) %}
    {%- set read = dbt_backfill.plan_attributes(lines.query) -%}
    {%- set rest = namespace(types=types) -%}
    {%- set columns = [] -%}
    {%- for attribute in dbt_backfill.plan_attributes(lines.upstream) -%}
        {%- set known = rest.types.startswith(attribute.name ~ ':') -%}
        {%- set rest.types = rest.types[(attribute.name | length) + 1:] if known else '' -%}
        {%- set type = dbt_backfill._leading_type(rest.types) if known else 'unknown' -%}
        {%- set rest.types = rest.types[(type | length) + 1:] -%}
        {%- set ids = read | selectattr('name', 'equalto', attribute.name) | map(attribute='id') | list -%}
        {%- do columns.append({'name': attribute.name, 'type': type, 'id': ids[0] if ids | length == 1 else ''}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The names of the upstream's columns; none where a name has signs by which they cannot be told apart. -#}
{% macro get_upstream_names(explained) %}
    {%- if explained.upstream_columns | selectattr('type', 'equalto', 'unknown') | list -%} {{ return(none) }} {%- endif -%}
    {{ return(explained.upstream_columns | map(attribute='name') | list) }}
{% endmacro %}


{#-
    The columns of the upstream that a query reads, a list of {'name', 'type'}; none where these are all of them, or where it
    cannot be told: its optimized plan is more than projections and filters over one relation, or the query has read the upstream with
    other columns.
-#}
{% macro find_read_columns(explained, query) %}
    {%- set ids, read = [], [] -%}
    {%- if dbt_backfill.plan_attributes(explained.analyzed) | length != explained.upstream_columns | length -%} {{ return(none) }} {%- endif -%}
    {%- for line in explained.optimized -%}
        {%- set operator = dbt_backfill.plan_operator(line, loop.first) -%}
        {%- if operator in ['Project', 'Filter'] -%}
            {%- for match in modules.re.finditer('#(\\d+)', line) -%} {%- do ids.append(match.group(1)) -%} {%- endfor -%}
        {%- elif operator not in dbt_backfill.reading_operators() -%}
            {{ return(none) }}
        {%- endif -%}
    {%- endfor -%}
    {#- A common table expression may give the relation's columns other ids in this plan than in the analyzed one. -#}
    {%- set names = dbt_backfill.plan_attributes(explained.optimized) | selectattr('id', 'in', ids)
        | map(attribute='name') | map('lower') | list -%}
    {%- set filtered = dbt_backfill._find_filtered_ids(explained.analyzed, query) -%}
    {%- if not names or filtered is none -%} {{ return(none) }} {%- endif -%}
    {%- for column in explained.upstream_columns -%}
        {%- if column.id == '' or column.type == 'unknown' -%} {{ return(none) }} {%- endif -%}
        {%- if column.name | lower in names or column.id in filtered -%}
            {%- do read.append({'name': column.name, 'type': column.type}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(read if read | length < explained.upstream_columns | length else none) }}
{% endmacro %}


{#-
    The ids of the attributes that the filters of an analyzed plan are made of, down to those of the relation; rather one too many
    than one too few. None where a line break in a text of the query may take a filter's line apart.

    A filter need not be in the optimized plan: a source that evaluates it itself, as Iceberg does with one that selects whole
    partitions, takes it out, and with it what was read for it alone.
-#}
{% macro _find_filtered_ids(plan, query) %}
    {%- set texts = dbt_backfill.tokens(query) | selectattr('kind', 'equalto', 'string') | map(attribute='text') | join(' ') -%}
    {%- if modules.re.search('\n|\\\\[nuU0-7]', texts) -%} {{ return(none) }} {%- endif -%}
    {%- set found, links = namespace(ids=[], grows=true), dbt_backfill._find_renamed_ids(plan) -%}
    {%- for expression in dbt_backfill.plan_expressions(plan, query) -%}
        {%- set ids = modules.re.findall('#(\\d+)', expression) -%}
        {%- if modules.re.match('[\\s:]*(?:[+:]- )?Filter ', expression) -%}
            {%- set found.ids = found.ids + ids -%}
        {%- elif ' AS ' in expression -%}
            {%- do links.append(ids) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for _ in links if found.grows -%}
        {%- set known = found.ids | length -%}
        {%- for ids in links if ids | select('in', found.ids) | list -%}
            {%- set found.ids = (found.ids + ids) | unique | list -%}
        {%- endfor -%}
        {%- set found.grows = found.ids | length > known -%}
    {%- endfor -%}
    {{ return(found.ids) }}
{% endmacro %}


{#- Lists of ids that may mean the same: a common table expression's columns have others where it is read, and their names. -#}
{% macro _find_renamed_ids(plan) %}
    {%- set text, lists = plan | join('\n'), [] -%}
    {%- for column in dbt_backfill.plan_attributes(plan, 'CTERelationRef') -%}
        {%- do lists.append(modules.re.findall('(?i)(?<!\\w)' ~ modules.re.escape(column.name) ~ '#(\\d+)', text)) -%}
    {%- endfor -%}
    {{ return(lists) }}
{% endmacro %}


{#-
    The columns of the upstream, as it told them, that a query reads where, without them, it would read an alias that stands before:
    that of `gross` in `select a * 2 as gross, gross * 3 as tax`, if there is such a column. None if no other column could be read so
    either.
-#}
{% macro find_alias_columns(explained) %}
    {%- set plan, found = explained.analyzed | join('\n'), [] -%}
    {%- set text, below = '(?:(?!\\n[\\s:]*[+:]- ).)*', '\\n[\\s:]*[+:]- Project \\[' -%}
    {#- What reads an alias beside it becomes a projection of its own. -#}
    {%- set selects = modules.re.findall('(?s)Project \\[' ~ text ~ '(?:' ~ below ~ text ~ ')*', plan) -%}
    {%- for column in dbt_backfill.plan_attributes(explained.analyzed) if ' as ' ~ column.name | lower ~ '#' in plan | lower -%}
        {%- for select in selects -%}
            {%- set splits = modules.re.search(below, select) is not none -%}
            {%- if dbt_backfill._reads_beside_alias(select, column.name, splits) -%} {%- do found.append(column.name) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if not found and not modules.re.search(below, selects | join('|')) -%} {{ return(none) }} {%- endif -%}
    {{ return(found | unique | select('in', explained.upstream_columns | map(attribute='name') | list) | list) }}
{% endmacro %}


{#-
    Whether a SELECT of a plan has an alias of this name, and behind it reads a column of the name; where it is split into several
    projections, whether an expression reads one at all.
-#}
{% macro _reads_beside_alias(select, name, splits) %}
    {%- set column = '(?<!\\w)' ~ modules.re.escape(name) ~ '#(\\d+)' -%}
    {%- set aliases = modules.re.findall('(?i) AS ' ~ column, select) -%}
    {%- set reads = [] -%}
    {%- for projection in select.split('Project [')[1:] -%}
        {%- for item in dbt_backfill.split_list(projection) -%}
            {%- set passed = modules.re.match('(?i)' ~ column ~ 'L?(?:\\]|$)', item) -%}
            {%- if not (splits and passed) -%} {%- do reads.extend(modules.re.findall('(?i)' ~ column, item)) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set first = modules.re.search('(?i)( AS )?' ~ column, select) -%}
    {{ return(reads | reject('in', aliases) | list != [] and aliases != [] and (splits or first.group(1) is not none)) }}
{% endmacro %}


{#- The columns of unique_key as the query spells them; Spark finds them in any case, unless it is told to be strict. -#}
{% macro _spell_key(unique_key, projection) %}
    {%- set rest = namespace(columns=projection | replace('Project [', '', 1)) -%}
    {%- set ids, names = [], [] -%}
    {%- for column in unique_key -%}
        {%- set match = modules.re.match('(?i)' ~ modules.re.escape(column) ~ '#(\\d+)L?, ', rest.columns) -%}
        {%- do ids.append(match.group(1) if match else '') -%}
        {%- set rest.columns = rest.columns[match.end():] if match else '' -%}
    {%- endfor -%}
    {%- for column in unique_key -%}
        {%- set own = modules.re.search(
            '(?i)(?:^|, )(' ~ modules.re.escape(column) ~ ')#' ~ ids[loop.index0] ~ 'L?(?:, |\\]$)', rest.columns
        ) -%}
        {%- do names.append(own.group(1) if own else column) -%}
    {%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{#- The columns of unique_key and of a query as Spark prints them; none if the query does not run. -#}
{% macro explain_columns(query, unique_key) %}
    {%- set plan = dbt_backfill._explain(query, unique_key) -%}
    {%- set runs = dbt_backfill.plan_section(plan, 'Optimized') != [] -%}
    {{ return(dbt_backfill.plan_section(plan, 'Analyzed')[0] if runs else none) }}
{% endmacro %}


{#-
    Spark shortens lists of more than 25 columns or fields; what is cut off could hold anything. SET itself takes a comment behind
    it for a part of the value.
-#}
{% macro show_whole_types() %}
    {%- do dbt_backfill.run_table('show whole types', "execute immediate 'set spark.sql.debug.maxToStringFields = 100000'") -%}
{% endmacro %}


{% macro _explain(query, unique_key, read=none) %}
    {%- set sql -%}
        explain extended
        select {{ dbt_backfill.identifiers(unique_key) }}, __bf_query.*{% if read %}, (select struct(*) from {{ read }} where false) as __bf_upstream{% endif %}
        from (
            {{ query | trim | trim(';') }}
        ) as __bf_query
    {%- endset -%}
    {{ return(dbt_backfill.run_explain('check the query', sql)) }}
{% endmacro %}


{#- The whole text of an EXPLAIN. -#}
{% macro run_explain(step, sql) %}
    {%- set plan = dbt_backfill.run_table(step, sql)[0][0] -%}
    {%- if ' more fields' not in plan -%} {{ return(plan) }} {%- endif -%}
    {%- do dbt_backfill.show_whole_types() -%}
    {{ return(dbt_backfill.run_table(step, sql)[0][0]) }}
{% endmacro %}


{#- The type at the beginning of Spark's list of columns: up to the first comma outside of brackets. -#}
{% macro _leading_type(columns) %}
    {%- set open = namespace(brackets=0) -%}
    {%- for character in columns -%}
        {%- if character in '<(' -%} {%- set open.brackets = open.brackets + 1 -%} {%- endif -%}
        {%- if character in '>)' -%} {%- set open.brackets = open.brackets - 1 -%} {%- endif -%}
        {%- if character == ',' and open.brackets == 0 -%} {{ return(columns[:loop.index0]) }} {%- endif -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Spark's list of columns as a list of {'name', 'type'}. -#}
{% macro parse_columns(text) %}
    {%- set at = namespace(rest=text) -%}
    {%- set columns = [] -%}
    {%- for _ in range(text.count(': ')) if ': ' in at.rest -%}
        {%- set name, rest = at.rest.split(': ', 1) -%}
        {%- set type = dbt_backfill._leading_type(rest) -%}
        {%- do columns.append({'name': name, 'type': type}) -%}
        {%- set at.rest = rest[(type | length) + 2:] -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Why Spark cannot execute what was explained (extended): in place of its optimized plan stands an error; none if it can. -#}
{% macro find_plan_error(plan) %}
    {%- if dbt_backfill.plan_section(plan, 'Optimized') -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.get_plan_error((dbt_backfill.plan_section(plan, 'Analyzed') or [plan])[0])) }}
{% endmacro %}


{#- Spark's reason of an error that stands in place of a plan, without its condition and its place. -#}
{% macro get_plan_error(error) %}
    {{ return((error.split('SQLSTATE')[0].split(': ', 1) | last | trim | trim('.')) or error | trim) }}
{% endmacro %}


{% macro _refuse_broken_query(error, unique_key) %}
    {%- for column in unique_key if 'name `' ~ column | replace('`', '``') ~ '` cannot be resolved' in error -%}
        {%- do dbt_backfill.refuse(
            "its query does not return the column '" ~ column ~ "' of unique_key",
            'Select the primary key of the upstream, and name its columns in unique_key'
        ) -%}
    {%- endfor -%}
    {%- do dbt_backfill.refuse(
        'Spark cannot run its query: ' ~ dbt_backfill.get_plan_error(error),
        'Correct the query'
    ) -%}
{% endmacro %}


{#-
    The names of the upstream's columns where the query has a star inside of an expression, such as `md5(to_json(struct(*)))`: then
    another column upstream makes other values of the same type. None elsewhere.
-#}
{% macro columns_of_inner_star(explained, query) %}
    {%- if not dbt_backfill.has_inner_star(query) -%} {{ return(none) }} {%- endif -%}
    {{ return(explained.upstream_columns | map(attribute='name') | join(',')) }}
{% endmacro %}


{#-
    Whether a star is part of an expression: it stands right after a bracket or after a comma in it, and what the bracket holds is
    no query. So it does in the arguments of a function, and in a row such as `(id, *)`.
-#}
{% macro has_inner_star(query) %}
    {%- set code = dbt_backfill.tokens(query) | selectattr('kind', 'in', ['code', 'quoted']) | map(attribute='text') | join -%}
    {#- A name may begin with a digit, and is no number. -#}
    {%- set quoted = '`(?:[^`]|``)*`' -%}
    {%- set star = '\\s*(?:(?:\\w*[^\\W\\d]\\w*|' ~ quoted ~ ')\\s*[.]\\s*)*[*]' -%}
    {#- A column may have such a name. -#}
    {%- set begins_query = '\\s*(?:select|with|from|table|values)\\b(?!\\s*[,.)])' -%}
    {%- set brackets = [] -%}
    {%- for match in modules.re.finditer('(?i)[(](' ~ begins_query ~ ')?(' ~ star ~ ')?|(,)' ~ star ~ '|[)]|' ~ quoted, code) -%}
        {%- if match.group() == ')' -%}
            {%- do brackets.pop() if brackets -%}
        {%- elif match.group().startswith('(') -%}
            {%- do brackets.append(match.group(1) is none) -%}
        {%- endif -%}
        {%- if brackets and brackets[-1] and (match.group(2) or match.group(3)) -%} {{ return(true) }} {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Whether the query may leave rows of the upstream out. -#}
{% macro drops_rows(explained) %}
    {{ return(modules.re.search('(?m)^[\\s:]*(?:[+:]- )?Filter ', explained.analyzed | join('\n')) is not none) }}
{% endmacro %}
