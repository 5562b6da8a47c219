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


{#- Refuse arguments that are unknown or of the wrong type. One of model and mv names what is dropped. -#}
{% macro check_drop_arguments(given, unknown) %}
    {%- set name = given.model or given.mv or 'drop_backfill' -%}
    {%- do dbt_backfill.check_argument_names('drop_backfill', unknown, given.keys() | list, name) -%}
    {%- if (given.model is none) == (given.mv is none) -%}
        {%- do dbt_backfill.refuse(
            'neither model nor mv is given' if given.model is none else 'both model and mv are given',
            "Name one MV: --args '{model: my_mv}', or, if its model is gone, --args '{mv: my_schema.my_mv}'",
            mv='drop_backfill'
        ) -%}
    {%- elif given.model is not none and (given.model is not string or not given.model) -%}
        {%- do dbt_backfill.refuse_argument('drop_backfill', 'model', given.model, 'the name of one model') -%}
    {%- elif given.mv is not none and (given.mv is not string or dbt_backfill.parse_relation(given.mv | trim) is none) -%}
        {%- do dbt_backfill.refuse_argument('drop_backfill', 'mv', given.mv, 'one table with its schema, such as my_schema.my_mv') -%}
    {%- elif given.keep_mv is not boolean -%}
        {%- do dbt_backfill.refuse_argument(name, 'keep_mv', given.keep_mv, 'true or false') -%}
    {%- elif given.generation not in [none, 'next'] -%}
        {%- do dbt_backfill.refuse_argument(name, 'generation', given.generation, 'next, or leave it out') -%}
    {%- elif given.generation and given.keep_mv -%}
        {%- do dbt_backfill.refuse_argument(name, 'keep_mv', true, 'false: the MV stays anyway where only its next generation is dropped') -%}
    {%- endif -%}
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


{#-
    The tables that are to be dropped, as their names say: as get_relations returned them, and {
      'name': the model's, or the table's where the model is gone,
      'owner': the node of the project that makes the table of this name, none if there is none
    }
-#}
{% macro find_dropped(model, mv, owners, catalog) %}
    {%- if model is not none -%}
        {%- set node = dbt_backfill.find_model(
            model, "Name an enabled model, or the table of one that is gone: --args '{mv: my_schema.my_mv}'"
        ) -%}
        {%- set relation = dbt_backfill.get_plain_relation(dbt_backfill.get_node_relation(node), catalog) -%}
        {%- set name = dbt_backfill.get_model_name(node) -%}
    {%- else -%}
        {%- set relation = dbt_backfill.get_plain_relation(dbt_backfill.parse_relation(mv | trim), catalog) -%}
        {%- set name = relation.render() -%}
    {%- endif -%}
    {%- set owner = owners.get(dbt_backfill.get_table_key(relation)) -%}
    {%- set is_mv = owner is not none and owner.config.materialized == 'backfilled_mv' -%}
    {%- if is_mv and model is none -%}
        {%- do dbt_backfill.refuse(
            'the model ' ~ dbt_backfill.get_model_name(owner) ~ ' makes it',
            "Name the model: --args '{model: " ~ dbt_backfill.get_model_name(owner) ~ "}'", mv=name
        ) -%}
    {%- endif -%}
    {{ return(dict(dbt_backfill.get_relations(relation), name=name, owner=owner)) }}
{% endmacro %}


{#- Refuse to drop anything beside a table that is none of ours. -#}
{% macro check_remains(dropped, remains) %}
    {%- for table, why in remains.foreign.items() -%}
        {%- if table != 'mv' -%}
            {%- set change = 'Drop or rename it yourself, and then drop the rest' -%}
        {%- elif remains.ours -%}
            {%- set change = 'Add keep_mv: true to drop only the ' ~ dbt_backfill.get_remains_text(remains) ~ ' beside it' -%}
        {%- else -%}
            {%- set change = 'Name an MV, or a table that has the state of one beside it' -%}
        {%- endif -%}
        {%- do dbt_backfill.refuse(dropped[table].render() ~ ' ' ~ why, change, mv=dropped.name) -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Drop one of the tables if it is there and ours. As dbt-spark does: without PURGE, so that the catalog decides on files; but for
    copies of rows of the upstream, which nobody looks for.
-#}
{% macro run_drop(dropped, remains, existing, table) %}
    {%- if table in remains.ours -%}
        {%- set what, relation = dbt_backfill.table_words()[table], dropped[table] -%}
        {%- if table in ['staged', 'replica'] -%}
            {%- set sql = dbt_backfill.get_drop_copy_sql(dbt_backfill.get_table_format(existing[table], relation), relation) -%}
        {%- else -%}
            {%- set sql = dbt_backfill.get_drop_live_view_sql(relation) if table == 'live' else 'drop table if exists ' ~ relation.render() -%}
        {%- endif -%}
        {%- do dbt_backfill.run_table('drop the ' ~ what, sql, dropped.mv) -%}
        {%- set location = dbt_backfill.get_lasting_location(existing[table]) -%}
        {%- do log(
            dropped.name ~ ': dropped the ' ~ what ~ ' ' ~ relation.render()
                ~ ('; its files stay in ' ~ location if location else ''), info=true
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Where the files of a table are that DROP TABLE leaves there, an external Delta table's; none if it does not. -#}
{% macro get_lasting_location(relation) %}
    {%- set information = relation.information or '' -%}
    {%- if not relation.is_delta or 'Type: EXTERNAL' not in information -%} {{ return(none) }} {%- endif -%}
    {{ return(modules.re.search('Location: ([^\\n]*)', information).group(1)) }}
{% endmacro %}
