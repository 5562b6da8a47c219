{#-
    Drop an MV with all that stands beside it, see get_relations, after checking that these tables are ours. What a drop that was
    broken off has left, the same command drops.

    The state goes last. As long as it is there without its MV, a run of the model is refused, and the state tells which
    upstream is held by a tag.

    Usage:
      dbt run-operation drop_backfill --args '{model: my_mv}'
      dbt run-operation drop_backfill --args '{mv: my_schema.my_mv}'
      dbt run-operation drop_backfill --args '{mv: my_schema.my_mv, keep_mv: true}'
      dbt run-operation drop_backfill --args '{model: my_mv, generation: next}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
      mv (string): in its place the table of a model that is gone, with its schema.
      keep_mv (boolean): drop what stands beside it only, beside a table that is no backfilled_mv any more, or is to be
        adopted anew.
      generation (string): `next` to drop only the one that a full refresh fills beside the MV, which stays as it is.
-#}
{% macro drop_backfill(model=none, mv=none, keep_mv=false, generation=none) %}
    {%- set given = {'model': model, 'mv': mv, 'keep_mv': keep_mv, 'generation': generation} -%}
    {%- do dbt_backfill.check_drop_arguments(given, kwargs) -%}
    {%- set catalog = dbt_backfill.read_current_catalog() -%}
    {%- set owners = dbt_backfill.get_owners(catalog) -%}
    {%- set dropped = dbt_backfill.find_dropped(model, mv, owners, catalog) -%}
    {%- set next, found = dict(dropped, **dbt_backfill.get_next_relations(dropped.mv)), [] -%}
    {#- The next generation first: without its MV nothing goes on with it. But all of them are looked at before. -#}
    {%- if generation == 'next' or dbt_backfill.load_table(next.progress) is not none -%}
        {%- do found.append(dbt_backfill.find_tables_of(next, false, owners)) -%}
    {%- endif -%}
    {%- if generation is none -%} {%- do found.append(dbt_backfill.find_tables_of(dropped, keep_mv, owners)) -%} {%- endif -%}
    {%- for tables in found -%} {%- do dbt_backfill.drop_tables_of(**tables) -%} {%- endfor -%}
{% endmacro %}


{#- What drop_tables_of takes, after checking that it may. `dropped`: see find_dropped. -#}
{% macro find_tables_of(dropped, keep_mv, owners) %}
    {%- set existing = dict(
        dbt_backfill.get_existing_relations(dropped, dbt_backfill.table_names()), live=dbt_backfill.load_table(dropped.live)
    ) -%}
    {%- if keep_mv -%} {%- set existing = dict(existing, mv=none) -%} {%- endif -%}
    {%- set remains = dbt_backfill.find_remains(dropped, existing, owners) -%}
    {%- do dbt_backfill.check_remains(dropped, remains) -%}
    {{ return({'dropped': dropped, 'existing': existing, 'remains': remains}) }}
{% endmacro %}


{#- Drop the tables of an MV, as far as they are there. `remains`: see find_remains. -#}
{% macro drop_tables_of(dropped, existing, remains) %}
    {%- if remains.ours -%}
        {%- set tags = dbt_backfill.find_tags(remains.state) -%}
        {%- do dbt_backfill.run_drop(dropped, remains, existing, 'live') -%}
        {%- do dbt_backfill.run_drop(dropped, remains, existing, 'mv') -%}
        {%- do dbt_backfill.run_release(dropped, tags) -%}
        {%- for table in dbt_backfill.table_names() if table != 'mv' -%}
            {%- do dbt_backfill.run_drop(dropped, remains, existing, table) -%}
        {%- endfor -%}
    {%- else -%}
        {%- do log(dropped.name ~ ': there is nothing to drop', info=true) -%}
    {%- endif -%}
{% endmacro %}
