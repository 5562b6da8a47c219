{#-
    What a range is read from: the upstream at the plan's version, or the replica with what changed since its version laid over it.
    The bounds of ranges are found without that: rows that came or went make them larger or smaller, nothing else.
-#}
{% macro get_range_read(backfill, plan) %}
    {%- set replica = backfill.get('read_from') -%}
    {%- if not replica or plan.kind != 'advance' -%} {{ return(dbt_backfill.get_planned_read(backfill, plan)) }} {%- endif -%}
    {%- set rows = dbt_backfill.get_replica_rows_sql(replica) -%}
    {%- if not replica.get('overlay') -%} {{ return('(' ~ rows ~ ')') }} {%- endif -%}
    {%- set names = dbt_backfill.identifiers(fromjson(replica.definition).columns) -%}
    {%- set sql -%}
    (
        select kept.*
        from (
            {{ rows }}
        ) as kept
        left anti join {{ replica.overlay }} as overlay
        on {{ dbt_backfill.equal_columns(dbt_backfill.upstream_columns(plan.key), 'kept.', 'overlay.') }}
        union all
        select {{ names }} from {{ replica.overlay }} where not __bf_deleted
    )
    {%- endset -%}
    {{ return(sql) }}
{% endmacro %}


{% macro get_replica_rows_sql(replica) -%}
    {%- set table = {'relation': dbt_backfill.parse_relation(replica.relation), 'kind': replica.kind} -%}
    select {{ dbt_backfill.identifiers(fromjson(replica.definition).columns) }} from {{ dbt_backfill.ask(table, 'upstream_read')(table, replica.version) }}
{%- endmacro %}
