{#-
    List what models that are gone, or are no backfilled_mv any more, have left: the tables of ours that no enabled
    backfilled_mv of the project makes, one line per MV, with the command that drops them. It drops nothing.

    They are known by a state, a history, controls or a live view; an MV without any is not found.

    Usage:
      dbt run-operation backfill_orphans
      dbt run-operation backfill_orphans --args '{schema: my_schema}'

    Arguments:
      schema (string): the schema to search; the target's and those of all models of the project by default.
-#}
{% macro backfill_orphans(schema=none) %}
    {%- do dbt_backfill.check_argument_names('backfill_orphans', kwargs, ['schema'], 'backfill_orphans') -%}
    {%- set catalog = dbt_backfill.read_current_catalog() -%}
    {%- set schemas = dbt_backfill.find_searched_schemas(schema, catalog) -%}
    {%- set owners, lines = dbt_backfill.get_owners(catalog), [] -%}
    {%- for searched in schemas -%}
        {%- set tables = dbt_backfill.list_tables(searched) -%}
        {%- for relations in dbt_backfill.get_left_relations(searched, tables, owners, catalog) -%}
            {%- set existing = {} -%}
            {%- for table in dbt_backfill.table_words() -%}
                {%- set exists = relations[table].identifier in tables -%}
                {%- do existing.update({table: relations[table] if exists else none}) -%}
            {%- endfor -%}
            {%- set remains = dbt_backfill.find_remains(relations, existing, owners) -%}
            {%- if remains.ours | reject('equalto', 'mv') | list -%}
                {%- do lines.append(dbt_backfill.get_orphan_line(relations, remains)) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do log(
        (dbt_backfill.get_count_text(lines | length, 'orphan') if lines else 'no orphans') ~ ' in ' ~ schemas | join(', ')
            ~ (', which no model of this project and target makes' if lines else ''), info=true
    ) -%}
    {%- for line in lines -%} {%- do log('  ' ~ line, info=true) -%} {%- endfor -%}
{% endmacro %}
