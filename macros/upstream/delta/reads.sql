{% macro delta_upstream_read(relation, version) %}
    {{ return(relation.render() ~ ' version as of ' ~ version) }}
{% endmacro %}


{#-
    The change events in (from_version, to_version]: the upstream's columns, and
      __bf_version    orders the events of one key
      __bf_is_upsert  an insert or after-image, against a delete or before-image
-#}
{% macro delta_upstream_changes(relation, from_version, to_version) -%}
    select
        * except (_change_type, _commit_version, _commit_timestamp),
        _commit_version as __bf_version,
        _change_type in ('insert', 'update_postimage') as __bf_is_upsert
    from table_changes({{ dbt_backfill.string_literal(relation.render()) }}, {{ from_version | int + 1 }}, {{ to_version }})
{%- endmacro %}
