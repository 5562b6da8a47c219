{#- A source of a plan by its role, none if it reads none such. -#}
{% macro get_source(plan, role='upstream') %}
    {%- for source in (plan or {}).get('sources') or [] if source.role == role -%} {{ return(source) }} {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- The upstream that changes are followed from, with 'key': the names that it has for the key of the plan. -#}
{% macro get_followed_source(plan) %}
    {{ return(dict(dbt_backfill.get_source(plan), key=(plan.get('key') or []) | map(attribute='upstream') | list)) }}
{% endmacro %}


{#- Whether the upstream that a plan notes still stands there: as a table of its kind, and no view. -#}
{% macro stands_as_noted(upstream) %}
    {%- set existing = dbt_backfill.load_table(upstream.relation) -%}
    {{ return(existing is not none and not existing.is_view
        and dbt_backfill.get_table_format(existing, upstream.relation) == upstream.kind) }}
{% endmacro %}


{% macro source_fields() %}
    {{ return(['role', 'relation', 'kind', 'id', 'version', 'committed_at', 'definition']) }}
{% endmacro %}


{#- The upstream as a plan reads it; where ranges are staged and its own is not yet, the live table. -#}
{% macro get_planned_read(backfill, plan) %}
    {%- set version, stage = dbt_backfill.get_source(plan).version, dbt_backfill.get_source(plan, 'stage') -%}
    {%- if stage -%} {{ return(dbt_backfill.ask(backfill.upstream, 'staged_read')(backfill.upstream, version, stage, plan.key)) }} {%- endif -%}
    {{ return(dbt_backfill.ask(backfill.upstream, 'upstream_read')(backfill.upstream, version)) }}
{% endmacro %}
