{#-
    What Spark makes of the model's query, read off one EXPLAIN EXTENDED: {
      'columns': the names and types of the query's columns, as Spark prints them,
      'key_types': the types of unique_key,
      'analyzed', 'optimized': the lines of the two plans,
    }

    The key columns are selected once more in front of the query's own, so that they are the first entries of
    the optimized plan's topmost projection.

    Raises: the query does not run, or lacks a column of unique_key.
-#}
{% macro explain_query(query, unique_key) %}
    {%- set plan = dbt_backfill._explain(query, unique_key) -%}
    {%- if ' more fields' in plan -%}
        {%- do dbt_backfill.show_whole_types() -%}
        {%- set plan = dbt_backfill._explain(query, unique_key) -%}
    {%- endif -%}
    {%- set analyzed = dbt_backfill._plan_section(plan, 'Analyzed') -%}
    {%- set optimized = dbt_backfill._plan_section(plan, 'Optimized') -%}
    {%- if not optimized -%}
        {%- do dbt_backfill._refuse_broken_query(analyzed[0] if analyzed else plan, unique_key) -%}
    {%- endif -%}
    {%- set schema = namespace(rest=analyzed[0], key_types=[]) -%}
    {%- for column in unique_key -%}
        {%- set rest = schema.rest[(column | length) + 2:] -%}
        {%- set type = dbt_backfill._leading_type(rest) -%}
        {%- do schema.key_types.append(type) -%}
        {%- set schema.rest = rest[(type | length) + 2:] -%}
    {%- endfor -%}
    {{ return({
        'columns': schema.rest,
        'key_types': schema.key_types,
        'analyzed': analyzed[1:],
        'optimized': optimized,
    }) }}
{% endmacro %}


{#- The columns of unique_key and of a query as Spark prints them; none if the query does not run. -#}
{% macro explain_columns(query, unique_key) %}
    {%- set plan = dbt_backfill._explain(query, unique_key) -%}
    {%- set runs = dbt_backfill._plan_section(plan, 'Optimized') != [] -%}
    {{ return(dbt_backfill._plan_section(plan, 'Analyzed')[0] if runs else none) }}
{% endmacro %}


{#- Spark shortens lists of more than 25 columns or fields; what is cut off could hold anything. -#}
{% macro show_whole_types() %}
    {%- do dbt_backfill.run_table('show whole types', 'set spark.sql.debug.maxToStringFields = 100000') -%}
{% endmacro %}


{% macro _explain(query, unique_key) %}
    {%- set sql -%}
        explain extended
        select {{ dbt_backfill.identifiers(unique_key) }}, __bf_query.*
        from (
            {{ query | trim | trim(';') }}
        ) as __bf_query
    {%- endset -%}
    {{ return(dbt_backfill.run_table('check the query', sql)[0][0]) }}
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


{#- The lines of one section of EXPLAIN EXTENDED's output. -#}
{% macro _plan_section(plan, name) %}
    {%- set header = '== ' ~ name ~ ' Logical Plan ==\n' -%}
    {%- if header not in plan -%} {{ return([]) }} {%- endif -%}
    {{ return(plan.split(header)[1].split('\n\n== ')[0].split('\n')) }}
{% endmacro %}


{% macro _refuse_broken_query(error, unique_key) %}
    {%- for column in unique_key if 'name `' ~ column | replace('`', '``') ~ '` cannot be resolved' in error -%}
        {%- do dbt_backfill.refuse(
            "its query does not return the column '" ~ column ~ "' of unique_key",
            'Select the primary key of the upstream, and name its columns in unique_key'
        ) -%}
    {%- endfor -%}
    {%- do dbt_backfill.refuse(
        'Spark cannot run its query: ' ~ ((error.split('SQLSTATE')[0].split(': ', 1) | last | trim | trim('.')) or error | trim),
        'Correct the query'
    ) -%}
{% endmacro %}


{#-
    Whether a query's values may depend on the session's time zone: Spark prints the zone of most expressions that
    use it as `Some(UTC)`, and none for casts between times and text or for arithmetic with intervals, so any such counts.
-#}
{% macro uses_time_zone(explained) %}
    {%- set uses = 'Some\\(|\\bas [^()]*\\b(string|date|timestamp|timestamp_ntz)\\b[^()]*\\)|\\bINTERVAL\\b|\\binterval \\w' -%}
    {{ return(modules.re.search(uses, explained.columns ~ '\n' ~ explained.analyzed | join('\n')) is not none) }}
{% endmacro %}


{#-
    Whether a query's values may depend on spark.sql.ansi.enabled: on casts, arithmetic, elements, and the functions that
    then fail or return another value. dbt-spark turns it off in a session, and cannot on a Thrift server.
-#}
{% macro uses_ansi_mode(explained) %}
    {%- set functions = 'cast|size|cardinality|element_at|elt|conv|abs|pmod|mod|div|round|bround|ceil|floor|next_day|parse_url'
        ~ '|to_\\w+|make_\\w+|unix_\\w+|gettimestamp|date_\\w+|add_months|months_\\w+' -%}
    {%- set expressions = [] -%}
    {%- for line in explained.analyzed if '+- Relation' not in line -%} {%- do expressions.append(line) -%} {%- endfor -%}
    {{ return(modules.re.search('\\b(' ~ functions ~ ')\\(| [-+*/%] |[\\w)]\\[', expressions | join('\n')) is not none) }}
{% endmacro %}


{#-
    The names of the upstream's columns, as Spark prints them, where the query has a star inside of an expression, such
    as `md5(to_json(struct(*)))`: then another column upstream makes other values of the same type. None elsewhere.
-#}
{% macro columns_of_inner_star(explained, query) %}
    {%- set relation = modules.re.search('\\+- Relation [^\\n]*?\\[(.*)\\]', explained.analyzed | join('\n')) -%}
    {%- if not relation or not dbt_backfill.has_inner_star(query) -%} {{ return(none) }} {%- endif -%}
    {{ return(modules.re.sub('#\\d+L?', '', relation.group(1))) }}
{% endmacro %}


{#- Whether a star is an argument of a function: right after its bracket, or after a comma with that bracket around. -#}
{% macro has_inner_star(query) %}
    {%- set code = dbt_backfill.tokens(query) | selectattr('kind', 'in', ['code', 'quoted']) | map(attribute='text') | join -%}
    {%- set no_functions = ['', 'select', 'from', 'join', 'in', 'as', 'and', 'or', 'not', 'where', 'on', 'exists', 'except'] -%}
    {%- set star = '\\s*(?:[A-Za-z_`][\\w`]*\\s*[.]\\s*)*[*]' -%}
    {%- set calls = [] -%}
    {%- for match in modules.re.finditer('([\\w`]*)\\s*[(](' ~ star ~ ')?|(,)' ~ star ~ '|[)]', code) -%}
        {%- if match.group() == ')' -%}
            {%- do calls.pop() if calls -%}
        {%- elif match.group(3) is none -%}
            {%- do calls.append(match.group(1) | lower not in no_functions) -%}
        {%- endif -%}
        {%- if calls and calls[-1] and (match.group(2) or match.group(3)) -%} {{ return(true) }} {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Whether the query may leave rows of the upstream out. -#}
{% macro drops_rows(explained) %}
    {{ return(modules.re.search('(?m)^[\\s:]*(?:[+:]- )?Filter ', explained.analyzed | join('\n')) is not none) }}
{% endmacro %}
