{#-
    Return the upstream's current version and its log since the version of `since`, newest first: {
      'relation',
      'version', 'committed_at': the current version and the time of its commit, as texts,
      'id': the id of the table,
      'properties', 'partitions': see read_delta_detail; absent if the id was not read. delta_upstream_readable adds the properties if it needs them,
      'log': a list of {'version', 'committed_at', 'operation', 'parameters'},
      'complete': true if the log reaches back to `since`,
      'has_other_commit': true if the log has another commit than `since` with the version of `since`, see _is_recorded_commit
    }

    Reading the id costs one more statement. So the macro does not read the id if the log has the version of `since` with the recorded commit time.
    Then the table is the same: a new table of this name would have another commit time.
-#}
{% macro delta_read_upstream(upstream, since, log=none) %}
    {%- set relation = upstream.relation -%}
    {%- set log = dbt_backfill.read_delta_log(relation, 50) -%}
    {%- set known = since is not none and since.get('version') is not none -%}
    {%- set missing = (log | last).version - since.version | int if known else 0 -%}
    {%- if missing > 0 -%} {%- set log = dbt_backfill.read_delta_log(relation, log | length + missing) -%} {%- endif -%}
    {%- set start = log | selectattr('version', 'equalto', since.version | int) | list | first | default(none) if known else none -%}
    {%- set detail = {'id': since.id} if start and start.committed_at == since.committed_at else dbt_backfill.read_delta_detail(relation) -%}
    {%- set current = {'version': log[0].version | string, 'committed_at': log[0].committed_at} -%}
    {%- set is_other = start is not none and start.committed_at != since.committed_at and not dbt_backfill._is_recorded_commit({'log': log}, since) -%}
    {{ return(dict(detail, relation=relation, log=log, complete=start is not none, has_other_commit=is_other, **current)) }}
{% endmacro %}


