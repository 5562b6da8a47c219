{#-
    Land the changes of a feed's slot during a barrier, for all tables that share the slot. So a run needs no other process that lands changes. Return
    true if a model names a slot for the feed.
-#}
{% macro postgres_land_feed(upstream) %}
    {%- set all = dbt_backfill.get_landed_tables() -%}
    {%- for own in all if own.rendered == upstream.feed.relation.render() -%}
        {%- do dbt_backfill.run_landing(dbt_backfill.new_landing(own.slot, all), {'batch_rows': 100000, 'wal_warning_mb': 1024}) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Return one dict for each model of the project whose change_feed names a slot: {
      'id', 'name': of the model, 'slot', 'catalog': Spark's catalog of the database, 'format': the format of the change table if it has to be
        created,
      'relation', 'rendered': the change table, 'upstream': the relation whose changes the change table contains, 'table': the upstream's name in
      PostgreSQL
    }
-#}
{% macro get_landed_tables() %}
    {%- set all = [] -%}
    {%- for node in dbt_backfill.find_backfilled_mvs() -%}
        {%- set feed, name = dbt_backfill.get_option_of(node, 'change_feed'), dbt_backfill.get_model_name(node) -%}
        {%- if feed is mapping and feed.get('slot') and feed.get('format', 'landed') == 'landed' -%}
            {%- set nodes = {} -%}
            {%- for id in node.depends_on.nodes if not id.startswith(('macro.', 'operation.', 'function.')) -%}
                {%- set read = graph.nodes.get(id) or graph.sources.get(id) -%}
                {%- do nodes.update({'feed' if dbt_backfill.is_named_by(read, feed.relation) else 'upstream': dbt_backfill.get_node_relation(read)}) -%}
            {%- endfor -%}
            {%- if not nodes.feed or not nodes.upstream or not dbt_backfill.get_catalog(nodes.upstream) -%}
                {%- do dbt_backfill.refuse(
                    "its change_feed sets 'slot', but the model does not depend on both a PostgreSQL table and "
                        ~ (feed.relation or 'a relation of change_feed'),
                    'Correct the query and the change_feed as in docs/postgres.md', mv=name
                ) -%}
            {%- endif -%}
            {%- do all.append({
                'id': node.unique_id, 'name': name, 'slot': feed.slot, 'format': dbt_backfill.get_option_of(node, 'file_format') or 'delta',
                'relation': nodes.feed, 'rendered': nodes.feed.render(), 'upstream': nodes.upstream,
                'table': dbt_backfill.get_postgres_name(nodes.upstream, feed), 'catalog': dbt_backfill.get_catalog(nodes.upstream),
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(all) }}
{% endmacro %}


{#-
    Return {'slot', 'catalog', 'tables': the entries of `all` that are landed from the slot}. The tables of a slot are landed together, because the
    slot is moved forward only after each table has its events. If models share a change table, `tables` has one entry for it.
-#}
{% macro new_landing(slot, all) %}
    {%- set landed, tables = all | selectattr('slot', 'equalto', slot) | list, [] -%}
    {%- for rendered, same in landed | groupby('rendered') -%}
        {%- do tables.append(same[0]) -%}
        {%- for other in same if other.catalog != landed[0].catalog or other.table != same[0].table -%}
            {%- set shared, first, what = ('slot ' ~ slot, landed[0], 'are in different databases') if other.catalog != landed[0].catalog
                else ('change table ' ~ rendered, same[0], 'are different tables') -%}
            {%- do dbt_backfill.refuse(
                'its change_feed has the same ' ~ shared ~ ' as the model ' ~ first.name ~ ', but the upstreams of the two models ' ~ what,
                'Give each of the two models its own slot or change table', mv=other.name
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return({'slot': slot, 'catalog': landed[0].catalog, 'tables': tables}) }}
{% endmacro %}


{#-
    Prepare the tables of a landing. Return the landing with the entry 'confirmed', the position from which its slot continues. Each table of the
      landing also has {
      'facts': see get_postgres_facts_query,
      'kind': the kind of the change table, `delta` or `iceberg`,
      'columns': the columns of the change table, without the columns that landing adds: {
        'name', 'type': of Spark, 'source_type': of PostgreSQL, `told`: true if events contain the column, 'doubtful': true if wal2json may write a
        null instead of another value
      }
    }
-#}
{% macro prepare_landing(landing) %}
    {%- set known, tables = [], [] -%}
    {%- for table in landing.tables -%}
        {%- set facts = dbt_backfill.read_from_postgres(landing, 'read what PostgreSQL knows of ' ~ table.table,
            dbt_backfill.get_postgres_facts_query(table.table, landing.slot)) -%}
        {%- do dbt_backfill.check_landed_facts(landing, table, facts) -%}
        {%- if not dbt_backfill.get_postgres_told_keys(facts) -%}
            {%- do log(table.table ~ ': its events do not contain the key of a deleted row; a run of the model says why', info=true) -%}
        {%- endif -%}
        {%- do known.append(dict(table, facts=facts)) -%}
    {%- endfor -%}
    {%- set slot = known[0].facts.slot -%}
    {%- set goes_on = slot is not none and slot.wal_status != 'lost' -%}
    {%- if not goes_on -%}
        {#- PostgreSQL has no list of its output plugins, so try to make a temporary slot with the plugin. A script of Spark cannot catch an error of
            a database. So a block of PL/pgSQL catches the error and stores its text in a setting, and a query of the same connection reads the
            setting.
            -#}
        {%- set attempt = 'do $$ begin perform ' ~ dbt_backfill.get_temporary_slot_sql(landing.slot)
            ~ "; exception when others then perform set_config('dbt_backfill.error', sqlerrm, false); end $$" -%}
        {%- set error = dbt_backfill.read_from_postgres(landing, 'see whether PostgreSQL has wal2json',
            "select jsonb_build_object('error', nullif(current_setting('dbt_backfill.error', true), ''))::text as value_1", attempt).error -%}
        {%- if error -%}
            {%- do dbt_backfill.refuse(
                'PostgreSQL cannot create a slot with the output plugin wal2json: ' ~ error,
                'If wal2json is missing, install it on the server (Debian: postgresql-15-wal2json). If PostgreSQL has the setting '
                    ~ 'output_plugin_libraries, add wal2json to it', mv=landing.tables[0].name
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {%- for table in known -%} {%- do tables.append(dbt_backfill.prepare_change_table(table)) -%} {%- endfor -%}
    {%- set landing = dict(landing, tables=tables) -%}
    {{ return(dict(landing, confirmed=slot.confirmed if goes_on else dbt_backfill.make_slot(landing, slot))) }}
{% endmacro %}


{#- Return the call that makes a temporary slot for this invocation. PostgreSQL drops the slot when the connection ends. -#}
{% macro get_temporary_slot_sql(slot) %}
    {{ return("pg_create_logical_replication_slot('dbt_backfill_" ~ local_md5(invocation_id ~ slot)[:20] ~ "', 'wal2json', true)") }}
{% endmacro %}


{#-
    Make the slot, unless another landing has made it meanwhile, and return the position where the slot begins. First refuse a database that was
    restored to an earlier state: its WAL is behind a change table, see read_landed_places. The check comes first, because a restore cannot be
    detected in this way once the WAL has passed the position of the change table.

    Arguments:
      lost (dict or none): the old slot, which is dropped first; none if there is no old slot.
-#}
{% macro make_slot(landing, lost) %}
    {%- do dbt_backfill.read_landed_places(landing) -%}
    {%- set name = dbt_backfill.postgres_literal(landing.slot) -%}
    {%- if lost -%}
        {%- do dbt_backfill.read_from_postgres(landing, 'drop the slot ' ~ landing.slot,
            'select pg_drop_replication_slot(slot_name)::text as value_1 from pg_replication_slots where slot_name = ' ~ name ~ " and wal_status = 'lost'") -%}
        {%- do log('slot ' ~ landing.slot ~ ': PostgreSQL has removed WAL that it had not sent yet; the slot is created again', info=true) -%}
    {%- endif -%}
    {%- do dbt_backfill.read_from_postgres(landing, 'make the slot ' ~ landing.slot,
        "select (select lsn::text from pg_create_logical_replication_slot(case when l.locked = '' then " ~ name ~ " end, 'wal2json')"
        ~ ' where not exists (select 1 from pg_replication_slots where slot_name = ' ~ name ~ " and l.locked = ''))"
        ~ ' as value_1 from ' ~ dbt_backfill.get_slot_lock(landing.slot)) -%}
    {{ return(dbt_backfill.read_wal(landing).slot.confirmed) }}
{% endmacro %}


{#- Create the change table, or add its missing columns. Return the table with the entries that prepare_landing describes. -#}
{% macro prepare_change_table(table) %}
    {%- set relation, found = table.relation, dbt_backfill.load_table(table.relation) -%}
    {%- set kind = dbt_backfill.get_table_format(found, relation) if found else table.format -%}
    {%- set columns = dbt_backfill.get_columns_to_land(table, kind) -%}
    {%- set all = columns + dbt_backfill.landed_columns() -%}
    {%- if not found -%}
        {%- set properties = dbt_backfill.exact_table_properties(kind) -%}
        {%- if kind == 'delta' -%}
            {%- do properties.update(dbt_backfill.get_needed_features(columns | map(attribute='name') | list, [])) -%}
        {%- endif -%}
        {%- do dbt_backfill.run_table('create ' ~ relation.identifier, 'create table if not exists ' ~ relation.render()
            ~ ' (' ~ dbt_backfill.column_definitions(all) ~ ') using ' ~ kind ~ ' tblproperties ' ~ dbt_backfill.property_list(properties)) -%}
        {{ return(dict(table, kind=kind, columns=columns)) }}
    {%- endif -%}
    {%- set present, added, dropped = dbt_backfill.get_table_columns(relation), [], [] -%}
    {%- set types, wanted = dbt_backfill.types_by_name(present), all | map(attribute='name') | map('lower') | list -%}
    {%- for column in all -%}
        {%- set type = types.get(column.name | lower) -%}
        {%- if type is none -%}
            {%- do added.append(column) -%}
        {%- elif column in columns and type | lower != column.type | lower -%}
            {%- do dbt_backfill.refuse(
                'its change_feed ' ~ relation.render() ~ ' has ' ~ column.name ~ ' as ' ~ type ~ ', but ' ~ table.table ~ ' has it as ' ~ column.type,
                'Drop ' ~ relation.render() ~ ': landing creates it again, and each model that reads it re-anchors', mv=table.name
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if added -%}
        {%- set definitions = dbt_backfill.column_definitions(added) -%}
        {%- do dbt_backfill.run_table('add columns to ' ~ relation.identifier, 'alter table ' ~ relation.render() ~ ' add columns (' ~ definitions ~ ')') -%}
        {%- do log(table.table ~ ': ' ~ relation.render() ~ ' gets ' ~ definitions, info=true) -%}
    {%- endif -%}
    {%- for column in present if column.name | lower not in wanted -%}
        {%- do dropped.append(dict(column, source_type=none, told=false, doubtful=false)) -%}
    {%- endfor -%}
    {{ return(dict(table, kind=kind, columns=columns + dropped)) }}
{% endmacro %}


{#- Return the columns of the table that both Spark and the WAL can show, see check_postgres_table. Models that read other columns are refused. -#}
{% macro get_columns_to_land(table, kind) %}
    {%- set types, columns, left, own = {}, [], [], dbt_backfill.landed_columns() | map(attribute='name') | list -%}
    {%- for column in dbt_backfill.get_table_columns(table.upstream) -%}
        {%- do types.update({column.name: dbt_backfill.get_kept_type(dbt_backfill.get_plain_type(column.type), kind)}) -%}
    {%- endfor -%}
    {%- for column in table.facts.columns -%}
        {%- do dbt_backfill.check_distinct_name(table.facts, column, table.name) -%}
        {%- if column.name | lower in own -%}
            {%- do dbt_backfill.refuse(
                table.table ~ ' has a column ' ~ column.name ~ ', but landing adds a column of this name to the change table',
                'Rename the column in PostgreSQL', mv=table.name
            ) -%}
        {%- elif column.name in types and dbt_backfill.is_postgres_read_type(column) -%}
            {%- do columns.append({
                'name': column.name, 'type': types[column.name], 'source_type': column.type, 'told': column.generated != 'v',
                'doubtful': column.not_null and column.type in ['float4', 'float8', 'numeric'] and not column.finite,
            }) -%}
        {%- else -%}
            {%- do left.append(column.name ~ ' (' ~ column.shown ~ ')') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if left -%} {%- do log(table.table ~ ': not landed: ' ~ left | join(', '), info=true) -%} {%- endif -%}
    {{ return(columns) }}
{% endmacro %}
