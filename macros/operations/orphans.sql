{#- Such as `nyc.mv: MV, state and history; dbt run-operation drop_backfill --args '{mv: nyc.mv}'`. -#}
{% macro get_orphan_line(relations, remains) %}
    {%- set name = relations.mv.render() -%}
    {{ return(
        name ~ ': ' ~ dbt_backfill.get_remains_text(remains) ~ '; ' ~ dbt_backfill.get_operation_text(
            'drop_backfill', '{mv: ' ~ name ~ (', keep_mv: true' if 'mv' in remains.foreign else '') ~ '}')
    ) }}
{% endmacro %}


{#-
    The tables of MVs, as get_relations returns them, that stand beside a table with the name of a state, a history, controls or a live
    view, and that no model makes. A source of the project is the MV of another project.
-#}
{% macro get_left_relations(schema, tables, owners, catalog) %}
    {%- set known = [] -%}
    {%- for source in graph.sources.values() -%}
        {%- do known.append(dbt_backfill.get_table_key(
            dbt_backfill.get_plain_relation(dbt_backfill.get_node_relation(source), catalog)
        )) -%}
    {%- endfor -%}
    {%- for key, owner in owners.items() if owner.config.materialized == 'backfilled_mv' -%}
        {%- do known.extend([key, key ~ '__next']) -%}
    {%- endfor -%}
    {%- set companion = '(?s)(.+)__(' ~ (dbt_backfill.companion_names() + ['live']) | join('|') ~ ')' -%}
    {%- set names, left = [], [] -%}
    {%- for table in tables -%}
        {%- set name = modules.re.fullmatch(companion, table) -%}
        {%- if name -%} {%- do names.append(name.group(1)) -%} {%- endif -%}
    {%- endfor -%}
    {%- for name in names | unique(case_sensitive=true) | sort -%}
        {%- set mv = api.Relation.create(schema=schema, identifier=name) -%}
        {%- if dbt_backfill.get_table_key(mv) not in known -%}
            {%- do left.append(dbt_backfill.get_relations(
                mv if modules.re.fullmatch('\\w+', name) else mv.quote(identifier=true)
            )) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(left) }}
{% endmacro %}


{#- The names of the tables and views of a schema. -#}
{% macro list_tables(schema) %}
    {%- set tables = [] -%}
    {#- A third column that is true marks a temporary view. -#}
    {%- for row in dbt_backfill.run_table('list the tables of ' ~ schema, 'show tables in ' ~ schema) if not row[2] -%}
        {%- do tables.append(row[1] | string) -%}
    {%- endfor -%}
    {{ return(tables) }}
{% endmacro %}


{#- The schemas to search that exist; `schema` is what the user named, none for those of the project. -#}
{% macro find_searched_schemas(schema, catalog) %}
    {%- set asked, found = [], [] -%}
    {%- if schema is none -%}
        {%- do asked.append(dbt_backfill.get_plain_schema(target.schema, catalog)) -%}
        {%- for node in graph.nodes.values() if node.resource_type == 'model' -%}
            {%- set name = dbt_backfill.get_plain_schema(node.schema, catalog) -%}
            {%- if name not in asked -%} {%- do asked.append(name) -%} {%- endif -%}
        {%- endfor -%}
    {%- elif schema is not string or not schema -%}
        {%- do dbt_backfill.refuse_argument('backfill_orphans', 'schema', schema, 'the name of a schema') -%}
    {%- else -%}
        {%- do asked.append(dbt_backfill.get_plain_schema(schema, catalog)) -%}
    {%- endif -%}
    {%- set there = dbt_backfill.read_schemas() -%}
    {#- That of another catalog, which is named by two parts, is not listed. -#}
    {%- for name in asked if '.' in name or name | replace('`', '') | lower in there -%} {%- do found.append(name) -%} {%- endfor -%}
    {%- if not found -%}
        {%- do dbt_backfill.refuse(
            'there is no schema ' ~ asked | join(', '), 'Name one that exists, or run a model first', mv='backfill_orphans'
        ) -%}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}
