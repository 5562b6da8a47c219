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
