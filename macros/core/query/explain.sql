{#-
    Return how Spark reads the model's query, from one EXPLAIN EXTENDED: {
      'columns': the names and types of the query's columns, as Spark prints them,
      'unique_key': its columns, spelled as the query spells them,
      'key_types': their types,
      'upstream_columns': a list of {'name', 'type', 'id': of the attribute in the plans, '' if there is not one of that name},
      'analyzed', 'optimized': the lines of the two plans,
    }

    The key columns are selected once more in front of the query's own, so that they are the first entries of the optimized plan's topmost
    projection. Behind them is a struct of the upstream's columns: the plans have no types, but what an EXPLAIN returns has.

    Arguments:
      read (string): the upstream, as after FROM, whose columns are returned: a version of it may have fewer than the query reads.

    Raises: the query does not run, or lacks a column of unique_key.
-#}
{% macro explain_query(query, unique_key, read) %}
    {%- set plan = dbt_backfill._explain(query, unique_key, read) -%}
    {%- set analyzed, optimized = dbt_backfill.plan_section(plan, 'Analyzed'), dbt_backfill.plan_section(plan, 'Optimized') -%}
    {%- if not optimized -%}
        {%- for column in unique_key if 'name `' ~ column | replace('`', '``') ~ '` cannot be resolved' in (analyzed or [plan])[0] -%}
            {%- do dbt_backfill.refuse(
                "its query does not return the column '" ~ column ~ "' of unique_key",
                'Select the primary key of the upstream, and name its columns in unique_key'
            ) -%}
        {%- endfor -%}
        {%- do dbt_backfill.refuse('Spark cannot run its query: ' ~ dbt_backfill.find_plan_error(plan), 'Correct the query') -%}
    {%- endif -%}
    {%- set header, upstream_types = analyzed[0].rsplit(', __bf_upstream: struct<', 1) -%}
    {%- set rest, key_types = namespace(columns=header, types=upstream_types[:-1]), [] -%}
    {%- for column in unique_key -%}
        {%- set columns = rest.columns[(column | length) + 2:] -%}
        {%- do key_types.append(dbt_backfill._leading_type(columns)) -%}
        {%- set rest.columns = columns[(key_types[-1] | length) + 2:] -%}
    {%- endfor -%}
    {#- The plan of the subquery for the struct is behind the first line. -#}
    {%- set lines = [modules.re.sub(', scalar-subquery#\\d+ \\[\\] AS __bf_upstream#\\d+\\]$', ']', analyzed[1])] -%}
    {%- set subquery, upstream_columns = [], [] -%}
    {%- for line in analyzed[2:] -%}
        {%- do (subquery if lines | length == 1 and line.startswith(':') else lines).append(line) -%}
    {%- endfor -%}
    {%- set attributes = dbt_backfill.plan_attributes(lines) -%}
    {%- for column in dbt_backfill.plan_attributes(subquery) -%}
        {#- From a name that the struct spells otherwise on, the types cannot be taken apart. -#}
        {%- set is_known = rest.types.startswith(column.name ~ ':') -%}
        {%- set types = rest.types[(column.name | length) + 1:] if is_known else '' -%}
        {%- set type = dbt_backfill._leading_type(types) if is_known else 'unknown' -%}
        {%- set rest.types = types[(type | length) + 1:] -%}
        {%- set ids = attributes | selectattr('name', 'equalto', column.name) | map(attribute='id') | list -%}
        {%- do upstream_columns.append({'name': column.name, 'type': type, 'id': ids[0] if ids | length == 1 else ''}) -%}
    {%- endfor -%}
    {{ return({
        'columns': rest.columns, 'unique_key': dbt_backfill._spell_key(unique_key, lines[0]), 'key_types': key_types,
        'upstream_columns': upstream_columns, 'analyzed': lines, 'optimized': optimized,
    }) }}
{% endmacro %}


{#- Return the columns of unique_key as the query spells them; Spark finds them in any case, unless spark.sql.caseSensitive is on. -#}
{% macro _spell_key(unique_key, projection) %}
    {%- set rest, ids, names = namespace(columns=projection | replace('Project [', '', 1)), [], [] -%}
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


{#- Return the columns of unique_key and of a query as Spark prints them; none if the query does not run. -#}
{% macro explain_columns(query, unique_key) %}
    {%- set plan = dbt_backfill._explain(query, unique_key) -%}
    {{ return(dbt_backfill.plan_section(plan, 'Analyzed')[0] if dbt_backfill.plan_section(plan, 'Optimized') else none) }}
{% endmacro %}


{% macro _explain(query, unique_key, read=none) %}
    {%- set upstream = ', (select struct(*) from ' ~ read ~ ' where false) as __bf_upstream' if read else '' -%}
    {%- set sql -%}
        explain extended
        select {{ dbt_backfill.identifiers(unique_key) }}, __bf_query.*{{ upstream }}
        from (
            {{ query | trim | trim(';') }}
        ) as __bf_query
    {%- endset -%}
    {{ return(dbt_backfill.run_explain('check the query', sql)) }}
{% endmacro %}


{#- Return the whole text of an EXPLAIN. -#}
{% macro run_explain(step, sql) %}
    {%- set plan = dbt_backfill.run_table(step, sql)[0][0] -%}
    {%- if ' more fields' not in plan -%} {{ return(plan) }} {%- endif -%}
    {%- do dbt_backfill.show_whole_types() -%}
    {{ return(dbt_backfill.run_table(step, sql)[0][0]) }}
{% endmacro %}


{#-
    Let Spark print lists of more than 25 columns or fields whole: what it cuts off could hold anything. SET itself takes a comment behind
    it for a part of the value.
-#}
{% macro show_whole_types() %}
    {%- do dbt_backfill.run_table('show whole types', "execute immediate 'set spark.sql.debug.maxToStringFields = 100000'") -%}
{% endmacro %}


{#-
    Return why Spark cannot execute what was explained (extended), without the error's condition and its line; none if it can. The error
    is printed instead of the optimized plan.
-#}
{% macro find_plan_error(plan) %}
    {%- if dbt_backfill.plan_section(plan, 'Optimized') -%} {{ return(none) }} {%- endif -%}
    {%- set error = (dbt_backfill.plan_section(plan, 'Analyzed') or [plan])[0] -%}
    {{ return((error.split('SQLSTATE')[0].split(': ', 1) | last | trim | trim('.')) or error | trim) }}
{% endmacro %}


{#- Return the type at the beginning of Spark's list of columns: up to the first comma outside of brackets. -#}
{% macro _leading_type(columns) %}
    {%- set open = namespace(brackets=0) -%}
    {%- for character in columns -%}
        {%- set open.brackets = open.brackets + {'<': 1, '(': 1, '>': -1, ')': -1}.get(character, 0) -%}
        {%- if character == ',' and open.brackets == 0 -%} {{ return(columns[:loop.index0]) }} {%- endif -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return Spark's list of columns as a list of {'name', 'type'}. -#}
{% macro parse_columns(text) %}
    {%- set at, columns = namespace(rest=text), [] -%}
    {%- for _ in range(text.count(': ')) -%}
        {%- if ': ' in at.rest -%}
            {%- set name, rest = at.rest.split(': ', 1) -%}
            {%- set type = dbt_backfill._leading_type(rest) -%}
            {%- do columns.append({'name': name, 'type': type}) -%}
            {%- set at.rest = rest[(type | length) + 2:] -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return the names of the upstream's columns; none where a name has characters by which they cannot be separated. -#}
{% macro get_upstream_names(explained) %}
    {%- set are_unknown = 'unknown' in explained.upstream_columns | map(attribute='type') | list -%}
    {{ return(none if are_unknown else explained.upstream_columns | map(attribute='name') | list) }}
{% endmacro %}


{#-
    Return the columns of the upstream that a query reads, a list of {'name', 'type'}; none where these are all of them, or where it
    cannot be known: its optimized plan is more than projections and filters over one relation, or the query has read the upstream with
    other columns.
-#}
{% macro find_read_columns(explained, query) %}
    {%- set ids, read = [], [] -%}
    {%- if dbt_backfill.plan_attributes(explained.analyzed) | length != explained.upstream_columns | length -%} {{ return(none) }} {%- endif -%}
    {%- for line in explained.optimized -%}
        {%- set operator = dbt_backfill.plan_operator(line, loop.first) -%}
        {%- if operator in ['Project', 'Filter'] -%}
            {%- do ids.extend(modules.re.findall('#(\\d+)', line)) -%}
        {%- elif operator != 'Relation' -%}
            {{ return(none) }}
        {%- endif -%}
    {%- endfor -%}
    {#- A common table expression may give the relation's columns other ids in this plan than in the analyzed one. -#}
    {%- set names = dbt_backfill.plan_attributes(explained.optimized) | selectattr('id', 'in', ids) | map(attribute='name') | map('lower') | list -%}
    {%- set filtered = dbt_backfill._find_filtered_ids(explained.analyzed, query) -%}
    {%- if not names or filtered is none -%} {{ return(none) }} {%- endif -%}
    {%- for column in explained.upstream_columns -%}
        {%- if column.id == '' or column.type == 'unknown' -%} {{ return(none) }} {%- endif -%}
        {%- set is_read = column.name | lower in names or column.id in filtered -%}
        {%- if is_read -%} {%- do read.append({'name': column.name, 'type': column.type}) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(read if read | length < explained.upstream_columns | length else none) }}
{% endmacro %}


{#-
    Return the ids of the attributes that the filters of an analyzed plan are made of, down to those of the relation; rather one too many
    than one too few. None where a line break in a text of the query may split a filter's line.

    A filter need not be in the optimized plan: a source that evaluates it itself, as Iceberg does with one that selects whole
    partitions, takes it out, and with it what was read for it alone.
-#}
{% macro _find_filtered_ids(plan, query) %}
    {%- set texts = dbt_backfill.tokens(query) | selectattr('kind', 'equalto', 'string') | map(attribute='text') | join(' ') -%}
    {%- if modules.re.search('\n|\\\\[nuU0-7]', texts) -%} {{ return(none) }} {%- endif -%}
    {#- Ids that may mean the same: of an alias, and of a common table expression's columns, which have others where it is read. -#}
    {%- set found, links, sizes, text = [], [], [0], plan | join('\n') -%}
    {%- for column in dbt_backfill.plan_attributes(plan, 'CTERelationRef') -%}
        {%- do links.append(modules.re.findall('(?i)(?<!\\w)' ~ modules.re.escape(column.name) ~ '#(\\d+)', text)) -%}
    {%- endfor -%}
    {%- for expression in dbt_backfill.plan_expressions(plan, query) -%}
        {%- set ids = modules.re.findall('#(\\d+)', expression) -%}
        {%- if modules.re.match('[\\s:]*(?:[+:]- )?Filter ', expression) -%}
            {%- do found.extend(ids) -%}
        {%- elif ' AS ' in expression -%}
            {%- do links.append(ids) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for _ in links -%}
        {%- if found | length > sizes[-1] -%}
            {%- do sizes.append(found | length) -%}
            {%- for ids in links if ids | select('in', found) | list -%}
                {%- do found.extend(ids | reject('in', found) | unique | list) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#-
    Return the columns of the upstream, as it lists them, that a query reads where, without them, it would read an alias before: `gross`
    in `select a * 2 as gross, gross * 3 as tax`, if there is such a column. None if no other column could be read so either.
-#}
{% macro find_alias_columns(explained) %}
    {%- set plan, found = explained.analyzed | join('\n'), [] -%}
    {%- set text, below = '(?:(?!\\n[\\s:]*[+:]- ).)*', '\\n[\\s:]*[+:]- Project \\[' -%}
    {#- What reads an alias beside it becomes a projection of its own. -#}
    {%- set selects = modules.re.findall('(?s)Project \\[' ~ text ~ '(?:' ~ below ~ text ~ ')*', plan) -%}
    {%- for column in dbt_backfill.plan_attributes(explained.analyzed) if ' as ' ~ column.name | lower ~ '#' in plan | lower -%}
        {%- for select in selects -%}
            {%- set is_split = modules.re.search(below, select) is not none -%}
            {%- if dbt_backfill._reads_beside_alias(select, column.name, is_split) -%} {%- do found.append(column.name) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if not found and not modules.re.search(below, selects | join('|')) -%} {{ return(none) }} {%- endif -%}
    {{ return(found | unique | select('in', explained.upstream_columns | map(attribute='name') | list) | list) }}
{% endmacro %}


{#-
    True if a SELECT of a plan has an alias of this name, and behind it reads a column of the name; where it is split into several
    projections, if an expression reads one at all.
-#}
{% macro _reads_beside_alias(select, name, is_split) %}
    {%- set column, reads = '(?<!\\w)' ~ modules.re.escape(name) ~ '#(\\d+)', [] -%}
    {%- for projection in select.split('Project [')[1:] -%}
        {%- for item in dbt_backfill.split_list(projection) if not (is_split and modules.re.match('(?i)' ~ column ~ 'L?(?:\\]|$)', item)) -%}
            {%- do reads.extend(modules.re.findall('(?i)' ~ column, item)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set aliases = modules.re.findall('(?i) AS ' ~ column, select) -%}
    {%- set first = modules.re.search('(?i)( AS )?' ~ column, select) -%}
    {{ return(reads | reject('in', aliases) | list != [] and aliases != [] and (is_split or first.group(1) is not none)) }}
{% endmacro %}


{#-
    Return the names of the upstream's columns where the query has a star inside of an expression, as in `md5(to_json(struct(*)))` or
    `(id, *)`: then another column upstream makes other values of the same type. None elsewhere.

    Such a star is right after a bracket, or after a comma in it, and what the bracket holds is no query.
-#}
{% macro columns_of_inner_star(explained, query) %}
    {%- set code = dbt_backfill.tokens(query) | selectattr('kind', 'in', ['code', 'quoted']) | map(attribute='text') | join -%}
    {%- set quoted = '`(?:[^`]|``)*`' -%}
    {#- A name may begin with a digit, and is no number. -#}
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
        {%- if brackets and brackets[-1] and (match.group(2) or match.group(3)) -%}
            {{ return(explained.upstream_columns | map(attribute='name') | join(',')) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
