{#-
    Land what a slot has, batch by batch, until it has told all that was flushed when it was last asked. Nothing is remembered beside
    the change tables: up to where a table has landed is the greatest _lsn in it, and what the slot still tells of before is passed over.

    Arguments:
      landing (dict): see find_landings.
      given (dict): the arguments of land_changes.
-#}
{% macro run_landing(landing, given) %}
    {%- set landing = dbt_backfill.prepare_landing(landing) -%}
    {%- do dbt_backfill.run_table('flush the WAL', dbt_backfill.get_postgres_query_sql(landing.catalog, dbt_backfill.get_flush_query())) -%}
    {%- set places = dbt_backfill.read_landed_places(landing) -%}
    {%- for table in landing.tables -%} {%- do dbt_backfill.check_landed_place(landing, table, places[loop.index0]) -%} {%- endfor -%}
    {%- set landing = dbt_backfill.note_tables(landing, places) -%}
    {%- set places = dbt_backfill.begin_change_tables(landing, places) -%}
    {%- set landing = dbt_backfill.note_tables(landing, places) -%}
    {%- set run = namespace(done=false, places=places, batches=0) -%}
    {%- for _ in range(1000) if not run.done -%}
        {%- for _ in range(1000) if not run.done -%}
            {%- do dbt_backfill._land_batch(landing, given, run) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{#-
    One turn of the loop. `run` is its namespace: 'places', see read_landed_places, 'batches', 'done'. Where the slot has been moved
    further than what had landed, another landing has landed that, or another reader has taken it: the next turn goes on from there.
-#}
{% macro _land_batch(landing, given, run) %}
    {%- set batch = dbt_backfill.read_from_postgres(landing, 'look at the changes of the slot ' ~ landing.slot,
        dbt_backfill.get_batch_query(landing.slot, landing.tables | map(attribute='table') | list, given.batch_rows)) -%}
    {%- if batch.confirmed > run.places | map(attribute='landed') | min -%}
        {%- set run.places = dbt_backfill.begin_change_tables(dict(landing, confirmed=batch.confirmed), dbt_backfill.read_landed_places(landing)) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set is_last = batch.changes < given.batch_rows -%}
    {%- set to = [batch.reached or 0, batch.flushed if is_last else 0] | max -%}
    {%- set before = run.places -%}
    {%- for table in landing.tables -%}
        {%- set landed = before[loop.index0].landed -%}
        {%- if to > landed -%}
            {%- do dbt_backfill.run_table('land the changes of ' ~ table.table, dbt_backfill.get_land_script(
                dbt_backfill.get_land_sql(landing, table, landed, to, batch.at), table.kind
            )) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set run.places = dbt_backfill.read_landed_places(landing, before) -%}
    {%- set landed = run.places | map(attribute='landed') | min -%}
    {%- do dbt_backfill.read_from_postgres(landing, 'let go of the WAL of the slot ' ~ landing.slot,
        dbt_backfill.get_advance_query(landing.slot, [landed, to] | min)) -%}
    {%- do dbt_backfill.report_batch(landing, given, batch, before, run) -%}
    {%- set run.batches = run.batches + 1 -%}
    {%- set run.done = is_last and landed >= to -%}
{% endmacro %}


{#- One line per table: how many events, up to where, and how far the WAL was ahead; and what the slot keeps of it. -#}
{% macro report_batch(landing, given, batch, before, run) %}
    {%- for table in landing.tables -%}
        {%- set place = run.places[loop.index0] -%}
        {%- if place.landed > before[loop.index0].landed or run.batches == 0 -%}
            {%- do log(table.table ~ ': ' ~ dbt_backfill.get_count_text(place.events, 'event') ~ ' landed in ' ~ table.relation.render() ~ ', up to '
                ~ place.landed ~ (', ' ~ dbt_backfill.get_count_text([batch.flushed - place.landed, 0] | max, 'byte') ~ ' behind'), info=true) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set megabytes = (batch.held or 0) / 1048576 -%}
    {%- if megabytes >= given.wal_warning_mb -%}
        {%- do exceptions.warn(
            'land_changes: the slot ' ~ landing.slot ~ ' has held back ' ~ '{:,.0f}'.format(megabytes) ~ ' MB of WAL, from ' ~ given.wal_warning_mb
                ~ ' MB on there is this warning; a transaction may be open for long, or changes are landed too seldom'
        ) -%}
    {%- elif run.batches == 0 -%}
        {%- do log('slot ' ~ landing.slot ~ ': ' ~ '{:,.1f}'.format(megabytes) ~ ' MB of WAL held back before', info=true) -%}
    {%- endif -%}
{% endmacro %}


{#- What PostgreSQL answers as JSON; none if it answers nothing. `first`: see get_postgres_query_sql. -#}
{% macro read_from_postgres(landing, step, query, first=none) %}
    {%- set rows = dbt_backfill.run_table(step, dbt_backfill.get_postgres_query_sql(landing.catalog, query, first=first)) -%}
    {{ return(fromjson(rows[0][0] | string) if rows and rows[0][0] is not none and (rows[0][0] | string)[:1] == '{' else none) }}
{% endmacro %}


{#-
    Where each change table stands, in their order: {
      'landed': the position up to which it has every event, none if it was never landed in,
      'timeline': of the WAL then,
      'events': how many came after `since`,
      'begun': see get_landing_note; none if it has no such note
    }
-#}
{% macro read_landed_places(landing, since=none) %}
    {%- set selects = [] -%}
    {%- for table in landing.tables -%}
        {%- set from = since[loop.index0].landed if since else none -%}
        {%- do selects.append("(select named_struct('landed', max(_lsn), 'timeline', max_by(_timeline, _lsn), 'begun', "
            ~ "get_json_object(max_by(_note, _lsn) filter (where _note is not null), '$.begun'), 'events', count_if(_op not in ('w', 'g')"
            ~ (' and _lsn > ' ~ from if from is not none else '') ~ ')) from ' ~ table.relation.render()
            ~ (' where _lsn >= ' ~ from if from is not none else '') ~ ')') -%}
    {%- endfor -%}
    {{ return(dbt_backfill.run_json('see up to where has landed', "select to_json(named_struct('places', array(" ~ selects | join(', ') ~ ')))')[0].places) }}
{% endmacro %}


{#-
    A change table that is new to its slot gets a mark where it begins, and one whose events may have been lost a mark of that, from
    which on its readers begin anew. Both only once the transactions have ended that were running: else a commit that nobody sees yet,
    because it waits for a standby, would be neither in the feed nor in the table. Returns the places then.

    Arguments:
      places (list): see read_landed_places.
-#}
{% macro begin_change_tables(landing, places) %}
    {%- set marks = [] -%}
    {%- for table in landing.tables -%}
        {%- set mark = dbt_backfill.get_needed_mark(landing, table, places[loop.index0]) -%}
        {%- if mark -%} {%- do marks.append(dict(mark, table=table)) -%} {%- endif -%}
    {%- endfor -%}
    {%- if not marks -%} {{ return(places) }} {%- endif -%}
    {%- do dbt_backfill.run_table('wait for the transactions that are open', dbt_backfill.get_postgres_query_sql(
        landing.catalog, dbt_backfill.get_temporary_slot_query(dbt_backfill.get_temporary_slot_name(landing.slot))
    )) -%}
    {%- for mark in marks -%}
        {%- do dbt_backfill.run_table('mark where ' ~ mark.table.table ~ ' begins', dbt_backfill.get_land_mark_sql(mark.table, mark.op, mark.position)) -%}
        {%- if mark.why -%} {%- do log(mark.table.table ~ ': ' ~ mark.why ~ ': what reads ' ~ mark.table.relation.render() ~ ' begins anew', info=true) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(dbt_backfill.read_landed_places(landing)) }}
{% endmacro %}


{#-
    The landing, with 'note' of each table, see get_landing_note, and its 'begun': as the change table has it, so that of two landings
    that begin one at once both go on with the same.
-#}
{% macro note_tables(landing, places) %}
    {%- set tables = [] -%}
    {%- for table in landing.tables -%}
        {%- set place, name = places[loop.index0], table.relation.render() -%}
        {#- One that has landed without a note needs no mark of its beginning, by which two landings would agree. -#}
        {%- set new = local_md5(invocation_id ~ name ~ modules.datetime.datetime.now() if place.get('landed') is none else name)[:12] -%}
        {%- set begun = place.get('begun') or table.get('begun') or new -%}
        {%- do tables.append(dict(table, begun=begun, note=dbt_backfill.get_landing_note(table.facts, table.columns, begun))) -%}
    {%- endfor -%}
    {{ return(dict(landing, tables=tables)) }}
{% endmacro %}


{#-
    Refuse a database whose WAL is not where the change table has landed up to. Its position was read before, so where another landing
    has passed by it since, it is asked again.
-#}
{% macro check_landed_place(landing, table, place) %}
    {%- if (place.get('landed') or 0) <= table.facts.position -%} {{ return(none) }} {%- endif -%}
    {%- set position = dbt_backfill.read_wal(landing).position -%}
    {%- if place.landed > position -%}
        {%- do dbt_backfill.refuse_other_database(table.relation, position, place.landed, table.name) -%}
    {%- endif -%}
{% endmacro %}


{#- {'op', 'position', 'why'}; none if the slot goes on where the table ends. -#}
{% macro get_needed_mark(landing, table, place) %}
    {%- set confirmed = landing.confirmed -%}
    {%- if place.get('landed') is none -%}
        {{ return({'op': 'w', 'position': confirmed, 'why': none}) }}
    {%- elif confirmed > place.landed -%}
        {{ return({'op': 'g', 'position': confirmed, 'why': 'events between ' ~ place.landed ~ ' and ' ~ confirmed ~ ' were lost with the slot ' ~ landing.slot}) }}
    {%- elif place.timeline != table.facts.timeline -%}
        {{ return({'op': 'g', 'position': place.landed + 1, 'why': 'the timeline of the WAL is ' ~ table.facts.timeline ~ ' and was ' ~ place.timeline}) }}
    {%- elif confirmed < place.landed and dbt_backfill.tells_otherwise(landing, table, place.landed) -%}
        {{ return({'op': 'g', 'position': place.landed + 1, 'why': 'the slot ' ~ landing.slot ~ ' tells other events between ' ~ confirmed ~ ' and '
            ~ place.landed ~ ' than have landed, so the database was put back'}) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Whether a slot that stands behind the change table, as it does after a landing that died, tells other events up to there than have
    landed: then the database was put back to an earlier state, and its WAL has passed by where it was. A slot that another landing
    has advanced meanwhile tells nothing of that; the other one has looked itself.
-#}
{% macro tells_otherwise(landing, table, landed) %}
    {%- set read = dbt_backfill.run_json(
        'compare what has landed of ' ~ table.table ~ ' with the slot ' ~ landing.slot, dbt_backfill.get_told_otherwise_sql(landing, table, landed)
    )[0] -%}
    {%- if not read.differs -%} {{ return(false) }} {%- endif -%}
    {{ return((dbt_backfill.read_wal(landing).slot or {}).get('confirmed') == landing.confirmed) }}
{% endmacro %}
