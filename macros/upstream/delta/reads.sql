{% macro delta_upstream_read(relation, version) %}
    {{ return(relation.render() ~ ' version as of ' ~ version) }}
{% endmacro %}


{#- The change events in (from_version, to_version], as `upstream/upstream.sql` describes them. -#}
{% macro delta_upstream_changes(observed, from_version, to_version, keys) %}
    {%- set events -%}
        select
            * except (_change_type, _commit_version, _commit_timestamp),
            _commit_version as __bf_version,
            _change_type in ('insert', 'update_postimage') as __bf_is_upsert
        from table_changes({{ dbt_backfill.string_literal(observed.relation.render()) }}, {{ from_version | int + 1 }}, {{ to_version }})
    {%- endset -%}
    {{ return({'events': events, 'alters_values': true, 'one_commit': to_version | int == from_version | int + 1}) }}
{% endmacro %}


{#-
    Of Delta's conditions handlers know the states only: change data that was not recorded (KD002), other columns in
    between or a version past its retention (0AKDC), and an entry of the log that is gone (42K03).
-#}
{% macro delta_lost_conditions() %}
    {{ return("FAILED_READ_FILE.FILE_NOT_EXIST, sqlstate 'KD002', sqlstate '0AKDC', sqlstate '42K03'") }}
{% endmacro %}