{#- If the properties were read, refuse a table whose change data feed is off. The feed has only the changes that were committed while it was on. -#}
{% macro delta_check_feed(upstream) %}
    {%- set refusal = none if upstream.get('properties') is none else dbt_backfill.feed_refusal(upstream, upstream.properties) -%}
    {%- if refusal -%} {%- do dbt_backfill.refuse(refusal.fact, refusal.change, id=refusal.id) -%} {%- endif -%}
{% endmacro %}


{#- Return why a table with these properties is refused, {'fact', 'change'}; none if its feed is on. -#}
{% macro feed_refusal(upstream, properties) %}
    {%- if properties.get('delta.enableChangeDataFeed', 'false') | lower == 'true' -%} {{ return(none) }} {%- endif -%}
    {%- set relation = upstream.relation.render() -%}
    {{ return({
        'fact': relation ~ ' has no change data feed, so the changes after its version ' ~ upstream.version ~ ' cannot be read',
        'id': 'change-data-feed-off', 'change': 'Run: ALTER TABLE ' ~ relation ~ " SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'); "
            ~ 'changes are recorded from version ' ~ (upstream.version | int + 1) ~ ' on, and this statement creates that version',
    }) }}
{% endmacro %}


{#- Return the traits of Delta, see upstream_traits. A handler can name Delta's error conditions only by their SQLSTATE. KD002 says that change data
    was not recorded. 0AKDC says that columns changed between two versions, or that a version is past its retention. 42K03 says that an entry of the
    log is missing. -#}
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


{#- Return a count of the rows. Spark computes the count from Delta's log, without reading the table. -#}
{% macro delta_row_count_sql(upstream, version) %}
    {{ return('(select count(*) from ' ~ dbt_backfill.delta_upstream_read(upstream, version) ~ ')') }}
{% endmacro %}


{#- Return the property that allows default values: a copied column keeps its default value, which needs this table feature. -#}
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
    {{ return({'events': events, 'tells_before': true, 'alters_values': true, 'one_commit': to_version | int == from_version | int + 1}) }}
{% endmacro %}


{% macro delta_committed_at(observed, version) %}
    {%- set entry = observed.log | selectattr('version', 'equalto', version | int) | list | first | default(none) -%}
    {{ return(entry.committed_at if entry else none) }}
{% endmacro %}


{#-
    True if the log's commit of a version is the commit that a plan has recorded (`source`), or if no time of that commit is known. Another commit has
    the same number if older files of the table were put back and somebody wrote to the table again.

    Clients in other time zones show the same time with a difference of quarters of an hour. Delta may shift equal times by milliseconds.
-#}
{% macro _is_recorded_commit(upstream, source) %}
    {%- set now, then = dbt_backfill.delta_committed_at(upstream, source.version), source.get('committed_at') -%}
    {%- if now is none or then is none -%} {{ return(true) }} {%- endif -%}
    {%- set time = modules.datetime.datetime -%}
    {%- set rest = (time.fromisoformat(now) - time.fromisoformat(then)).total_seconds() % 900 -%}
    {{ return(rest < 0.1 or rest > 899.9) }}
{% endmacro %}


{#-
    True if the table is partitioned by one of these timestamp columns. The log stores the values of such a column as texts. Older versions of Delta
    wrote these texts without a time zone. Spark reads such a text in the time zone of its session.

    Refuse a table whose partition column is generated from one of these columns, for example as `cast(ts as date)`, unless the session has switched
    off Delta's derived filters.
-#}
{% macro delta_reads_by_zone(observed, columns) %}
    {%- set partitions, relation = observed.get('partitions'), observed.relation -%}
    {%- if partitions is none -%} {%- set partitions = dbt_backfill.read_delta_detail(relation).partitions -%} {%- endif -%}
    {%- if '"' in partitions or "'" in partitions -%}
        {%- for name in columns -%} {%- do dbt_backfill._run_check_of_derived_filters(relation, name, dbt_backfill.identifier(name)) -%} {%- endfor -%}
        {%- for column in dbt_backfill.get_table_columns(relation) if column.type.startswith('struct<') -%}
            {%- for field in modules.re.findall('[<,](\\w+):timestamp(?=[,>])', column.type) -%}
                {%- set path = dbt_backfill.identifier(column.name) ~ '.' ~ dbt_backfill.identifier(field) -%}
                {%- do dbt_backfill._run_check_of_derived_filters(relation, column.name, path) -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
    {%- for name in columns if modules.re.search('(?i)[\'"]' ~ modules.re.escape(name) ~ '[\'"]', partitions) -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#-
    Refuse a table if Delta derives a filter on its partitions from a filter on the timestamp `path`: a column, or a field of the struct `column`. The
    writer has computed the partition in the writer's time zone. Delta computes the derived filter in the reader's time zone. So a read of a range
    would miss rows.

    No statement returns the expression of a generated column, but EXPLAIN shows a derived filter as a condition on another column.
-#}
{% macro _run_check_of_derived_filters(relation, column, path) %}
    {%- set sql = 'select 1 from ' ~ relation.render() ~ ' where ' ~ path ~ ' = current_timestamp()' -%}
    {%- set plan = dbt_backfill.plan_section(dbt_backfill.run_explain('look for derived filters', sql), 'Optimized') -%}
    {%- set filters, attributes = plan[:-1] | join('\n'), dbt_backfill.get_attributes(plan[-1]) if plan else {} -%}
    {%- for id, name in attributes.items() if name != column and name ~ '#' ~ id in filters -%}
        {%- do dbt_backfill.refuse(
            relation.render() ~ " is partitioned by the column '" ~ name ~ "', which Delta generates from a timestamp, so a session would miss rows "
                ~ 'if its time zone differs from the time zone of the writer',
            'Set spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled to false for dbt (server_side_parameters, or the Spark '
                ~ 'server); then Spark skips files by their statistics only', id='generated-partition-column') -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Return why the change data feed does not report all changes since the committed version, see new_gap; none if the feed reports all of them.

    The answer comes from the log, because the feed itself may return wrong rows, or an error that Jinja cannot catch. For example, a table that was
    created again had 5 rows, but the feed returned only 2 of them.
-#}
{% macro delta_upstream_gap(upstream, committed) %}
    {%- set since, current = committed.version | int, upstream.version | int -%}
    {%- set why = 'the upstream is another table than at the last barrier' if upstream.id != committed.id or committed.kind != 'delta'
        else 'the upstream went back from version ' ~ since ~ ' to ' ~ current if current < since
        else 'the log of the upstream no longer reaches back to version ' ~ since if not upstream.complete
        else 'version ' ~ since ~ ' of the upstream is another commit than at the last barrier'
            if upstream.has_other_commit else none -%}
    {%- if why or current == since -%} {{ return(dbt_backfill.new_gap(why) if why else none) }} {%- endif -%}
    {%- set after = dbt_backfill._read_log_after(upstream, since) -%}
    {%- if after.replaced or after.switched -%}
        {#- The feed was on at the last barrier, but it may be off now, so the properties are read. -#}
        {%- set properties = dbt_backfill.read_delta_detail(upstream.relation).properties -%}
        {{ return(dbt_backfill.new_gap(
            'the change data feed was switched in version ' ~ after.switched.version if not after.replaced
                else 'the upstream was ' ~ ('restored' if after.replaced.operation == 'RESTORE' else 'replaced')
                    ~ ' in version ' ~ after.replaced.version,
            dbt_backfill.feed_refusal(upstream, properties)
        )) }}
    {%- elif after.altered -%}
        {{ return(dbt_backfill.new_gap('columns of the upstream were changed in version ' ~ after.altered.version)) }}
    {%- elif after.vacuumed or not dbt_backfill.delta_upstream_readable(upstream, {'version': since + 1, 'id': upstream.id}) -%}
        {{ return(dbt_backfill.new_gap('the changes since version ' ~ since ~ ' were vacuumed')) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{% macro delta_continues_upstream(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {%- set after = dbt_backfill._read_log_after(upstream, since) -%}
    {{ return(upstream.id == committed.id and upstream.version | int >= since and upstream.complete and not upstream.has_other_commit
        and not after.replaced and not after.altered) }}
{% endmacro %}


{#-
    Return the entries of the log after the version `since` that matter for the feed: {
      'replaced': the entry that replaced the table, restored an earlier version or overwrote the whole table. After this entry the table may have
        other columns under the same names, which the feed does not report. The table may also have lost the property that turns the feed on,
      'switched': the entry that switched the feed off,
      'altered': the entry that renamed, dropped or moved columns, or added a field to a column. Other entries do not count: the query does not read
        a column that was only added, and find_changed_type finds another type. Often only a comment was set, as dbt does with persist_docs,
      'vacuumed': true if a VACUUM has deleted files that the feed reads. For each version, the feed reads the version's change files and the files
        that the version removed. A VACUUM deletes these files if the version was committed before the horizon of the VACUUM, see _vacuum_horizon
    }. Of several entries of one sort, the newest is returned. A sort is absent if the log has no entry of it.
-#}
{% macro _read_log_after(upstream, since) %}
    {%- set found, horizons = {}, [] -%}
    {%- for entry in upstream.log if entry.version > since -%}
        {%- set operation, text = entry.operation, entry.parameters | string -%}
        {#- With the option `overwriteSchema`, an overwrite may change the columns. Most writers do not log this option, so each overwrite of the
            whole table counts as a replacement. An overwrite of a part of the table cannot change the columns. -#}
        {%- set overwrites, complete = operation == 'WRITE' and 'Overwrite' in text, operation == 'STREAMING UPDATE' -%}
        {%- set written = dbt_backfill._log_parameters(entry) if overwrites or complete else {} -%}
        {%- set partial = ['predicate', 'replaceOnCond', 'replaceUsingCols'] | select('in', written) | list
            or written.get('isDynamicPartitionOverwrite') | string | lower == 'true' -%}
        {%- if modules.re.search('REPLACE TABLE|CLONE|CREATE TABLE|CONVERT|RESTORE|REMOVE COLUMN MAPPING', operation)
                or overwrites and written.get('mode', 'Overwrite') == 'Overwrite' and not partial
                or complete and written.get('outputMode', 'Complete') == 'Complete' -%}
            {%- do found.setdefault('replaced', entry) -%}
        {#- The feed was on at the version `since`, so an entry that switches the feed on changes nothing. #}
        {%- elif 'TBLPROPERTIES' in operation and 'enableChangeDataFeed' in text
                and not modules.re.search('(?i)enableChangeDataFeed[\\\\"\':=\\s]+true', text) -%}
            {%- do found.setdefault('switched', entry) -%}
        {%- elif modules.re.search('(RENAME|DROP|REPLACE) COLUMN|UPDATE SCHEMA', operation)
                or 'CHANGE COLUMN' in operation and modules.re.search('[\'"]position\\\\*[\'"]:', text)
                or operation == 'ADD COLUMNS' and modules.re.search('column\\W+name[\\\\":\\s]+[^"\\\\]*[.]', text) -%}
            {%- do found.setdefault('altered', entry) -%}
        {%- endif -%}
        {#- The loop begins with the newest version. So `horizons` already has the horizons of all VACUUMs after this entry. -#}
        {%- if operation == 'VACUUM START' -%}
            {%- do horizons.append(dbt_backfill._vacuum_horizon(entry)) -%}
        {%- elif horizons and modules.re.search('UPDATE|MERGE|DELETE|TRUNCATE|Overwrite', operation ~ text)
                and horizons | max >= dbt_backfill._log_seconds(entry.committed_at) -%}
            {%- do found.update({'vacuumed': true}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Return the parameters of an entry of the log as a dict. A Thrift server returns the parameters as text, and does not escape the quotes in a value.
    If the text is not JSON, a pattern finds the parameters that matter here. Only a predicate may contain the name of a parameter in quotes. Any
    other value is a plain word, or JSON in which quotes are escaped. -#}
{% macro _log_parameters(entry) %}
    {%- set parameters = entry.parameters or '{}' -%}
    {%- if parameters is not string -%} {{ return(parameters) }} {%- endif -%}
    {%- set names = 'mode|outputMode|predicate|replaceOnCond|replaceUsingCols|isDynamicPartitionOverwrite|(?:specified|default)RetentionMillis' -%}
    {%- set found = {} -%}
    {%- for name, value in modules.re.findall('[{,]"(' ~ names ~ ')":"?([^",}]*)', parameters) -%}
        {%- do found.update({name: value}) -%}
    {%- endfor -%}
    {{ return(fromjson(parameters, found)) }}
{% endmacro %}


{#- Return a time of the log, a text in local time, as a number of seconds. -#}
{% macro _log_seconds(time) %}
    {%- set datetime = modules.datetime.datetime -%}
    {{ return((datetime.fromisoformat(time) - datetime.fromisoformat('1970-01-01')).total_seconds()) }}
{% endmacro %}


{#-
    Return the horizon of a VACUUM, see _log_seconds: the VACUUM deletes the files that were removed from the table before this time. The macro adds
    two hours to be safe, because the times of the log are local times. When clocks are set back, usually by an hour, more time passes than the
    difference of two times shows. If a version wrongly counts as deleted, the only cost is a re-anchor.
-#}
{% macro _vacuum_horizon(entry) %}
    {%- set parameters = dbt_backfill._log_parameters(entry) -%}
    {%- set retention = parameters.get('specifiedRetentionMillis') or parameters.get('defaultRetentionMillis') or 0 -%}
    {{ return(dbt_backfill._log_seconds(entry.committed_at) - (retention | int) / 1000 + 2 * 3600) }}
{% endmacro %}


{#-
    True if a version can still be read. A version needs the files that the next version removed. A VACUUM deletes these files if the next version was
    committed before the horizon of the VACUUM, see _vacuum_horizon.

    Even without a VACUUM, Delta refuses to read an earlier version that is older than the table's deletedFileRetentionDuration
    (DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION). This duration is a text such as `interval 1 week`; the default is 7 days.
-#}
{% macro delta_upstream_readable(upstream, source) %}
    {%- set version, current, log = source.version | int, upstream.version | int, upstream.log -%}
    {%- if upstream.id != source.id or version > current or version < (log | last).version
            or source.get('committed_at') and not dbt_backfill._is_recorded_commit(upstream, source) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- if version == current -%} {{ return(true) }} {%- endif -%}
    {%- set time, superseded = modules.datetime.datetime, (log | selectattr('version', 'equalto', version + 1) | first).committed_at -%}
    {%- for entry in log if entry.operation == 'VACUUM START' and entry.version > version -%}
        {%- if dbt_backfill._vacuum_horizon(entry) >= dbt_backfill._log_seconds(superseded) -%} {{ return(false) }} {%- endif -%}
    {%- endfor -%}
    {%- set committed = time.fromisoformat((log | selectattr('version', 'equalto', version) | first).committed_at) -%}
    {%- set age = (time.now() - committed).total_seconds() -%}
    {%- if age < 10 * 3600 -%} {{ return(true) }} {%- endif -%}
    {%- if not upstream.get('properties') -%}
        {%- do upstream.update({'properties': dbt_backfill.read_delta_detail(upstream.relation).properties}) -%}
    {%- endif -%}
    {%- set duration, parts = upstream.properties.get('delta.deletedFileRetentionDuration', 'interval 7 days') | lower, [] -%}
    {%- for count, unit in modules.re.findall('(\\d+)\\s*(week|day|hour|minute|second)', duration) -%}
        {%- do parts.append((count | int) * {'week': 604800, 'day': 86400, 'hour': 3600, 'minute': 60, 'second': 1}[unit]) -%}
    {%- endfor -%}
    {%- set retention = parts | sum -%}
    {#- The time zone of the log's times may differ from the time zone of this client, by at most 26 hours. -#}
    {%- if (age - retention) | abs > 26 * 3600 -%} {{ return(age <= retention) }} {%- endif -%}
    {%- set now = dbt_backfill.run_table('read the clock', 'select current_timestamp() as now')[0]['now'] -%}
    {#- The two hours are explained at _vacuum_horizon. -#}
    {{ return((time.fromisoformat(now | string) - committed).total_seconds() + 2 * 3600 <= retention) }}
{% endmacro %}


{% macro delta_upstream_lag(upstream, source) %}
    {%- if upstream.id != source.id or source.kind != 'delta' or upstream.version | int < source.version | int or not upstream.complete -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set newer = upstream.log | selectattr('version', 'gt', source.version | int) | map(attribute='committed_at') | list -%}
    {{ return({'versions': newer | length, 'since': newer | last if newer else none}) }}
{% endmacro %}
