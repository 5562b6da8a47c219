{#-
    Return facts about the model's query. They come from one EXPLAIN EXTENDED of the query in the form that barriers execute: {
      'columns': the names and types of the query's columns, as Spark prints them,
      'unique_key': the columns of unique_key, spelled as the query spells them, 'key_types': the types of these columns,
      'upstream_columns': a list of {'name', 'type'},
      'analyzed': the lines of the query's analyzed plan, one per operator, 'optimized': the lines of the optimized plan,
      'names': the names of the entries in the topmost projection of the optimized plan
    }

    The key columns are selected once more before the query's own columns, so that they are the first entries of the topmost projection. The
    upstream's columns are selected after the query's columns, to get their types. The plans have no types, but the header of EXPLAIN's output has the
    type of each selected column.

    Refuse a query that does not run, or that lacks a column of unique_key. `query`, `upstream`: see substitute_upstream. `read`: a version of the
    upstream, as text after FROM; its columns are returned as 'upstream_columns'. An older version may have fewer columns than the query reads.
    `without`: the names of columns of the query that are not selected. With `without`, return none if the query does not run.
-#}
{% macro explain_query(query, upstream, unique_key, read, without=[]) %}
    {%- set selected, key, key_types = [], [], [] -%}
    {%- for column in unique_key -%} {%- do selected.append(dbt_backfill.identifier(column) ~ ' as __bf_key_' ~ loop.index) -%} {%- endfor -%}
    {%- set sql -%}
