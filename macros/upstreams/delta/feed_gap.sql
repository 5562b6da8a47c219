{#-
    Why the change data feed does not tell all that happened since the committed version, see new_gap; none if it does.

    Read off the log, because the feed itself answers wrongly or with an error that Jinja cannot catch: a table
    that was created anew gave 2 of its 5 rows.
-#}
{% macro delta_upstream_gap(upstream, committed) %}
    {%- set since, current = committed.version | int, upstream.version | int -%}
    {%- set reason = dbt_backfill._find_break(upstream, committed) -%}
    {%- if reason -%} {{ return(dbt_backfill.new_gap(reason)) }} {%- endif -%}
    {%- if current == since -%} {{ return(none) }} {%- endif -%}
    {%- set reason = dbt_backfill._find_switch(upstream, since) -%}
    {%- if reason -%}
        {#- The feed may be off by now, although it was on at the last barrier. -#}
        {%- set properties = dbt_backfill.read_delta_detail(upstream.relation).properties -%}
        {{ return(dbt_backfill.new_gap(reason, dbt_backfill.feed_refusal(upstream, properties))) }}
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
    {%- elif not upstream.complete -%}
        {{ return('the log of the upstream no longer reaches back to version ' ~ since) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Each version since is one in the log. -#}
{% macro delta_upstream_lag(upstream, source) %}
    {%- if dbt_backfill._find_break(upstream, source) -%} {{ return(none) }} {%- endif -%}
    {%- set newer = [] -%}
    {%- for entry in upstream.log if entry.version > source.version | int -%} {%- do newer.append(entry.committed_at) -%} {%- endfor -%}
    {{ return({'versions': newer | length, 'since': newer | last if newer else none}) }}
{% endmacro %}


{#- What may have switched the feed off after `since`, and has left a gap whether or not; none if nothing has. -#}
{% macro _find_switch(upstream, since) %}
    {%- set replaced = dbt_backfill._find_replacement(upstream, since) -%}
    {%- if replaced is not none -%}
        {{ return('the upstream was ' ~ ('restored' if replaced.operation == 'RESTORE' else 'replaced')
            ~ ' in version ' ~ replaced.version) }}
    {%- endif -%}
    {%- for entry in upstream.log if entry.version > since -%}
        {%- if 'TBLPROPERTIES' in entry.operation and 'enableChangeDataFeed' in entry.parameters -%}
            {{ return('the change data feed was switched in version ' ~ entry.version) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Whether a VACUUM has taken what the feed is read from: the change files of a version, and the files that it
    removed, are in no later version and go as soon as the horizon reaches its commit.
-#}
{% macro _has_lost_changes(upstream, since) %}
    {#- The log has the newest version first: this is the latest horizon of those that came after a version. -#}
    {%- set later = namespace(horizon=none) -%}
    {%- for entry in upstream.log if entry.version > since -%}
        {%- if entry.operation == 'VACUUM START' -%}
            {%- set horizon = dbt_backfill._vacuum_horizon(entry) -%}
            {%- set later.horizon = horizon if later.horizon is none else [horizon, later.horizon] | max -%}
        {%- elif later.horizon is not none
                and modules.re.search('UPDATE|MERGE|DELETE|TRUNCATE|Overwrite', entry.operation ~ entry.parameters)
                and later.horizon >= modules.datetime.datetime.fromisoformat(entry.committed_at) -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{% macro delta_continues_upstream(upstream, committed) %}
    {%- set since = committed.version | int -%}
    {{ return(upstream.id == committed.id and upstream.version | int >= since
        and dbt_backfill._find_replacement(upstream, since) is none
        and dbt_backfill._find_changed_columns(upstream, since) is none) }}
{% endmacro %}


{#-
    The log's entry after `since` that replaced the table or restored an earlier version; none if there is none. Both
    may bring other columns under the same names, of which the feed tells nothing, and properties without the feed.
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
    Whether a version wrote the whole table anew. With `overwriteSchema` it may have other columns since, and most
    writers do not log that they were asked for it; parts of a table cannot be overwritten so.
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


{#- The parameters of an entry of the log, as a dict: connections give them as one or as JSON. -#}
{% macro _log_parameters(entry) %}
    {{ return(fromjson(entry.parameters or '{}') if entry.parameters is string else entry.parameters) }}
{% endmacro %}


{#-
    The log's entry after `since` that changed, renamed or dropped columns, or added a field to one; none if there is
    none. An added column is none of the query's.
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
    Whether the version of a source can still be read. Files that a later version removed are
    gone once a VACUUM has run whose horizon is after that version's commit.
-#}
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
    Whether a version committed at a time is older than the table's deletedFileRetentionDuration (7 days by default).
    Delta refuses to read such a version, unless it is the current one, also where nothing was vacuumed
    (DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION).
-#}
{% macro _is_past_retention(upstream, committed_at) %}
    {%- set time, hours = modules.datetime.datetime, modules.datetime.timedelta(hours=1) -%}
    {#- The log's times may be of another zone than this client's: they differ by 26 hours at most. -#}
    {%- set doubt = 26 * hours -%}
    {%- set age = time.now() - time.fromisoformat(committed_at) -%}
    {%- if age < 10 * hours -%} {{ return(false) }} {%- endif -%}
    {%- if not upstream.get('properties') -%}
        {%- do upstream.update({'properties': dbt_backfill.read_delta_detail(upstream.relation).properties}) -%}
    {%- endif -%}
    {%- set retention = dbt_backfill.get_retention(upstream.properties) -%}
    {%- if (age - retention) | abs > doubt -%} {{ return(age > retention) }} {%- endif -%}
    {%- set now = dbt_backfill.run_table('read the clock', 'select current_timestamp() as now')[0]['now'] -%}
    {{ return(time.fromisoformat(dbt_backfill.timestamp_text(now)) - time.fromisoformat(committed_at)
        + dbt_backfill._clock_change() > retention) }}
{% endmacro %}


{#- delta.deletedFileRetentionDuration of a table's properties, such as `interval 1 week`, as a timedelta. -#}
{% macro get_retention(properties) %}
    {%- set text = properties.get('delta.deletedFileRetentionDuration', 'interval 7 days') | lower -%}
    {%- set total = namespace(duration=modules.datetime.timedelta(0)) -%}
    {%- for count, unit in modules.re.findall('(\\d+)\\s*(week|day|hour|minute|second)', text) -%}
        {%- set total.duration = total.duration + modules.datetime.timedelta(**{unit ~ 's': count | int}) -%}
    {%- endfor -%}
    {{ return(total.duration) }}
{% endmacro %}


{#- The time before which a VACUUM deleted removed files, or later. -#}
{% macro _vacuum_horizon(entry) %}
    {%- set parameters = dbt_backfill._log_parameters(entry) -%}
    {%- set retention = parameters.get('specifiedRetentionMillis') or parameters.get('defaultRetentionMillis') or 0 -%}
    {{ return(modules.datetime.datetime.fromisoformat(entry.committed_at)
        - modules.datetime.timedelta(milliseconds=retention | int) + dbt_backfill._clock_change()) }}
{% endmacro %}


{#-
    How much more time may lie between two of the log's times than their difference: they are local times, and clocks
    are set back, by an hour as a rule. What is taken for gone although it is not costs a re-anchor.
-#}
{% macro _clock_change() %}
    {{ return(modules.datetime.timedelta(hours=2)) }}
{% endmacro %}
