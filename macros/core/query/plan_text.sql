{#- The lines of one section of EXPLAIN EXTENDED's output. -#}
{% macro plan_section(plan, name) %}
    {%- set header = '== ' ~ name ~ ' Logical Plan ==\n' -%}
    {%- if header not in plan -%} {{ return([]) }} {%- endif -%}
    {{ return(plan.split(header)[1].split('\n\n== ')[0].split('\n')) }}
{% endmacro %}


{#- The operator of a line of a plan; empty on a line that goes on with a string literal of the line before. -#}
{% macro plan_operator(line, first) %}
    {%- set match = modules.re.match("[\\s:]*(?:[+:]- )" ~ ('?' if first else '') ~ "'?(\\w+)", line) -%}
    {{ return(match.group(1) if match else '') }}
{% endmacro %}


{% macro reading_operators() %}
    {{ return(['Relation', 'RelationV2', 'DataSourceV2Relation', 'HiveTableRelation']) }}
{% endmacro %}


{#- The attributes of the relations that a plan scans, or of another operator, as a list of {'name', 'id'}. -#}
{% macro plan_attributes(plan, operator=none) %}
    {%- set operators = [operator] if operator else dbt_backfill.reading_operators() -%}
    {%- set attributes = [] -%}
    {%- for line in plan if dbt_backfill.plan_operator(line, line == plan[0]) in operators -%}
        {%- set list = modules.re.search('\\[(.*)\\]', line.split('Data Cols: ') | last) -%}
        {%- for match in modules.re.finditer('(.+?)#(\\d+)L?(?:, ?|$)', list.group(1) if list else '') -%}
            {%- do attributes.append({'name': match.group(1), 'id': match.group(2)}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(attributes) }}
{% endmacro %}


{#- The analyzed plan with an @ for each name that is not of letters: those of the upstream, and those in backticks. -#}
{% macro mask_names(explained, query) %}
    {%- set names = explained.upstream_columns | map(attribute='name') | list -%}
    {%- for token in dbt_backfill.tokens(query) if token.kind == 'quoted' -%}
        {%- do names.append(token.text[1:-1] | replace('``', '`')) -%}
    {%- endfor -%}
    {%- set odd = [] -%}
    {%- for name in names if not modules.re.fullmatch('\\w+', name) -%}
        {%- do odd.append(modules.re.escape(name)) -%}
    {%- endfor -%}
    {%- if not odd -%} {{ return(explained.analyzed) }} {%- endif -%}
    {%- set plan = modules.re.sub('(?i)(?:' ~ odd | join('|') ~ ')(?=#\\d)', '@', explained.analyzed | join('\n')) -%}
    {{ return(plan.split('\n')) }}
{% endmacro %}


{#-
    The expressions of a plan: the entries of its projections, and its filters. Texts are printed without quotes: where one
    could close a bracket, a projection is not taken apart.
-#}
{% macro plan_expressions(plan, query) %}
    {%- set texts = dbt_backfill.tokens(query) | selectattr('kind', 'equalto', 'string') | map(attribute='text') | list -%}
    {%- set can_split = not dbt_backfill._may_close_bracket(texts) -%}
    {%- set operators = [] -%}
    {%- for line in plan -%}
        {%- set operator = dbt_backfill.plan_operator(line, loop.first) -%}
        {%- if operator -%}
            {%- do operators.append({'name': operator, 'text': line}) -%}
        {%- elif operators -%}
            {%- do operators[-1].update({'text': operators[-1].text ~ '\n' ~ line}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set expressions = [] -%}
    {%- for operator in operators if operator.name in ['Project', 'Filter'] -%}
        {%- if operator.name == 'Project' and can_split -%}
            {%- do expressions.extend(dbt_backfill.split_list(operator.text.split('Project [', 1)[1][:-1])) -%}
        {%- else -%}
            {%- do expressions.append(operator.text) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(expressions) }}
{% endmacro %}


{#- Whether one of these literals has a closing bracket without its opening one, also as an escape. -#}
{% macro _may_close_bracket(texts) %}
    {%- for text in texts -%}
        {%- set at = namespace(depth=0) -%}
        {%- for match in modules.re.finditer('[\\[(]|[\\])]|\\\\[uU]|\\\\[0-7]{3}', text) -%}
            {%- set at.depth = at.depth + (1 if match.group() in '[(' else -1) -%}
            {%- if at.depth < 0 or match.group()[0] == '\\' -%} {{ return(true) }} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- The entries of a list, which commas part that stand in no brackets. -#}
{% macro split_list(text) %}
    {%- set at = namespace(depth=0, begin=0) -%}
    {%- set entries = [] -%}
    {%- for match in modules.re.finditer('[\\[(]|[\\])]|, ', text) -%}
        {%- if match.group() in '[(' -%}
            {%- set at.depth = at.depth + 1 -%}
        {%- elif match.group() in '])' -%}
            {%- set at.depth = at.depth - 1 -%}
        {%- elif at.depth == 0 -%}
            {%- do entries.append(text[at.begin:match.start()]) -%}
            {%- set at.begin = match.end() -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(entries + [text[at.begin:]]) }}
{% endmacro %}


{#- What an entry of a projection calls a column that it only passes on, or a field of it; none if it does more. -#}
{% macro passed_column(item) %}
    {%- set passed = modules.re.fullmatch('(?s)(@|\\w+)#(\\d+)L?(?:(?:[.]\\w+)* AS ([^#]+)#(\\d+)L?)?', item) -%}
    {%- if not passed -%} {{ return(none) }} {%- endif -%}
    {{ return({
        'id': passed.group(2), 'new_id': passed.group(4) or passed.group(2), 'new_name': passed.group(3) or passed.group(1),
    }) }}
{% endmacro %}


{#-
    Columns of a plan with those that are nothing but they, under other names.

    Arguments:
      plan (list), items (list): see mask_names and plan_expressions.
      columns (dict): names by ids, as in the result.
-#}
{% macro follow_columns(plan, items, columns) %}
    {%- set followed = dict(columns) -%}
    {#- A column may go through as many names as there are entries; a common table expression's have new ids. -#}
    {%- for _ in items -%}
        {%- for reference in dbt_backfill.plan_attributes(plan, 'CTERelationRef')
                if reference.name | lower in followed.values() | map('lower') -%}
            {%- do followed.update({reference.id: reference.name}) -%}
        {%- endfor -%}
        {%- for item in items -%}
            {%- set passed = dbt_backfill.passed_column(item) -%}
            {%- if passed and passed.id in followed -%} {%- do followed.update({passed.new_id: passed.new_name}) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(followed) }}
{% endmacro %}
