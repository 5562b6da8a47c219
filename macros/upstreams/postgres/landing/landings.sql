{#-
    In the middle of a barrier: the slot of its feed is landed, with all tables that share it, so that a run needs nobody else for it.
    Whether a model names a slot for it.
-#}
{% macro postgres_land_feed(upstream) %}
    {%- set landed = dbt_backfill.get_landed_tables() -%}
    {%- set own = landed | selectattr('rendered', 'equalto', upstream.feed.relation.render()) | list -%}
    {%- if not own -%} {{ return(false) }} {%- endif -%}
    {%- do dbt_backfill.run_landing(
        dbt_backfill.new_landing(own[0].slot, landed | selectattr('slot', 'equalto', own[0].slot) | list),
        {'batch_rows': 100000, 'wal_warning_mb': 1024}
    ) -%}
    {{ return(true) }}
{% endmacro %}


{#- Models may share a change table. -#}
{% macro new_landing(slot, landed) %}
    {%- set tables, catalog = [], dbt_backfill.get_catalog(landed[0].upstream) -%}
    {%- for other in landed if other.catalog != catalog -%}
        {%- do dbt_backfill._refuse_shared('slot ' ~ slot, landed[0], other, 'database') -%}
    {%- endfor -%}
    {%- for rendered, same in landed | groupby('rendered') -%}
        {%- for other in same if other.table != same[0].table -%}
            {%- do dbt_backfill._refuse_shared('change table ' ~ rendered, same[0], other, 'table') -%}
        {%- endfor -%}
        {%- do tables.append(same[0]) -%}
    {%- endfor -%}
    {{ return({'slot': slot, 'catalog': catalog, 'tables': tables}) }}
{% endmacro %}


{% macro _refuse_shared(shared, first, other, of_another) %}
    {%- do dbt_backfill.refuse(
        'its change_feed shares the ' ~ shared ~ ' with that of ' ~ first.name ~ ', whose upstream is another ' ~ of_another,
        'Give each its own', mv=other.name
    ) -%}
{% endmacro %}


{#- Of all models of the project. -#}
{% macro get_landed_tables() %}
    {%- set all = [] -%}
    {%- for node in dbt_backfill.find_backfilled_mvs() -%}
        {%- set landed = dbt_backfill.get_landed_table(node) -%}
        {%- if landed -%} {%- do all.append(landed) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(all) }}
{% endmacro %}


{#- Of a model, with its 'slot' and 'catalog' and 'rendered', the change table; none if its change_feed names no slot. -#}
{% macro get_landed_table(node) %}
    {%- set feed = dbt_backfill.get_option_of(node, 'change_feed') -%}
    {%- if feed is not mapping or not feed.get('slot') or feed.get('format', 'landed') != 'landed' -%} {{ return(none) }} {%- endif -%}
    {%- set told = {
        'name': dbt_backfill.get_model_name(node), 'slot': feed.slot, 'format': dbt_backfill.get_option_of(node, 'file_format') or 'delta',
    } -%}
    {%- set nodes = {} -%}
    {%- for id in node.depends_on.nodes if not id.startswith(('macro.', 'operation.', 'function.')) -%}
        {%- set read = graph.nodes.get(id) or graph.sources.get(id) -%}
        {%- set is_feed = dbt_backfill.is_named_by(read, feed.relation) -%}
        {%- do nodes.update({'feed' if is_feed else 'upstream': dbt_backfill.get_node_relation(read)}) -%}
    {%- endfor -%}
    {%- if not nodes.feed or not nodes.upstream or not dbt_backfill.get_catalog(nodes.upstream) -%}
        {%- do dbt_backfill.refuse(
            'its change_feed names a slot, and its query reads no table of PostgreSQL beside ' ~ (feed.relation or 'a relation of change_feed'),
            'See docs/postgres.md for how to write both', mv=told.name
        ) -%}
    {%- endif -%}
    {{ return(dict(
        told, relation=nodes.feed, rendered=nodes.feed.render(), upstream=nodes.upstream,
        table=dbt_backfill.get_postgres_name(nodes.upstream, feed), catalog=dbt_backfill.get_catalog(nodes.upstream),
    )) }}
{% endmacro %}
