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
