{% macro delta_upstream_read(upstream, version) %}
    {{ return(upstream.relation.render() ~ ' version as of ' ~ version) }}
{% endmacro %}


{#- Read off the log. -#}
{% macro delta_row_count_sql(upstream, version) %}
    {{ return('(select count(*) from ' ~ dbt_backfill.delta_upstream_read(upstream, version) ~ ')') }}
{% endmacro %}


{% macro delta_copy_format() %}
    {{ return('delta') }}
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


{#-
    Of Delta's conditions handlers know the states only: change data that was not recorded (KD002), other columns in
    between or a version past its retention (0AKDC), and an entry of the log that is gone (42K03).
-#}
{% macro delta_lost_conditions() %}
    {{ return("FAILED_READ_FILE.FILE_NOT_EXIST, sqlstate 'KD002', sqlstate '0AKDC', sqlstate '42K03'") }}
{% endmacro %}


{% macro delta_committed_at(observed, version) %}
    {%- for entry in observed.log if entry.version == version | int -%} {{ return(entry.committed_at) }} {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- A table keeps its versions for a time that its owner sets; none can be kept longer. -#}
{% macro delta_hold(source, name) %}
    {{ return(false) }}
{% endmacro %}


{% macro delta_release(source, name) %}
{% endmacro %}


{% macro delta_held_version(observed, name) %}
    {{ return(none) }}
{% endmacro %}


{#- Its log can be read by a statement of its own only. -#}
{% macro delta_log_sql(upstream) %}
    {{ return(none) }}
{% endmacro %}


{#- Spark takes the files' minima and maxima of a key as they are. -#}
{% macro delta_check_key_order(upstream, columns) %}
{% endmacro %}


{% macro delta_may_be_cached() %}
    {{ return(false) }}
{% endmacro %}


{% macro delta_forgets_keys(observed, committed, source) %}
    {{ return(false) }}
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


{% macro delta_takes_added_columns() %}
    {{ return(true) }}
{% endmacro %}


{#- A version of it can be read again. -#}
{% macro delta_stages_ranges() %}
    {{ return(false) }}
{% endmacro %}


{#- It tells its changes itself. -#}
{% macro delta_needed_feed(upstream, options, sql) %}
    {%- if options -%} {%- do dbt_backfill.check_change_feed_upstream(options, false) -%} {%- endif -%}
    {{ return(none) }}
{% endmacro %}
