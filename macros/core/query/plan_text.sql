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
