{#-
    The table properties of a relation, as a dict. Spark shows `*********(redacted)` for one in whose name or value it sees a secret
    or a URL, such as a constraint of a column `url`; of a Delta table the detail has all of them.
-#}
{% macro read_table_properties(relation) %}
    {%- set properties = {} -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, 'show tblproperties ' ~ relation.render()) -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- if 'delta.minReaderVersion' in properties and dbt_backfill.is_redacted(properties.values() | join(' ')) -%}
        {%- do properties.update(dbt_backfill.read_delta_detail(relation).properties) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Those of what was looked up by this name, `existing`: {} of a view, and where there is nothing. -#}
{% macro read_listed_properties(existing, relation) %}
    {{ return({} if existing is none or existing.is_view else dbt_backfill.read_table_properties(relation)) }}
{% endmacro %}


{#- Whether Spark does not show the value of a property, or one among several. -#}
{% macro is_redacted(value) %}
    {{ return('*(redacted)' in (value or '')) }}
{% endmacro %}


{#- `describe detail` of a Delta table: {'id', 'properties', 'partitions': the names of the columns that partition it, as text}. -#}
{% macro read_delta_detail(relation) %}
    {%- set row = dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe detail ' ~ relation.render())[0] -%}
    {%- set properties = row['properties'] -%}
    {{ return({
        'id': row['id'],
        'properties': fromjson(properties) if properties is string else (properties or {}),
        'partitions': row.get('partitionColumns') | string,
    }) }}
{% endmacro %}
