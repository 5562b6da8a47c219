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
