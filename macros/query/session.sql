{#- The settings of the session on which a query's values depend, among those that are compared only then. -#}
{% macro find_used_settings(explained, query) %}
    {%- set used = [] -%}
    {%- if dbt_backfill.uses_time_zone(explained, query) -%} {%- do used.append('spark.sql.session.timeZone') -%} {%- endif -%}
    {%- if dbt_backfill.uses_ansi_mode(explained) -%} {%- do used.append('spark.sql.ansi.enabled') -%} {%- endif -%}
    {%- if dbt_backfill.has_double_quotes(query) -%} {%- do used.append('spark.sql.ansi.doubleQuotedIdentifiers') -%} {%- endif -%}
    {{ return(used) }}
{% endmacro %}


{#- Whether a query has something in double quotes: a text, or a name, as the session says. -#}
{% macro has_double_quotes(query) %}
    {%- for token in dbt_backfill.tokens(query) if token.kind == 'string' and token.text.endswith('"') -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Whether a query's values may depend on the session's time zone. Spark prints the zone of some of the expressions that
    use it, as `Some(UTC)`, and not of a comparison with a literal or of arithmetic. So any column of a type with a zone
    counts unless the query only passes it on, and so does whatever makes such a value of something else. To count one
    too many costs little: the zone is noted, and may then not change.
-#}
{% macro uses_time_zone(explained, query) %}
    {#- A timestamp literal is printed bare, and so is one without a zone. -#}
    {%- set makes = 'Some\\(|TimestampType|\\btimestamp\\b(?!#)|timestamp\\w*\\(|\\b(extract|date_part|datepart)\\('
        ~ '|\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d' -%}
    {%- set plan = dbt_backfill._mask_names(explained, query) -%}
    {%- set items = dbt_backfill._plan_expressions(plan, query) -%}
    {%- if modules.re.search(makes, items | join('\n') ~ dbt_backfill._optimized_expressions(explained)) -%} {{ return(true) }} {%- endif -%}
    {%- set attributes = dbt_backfill.plan_attributes(plan) -%}
    {%- set zoned = {} -%}
    {%- for column in explained.upstream_columns if modules.re.search('\\b(timestamp|variant|unknown)\\b', column.type) -%}
        {%- for attribute in attributes if attribute.id == column.id -%} {%- do zoned.update({column.id: attribute.name}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set zoned = dbt_backfill.follow_columns(plan, items, zoned) -%}
    {%- for item in items if not dbt_backfill._passed_column(item) -%}
        {%- for id in modules.re.findall('#(\\d+)', item) if id in zoned -%} {{ return(true) }} {%- endfor -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Functions that stand for others hide in the analyzed plan what these cast; where nothing is constant, this one shows it. -#}
{% macro _optimized_expressions(explained) %}
    {%- set lines = [] -%}
    {%- for line in explained.optimized
            if dbt_backfill._plan_operator(line, line == explained.optimized[0]) not in dbt_backfill._reading_operators() -%}
        {%- do lines.append(line) -%}
    {%- endfor -%}
    {{ return('\n' ~ lines | join('\n')) }}
{% endmacro %}


{#-
    Columns of a plan with those that are nothing but they, under other names.

    Arguments:
      plan (list), items (list): see _mask_names and _plan_expressions.
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
            {%- set passed = dbt_backfill._passed_column(item) -%}
            {%- if passed and passed.id in followed -%} {%- do followed.update({passed.new_id: passed.new_name}) -%} {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(followed) }}
{% endmacro %}


{#- What an entry of a projection calls a column that it only passes on, or a field of it; none if it does more. -#}
{% macro _passed_column(item) %}
    {%- set passed = modules.re.fullmatch('(?s)(@|\\w+)#(\\d+)L?(?:(?:[.]\\w+)* AS ([^#]+)#(\\d+)L?)?', item) -%}
    {%- if not passed -%} {{ return(none) }} {%- endif -%}
    {{ return({
        'id': passed.group(2), 'new_id': passed.group(4) or passed.group(2), 'new_name': passed.group(3) or passed.group(1),
    }) }}
{% endmacro %}


{#- The analyzed plan with an @ for each name that is not of letters: those of the upstream, and those in backticks. -#}
{% macro _mask_names(explained, query) %}
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
{% macro _plan_expressions(plan, query) %}
    {%- set texts = dbt_backfill.tokens(query) | selectattr('kind', 'equalto', 'string') | map(attribute='text') | list -%}
    {%- set can_split = not dbt_backfill._may_close_bracket(texts) -%}
    {%- set operators = [] -%}
    {%- for line in plan -%}
        {%- set operator = dbt_backfill._plan_operator(line, loop.first) -%}
        {%- if operator -%}
            {%- do operators.append({'name': operator, 'text': line}) -%}
        {%- elif operators -%}
            {%- do operators[-1].update({'text': operators[-1].text ~ '\n' ~ line}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set expressions = [] -%}
    {%- for operator in operators if operator.name in ['Project', 'Filter'] -%}
        {%- if operator.name == 'Project' and can_split -%}
            {%- do expressions.extend(dbt_backfill._split_list(operator.text.split('Project [', 1)[1][:-1])) -%}
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
{% macro _split_list(text) %}
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


{#-
    Whether a query's values may depend on spark.sql.ansi.enabled: on casts, arithmetic, elements, and the functions that
    then fail or return another value. dbt-spark turns it off in a session, and cannot on a Thrift server.
-#}
{% macro uses_ansi_mode(explained) %}
    {%- set functions = 'cast|size|cardinality|element_at|elt|conv|abs|negative|pmod|mod|div|round|bround|ceil|floor|next_day'
        ~ '|parse_url|to_\\w+|make_\\w+|unix_\\w+|gettimestamp|date_\\w+|add_months|months_\\w+' -%}
    {%- set expressions = [] -%}
    {%- for line in explained.analyzed if '+- Relation' not in line -%} {%- do expressions.append(line) -%} {%- endfor -%}
    {%- do expressions.append(dbt_backfill._optimized_expressions(explained)) -%}
    {{ return(modules.re.search('(?i)\\b(' ~ functions ~ ')\\(| [-+*/%] |[\\w)]\\[|(?<!\\w)-[a-z_(]', expressions | join('\n')) is not none) }}
{% endmacro %}
