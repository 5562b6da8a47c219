{#-
    Land the changes of a slot, batch by batch. The last batch has all remaining changes up to the position that was flushed when this batch was read.
    Only the change tables store the progress of landing: a change table has all events up to its greatest _lsn. If the slot still has such events,
    they are skipped.

    Arguments:
      landing (dict): see new_landing.
      given (dict): the arguments of land_changes.
-#}
{% macro run_landing(landing, given) %}
    {%- set landing = dbt_backfill.prepare_landing(landing) -%}
    {#-
        A slot returns only flushed WAL, so a message is committed to flush the WAL. The commit of the message does not wait for a synchronous
        standby, because the standby may be down.
    -#}
    {%- do dbt_backfill.read_from_postgres(landing, 'flush the WAL', "select case when pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()"
        ~ " then concat(set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'dbt_backfill', '')) end as value_1") -%}
    {%- set run = namespace(landing=dbt_backfill.begin_change_tables(dbt_backfill.read_landed_places(landing)), is_first=true, done=false) -%}
    {#- Jinja has no `while`, so two nested loops allow a million batches. After the last batch, the remaining turns do nothing. -#}
    {%- for _ in range(1000) -%} {%- if not run.done -%} {%- for _ in range(1000) -%} {%- if not run.done -%}
        {%- set tables = run.landing.tables -%}
        {%- set batch = dbt_backfill.read_from_postgres(landing, 'look at the changes of the slot ' ~ landing.slot,
            dbt_backfill.get_batch_query(landing.slot, tables | map(attribute='table') | list, given.batch_rows)) -%}
        {%- if batch.confirmed > tables | map(attribute='landed') | min -%}
            {#- The slot is ahead of a change table. Either another landing has landed the events in between, or another reader has consumed these
                events. -#}
            {%- set run.landing = dbt_backfill.begin_change_tables(dbt_backfill.read_landed_places(dict(run.landing, confirmed=batch.confirmed))) -%}
        {%- else -%}
            {%- set is_last = batch.changes < given.batch_rows -%}
            {%- set to = [batch.reached or 0, batch.flushed if is_last else 0] | max -%}
            {%- for table in tables if to > table.landed -%}
                {%- set events = dbt_backfill.get_landed_events_sql(landing, table, to, table.landed, batch.at) -%}
                {%- set sql = dbt_backfill.get_land_sql(table, events, table.landed) -%}
                {#- Another landing may write to the change table at the same time. On Iceberg, a conflict makes this statement fail. On Delta, the
                    statement ends without an error, so the landed position is read again before the slot is moved forward. -#}
                {%- do dbt_backfill.run_table('land the changes of ' ~ table.table,
                    'begin ' ~ dbt_backfill.get_yielding_sql(sql, 'delta') ~ ' end' if table.kind == 'delta' else sql) -%}
            {%- endfor -%}
            {%- set run.landing = dbt_backfill.read_landed_places(run.landing, only_new=true) -%}
            {%- set landed = run.landing.tables | map(attribute='landed') | min -%}
            {#- A slot cannot be moved back, so the position is checked first. -#}
            {%- set end = dbt_backfill.get_postgres_lsn([landed, to] | min) -%}
            {%- set advance -%}
                select (
                    select (select end_lsn::text from pg_replication_slot_advance(s.slot_name, {{ end }}))
                    from pg_replication_slots as s
                    where s.slot_name = {{ dbt_backfill.postgres_literal(landing.slot) }} and l.locked = '' and s.confirmed_flush_lsn < {{ end }}
                ) as value_1
                from {{ dbt_backfill.get_slot_lock(landing.slot) }}
            {%- endset -%}
            {%- do dbt_backfill.read_from_postgres(landing, 'release the WAL of the slot ' ~ landing.slot, advance) -%}
            {%- for table in run.landing.tables -%} {%- if run.is_first or table.landed > tables[loop.index0].landed -%}
                {%- set events, behind = dbt_backfill.get_count_text(table.events, 'event'), [batch.flushed - table.landed, 0] | max -%}
                {%- do log(table.table ~ ': ' ~ events ~ ' landed in ' ~ table.relation.render() ~ ', up to ' ~ table.landed ~ ', '
                    ~ dbt_backfill.get_count_text(behind, 'byte') ~ ' behind', info=true) -%}
            {%- endif -%} {%- endfor -%}
            {%- set megabytes = (batch.held or 0) / 1048576 -%}
            {%- if megabytes >= given.wal_warning_mb -%}
                {%- do exceptions.warn(
                    'land_changes: the slot ' ~ landing.slot ~ ' has held back ' ~ '{:,.0f}'.format(megabytes) ~ ' MB of WAL (wal_warning_mb is '
                        ~ given.wal_warning_mb ~ '). Land the changes more often, or end a transaction that has been open for long'
                ) -%}
            {%- elif run.is_first -%}
                {%- do log('slot ' ~ landing.slot ~ ': ' ~ '{:,.1f}'.format(megabytes) ~ ' MB of WAL held back before this landing', info=true) -%}
            {%- endif -%}
            {%- set run.is_first = false -%}
            {%- set run.done = is_last and landed >= to -%}
        {%- endif -%}
    {%- endif -%} {%- endfor -%} {%- endif -%} {%- endfor -%}
{% endmacro %}


{#- Send a query that returns JSON to PostgreSQL. Return its result; none if the result is not a JSON object. `first`: see get_postgres_query_sql. -#}
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
    Return the landing with the state of each change table in its 'tables': {
      'landed': the position up to which the change table has every event; none if no event has ever landed in this table,
      'timeline': the timeline of the WAL at that position,
      'events': the number of events in the change table; with only_new the number of events that were added since the table was last read,
      'begun', 'note': see get_landing_note. 'begun' is read from the change table, so that two landings that begin a table at the same time continue
        with the same id. If the change table has no `_note`, the id is made from the name of the table.
    }
    Refuse a database whose WAL has not reached the position up to which a change table has landed. Another landing may have landed more events after
    the WAL's position was read, so the position is read again before the refusal.
-#}
{% macro read_landed_places(landing, only_new=false) %}
    {%- set selects, tables = [], [] -%}
    {%- for table in landing.tables -%}
        {%- do selects.append("(select named_struct('landed', max(_lsn), 'timeline', max_by(_timeline, _lsn), 'begun', "
            ~ "get_json_object(max_by(_note, _lsn) filter (where _note is not null), '$.begun'), 'events', count_if(_op not in ('w', 'g')"
            ~ (' and _lsn > ' ~ table.landed if only_new else '') ~ ')) from ' ~ table.relation.render()
            ~ (' where _lsn >= ' ~ table.landed if only_new else '') ~ ')') -%}
    {%- endfor -%}
    {%- set read = dbt_backfill.run_json('see up to where has landed', "select to_json(named_struct('places', array(" ~ selects | join(', ') ~ ')))')[0] -%}
    {%- for table in landing.tables -%}
        {%- set place, name = read.places[loop.index0], table.relation.render() -%}
        {%- if not only_new and (place.get('landed') or 0) > table.facts.position -%}
            {%- set position = dbt_backfill.read_wal(landing).position -%}
            {%- if place.landed > position -%} {%- do dbt_backfill.refuse_other_database(table.relation, position, place.landed, table.name) -%} {%- endif -%}
        {%- endif -%}
        {%- set new = local_md5(name if place.get('landed') is not none else invocation_id ~ name ~ modules.datetime.datetime.now())[:12] -%}
        {%- set begun = place.get('begun') or table.get('begun') or new -%}
        {%- do tables.append(dict(
            table, landed=place.get('landed'), timeline=place.get('timeline'), events=place.events, begun=begun,
            note=dbt_backfill.get_landing_note(table.facts, table.columns, begun)
        )) -%}
    {%- endfor -%}
    {{ return(dict(landing, tables=tables)) }}
{% endmacro %}


{#-
    Write the marks that change tables need. A new change table gets a mark where its events begin. If events may have been lost, the change table
    gets a gap mark, at which the MVs that read the table re-anchor. Return the landing with these marks.
-#}
{% macro begin_change_tables(landing) %}
    {%- set marks = [] -%}
    {%- for table in landing.tables -%}
        {%- set mark = dbt_backfill.get_needed_mark(landing, table) -%}
        {%- if mark -%} {%- do marks.append(dict(mark, table=table)) -%} {%- endif -%}
    {%- endfor -%}
    {%- if not marks -%} {{ return(landing) }} {%- endif -%}
    {#-
        Make a temporary slot, because this makes PostgreSQL wait until all running transactions have ended. A commit that waits for a standby is
        still invisible. Without the wait, such a commit would be neither in the feed nor in the rows that are read.
    -#}
    {%- do dbt_backfill.read_from_postgres(landing, 'wait for the transactions that are open',
        'select lsn::text as value_1 from ' ~ dbt_backfill.get_temporary_slot_sql(landing.slot)) -%}
    {%- for mark in marks -%}
        {#-
            A mark has a time, so that a user who deletes old events by their time deletes the mark with them. A mark that stays would hide that
            events are missing.
        -#}
        {%- set values = {
            '_op': dbt_backfill.string_literal(mark.op), '_lsn': mark.position, '_seq': -2, '_committed_at': 'current_timestamp()',
            '_timeline': mark.table.facts.timeline, '_note': dbt_backfill.string_literal(mark.table.note),
        } -%}
        {%- set event -%}
            select
            {%- for column in mark.table.columns + dbt_backfill.landed_columns() %}
            {{ ', ' if not loop.first }}cast({{ values.get(column.name, 'null') }} as {{ dbt_backfill.type_sql(column.type) }})
                as {{ dbt_backfill.identifier(column.name) }}
            {%- endfor %}
        {%- endset -%}
        {%- do dbt_backfill.run_table('mark where ' ~ mark.table.table ~ ' begins', dbt_backfill.get_land_sql(mark.table, event)) -%}
        {%- if mark.why -%}
            {%- do log(mark.table.table ~ ': ' ~ mark.why ~ ': each model that reads ' ~ mark.table.relation.render() ~ ' re-anchors', info=true) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(dbt_backfill.read_landed_places(landing)) }}
{% endmacro %}


{#-
    Return the mark that a change table needs: {'op', 'position', 'why'}. 'op' is `w` for the beginning of a table and `g` for a gap, before which
    events may be missing. Return none if the slot continues where the events of the change table end.
-#}
{% macro get_needed_mark(landing, table) %}
    {%- set confirmed, landed = landing.confirmed, table.landed -%}
    {%- if landed is none -%}
        {{ return({'op': 'w', 'position': confirmed, 'why': none}) }}
    {%- elif confirmed > landed -%}
        {%- set why = 'events between ' ~ landed ~ ' and ' ~ confirmed ~ ' were lost with the slot ' ~ landing.slot -%}
        {{ return({'op': 'g', 'position': confirmed, 'why': why}) }}
    {%- elif table.timeline != table.facts.timeline -%}
        {{ return({'op': 'g', 'position': landed + 1, 'why': 'the timeline of the WAL is ' ~ table.facts.timeline ~ ', but was ' ~ table.timeline}) }}
    {%- elif confirmed < landed and dbt_backfill.tells_otherwise(landing, table) -%}
        {%- set why = 'the slot ' ~ landing.slot ~ ' has other events between ' ~ confirmed ~ ' and ' ~ landed
            ~ ' than have landed, so the database was restored' -%}
        {{ return({'op': 'g', 'position': landed + 1, 'why': why}) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    True if the database was restored to an earlier state, and its WAL has already passed the position up to which the table has landed. After a
    landing that died, the slot is behind the change table. In this case the macro compares the events that the slot has up to the end of the change
    table with the landed events. The result is false if another landing has advanced the slot meanwhile, because the other landing has made the same
    comparison.
-#}
{% macro tells_otherwise(landing, table) %}
    {%- set sql -%}
        select to_json(named_struct('differs', count(*) > 0))
        from (
            select 1
            from (
                select _lsn, _seq, _op from ({{ dbt_backfill.get_landed_events_sql(landing, table, table.landed) }})
                union all
                select _lsn, _seq, _op from {{ table.relation.render() }} where _op in ('i', 'u', 'd', 't')
            )
            where _lsn > {{ landing.confirmed }} and _lsn <= {{ table.landed }}
            group by _lsn, _seq, _op
            having count(*) <> 2
        )
    {%- endset -%}
    {%- set read = dbt_backfill.run_json('compare what has landed of ' ~ table.table ~ ' with the slot ' ~ landing.slot, sql)[0] -%}
    {{ return(read.differs and (dbt_backfill.read_wal(landing).slot or {}).get('confirmed') == landing.confirmed) }}
{% endmacro %}
