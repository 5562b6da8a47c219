{#-
    Return the upstream's current version and its log since the version of `since`, newest first: {
      'relation',
      'version', 'committed_at': of the current version, as texts,
      'id': of the table,
      'properties', 'partitions': see read_delta_detail; absent where the id was not asked for, and until _is_past_retention needs them,
      'log': a list of {'version', 'committed_at', 'operation', 'parameters'},
      'complete': whether the log reaches back to `since`
    }

    The id is asked for (one more statement) unless the log has the version of `since` with the time at which it was committed: a table
    of the same name that was created anew has other times.

    Arguments:
      since (dict or none): the source of the committed plan.
-#}
{% macro delta_read_upstream(upstream, since, log=none) %}
    {%- set relation = upstream.relation -%}
    {%- set log = dbt_backfill._read_delta_log(relation, 50) -%}
    {%- set known = since is not none and since.get('version') is not none -%}
    {%- set missing = (log | last).version - since.version | int if known else 0 -%}
    {%- if missing > 0 -%} {%- set log = dbt_backfill._read_delta_log(relation, log | length + missing) -%} {%- endif -%}
    {%- set start = log | selectattr('version', 'equalto', since.version | int) | list | first | default(none) if known else none -%}
    {%- set detail = {'id': since.id} if start and start.committed_at == since.committed_at else dbt_backfill.read_delta_detail(relation) -%}
    {{ return(dict(
        detail, relation=relation, version=log[0].version | string, committed_at=log[0].committed_at, log=log, complete=start is not none
    )) }}
{% endmacro %}


{% macro _read_delta_log(relation, limit) %}
    {%- set log, sql = [], 'describe history ' ~ relation.render() ~ ' limit ' ~ limit -%}
    {%- for row in dbt_backfill.run_table('read the log of the upstream', sql) -%}
        {%- do log.append({
            'version': row['version'] | int,
            'committed_at': dbt_backfill.timestamp_text(row['timestamp']),
            'operation': row['operation'] | upper,
            'parameters': row['operationParameters'] or '',
        }) -%}
    {%- endfor -%}
    {{ return(log) }}
{% endmacro %}


