{#- Return the traits of a live PostgreSQL, see upstream_traits. A table without a primary key, or an equivalent unique index, is refused. -#}
{% macro postgres_upstream_traits() %}
    {{ return({
        'stages_ranges': true, 'enforces_keys': true, 'holds_versions': false, 'log_in_state': false, 'may_be_cached': false,
        'takes_added_columns': true, 'may_read_by_zone': false, 'may_forget_keys': false, 'may_order_texts_otherwise': false,
        'copy_format': none, 'lost_conditions': none,
    }) }}
{% endmacro %}


{#-
    Return the current state of a table in a live PostgreSQL. The table itself has no versions, but its events land in a change table. A version is a
    position in the WAL, as text: all events of commits up to this position have landed. A range is read from the live table once, while its barrier
    is planned, and the rows of the range are kept, see stage.sql. {
      'relation', 'followed': the change table, see postgres_needed_feed,
      'version': the position up to which the feed has landed. If only watermarks have landed after the committed version, and the feed reaches back
        to that version, 'version' stays the committed version,
      'landed': the position up to which the feed has landed, even if 'version' stays the committed version,
      'committed_at': none, because the feed has the commit times of some positions only,
      'id': the ids of the database cluster, the database and the table,
      'definition': the record of the feed in a plan, as JSON: 'seen', see get_seen_table, and the options of the feed. With them, a later run can
        find changed options and read the same version again,
      'floor', 'renewed', 'breaks', `notes`: see get_feed_place_sql; [] if there are no 'breaks' or `notes`,
      'unmarked': true if the table was replaced by another table of the same name, but the feed has no mark of the replacement, and its events do not
        contain their transactions,
      `untold`: the columns that the query reads, but whose value is missing in an event after `since`. A value is missing if it is large and was not
        changed, or if wal2json wrote null instead of the value,
      'facts': see get_followed_facts,
      'zone': the time zone of the session,
      'read': the columns that the query reads; [] if the query is not known,
      'columns': the names of the table's columns, without columns that the feed does not contain, see is_postgres_read_type
    }
-#}
{% macro postgres_read_upstream(upstream, since, log=none) %}
    {%- do dbt_backfill.check_postgres_change_table(upstream) -%}
    {%- set present = dbt_backfill.get_table_columns(upstream.feed.relation) -%}
    {%- set landed = present | map(attribute='name') | map('lower') | list -%}
    {%- set feed = dict(upstream.feed, notes=upstream.feed.format == 'landed' and '_note' in landed) -%}
    {%- set from, marked = since.version if since and since.get('version') is not none else none, [] -%}
    {%- if from is not none and feed.format == 'debezium' -%}
        {#- Debezium's mark in a column says that the event does not contain the column's value. -#}
        {%- set marked = dbt_backfill._get_read_names(feed, dbt_backfill.get_table_columns(upstream.relation) | map(attribute='name') | list) -%}
    {%- endif -%}
    {%- set sql -%}
        select concat(
            '{"zone":"', current_timezone(), '","place":', {{ dbt_backfill.get_feed_place_sql(feed, from) }},
            {%- if from is not none %}
            ',"news":', (
                select to_json(named_struct('any', count(*) > 0, 'untold', array_distinct(flatten(collect_set(__bf_unchanged)))))
                from (
                    {{ dbt_backfill.get_feed_rows_sql(feed, marked) }}
                )
                where __bf_position > {{ from }} and __bf_op <> 'w'
            ),
            {%- endif %}
            ',"facts":', ({{ dbt_backfill.get_postgres_query_sql(
                dbt_backfill.get_catalog(upstream.relation), dbt_backfill.get_postgres_facts_query(feed.table, feed.slot)
            ) }}), '}'
        )
    {%- endset -%}
    {%- set read = dbt_backfill.run_json('read the feed of the upstream', sql)[0] -%}
    {%- set facts = dbt_backfill.get_followed_facts(feed, read.facts) -%}
    {%- set names = dbt_backfill._get_read_names(feed, facts.columns | map(attribute='name') | list) if feed.get('query') else [] -%}
    {%- set place, news = read.place, read.get('news') or {'any': true, 'untold': []} -%}
    {%- do dbt_backfill.check_postgres_change_table(upstream, place.landed) -%}
    {#- A column that was added to the table is in the feed only after the next landing. -#}
    {%- set columns = [] -%}
    {%- for column in facts.columns if dbt_backfill.is_postgres_read_type(column) and (feed.format == 'debezium' or column.name | lower in landed) -%}
        {%- do columns.append(column.name) -%}
    {%- endfor -%}
    {#- A sweep begins at 'version'. If the records of incomplete events stayed above it, each barrier would find them and begin another sweep. -#}
    {%- set note = dbt_backfill.get_landing_note(read.facts, present, fromjson(place.note).begun) if place.get('note') else none -%}
    {%- set stays = not news.any and (place.floor is none or place.floor <= from | int) and (place.get('notes') or []) in [[], [note]] -%}
    {%- set id = [facts.system_identifier, facts.database, facts.get('oid')] | join('/') -%}
    {%- set noted = {'relation': feed.relation.render(), 'seen': dbt_backfill.get_seen_table(facts, names, place.get('note'), since)} -%}
    {%- for name in ['kind', 'format', 'table', 'operation', 'sequence', 'deletes', 'before_images', 'position', 'xid', 'conversions', 'finite']
            if feed.get(name) not in [none, false] -%}
        {%- do noted.update({name: feed[name]}) -%}
    {%- endfor -%}
    {{ return({
        'relation': upstream.relation, 'followed': feed, 'id': id, 'definition': tojson(noted, sort_keys=true),
        'version': from if stays else place.landed | string, 'landed': place.landed, 'committed_at': none,
        'floor': place.floor, 'renewed': place.get('renewed'), 'breaks': place.get('breaks') or [], 'notes': place.get('notes') or [],
        'unmarked': feed.format == 'declared' and not feed.get('xid') and from is not none and since.id != id
            and (place.get('renewed') or -1) <= from | int,
        'untold': dbt_backfill._get_read_names(feed, news.untold),
        'facts': facts, 'zone': read.get('zone') or 'UTC', 'read': names, 'columns': columns,
    }) }}
{% endmacro %}


{#- Return the names that the query reads; all names if the query is not known. -#}
{% macro _get_read_names(feed, names) %}
    {{ return(dbt_backfill.get_named_columns(feed.query, names) if feed.get('query') else names) }}
{% endmacro %}


{#- Return the result of get_postgres_facts_query with more facts from the feed: 'format'; 'plugin', the output plugin of the events, none if the
    plugin is not known; and 'finite', which is true for all columns if the user sets it in change_feed. -#}
{% macro get_followed_facts(feed, facts) %}
    {%- set columns = [] -%}
    {%- for column in facts.columns -%} {%- do columns.append(dict(column, finite=true) if feed.get('finite') else column) -%} {%- endfor -%}
    {{ return(dict(facts, columns=columns, format=feed.format, plugin='wal2json' if feed.format == 'landed' else (facts.slot or {}).get('plugin'))) }}
{% endmacro %}


{#- Refuse a feed whose events do not contain their transactions, if the table was replaced by another table of the same name. Events of the previous
    table could not be distinguished from events that a reader has not seen. The facts about the table are checked later, when the columns that the
    query reads are known, see postgres_stage_range and postgres_check_followed. -#}
{% macro postgres_check_feed(observed) %}
    {%- if observed.unmarked -%}
        {%- do dbt_backfill.refuse(
            'its upstream was replaced by another table since the last barrier, but the change_feed ' ~ observed.followed.relation.render()
                ~ ' does not show where the events of the new table begin',
            "Either append a row to the change table with the operation 'g' and the first position of the new table, or set 'xid' in change_feed",
            id='upstream-replaced') -%}
    {%- endif -%}
{% endmacro %}


{% macro postgres_check_followed(observed, committed) %}
    {%- do dbt_backfill.check_postgres_table(observed.facts, observed.read, committed.key) -%}
{% endmacro %}


{% macro postgres_upstream_gap(observed, committed) %}
    {%- set before, now = fromjson(committed.get('definition') or '{}'), fromjson(observed.definition) -%}
    {#- An event leaves out only large values (TOAST), and a number is never large. So if a number is missing, it is a null in doubt. -#}
    {%- set doubtful = observed.facts.columns | selectattr('name', 'in', observed.untold)
        | selectattr('type', 'in', ['float4', 'float8', 'numeric']) | map(attribute='name') | list -%}
    {%- set why = 'change_feed was changed' if dict(before, seen=none) != dict(now, seen=none)
        else 'the upstream is another table, or its feed went back' if not dbt_backfill.postgres_continues_upstream(observed, committed)
        else 'events since the position ' ~ committed.version ~ ' were removed from the change feed'
            if observed.floor is not none and observed.floor | int > committed.version | int
        else 'the upstream was emptied, or events of it may be missing, at the position ' ~ observed.breaks[0] if observed.breaks
        else dbt_backfill.find_unlike_table(before.get('seen') or {}, now.seen, observed.facts)
            or dbt_backfill.find_untold(observed.notes, committed.get('key'), observed)
            or ('an event of the upstream has a null in the column ' ~ doubtful[0] ~ ', which may be a NaN, an infinity or a real null' if doubtful
                else 'events of the upstream do not contain large values that did not change; with REPLICA IDENTITY FULL they do'
                    if observed.untold else none) -%}
    {{ return(dbt_backfill.new_gap(why) if why else none) }}
{% endmacro %}


{% macro postgres_continues_upstream(observed, committed) %}
    {{ return(committed.get('id') == observed.id and observed.landed >= committed.version | int) }}
{% endmacro %}


{#- True if the feed continues from `source`. The plan's rows were staged, so no version of the table itself has to be readable. -#}
{% macro postgres_upstream_readable(observed, source) %}
    {{ return(dbt_backfill.postgres_continues_upstream(observed, source)) }}
{% endmacro %}


{% macro postgres_committed_at(observed, version) %}
    {{ return(none) }}
{% endmacro %}


{#-
    Return a select of the result of a query in PostgreSQL's SQL. Spark sends the query through its JDBC catalog. Spark takes the columns from
    pg_settings, whose columns are texts, and the query from the option `dbtable`. So nothing has to be installed in the database. The query is sent
    once, when the select is executed, even if the select is a scalar subquery. `pushDownPredicate` lets Spark itself evaluate conditions on the
    result. Without this option, Spark in ANSI mode would send a cast in its own SQL (`as long`) to the database.

    Arguments:
      catalog (string): the name of the JDBC catalog.
      query (string): its columns are named value_1, value_2 and so on, all of type text.
      columns (integer): the number of these columns, at most eight.
      first (string): a statement that the connection executes before the query; none if there is none.
-#}
{% macro get_postgres_query_sql(catalog, query, columns=1, first=none) -%}
    {%- set carriers = ['name', 'setting', 'unit', 'category', 'short_desc', 'extra_desc', 'min_val', 'max_val'][:columns] -%}
    {%- set values, carried = [], [] -%}
    {%- for carrier in carriers -%}
        {%- do values.append(carrier ~ ' as value_' ~ loop.index) -%}
        {%- do carried.append('value_' ~ loop.index ~ ' as ' ~ carrier) -%}
    {%- endfor -%}
    {%- set table = '(select ' ~ carried | join(', ') ~ ' from (' ~ query ~ ') as answer) as answer' -%}
    select {{ values | join(', ') }}
    from {{ dbt_backfill.identifier(catalog) }}.pg_catalog.pg_settings with (
        'dbtable' = {{ dbt_backfill.string_literal(table) }}, 'pushDownPredicate' = 'false'
        {%- if first %}, 'sessionInitStatement' = {{ dbt_backfill.string_literal(first) }}{% endif %}
    )
{%- endmacro %}