select {{ selected | join(', ') }}, * except ({{ dbt_backfill.identifiers(without) ~ ', ' if without }}__bf_read), 0 as __bf_end, __bf_read.*
from (select *, (select struct(*) from {{ read }} where false) as __bf_read from (
{{ dbt_backfill.get_query_sql(query, upstream) }}
) as __bf_query)
    {%- endset -%}
    {%- set plan = dbt_backfill.run_explain('check the query', sql) -%}
    {%- set error, analyzed = dbt_backfill.find_plan_error(plan), dbt_backfill.plan_section(plan, 'Analyzed') -%}
    {%- if error and without -%} {{ return(none) }} {%- endif -%}
    {%- if error -%}
        {%- for column in unique_key if 'name `' ~ column | replace('`', '``') ~ '` cannot be resolved' in error -%}
            {%- do dbt_backfill.refuse("its query does not return the column '" ~ column ~ "' of unique_key",
                'Select the primary key of the upstream, and name its columns in unique_key', id='key-not-in-query') -%}
        {%- endfor -%}
        {%- if 'name `_metadata`' in error -%} {%- do dbt_backfill.refuse_unrepeatable('_metadata') -%} {%- endif -%}
        {%- do dbt_backfill.refuse('Spark cannot run its query: ' ~ error, 'Correct the query', id='query-fails') -%}
    {%- endif -%}
    {%- set header, upstream_header = analyzed[0].rsplit(', __bf_end: int, ', 1) -%}
    {%- set key_columns, columns, upstream_columns = [], dbt_backfill.parse_columns(header), dbt_backfill.parse_columns(upstream_header) -%}
    {%- set names = columns[unique_key | length:] | map(attribute='name') | list -%}
    {%- for column in unique_key -%}
        {%- do key_types.append(columns[loop.index0].type) -%}
        {%- do key_columns.append('__bf_key_' ~ loop.index ~ ': ' ~ key_types[-1] ~ ', ') -%}
        {#- Spark finds a column in any case, unless spark.sql.caseSensitive is on. -#}
        {%- do key.append(column if column in names else names[(names | map('lower') | list).index(column | lower)]) -%}
    {%- endfor -%}
    {%- set of_query = (analyzed | join('\n')).split('\n      +- SubqueryAlias __bf_query\n', 1)[1].split('\n') -%}
    {%- set plans = {'analyzed': [], 'optimized': []} -%}
    {%- for name, printed in [('analyzed', of_query), ('optimized', dbt_backfill.plan_section(plan, 'Optimized'))] -%}
        {%- set lines = plans[name] -%}
        {%- for line in printed -%}
            {#- A line without an operator continues a string literal of the previous line. -#}
            {%- do lines.append(line if dbt_backfill.plan_operator(line) or not lines else lines.pop() ~ '\n' ~ line) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for line in plans.optimized if line.lstrip(' :+-').startswith('InMemoryRelation ') -%}
        {%- do dbt_backfill.refuse('the session caches rows that its query reads, so Spark does not show how it reads the upstream',
            'Run UNCACHE TABLE ' ~ upstream.render() ~ ', or CLEAR CACHE', id='upstream-cached') -%}
    {%- endfor -%}
    {{ return({
        'columns': header[key_columns | join | length:], 'unique_key': key, 'key_types': key_types, 'upstream_columns': upstream_columns,
        'analyzed': plans.analyzed, 'optimized': plans.optimized,
        'names': (columns + [{'name': '__bf_end'}] + upstream_columns) | map(attribute='name') | list,
    }) }}
{% endmacro %}


{#-
    Return the result of explain_query for the query without its volatile columns, and this query as 'query'. So the plans, the settings that they
    need and the words of the query do not depend on the expressions of these columns. Refuse a query that uses a volatile column anywhere else: the
    optimized plan still has the expression of get_lasting_query, although the column itself is not selected. (A volatile column may also be one
    that only an inner query has.) `explained`: the facts about the whole query. `read`: see explain_query.
-#}
{% macro explain_lasting_query(backfill, read, explained) %}
    {%- set volatile, analyzed, returned = backfill.options.volatile_columns, [], dbt_backfill.parse_columns(explained.columns) -%}
    {%- set returned = returned | map(attribute='name') | map('lower') | list -%}
    {%- set left_out = volatile | map('lower') | select('in', returned) | list -%}
    {%- set query = dbt_backfill.get_lasting_query(backfill.query, volatile) -%}
    {%- set lasting = dbt_backfill.explain_query(query, backfill.upstream.relation, backfill.options.unique_key, read, left_out) -%}
    {%- if lasting is none or '__bf_volatile' in lasting.optimized | join('\n') -%}
        {%- do dbt_backfill.refuse('its query uses a column of volatile_columns (' ~ volatile | join(', ') ~ ') in a filter or in another column',
            'Remove this use: the rows of the MV and its other columns must not depend on the run', id='volatile-column-used') -%}
    {%- endif -%}
    {%- for line in lasting.analyzed -%}
        {%- do analyzed.append(modules.re.sub('nullif\\(uuid\\([^()]*\\([^()]*\\)\\), __bf_volatile\\)', '', line)) -%}
    {%- endfor -%}
    {{ return(dict(lasting, analyzed=analyzed, query=query)) }}
{% endmacro %}


{#- Return the whole text of EXPLAIN EXTENDED. Refuse a session in which Spark shows only a part of the text. -#}
{% macro run_explain(step, sql) %}
    {%- set sql, to_do = 'explain extended\n' ~ sql, ' for dbt (server_side_parameters, or the Spark server)' -%}
    {%- set plan = dbt_backfill.run_table(step, sql)[0][0] -%}
    {%- if ' more fields' in plan -%}
        {%- do dbt_backfill.run_show_whole_types() -%}
        {%- set plan = dbt_backfill.run_table(step, sql)[0][0] -%}
    {%- endif -%}
    {%- set is_cut = plan.rstrip().endswith(' more characters') or plan.startswith('Truncated plan of ') -%}
    {%- do dbt_backfill.refuse_first([
        {'when': is_cut and '== Physical Plan ==' not in plan,
         'id': 'plan-string-shortened', 'fact': 'the session sets spark.sql.maxPlanStringLength, so Spark shortens the plan of its query',
         'change': 'Set it to a larger number' ~ to_do},
        {'id': 'plan-string-redacted', 'when': '*(redacted)' in plan.split('== Physical Plan ==')[0],
         'fact': 'the session sets spark.sql.redaction.string.regex, so Spark hides a part of the plan of its query', 'change': 'Unset it' ~ to_do},
    ]) -%}
    {{ return(plan) }}
{% endmacro %}


{#- Let Spark print complete lists of more than 25 columns or fields. A plain SET would treat a comment after the value as a part of the value. -#}
{% macro run_show_whole_types() %}
    {%- do dbt_backfill.run_table('show whole types', "execute immediate 'set spark.sql.debug.maxToStringFields = 100000'") -%}
{% endmacro %}


{#- Return the lines of one section of the output of EXPLAIN EXTENDED. -#}
{% macro plan_section(plan, name) %}
    {%- set header = '== ' ~ name ~ ' Logical Plan ==\n' -%}
    {{ return(plan.split(header)[1].split('\n\n== ')[0].split('\n') if header in plan else []) }}
{% endmacro %}


{#- Return the error that Spark shows instead of an optimized plan, without its condition and line; none if there is no error. -#}
{% macro find_plan_error(plan) %}
    {%- if dbt_backfill.plan_section(plan, 'Optimized') -%} {{ return(none) }} {%- endif -%}
    {%- set error = (dbt_backfill.plan_section(plan, 'Analyzed') or [plan])[0] -%}
    {{ return((error.split('SQLSTATE')[0].split(': ', 1) | last | trim | trim('.')) or error | trim) }}
{% endmacro %}


{#- Return Spark's list of columns as a list of {'name', 'type'}. The name of a column or of a struct's field may have a comma or a colon in it. -#}
{% macro parse_columns(text) %}
    {%- set entries, columns = [], [] -%}
    {%- for piece in text.split(', ') -%}
        {%- set type = (entries | last | default('', true)).partition(': ')[2] -%}
        {%- set goes_on = entries and (not type or type.count('<') > type.count('>')) -%}
        {%- do entries.append(entries.pop() ~ ', ' ~ piece if goes_on else piece) -%}
    {%- endfor -%}
    {%- for entry in entries if entry -%}
        {%- set name, sign, rest = entry.partition(': ') -%}
        {%- set more = rest.split('<')[0].rpartition(': ')[0] -%}
        {%- set name = name ~ ': ' ~ more if more else name -%}
        {%- do columns.append({'name': name, 'type': entry[(name | length) + 2:]}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return the operator of a line of a plan: `Relation` for a table; '' if the line continues a string literal of the line before. -#}
{% macro plan_operator(line) %}
    {%- set match = modules.re.match("[\\s:]*[+:]- '?(\\w+)", line) -%}
    {%- set name = match.group(1) if match else '' -%}
    {{ return('Relation' if name in ['RelationV2', 'DataSourceV2Relation', 'HiveTableRelation'] else name) }}
{% endmacro %}


{#- Return the attributes that a line of a plan lists, as {id: name}. -#}
{% macro get_attributes(line) %}
    {%- set attributes, list = {}, ((line.split('Data Cols: ') | last).split('[', 1) | last).rsplit(']', 1)[0] -%}
    {%- for name, id in modules.re.findall('(.+?)#(\\d+)L?(?:, ?|$)', list) -%} {%- do attributes.update({id: name}) -%} {%- endfor -%}
    {{ return(attributes) }}
{% endmacro %}


{#- Return the entries of a list in a plan. The entries are separated by the commas that are outside of brackets. -#}
{% macro split_list(text) %}
    {%- set at, entries = namespace(depth=0, entry=''), [] -%}
    {%- for part in modules.re.split('([\\[(]|[\\])]|, )', text) -%}
        {%- if part == ', ' and at.depth == 0 -%}
            {%- do entries.append(at.entry) -%}
            {%- set at.entry = '' -%}
        {%- else -%}
            {%- set at.depth = at.depth + (1 if part in ['[', '('] else -1 if part in [']', ')'] else 0) -%}
            {%- set at.entry = at.entry ~ part -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(entries + [at.entry]) }}
{% endmacro %}
