{#-
    What Delta always answers, see upstream_traits. Of its conditions handlers know the states only: change data that was not recorded
    (KD002), other columns in between or a version past its retention (0AKDC), and an entry of the log that is gone (42K03).
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


{#- Read off the log. -#}
{% macro delta_row_count_sql(upstream, version) %}
    {{ return('(select count(*) from ' ~ dbt_backfill.delta_upstream_read(upstream, version) ~ ')') }}
{% endmacro %}


{#- A column's default goes with it. -#}
{% macro delta_copy_properties(source) %}
    {{ return({'delta.feature.allowColumnDefaults': 'supported'}) }}
{% endmacro %}


{% macro delta_byte_count(upstream) %}
    {%- set rows = dbt_backfill.run_table('measure the upstream', 'describe detail ' ~ upstream.relation.render()) -%}
    {{ return(rows[0]['sizeInBytes'] | int) }}
{% endmacro %}


{#- The change events in (from_version, to_version], as `upstream/upstream.sql` describes them. -#}
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
    {%- for entry in observed.log if entry.version == version | int -%} {{ return(entry.committed_at) }} {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Of a timestamp by which the table is partitioned: the log has it as text, without a zone where an older Delta has written it, and
    Spark reads that in the zone of its session.
-#}
{% macro delta_reads_by_zone(observed, columns) %}
    {%- set partitions = observed.get('partitions') -%}
    {%- if partitions is none -%} {%- set partitions = dbt_backfill.read_delta_detail(observed.relation).partitions -%} {%- endif -%}
    {%- for name in columns if modules.re.search('(?i)[\'"]' ~ modules.re.escape(name) ~ '[\'"]', partitions) -%} {{ return(true) }} {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- It tells its changes itself. -#}
{% macro delta_needed_feed(upstream, options, sql) %}
    {%- if options -%} {%- do dbt_backfill.check_change_feed_upstream(options, false) -%} {%- endif -%}
    {{ return(none) }}
{% endmacro %}
