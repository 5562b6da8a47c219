{#- Land the changes during a barrier, so that a run needs no other process that lands them. Return true if a model names a slot for the feed. -#}
{% macro postgres_land_feed(upstream) %}
    {%- set all = dbt_backfill.get_landed_tables() -%}
    {%- for own in all if own.rendered == upstream.feed.relation.render() -%}
        {%- if own.upstream.render() != upstream.relation.render() -%}
            {%- do dbt_backfill.refuse(
                'its query reads ' ~ upstream.relation.render() ~ ', but the changes of ' ~ own.upstream.render() ~ ' are landed in ' ~ own.rendered,
                'Write the names of other PostgreSQL tables in the model without source() or ref()', id='landing-other-upstream') -%}
        {%- endif -%}
        {%- do dbt_backfill.run_landing(dbt_backfill.new_landing(own.slot, all), {'batch_rows': 100000, 'wal_warning_mb': 1024}) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Return a dict for each model whose change_feed names a slot. 'relation' is the change table, 'table' is the upstream's name in PostgreSQL,
    'catalog' is Spark's catalog of the database, and 'format' is the format in which a missing change table is created. -#}
{% macro get_landed_tables() %}
    {%- set all = [] -%}
    {%- for node in dbt_backfill.find_backfilled_mvs() -%}
        {%- set feed, name = dbt_backfill.get_option_of(node, 'change_feed'), dbt_backfill.get_model_name(node) -%}
        {%- if feed is mapping and feed.get('slot') and dbt_backfill.get_feed_format(feed) == 'landed' -%}
            {#- dbt also lists the tables that the hooks of a model name. So a table that a hook names counts only if there is no other table. -#}
            {%- set hooks = (node.config.get('pre-hook') or []) + (node.config.get('post-hook') or []) -%}
            {%- set calls = modules.re.findall('(?:ref|source)\\s*[(][^)]*[)]', hooks | map(attribute='sql') | join(' ')) -%}
            {%- set change_table, read, hooked = [], [], [] -%}
            {%- for id in dbt_backfill.find_read_nodes(node, ['ephemeral', 'view']) -%}
                {%- set needed, in_hook = graph.nodes.get(id) or graph.sources.get(id), [] -%}
                {%- set relation = dbt_backfill.get_node_relation(needed) -%}
                {%- for call in calls if dbt_backfill.is_named_by(needed, call) -%} {%- do in_hook.append(call) -%} {%- endfor -%}
                {%- if dbt_backfill.is_named_by(needed, feed.relation) -%}
                    {%- do change_table.append(relation) -%}
                {#- A table of PostgreSQL is in a catalog of its own. -#}
                {%- elif dbt_backfill.get_catalog(relation) -%}
                    {%- do (hooked if in_hook else read).append(relation) -%}
                {%- endif -%}
            {%- endfor -%}
            {%- set upstreams = read or hooked -%}
            {%- if not change_table or upstreams | length != 1 -%}
                {%- do dbt_backfill.refuse(
                    "its change_feed sets 'slot', but the model depends on several PostgreSQL tables or on none, or not on "
                        ~ (feed.relation or 'a relation of change_feed'),
                    'Correct the query and the change_feed as in docs/postgres.md. If a hook or a macro of the model reads another PostgreSQL table, '
                        ~ 'write the name of that table without source() or ref()', mv=name, id='landing-table-ambiguous') -%}
            {%- endif -%}
            {%- set upstream = upstreams[0] -%}
            {%- do all.append({
                'id': node.unique_id, 'name': name, 'slot': feed.slot, 'format': dbt_backfill.get_option_of(node, 'file_format') or 'delta',
                'relation': change_table[-1], 'rendered': change_table[-1].render(), 'upstream': upstream,
                'table': dbt_backfill.get_postgres_name(upstream, feed), 'catalog': dbt_backfill.get_catalog(upstream),
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(all) }}
{% endmacro %}


{#- Return {'slot', 'catalog', 'tables': one dict of `all` for each change table of the slot, 'temporary_slot': a call that makes a slot which
    PostgreSQL drops when the connection ends}. A landing writes all these tables before it moves the slot forward, which releases their events. -#}
{% macro new_landing(slot, all) %}
    {%- set landed, tables = all | selectattr('slot', 'equalto', slot) | list, [] -%}
    {%- for rendered, same in landed | groupby('rendered') -%}
        {%- do tables.append(same[0]) -%}
        {%- for other in same if other.catalog != landed[0].catalog or other.table != same[0].table -%}
            {%- set shared, first, what = ('slot ' ~ slot, landed[0], 'are in different databases') if other.catalog != landed[0].catalog
                else ('change table ' ~ rendered, same[0], 'are different tables') -%}
            {%- do dbt_backfill.refuse('its change_feed has the same ' ~ shared ~ ' as the model ' ~ first.name ~ ', but the upstreams of the two models '
                ~ what, 'Give each of the two models its own slot or change table', mv=other.name, id='landing-slot-shared') -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set temporary = "pg_create_logical_replication_slot('dbt_backfill_" ~ local_md5(invocation_id ~ slot)[:20] ~ "', 'wal2json', true)" -%}
    {{ return({'slot': slot, 'catalog': landed[0].catalog, 'tables': tables, 'temporary_slot': temporary}) }}
{% endmacro %}


{#- Land the changes of a slot, see new_landing, up to the position that was flushed when the last batch was read. `given`: arguments of land_changes.
    Only the change tables store how far the changes have landed: a change table has all events up to its greatest _lsn. If the slot still has events
    up to this `_lsn`, the landing skips them. -#}
{% macro run_landing(landing, given) %}
    {%- set landing = dbt_backfill.prepare_landing(landing) -%}
    {#- A slot returns only flushed WAL. The commit of a message flushes it, and does not wait for a synchronous standby, which may be down. -#}
    {%- do dbt_backfill.read_from_postgres(landing, 'flush the WAL', "select case when pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()"
        ~ " then concat(set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'dbt_backfill', '')) end as value_1") -%}
    {%- set run = namespace(landing=dbt_backfill.begin_change_tables(landing), is_first=true, done=false) -%}
    {#- Jinja has no `while`, so two nested loops allow a million batches. After the last batch, the remaining turns do nothing. -#}
    {%- for _ in range(1000) -%} {%- if not run.done -%} {%- for _ in range(1000) -%} {%- if not run.done -%}
        {%- set tables = run.landing.tables -%}
        {%- set batch = dbt_backfill.read_from_postgres(landing, 'look at the changes of the slot ' ~ landing.slot,
            dbt_backfill.get_batch_query(landing.slot, tables | map(attribute='table') | list, given.batch_rows)) -%}
        {%- if batch.confirmed > tables | map(attribute='landed') | min -%}
            {#- Either another landing has landed the events in between, or another reader has consumed them. -#}
            {%- set run.landing = dbt_backfill.begin_change_tables(dict(run.landing, confirmed=batch.confirmed)) -%}
        {%- else -%}
            {%- set is_last = batch.changes < given.batch_rows -%}
            {%- set to = [batch.reached or 0, batch.flushed if is_last else 0] | max -%}
            {%- for table in tables if to > table.landed -%}
                {%- set events = dbt_backfill.get_landed_events_sql(landing, table, to, table.landed, batch.at) -%}
                {%- set sql = dbt_backfill.get_land_sql(table, events, table.landed) -%}
                {#- A conflict with another landing is an error on Iceberg, but not on Delta. So read the landed positions again before the slot is
                    moved forward, because a slot cannot be moved back. -#}
                {%- do dbt_backfill.run_table('land the changes of ' ~ table.table,
                    'begin ' ~ dbt_backfill.get_yielding_sql(sql, 'delta') ~ ' end' if table.kind == 'delta' else sql) -%}
            {%- endfor -%}
            {%- set run.landing = dbt_backfill.read_landed_places(run.landing, only_new=true) -%}
            {%- set landed = run.landing.tables | map(attribute='landed') | min -%}
            {%- set end = dbt_backfill.get_postgres_lsn([landed, to] | min) -%}
            {%- do dbt_backfill.read_from_postgres(landing, 'release the WAL of the slot ' ~ landing.slot,
                'select (select (select end_lsn::text from pg_replication_slot_advance(s.slot_name, ' ~ end ~ '))'
                ~ ' from pg_replication_slots as s where s.slot_name = ' ~ dbt_backfill.postgres_literal(landing.slot)
                ~ " and l.locked = '' and s.confirmed_flush_lsn < " ~ end ~ ') as value_1 from ' ~ dbt_backfill.get_slot_lock(landing.slot)) -%}
            {%- for table in run.landing.tables -%} {%- if run.is_first or table.landed > tables[loop.index0].landed -%}
                {%- set events, behind = dbt_backfill.get_count_text(table.events, 'event'), [batch.flushed - table.landed, 0] | max -%}
                {%- do log(table.table ~ ': ' ~ events ~ ' landed in ' ~ table.relation.render() ~ ', up to ' ~ table.landed ~ ', '
                    ~ dbt_backfill.get_count_text(behind, 'byte') ~ ' behind', info=true) -%}
            {%- endif -%} {%- endfor -%}
            {%- set megabytes = (batch.held or 0) / 1048576 -%}
            {%- if megabytes >= given.wal_warning_mb -%}
                {%- do exceptions.warn('land_changes: the slot ' ~ landing.slot ~ ' has held back ' ~ dbt_backfill.get_count_text('%.0f' | format(megabytes)) ~ ' MB of WAL (wal_warning_mb'
                    ~ ' is ' ~ given.wal_warning_mb ~ '). Land the changes more often, or end a transaction that has been open for long') -%}
            {%- elif run.is_first -%}
                {%- do log('slot ' ~ landing.slot ~ ': ' ~ dbt_backfill.get_count_text('%.1f' | format(megabytes)) ~ ' MB of WAL held back before this landing', info=true) -%}
            {%- endif -%}
            {%- set run.is_first = false -%}
            {%- set run.done = is_last and landed >= to -%}
        {%- endif -%}
    {%- endif -%} {%- endfor -%} {%- endif -%} {%- endfor -%}
{% endmacro %}


{#- Create the change tables and the slot if they are missing. Return the landing with 'confirmed', the position from which the slot continues. Each
    table gets 'facts', see get_postgres_facts_query, and 'kind' and 'columns', see prepare_change_table. -#}
{% macro prepare_landing(landing) %}
    {%- set known, tables, name = [], [], dbt_backfill.postgres_literal(landing.slot) -%}
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
        {#- PostgreSQL has no list of its output plugins, so try to make a slot. A script of Spark cannot catch an error of a database. So a block of
            PL/pgSQL stores the error in a setting, and a query of the same connection reads the setting. -#}
        {%- set attempt = 'do $$ begin perform ' ~ landing.temporary_slot
            ~ "; exception when others then perform set_config('dbt_backfill.error', sqlerrm, false); end $$" -%}
        {%- set error = dbt_backfill.read_from_postgres(landing, 'see whether PostgreSQL has wal2json',
            "select jsonb_build_object('error', nullif(current_setting('dbt_backfill.error', true), ''))::text as value_1", attempt).error -%}
        {%- if error -%}
            {%- do dbt_backfill.refuse('PostgreSQL cannot create a slot with the output plugin wal2json: ' ~ error,
                'If wal2json is missing, install it on the server (Debian: postgresql-15-wal2json). If PostgreSQL has the setting '
                    ~ 'output_plugin_libraries, add wal2json to it', mv=landing.tables[0].name, id='slot-not-created') -%}
        {%- endif -%}
    {%- endif -%}
    {%- for table in known -%} {%- do tables.append(dbt_backfill.prepare_change_table(table)) -%} {%- endfor -%}
    {%- set landing = dict(landing, tables=tables) -%}
    {%- if goes_on -%} {{ return(dict(landing, confirmed=slot.confirmed)) }} {%- endif -%}
    {#- Refuse a restored database before the slot is made: no run can detect the restore once the WAL has passed the change table's position. -#}
    {%- do dbt_backfill.read_landed_places(landing) -%}
    {%- if slot -%}
        {%- do dbt_backfill.read_from_postgres(landing, 'drop the slot ' ~ landing.slot, 'select pg_drop_replication_slot(slot_name)::text as value_1'
            ~ ' from pg_replication_slots where slot_name = ' ~ name ~ " and wal_status = 'lost'") -%}
        {%- do log('slot ' ~ landing.slot ~ ': PostgreSQL has removed WAL that it had not sent yet; the slot is created again', info=true) -%}
    {%- endif -%}
    {#- Another landing may have made the slot meanwhile. -#}
    {%- do dbt_backfill.read_from_postgres(landing, 'make the slot ' ~ landing.slot,
        "select (select lsn::text from pg_create_logical_replication_slot(case when l.locked = '' then " ~ name ~ " end, 'wal2json')"
        ~ ' where not exists (select 1 from pg_replication_slots where slot_name = ' ~ name ~ " and l.locked = ''))"
        ~ ' as value_1 from ' ~ dbt_backfill.get_slot_lock(landing.slot)) -%}
    {{ return(dict(landing, confirmed=dbt_backfill.read_wal(landing).slot.confirmed)) }}
{% endmacro %}


{#-
    Create the change table, or add its missing columns. Return the table with its 'kind', `delta` or `iceberg`, and its 'columns', the columns that
    both Spark and the WAL can show: a list of {'name', 'type': the type in Spark, 'source_type': the type in PostgreSQL, `told`: true if events
    contain the column, 'doubtful': true if wal2json may write a null instead of another value}. The list is without the columns that landing adds. A
    model that reads any other column is refused. A column that no longer exists in PostgreSQL has only a name and a type.
-#}
{% macro prepare_change_table(table) %}
    {%- set relation, found = table.relation, dbt_backfill.load_table(table.relation) -%}
    {%- set kind = dbt_backfill.get_table_format(found, relation) if found else table.format -%}
    {%- set shown, columns, left, added = {}, [], [], [] -%}
    {%- for column in dbt_backfill.get_table_columns(table.upstream) -%} {%- do shown.update({column.name: column.type}) -%} {%- endfor -%}
    {%- for column in table.facts.columns -%}
        {%- do dbt_backfill.check_distinct_name(table.facts, column, table.name) -%}
        {%- if column.name | lower in dbt_backfill.landed_columns() | map(attribute='name') | list -%}
            {%- do dbt_backfill.refuse(table.table ~ ' has a column ' ~ column.name ~ ', but landing adds a column of this name to the change table',
                'Rename the column in PostgreSQL', mv=table.name, id='landing-column-reserved') -%}
        {%- elif column.name in shown and dbt_backfill.is_postgres_read_type(column) -%}
            {%- do columns.append({
                'name': column.name, 'type': dbt_backfill.get_kept_type(dbt_backfill.get_plain_type(shown[column.name]), kind),
                'source_type': column.type, 'told': column.generated != 'v',
                'doubtful': column.not_null and column.type in ['float4', 'float8', 'numeric'] and not column.finite,
            }) -%}
        {%- else -%}
            {%- do left.append(column.name ~ ' (' ~ column.shown ~ ')') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if left -%} {%- do log(table.table ~ ': not landed: ' ~ left | join(', '), info=true) -%} {%- endif -%}
    {%- set all = columns + dbt_backfill.landed_columns() -%}
    {%- set names, present = all | map(attribute='name') | map('lower') | list, dbt_backfill.get_table_columns(relation) if found else all -%}
    {%- if not found -%}
        {%- set properties = dbt_backfill.exact_table_properties(kind) -%}
        {%- if kind == 'delta' -%} {%- do properties.update(dbt_backfill.get_needed_features(names, [])) -%} {%- endif -%}
        {%- do dbt_backfill.run_table('create ' ~ relation.identifier, 'create table if not exists ' ~ relation.render()
            ~ ' (' ~ dbt_backfill.column_definitions(all) ~ ') using ' ~ kind ~ ' tblproperties ' ~ dbt_backfill.property_list(properties)) -%}
    {%- endif -%}
    {%- set types = dbt_backfill.types_by_name(present) -%}
    {%- for column in all -%}
        {%- set type = types.get(column.name | lower) -%}
        {%- if type is none -%}
            {%- do added.append(column) -%}
        {%- elif column in columns and type | lower != column.type | lower -%}
            {%- do dbt_backfill.refuse('its change_feed ' ~ relation.render() ~ ' has ' ~ column.name ~ ' as ' ~ type ~ ', but ' ~ table.table ~ ' has it as '
                ~ column.type, 'Drop ' ~ relation.render() ~ ': landing creates it again, and each model that reads it re-anchors', mv=table.name,
                id='landing-column-type') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if added -%}
        {%- set definitions = dbt_backfill.column_definitions(added) -%}
        {%- do dbt_backfill.run_table('add columns to ' ~ relation.identifier, 'alter table ' ~ relation.render() ~ ' add columns (' ~ definitions ~ ')') -%}
        {%- do log(table.table ~ ': ' ~ relation.render() ~ ' gets ' ~ definitions, info=true) -%}
    {%- endif -%}
    {%- for column in present if column.name | lower not in names -%} {%- do columns.append(column) -%} {%- endfor -%}
    {{ return(dict(table, kind=kind, columns=columns)) }}
{% endmacro %}


{#- Return the JSON object that a query in PostgreSQL's SQL returns; none if the result is not an object. `first`: see get_postgres_query_sql. -#}
{% macro read_from_postgres(landing, step, query, first=none) %}
    {%- set rows = dbt_backfill.run_table(step, dbt_backfill.get_postgres_query_sql(landing.catalog, query, first=first)) -%}
    {{ return(fromjson(rows[0][0] | string) if rows and rows[0][0] is not none and (rows[0][0] | string)[:1] == '{' else none) }}
{% endmacro %}


{#- Return the current positions of the WAL and the slot, see get_postgres_facts_query. -#}
{% macro read_wal(landing) %}
    {{ return(dbt_backfill.read_from_postgres(landing, 'read the position of the slot ' ~ landing.slot,
        dbt_backfill.get_postgres_facts_query('', landing.slot))) }}
{% endmacro %}


{#-
    Return the landing with the state of each change table: 'landed', the position up to which the table has all events, none if nothing has landed
    yet; 'timeline', the timeline of the WAL at this position; 'events', the number of events (with `only_new`, of events since the last read);
    'begun' and 'note', see get_landing_note. If two landings begin a table at the same time, both continue with the id that the change table has.
    Refuse a database whose WAL has not reached 'landed'.
-#}
{% macro read_landed_places(landing, only_new=false) %}
    {%- set selects, tables = [], [] -%}
    {%- for table in landing.tables -%}
        {%- do selects.append("(select named_struct('landed', max(_lsn), 'timeline', max_by(_timeline, _lsn), 'begun', "
            ~ "get_json_object(max_by(_note, _lsn) filter (where _note is not null), '$.begun'), 'events', count_if(_op not in ('w', 'g')"
            ~ (' and _lsn > ' ~ table.landed if only_new else '') ~ ')) from ' ~ table.relation.render()
            ~ (' where _lsn >= ' ~ table.landed if only_new else '') ~ ')') -%}
    {%- endfor -%}
    {%- set read = dbt_backfill.run_json('read how far changes have landed', "select to_json(named_struct('places', array(" ~ selects | join(', ') ~ ')))')[0] -%}
    {%- for table in landing.tables -%}
        {%- set place, name = read.places[loop.index0], table.relation.render() -%}
        {%- if not only_new and (place.get('landed') or 0) > table.facts.position -%}
            {#- Another landing may have landed more events since the facts were read. -#}
            {%- set position = dbt_backfill.read_wal(landing).position -%}
            {%- if place.landed > position -%} {%- do dbt_backfill.refuse_other_database(table.relation, position, place.landed, table.name) -%} {%- endif -%}
        {%- endif -%}
        {#- A change table without a _note gets the same id from each landing. -#}
        {%- set new = local_md5(name if place.get('landed') is not none else invocation_id ~ name ~ modules.datetime.datetime.now())[:12] -%}
        {%- set begun = place.get('begun') or table.get('begun') or new -%}
        {%- do tables.append(dict(table, landed=place.get('landed'), timeline=place.get('timeline'), events=place.events, begun=begun,
            note=dbt_backfill.get_landing_note(table.facts, table.columns, begun))) -%}
    {%- endfor -%}
    {{ return(dict(landing, tables=tables)) }}
{% endmacro %}


{#- Return the landing with the state of its change tables, see read_landed_places. First write a mark into each change table whose events do not end
    where the slot continues. The mark `w` begins a new table. The mark `g` is a gap: events before it may be missing, so the MVs that read the table
    re-anchor. -#}
{% macro begin_change_tables(landing) %}
    {%- set landing, confirmed, marks = dbt_backfill.read_landed_places(landing), landing.confirmed, [] -%}
    {%- for table in landing.tables -%}
        {%- set landed, timeline = table.landed, table.facts.timeline -%}
        {%- set why = none if landed is none
            else 'events between ' ~ landed ~ ' and ' ~ confirmed ~ ' were lost with the slot ' ~ landing.slot if confirmed > landed
            else 'the timeline of the WAL is ' ~ timeline ~ ', but was ' ~ table.timeline if table.timeline != timeline
            else 'the slot ' ~ landing.slot ~ ' has other events between ' ~ confirmed ~ ' and ' ~ landed
                ~ ' than have landed, so the database was restored'
                if confirmed < landed and dbt_backfill.tells_otherwise(landing, table) else none -%}
        {%- if landed is none or why -%}
            {%- set position = confirmed if landed is none else [confirmed, landed + 1] | max -%}
            {%- do marks.append({'table': table, 'op': 'g' if why else 'w', 'position': position, 'why': why}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not marks -%} {{ return(landing) }} {%- endif -%}
    {#- Making a slot waits until all running transactions have ended. A commit that still waits for a standby is invisible to readers. Without this
        wait, such a change would be neither in the feed nor in the rows that are read. -#}
    {%- do dbt_backfill.read_from_postgres(landing, 'wait for the transactions that are open',
        'select lsn::text as value_1 from ' ~ landing.temporary_slot) -%}
    {%- for mark in marks -%}
        {%- set table, values = mark.table, [] -%}
        {#- A mark has a time, so that a deletion of old events by time deletes the mark too. A mark that stays would hide lost events. -#}
        {%- set known = {
            '_op': dbt_backfill.string_literal(mark.op), '_lsn': mark.position, '_seq': -2, '_committed_at': 'current_timestamp()',
            '_timeline': table.facts.timeline, '_note': dbt_backfill.string_literal(table.note),
        } -%}
        {%- for column in table.columns + dbt_backfill.landed_columns() -%}
            {%- do values.append('cast(' ~ known.get(column.name, 'null') ~ ' as ' ~ dbt_backfill.type_sql(column.type) ~ ') as '
                ~ dbt_backfill.identifier(column.name)) -%}
        {%- endfor -%}
        {%- do dbt_backfill.run_table('mark where ' ~ table.table ~ ' begins', dbt_backfill.get_land_sql(table, 'select ' ~ values | join(',\n        '))) -%}
        {%- if mark.why -%}
            {%- do log(table.table ~ ': ' ~ mark.why ~ ': each model that reads ' ~ table.relation.render() ~ ' re-anchors', info=true) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(dbt_backfill.read_landed_places(landing)) }}
{% endmacro %}


{#- True if the slot's events up to the landed position differ from the events of the change table. If so, the database was restored to an earlier
    state, and its WAL has already passed this position. After a landing that died, these events are equal. If another landing has advanced the slot
    meanwhile, return false, because that landing has made this comparison. -#}
{% macro tells_otherwise(landing, table) %}
    {%- set sql -%}
        select to_json(named_struct('differs', count(*) > 0)) from (
            select 1 from (
                select _lsn, _seq, _op from ({{ dbt_backfill.get_landed_events_sql(landing, table, table.landed) }})
                union all
                select _lsn, _seq, _op from {{ table.relation.render() }} where _op in ('i', 'u', 'd', 't')
            )
            where _lsn > {{ landing.confirmed }} and _lsn <= {{ table.landed }}
            group by _lsn, _seq, _op having count(*) <> 2
        )
    {%- endset -%}
    {%- set read = dbt_backfill.run_json('compare what has landed of ' ~ table.table ~ ' with the slot ' ~ landing.slot, sql)[0] -%}
    {{ return(read.differs and (dbt_backfill.read_wal(landing).slot or {}).get('confirmed') == landing.confirmed) }}
{% endmacro %}
