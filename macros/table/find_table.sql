{#-
    A table as dbt's cache knows it, none if it does not exist. dbt's cache knows the schemas of the session's own
    catalog; a table of another one, which is named by three parts, is asked for.
-#}
{% macro load_table(relation) %}
    {%- if dbt_backfill.get_catalog(relation) is none -%}
        {{ return(adapter.get_relation(none, relation.schema, relation.identifier)) }}
    {%- endif -%}
    {{ return(dbt_backfill.find_table(relation)) }}
{% endmacro %}


{#- A table as Spark knows it now, none if it does not exist. -#}
{% macro find_table(relation) %}
    {%- set sql = 'show table extended in ' ~ relation.include(identifier=false).render() ~ ' like ' ~ dbt_backfill.string_literal(relation.identifier) -%}
    {%- for row in dbt_backfill.run_table('find ' ~ relation.identifier, sql) if row[1] | lower == relation.identifier | lower -%}
        {{ return(relation.incorporate(type='view' if 'Type: VIEW' in row[3] else 'table', information=row[3])) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- The schemas of the session's own catalog, in small letters and without quotes. -#}
{% macro read_schemas() %}
    {%- set schemas = [] -%}
    {%- for row in dbt_backfill.run_table('list the schemas', 'show schemas') -%} {%- do schemas.append(row[0] | replace('`', '') | lower) -%} {%- endfor -%}
    {{ return(schemas) }}
{% endmacro %}


{#- The relation of a text that names it with its schema, as it is rendered; none of any other text. -#}
{% macro parse_relation(text) %}
    {%- set parts = modules.re.fullmatch('(?s)(.+?)\\.(?:`(.*)`|([^`.]+))', text) -%}
    {%- if not parts -%} {{ return(none) }} {%- endif -%}
    {%- set schema, quoted, plain = parts.groups() -%}
    {#- Where dbt looks a table up, a schema has no quotes. -#}
    {%- set quoted_schema = modules.re.fullmatch('`([^`]+)`', schema) -%}
    {%- set relation = api.Relation.create(
        schema=quoted_schema.group(1) if quoted_schema else schema, identifier=quoted or plain
    ) -%}
    {%- if quoted_schema -%} {%- set relation = relation.quote(schema=true) -%} {%- endif -%}
    {{ return(relation.quote(identifier=true) if quoted else relation) }}
{% endmacro %}


{#- The catalog of a relation that is named by three parts; none for the session's own. -#}
{% macro get_catalog(relation) %}
    {{ return(relation.schema.split('.')[0] if '.' in relation.schema else none) }}
{% endmacro %}
