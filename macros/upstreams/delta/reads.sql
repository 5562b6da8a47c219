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