{#- Return a timestamp as text, the same over every connection: some give text without trailing zeros. -#}
{% macro timestamp_text(value) %}
    {%- set text = value | string | replace('T', ' ') -%}
    {{ return(text.rstrip('0').rstrip('.') if '.' in text else text) }}
{% endmacro %}


{#- The feed gives only the changes committed while it was on. It is checked where the properties were asked for. -#}
{% macro delta_check_feed(upstream) %}
    {%- if upstream.get('properties') is none -%} {{ return(none) }} {%- endif -%}
    {%- set refusal = dbt_backfill.feed_refusal(upstream, upstream.properties) -%}
    {%- if refusal -%} {%- do dbt_backfill.refuse(refusal.fact, refusal.change) -%} {%- endif -%}
{% endmacro %}


{#- Return why a table with these properties is refused, {'fact', 'change'}; none if its feed is on. -#}
{% macro feed_refusal(upstream, properties) %}
    {%- if properties.get('delta.enableChangeDataFeed', 'false') | lower == 'true' -%} {{ return(none) }} {%- endif -%}
    {%- set relation = upstream.relation.render() -%}
    {{ return({
        'fact': relation ~ ' has no change data feed, so changes could not be followed from its version ' ~ upstream.version ~ ' on',
        'change': 'Run: ALTER TABLE ' ~ relation ~ " SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'); "
            ~ 'it counts from the version ' ~ (upstream.version | int + 1) ~ ' that this statement makes',
    }) }}
{% endmacro %}


{#-
    Handlers know only the states of Delta's conditions: change data that was not recorded (KD002), other columns in between or a version
    past its retention (0AKDC), and an entry of the log that is gone (42K03).
-#}
{% macro delta_upstream_traits() %}
    {{ return({
        'stages_ranges': false, 'enforces_keys': false, 'holds_versions': false, 'log_in_state': false, 'may_be_cached': false,
        'takes_added_columns': true, 'may_read_by_zone': true, 'may_forget_keys': false, 'may_order_texts_otherwise': false,
        'copy_format': 'delta',
        'lost_conditions': "FAILED_READ_FILE.FILE_NOT_EXIST, sqlstate 'KD002', sqlstate '0AKDC', sqlstate '42K03'",
    }) }}
{% endmacro %}


{% macro delta_upstream_read(upstream, version) %}
    {{ return(upstream.relation.render() ~ ' version as of ' ~ version) }}
{% endmacro %}


{#- Spark reads it off the log. -#}
{% macro delta_row_count_sql(upstream, version) %}
    {{ return('(select count(*) from ' ~ dbt_backfill.delta_upstream_read(upstream, version) ~ ')') }}
{% endmacro %}


{#- A copy of a column has its default, too. -#}
{% macro delta_copy_properties(source) %}
    {{ return({'delta.feature.allowColumnDefaults': 'supported'}) }}
{% endmacro %}


{% macro delta_byte_count(upstream) %}
    {{ return(dbt_backfill.run_table('measure the upstream', 'describe detail ' ~ upstream.relation.render())[0]['sizeInBytes'] | int) }}
{% endmacro %}


{% macro delta_upstream_changes(observed, from_version, to_version, keys, view) %}
    {%- set events -%}
        select
            * except (_change_type, _commit_version, _commit_timestamp),
            _commit_version as __bf_version,
            _change_type in ('insert', 'update_postimage') as __bf_is_upsert
        from table_changes({{ dbt_backfill.string_literal(observed.relation.render()) }}, {{ from_version | int + 1 }}, {{ to_version }})
    {%- endset -%}
    {{ return({
        'events': events, 'tells_before': true, 'alters_values': true, 'one_commit': to_version | int == from_version | int + 1,
    }) }}
{% endmacro %}


{% macro delta_committed_at(observed, version) %}
    {%- set entry = observed.log | selectattr('version', 'equalto', version | int) | list | first | default(none) -%}
    {{ return(entry.committed_at if entry else none) }}
{% endmacro %}


{#-
    True of a timestamp by which the table is partitioned: the log has it as text, without a zone where an older Delta has written it,
    and Spark reads that in the zone of its session.
-#}
{% macro delta_reads_by_zone(observed, columns) %}
    {%- set partitions = observed.get('partitions') -%}
    {%- if partitions is none -%} {%- set partitions = dbt_backfill.read_delta_detail(observed.relation).partitions -%} {%- endif -%}
    {%- for name in columns if modules.re.search('(?i)[\'"]' ~ modules.re.escape(name) ~ '[\'"]', partitions) -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- A Delta table reports its changes itself. -#}
{% macro delta_needed_feed(upstream, options, sql) %}
    {%- if options -%} {%- do dbt_backfill.check_change_feed_upstream(options, false) -%} {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Why the change data feed does not report all that happened since the committed version, see new_gap; none if it does.

    It is read off the log, because the feed itself answers wrongly or with an error that Jinja cannot catch: a table that was created
    anew gave 2 of its 5 rows.
-#}
{% macro delta_upstream_gap(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {%- set reason = dbt_backfill._find_break(upstream, committed) -%}
    {%- if reason -%} {{ return(dbt_backfill.new_gap(reason)) }} {%- endif -%}
    {%- if upstream.version | int == since -%} {{ return(none) }} {%- endif -%}
    {%- set replaced, switches = dbt_backfill._find_replacement(upstream, since), [] -%}
    {%- for entry in upstream.log
            if entry.version > since and 'TBLPROPERTIES' in entry.operation and 'enableChangeDataFeed' in entry.parameters -%}
        {%- do switches.append(entry.version) -%}
    {%- endfor -%}
    {%- if replaced is not none or switches -%}
        {#- The feed may be off by now, although it was on at the last barrier. -#}
        {%- set properties = dbt_backfill.read_delta_detail(upstream.relation).properties -%}
        {{ return(dbt_backfill.new_gap(
            'the change data feed was switched in version ' ~ switches[0] if replaced is none
                else 'the upstream was ' ~ ('restored' if replaced.operation == 'RESTORE' else 'replaced')
                    ~ ' in version ' ~ replaced.version,
            dbt_backfill.feed_refusal(upstream, properties)
        )) }}
    {%- endif -%}
    {%- set changed = dbt_backfill._find_changed_columns(upstream, since) -%}
    {%- if changed is not none -%}
        {{ return(dbt_backfill.new_gap('columns of the upstream were changed in version ' ~ changed.version)) }}
    {%- elif dbt_backfill._has_lost_changes(upstream, since)
            or not dbt_backfill.delta_upstream_readable(upstream, {'version': since + 1, 'id': upstream.id}) -%}
        {{ return(dbt_backfill.new_gap('the changes since version ' ~ since ~ ' were vacuumed')) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Why the log does not lead from the committed version to the current one; none if it does. -#}
{% macro _find_break(upstream, committed) %}
    {%- set since, current = committed.version | int, upstream.version | int -%}
    {%- if upstream.id != committed.id or committed.kind != 'delta' -%}
        {{ return('the upstream is another table than at the last barrier') }}
    {%- elif current < since -%}
        {{ return('the upstream went back from version ' ~ since ~ ' to ' ~ current) }}
    {%- endif -%}
    {{ return(none if upstream.complete else 'the log of the upstream no longer reaches back to version ' ~ since) }}
{% endmacro %}


{#- Each version since is an entry of the log. -#}
{% macro delta_upstream_lag(upstream, source) %}
    {%- if dbt_backfill._find_break(upstream, source) -%} {{ return(none) }} {%- endif -%}
    {%- set newer = [] -%}
    {%- for entry in upstream.log if entry.version > source.version | int -%} {%- do newer.append(entry.committed_at) -%} {%- endfor -%}
    {{ return({'versions': newer | length, 'since': newer | last if newer else none}) }}
{% endmacro %}


{% macro delta_continues_upstream(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {{ return(upstream.id == committed.id and upstream.version | int >= since
        and dbt_backfill._find_replacement(upstream, since) is none
        and dbt_backfill._find_changed_columns(upstream, since) is none) }}
{% endmacro %}


{#-
    Return the log's entry after `since` that replaced the table or restored an earlier version; none if there is none. Both may bring
    other columns under the same names, which the feed does not report, and properties without the feed.
-#}
{% macro _find_replacement(upstream, since) %}
    {%- for entry in upstream.log
            if entry.version > since and (
                modules.re.search('REPLACE TABLE|CLONE|CREATE TABLE|CONVERT|RESTORE|REMOVE COLUMN MAPPING', entry.operation)
                or dbt_backfill._overwrites_all(entry)) -%}
        {{ return(entry) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    True if a version wrote the whole table anew. With `overwriteSchema` it may have other columns since, and most writers do not log
    that they were asked for it; parts of a table cannot be overwritten so.
-#}
{% macro _overwrites_all(entry) %}
    {%- if entry.operation == 'STREAMING UPDATE' -%}
        {{ return(dbt_backfill._log_parameters(entry).get('outputMode') == 'Complete') }}
    {%- elif entry.operation != 'WRITE' or 'Overwrite' not in entry.parameters | string -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set parameters = dbt_backfill._log_parameters(entry) -%}
    {%- set partial = ['predicate', 'replaceOnCond', 'replaceUsingCols'] | select('in', parameters) | list
        or parameters.get('isDynamicPartitionOverwrite') | string | lower == 'true' -%}
    {{ return(parameters.get('mode') == 'Overwrite' and not partial) }}
{% endmacro %}


{#- Return the parameters of an entry of the log as a dict: connections give them as one or as JSON. -#}
{% macro _log_parameters(entry) %}
    {{ return(fromjson(entry.parameters or '{}') if entry.parameters is string else entry.parameters) }}
{% endmacro %}


{#-
    Return the log's entry after `since` that changed, renamed or dropped columns, or added a field to one; none if there is none. The
    query does not read a column that was added.
-#}
{% macro _find_changed_columns(upstream, since) %}
    {%- for entry in upstream.log
            if entry.version > since and (
                modules.re.search('(CHANGE|RENAME|DROP|REPLACE) COLUMN|UPDATE SCHEMA', entry.operation)
                or entry.operation == 'ADD COLUMNS'
                    and modules.re.search('column\\W+name[\\\\":\\s]+[^"\\\\]*[.]', entry.parameters | string)) -%}
        {{ return(entry) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    True if a VACUUM has deleted what the feed is read from: no later version has the change files of a version, or the files that it
    removed, so they go as soon as the horizon reaches its commit.
-#}
{% macro _has_lost_changes(upstream, since) %}
    {#- The log has the newest version first: these are the horizons of what came after a version. -#}
    {%- set horizons = [] -%}
    {%- for entry in upstream.log if entry.version > since -%}
        {%- if entry.operation == 'VACUUM START' -%}
            {%- do horizons.append(dbt_backfill._vacuum_horizon(entry)) -%}
        {%- elif horizons and modules.re.search('UPDATE|MERGE|DELETE|TRUNCATE|Overwrite', entry.operation ~ entry.parameters)
                and horizons | max >= modules.datetime.datetime.fromisoformat(entry.committed_at) -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Files that a later version removed are gone once a VACUUM has run whose horizon is after the commit of that version. -#}
{% macro delta_upstream_readable(upstream, source) %}
    {%- set version, current = source.version | int, upstream.version | int -%}
    {%- if upstream.id != source.id or version > current -%} {{ return(false) }} {%- endif -%}
    {%- if version == current -%} {{ return(true) }} {%- endif -%}
    {%- if (upstream.log | last).version > version -%} {{ return(false) }} {%- endif -%}
    {%- set committed = upstream.log | selectattr('version', 'equalto', version) | first -%}
    {%- set superseded = upstream.log | selectattr('version', 'equalto', version + 1) | first -%}
    {%- if dbt_backfill._is_past_retention(upstream, committed.committed_at) -%} {{ return(false) }} {%- endif -%}
    {%- for entry in upstream.log if entry.operation == 'VACUUM START' and entry.version > version -%}
        {%- if dbt_backfill._vacuum_horizon(entry) >= modules.datetime.datetime.fromisoformat(superseded.committed_at) -%}
            {{ return(false) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(true) }}
{% endmacro %}


{#-
    True if a version committed at a time is older than the table's deletedFileRetentionDuration, such as `interval 1 week` (7 days by
    default). Delta refuses to read such a version, unless it is the current one, also where nothing was vacuumed
    (DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION).
-#}
{% macro _is_past_retention(upstream, committed_at) %}
    {%- set time, hours = modules.datetime.datetime, modules.datetime.timedelta(hours=1) -%}
    {%- set age = time.now() - time.fromisoformat(committed_at) -%}
    {%- if age < 10 * hours -%} {{ return(false) }} {%- endif -%}
    {%- if not upstream.get('properties') -%}
        {%- do upstream.update({'properties': dbt_backfill.read_delta_detail(upstream.relation).properties}) -%}
    {%- endif -%}
    {%- set duration, parts = upstream.properties.get('delta.deletedFileRetentionDuration', 'interval 7 days') | lower, {} -%}
    {%- for count, unit in modules.re.findall('(\\d+)\\s*(week|day|hour|minute|second)', duration) -%}
        {%- do parts.update({unit ~ 's': parts.get(unit ~ 's', 0) + count | int}) -%}
    {%- endfor -%}
    {%- set retention = modules.datetime.timedelta(**parts) -%}
    {#- The log's times may be of another zone than this client's: they differ by 26 hours at most. -#}
    {%- if (age - retention) | abs > 26 * hours -%} {{ return(age > retention) }} {%- endif -%}
    {%- set now = dbt_backfill.run_table('read the clock', 'select current_timestamp() as now')[0]['now'] -%}
    {#- Two hours: see _vacuum_horizon. -#}
    {{ return(time.fromisoformat(dbt_backfill.timestamp_text(now)) - time.fromisoformat(committed_at) + 2 * hours > retention) }}
{% endmacro %}


{#-
    Return the time before which a VACUUM deleted removed files, or up to two hours later. More time may lie between two of the log's
    times than their difference: they are local times, and clocks are set back, by an hour as a rule. A version that is taken for gone
    although it is not costs a re-anchor.
-#}
{% macro _vacuum_horizon(entry) %}
    {%- set parameters, delta = dbt_backfill._log_parameters(entry), modules.datetime.timedelta -%}
    {%- set retention = parameters.get('specifiedRetentionMillis') or parameters.get('defaultRetentionMillis') or 0 -%}
    {{ return(modules.datetime.datetime.fromisoformat(entry.committed_at) - delta(milliseconds=retention | int) + delta(hours=2)) }}
{% endmacro %}
