{#- Return the answer to the question bounds_sql of the contract. The database itself sorts the keys and applies offset and limit, with its index. A
    key that Spark cannot read is not used as a bound. So the range with this key has no end, and the read of this range refuses the key. -#}
{% macro postgres_bounds_sql(upstream, keys, window, counts) -%}
    {%- set unreadable, ascending = [], 'false' if dbt_backfill.is_descending(keys) else 'true' -%}
    {%- set turn = ' asc nulls last' if ascending == 'true' else ' desc nulls first' -%}
    {%- for column in keys if column.type == 'timestamp_ntz' -%}
        {%- do unreadable.append(' and not (' ~ dbt_backfill.infinite_predicate(column.upstream) ~ ')') -%}
    {%- endfor -%}
    {%- set names = dbt_backfill.upstream_columns(keys) -%}
    {#- Each bound is read at another moment. If rows were inserted in between, a later bound may be the lower one, so the bounds are sorted. #}
    select to_json(named_struct('bounds', array_distinct(transform(
        sort_array(collect_list(struct({{ names | join(', ') }}, {{ dbt_backfill.literals_expression(keys) }} as __bf_bound)), {{ ascending }}),
        found -> found.__bf_bound
    ))))
    from (
        {%- for rows in counts %}
        {{ 'union all' if not loop.first }}
        (
            select {{ names | join(', ') }}
            from {{ upstream.relation.render() }}
            where {{ window }}{{ unreadable | join }}
            order by {{ names | join(turn ~ ', ') ~ turn }}
            limit 1 offset {{ rows - 1 }}
        )
        {%- endfor %}
    )
{%- endmacro %}


{#-
    Return a script that copies a range of the live table into the table of staged ranges, with one read, and returns {
      'stage': the id of this execution; if the script is sent twice, each execution stages the rows under its own id,
      'snapshot': a text that shows which transactions every later reader sees. Its parts, divided by colons, are pg_current_snapshot(), the next
        transaction id, and the time when the server last recovered from a crash. The xmax of the snapshot is the id after the last ended transaction.
        The transactions from xmax up to the next id are running, but the snapshot does not list them,
      'reached': the position of the WAL after the range was read: the rows show only commits up to this position,
      'rows': the number of rows that were staged under the id,
      `stands`: true if no other execution has replaced the staged rows,
      'landed': the position up to which the feed has landed,
      'unreadable': a column of `unbounded` that has an infinity in the range; if so, nothing is staged. Null if no column has one
    }

    Arguments:
      scan (string): a select of the rows.
      unbounded (list of string): the columns that Spark reads as timestamp_ntz and that may have an infinity. The script first asks the database
        about infinities, so the database reads the range twice. A check constraint against infinity avoids this, see get_postgres_facts_query.
      staged (dict): {'relation', 'columns': of {'name', 'type'}, 'clauses': of its CREATE TABLE, `anew`: true to drop the table first}.

    Spark prefers a column to a variable of the same name. So the script's variables have names that no column has.
-#}
{% macro postgres_stage_script(upstream, scan, staged, unbounded=[]) -%}
    {%- set catalog, table = dbt_backfill.get_catalog(upstream.relation), staged.relation.render() -%}
    {%- set mark = dbt_backfill.get_stage_mark('') -%}
    {%- set snapshot = "select pg_current_snapshot()::text || ':' || " ~ dbt_backfill.get_postgres_next_id() ~ " || ':' || "
        ~ dbt_backfill.get_postgres_recovered() ~ ' as value_1' -%}
    begin
        declare __bf_id string;
        declare __bf_snapshot string;
        declare __bf_reached bigint;
        declare __bf_unreadable string;
        set __bf_id = uuid();
        {%- if staged.anew %}
        drop table if exists {{ table }};
        {%- endif %}
        create table if not exists {{ table }} ({{ dbt_backfill.column_definitions(staged.columns) }}, __bf_stage string)
        {{ staged.clauses }};
        set __bf_snapshot = ({{ dbt_backfill.get_postgres_query_sql(catalog, snapshot) }});
        {%- if unbounded %}
        {#- Ask before the read, because on Iceberg the read would fail with an error that no handler can catch. #}
        set __bf_unreadable = (select case
            {%- for column in unbounded %}
            when exists (select 1 from ({{ scan }}) where {{ dbt_backfill.infinite_predicate(column) }})
                then {{ dbt_backfill.string_literal(column) }}
            {%- endfor %}
        end);
        if __bf_unreadable is null then
        {%- endif %}
        insert overwrite table {{ table }}
        select {{ dbt_backfill.identifiers(staged.columns | map(attribute='name')) }}, __bf_id
        from (
            {{ scan }}
        )
        union all
        select {{ 'null, ' * staged.columns | length }}concat('{{ mark }}', __bf_id);
        {{- ' end if;' if unbounded }}
        set __bf_reached = (select cast(value_1 as bigint) from ({{ dbt_backfill.get_postgres_query_sql(
            catalog, "select (pg_current_wal_insert_lsn() - '0/0')::text as value_1"
        ) }}));
        select to_json(named_struct(
            'stage', __bf_id, 'snapshot', __bf_snapshot, 'reached', __bf_reached,
            'rows', kept.rows, 'stands', kept.stands,
            'landed', {{ dbt_backfill.get_feed_landed_sql(upstream.feed) }}, 'unreadable', __bf_unreadable
        ))
        from (
            select count_if(__bf_stage = __bf_id) as rows, count_if(__bf_stage = concat('{{ mark }}', __bf_id)) = 1 as stands
            from {{ table }}
        ) as kept;
    end
{%- endmacro %}


{#- Return a condition that is true if the column has an infinity. Spark's JDBC reader fails on an infinity in a timestamp_ntz, with Java's
    NullPointerException. The database evaluates the condition, so the reader does not read the value. -#}
{% macro infinite_predicate(column) -%}
    {%- set name = dbt_backfill.identifier(column) -%}
    {{ return(name ~ " < timestamp_ntz'0001-01-01 00:00:00' or " ~ name ~ " > timestamp_ntz'9999-12-31 23:59:59.999999'") }}
{%- endmacro %}


{#-
    Return a script that waits until the feed has landed up to the position `reached`, for at most `seconds`, and returns {
      'landed': the position up to which the feed has landed,
      'broken': true if, after the rows were read, the feed got an entry that an overlay cannot show: the table was emptied, events may be missing, or
        an event does not contain a value,
      `notes`: the distinct `_note` of the marks since the rows were read, see get_landing_note,
      'recovered': true if the server has crashed after the snapshot was taken. If so, the rows may show commits that were not flushed and are now
        lost,
      `stands`: true if the rows that were staged still exist,
      'altered': a column with a value that the reader may have altered, see get_altered_column_sql; null if there is none
    } To wait, the script sleeps in the database. `noted`: the result of run_stage. `stage`: the source with the role `stage` in the plan.
-#}
{% macro postgres_wait_script(upstream, observed, noted, stage, seconds) -%}
    {%- set catalog, names = dbt_backfill.get_catalog(upstream.relation), noted.columns | map(attribute='name') | list -%}
    {%- set altered = dbt_backfill.get_altered_column_sql(noted.columns, observed.facts) -%}
    {%- set mark = dbt_backfill.string_literal(dbt_backfill.get_stage_mark(stage.id)) -%}
    {%- set recovered = dbt_backfill.get_postgres_query_sql(catalog, 'select ' ~ dbt_backfill.get_postgres_recovered() ~ ' as value_1') -%}
    begin
        declare __bf_landed bigint;
        declare turns int default 0;
        declare paused string;
        set __bf_landed = {{ dbt_backfill.get_feed_landed_sql(upstream.feed) }};
        while __bf_landed < {{ noted.reached }} and turns < {{ seconds * 2 }} do
            set paused = ({{ dbt_backfill.get_postgres_query_sql(catalog, 'select pg_sleep(0.5)::text as value_1') }});
            set __bf_landed = {{ dbt_backfill.get_feed_landed_sql(upstream.feed) }};
            set turns = turns + 1;
        end while;
        select to_json(named_struct(
            'landed', __bf_landed, 'stands', kept.stands, 'altered', kept.altered, 'broken', told.broken, 'notes', told.notes,
            'recovered', ({{ recovered }}) <> {{ dbt_backfill.string_literal(noted.snapshot.split(':')[4:] | join) }}
        ))
        from (
            select coalesce(bool_or(__bf_op in ('t', 'g') or arrays_overlap(__bf_unchanged, {{ dbt_backfill.string_array_literal(names) }})), false) as broken,
                collect_set(__bf_note) as notes
            from (
                {{ dbt_backfill.get_feed_rows_sql(dict(upstream.feed, notes=observed.followed.get('notes')), names) }}
            )
            where __bf_position <= __bf_landed and (__bf_position > {{ noted.since }} or {{ dbt_backfill.unseen_predicate(upstream.feed, noted) }})
        ) as told
        cross join (
            select count_if(__bf_stage = {{ mark }}) = 1 as stands, max({{ altered }}) as altered
            from {{ dbt_backfill.get_kept_read(stage) }}
            where __bf_stage in ({{ dbt_backfill.string_literal(stage.id) }}, {{ mark }})
        ) as kept;
    end
{%- endmacro %}


{% macro refuse_other_database(change_table, position, landed, name) %}
    {%- do dbt_backfill.refuse(
        'the WAL of its database ends at ' ~ position ~ ', but its change_feed ' ~ change_table.render() ~ ' has changes up to ' ~ landed
            ~ ', so the database was replaced or restored',
        'Drop ' ~ change_table.render() ~ ': landing creates it again, and each model that reads it re-anchors', mv=name, id='database-restored') -%}
{% endmacro %}


{#-
    Return the record of the table and its change table in a plan. With this record, a later run finds changes of the two tables that no event
      reports. {
      'begun': the id of the change table, see get_landing_note; none if the change table has no mark with an id,
      'file', 'timeline': see get_postgres_facts_query,
      'columns': for each column that the query reads, by name, a list of the facts that its values depend on: 'number', 'type_id', 'typmod'
        and 'written' of get_postgres_facts_query, and for an enum the number of its labels and their digest
    }. `note`: the note of the last mark in the feed; none if no mark has a note.
-#}
{% macro get_seen_table(facts, names, note, since) %}
    {%- set before = fromjson((since or {}).get('definition') or '{}').get('seen') or {} -%}
    {%- set columns = {} -%}
    {%- for column in facts.columns if column.name in names -%}
        {%- set seen = [column.number, column.type_id, column.typmod, column.written] -%}
        {%- do columns.update({column.name: seen + ([column.labels | length, local_md5(tojson(column.labels))[:12]] if column.labels else [])}) -%}
    {%- endfor -%}
    {#- A user who deletes old events may delete all marks with them. In this case the recorded id is kept. -#}
    {{ return({'begun': fromjson(note).begun if note else before.get('begun'), 'file': facts.get('file'),
        'timeline': facts.get('timeline'), 'columns': columns}) }}
{% endmacro %}


{#- Return how the table or its change table differs from the record, as the end of a sentence; none if there is no difference. If a command alters
    the catalog entry of a column, the values of the column can only change if the command also rewrites the table. `before`, `now`: results of
    get_seen_table; `before` is {} if the plan has no such record. -#}
{% macro find_unlike_table(before, now, facts) %}
    {%- if before.get('begun') and now.get('begun') and before.begun != now.begun -%} {{ return('its change table was created again') }} {%- endif -%}
    {#- A landing compares the timelines itself, and marks the gap in the change table. -#}
    {%- if facts.get('format') != 'landed' and before.get('timeline') not in [none, now.get('timeline')] -%}
        {{ return('the timeline of its WAL was ' ~ before.timeline ~ ' and is ' ~ now.timeline ~ ', so commits may be lost') }}
    {%- endif -%}
    {%- for name, was in (before.get('columns') or {}).items() if name in now.columns -%}
        {%- set seen = now.columns[name] -%}
        {%- set labels = (facts.columns | selectattr('name', 'equalto', name) | map(attribute='labels') | first) or [] -%}
        {#- Compare only as many labels as were recorded: a label that was added at the end of an enum does not change any value. -#}
        {%- set renamed = was[4:] and local_md5(tojson(labels[:was[4]]))[:12] != was[5] -%}
        {%- if was[:3] != seen[:3] or renamed or was[3] != seen[3] and before.file != now.file -%}
            {{ return('the column ' ~ name ~ ' of the upstream was altered, and no event reports what that did to its values') }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Return the note that a landing writes into each of its marks, as JSON: {
      'begun': an id of the change table, which changes if the change table is created again,
      'keys': the keys that its events contain, see get_postgres_told_keys,
      'doubtful': the columns in which wal2json may write a NaN or an infinity as null
    }. `columns`: of the change table, see prepare_change_table.
-#}
{% macro get_landing_note(facts, columns, begun) %}
    {%- set landed, doubtful = columns | map(attribute='name') | list, [] -%}
    {%- for column in facts.columns if column.name in landed and dbt_backfill.has_doubtful_nulls(column) -%}
        {%- do doubtful.append(column.name) -%}
    {%- endfor -%}
    {{ return(tojson({'begun': begun, 'doubtful': doubtful, 'keys': dbt_backfill.get_postgres_told_keys(facts)})) }}
{% endmacro %}


{#- Return what the events may lack, as the end of a sentence; none if they are complete. `notes`: see get_landing_note. -#}
{% macro find_untold(notes, key, observed) %}
    {%- for note in notes -%}
        {%- set noted, told = fromjson(note), [] -%}
        {%- for columns in noted['keys'] -%} {%- do told.append(columns | map('lower') | sort) -%} {%- endfor -%}
        {%- if key and key | map('lower') | sort not in told -%}
            {{ return('when its changes were landed, events of the upstream did not contain the key ' ~ key | join(', ') ~ ' of each row') }}
        {%- endif -%}
        {%- for name in noted.doubtful if name in observed.read and not observed.followed.get('finite') -%}
            {{ return('when its changes were landed, wal2json may have written a NaN or an infinity of the column ' ~ name ~ ' as null') }}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Return an expression over a row of Spark's JDBC reader: the name of the first column whose value the reader may have altered without an error;
    null if there is none. The reader turns an infinity into the last day of the year 9999. So this day is in doubt unless a check constraint of the
    table excludes infinity. The reader converts the ten days that Java's calendar lacks to other days. For years before the year 1, the reader and
    the WAL differ. In a time zone other than UTC, the reader alters times before 1900. `columns`: with Spark's types.
-#}
{% macro get_altered_column_sql(columns, facts) -%}
    {%- set cases = [] -%}
    {%- for column in columns if column.type in ['date', 'timestamp', 'timestamp_ntz'] -%}
        {%- set name = dbt_backfill.identifier(column.name) -%}
        {%- set finite = facts.columns | selectattr('name', 'equalto', column.name) | selectattr('finite') | list -%}
        {#- A timestamp literal with `Z` does not depend on the time zone of the session. -#}
        {%- set midnight, zone = '' if column.type == 'date' else ' 00:00:00', 'Z' if column.type == 'timestamp' else '' -%}
        {%- set begin, end = column.type ~ "'", midnight ~ zone ~ "'" -%}
        {%- set altered = [
            name ~ ' < ' ~ begin ~ '0001-01-04' ~ end,
            name ~ ' >= ' ~ begin ~ '1582-10-15' ~ end ~ ' and ' ~ name ~ ' < ' ~ begin ~ '1582-10-25' ~ end,
        ] if column.type == 'date' or dbt_backfill.is_postgres_utc(facts) else [name ~ ' < ' ~ begin ~ '1900-01-01' ~ end] -%}
        {%- if not finite -%}
            {%- do altered.append(name ~ " = date'9999-12-31'" if column.type == 'date'
                else name ~ ' = ' ~ begin ~ '9999-12-31 23:59:59.999' ~ zone ~ "'") -%}
        {%- endif -%}
        {%- do cases.append('when (' ~ altered | join(' or ') ~ ') then ' ~ dbt_backfill.string_literal(column.name)) -%}
    {%- endfor -%}
    {{ return('case ' ~ cases | join(' ') ~ ' end' if cases else 'cast(null as string)') }}
{%- endmacro %}
