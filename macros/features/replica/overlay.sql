{#-
    What changed in a range since the version of a replica: a part of the script that plans a barrier, which leaves the last state of
    each changed key of the range in a cached view, as get_last_states_sql has it, and in `overlaid`: {
      'count': how many keys,
      'doubtful': of how many of them, or of null keys, the feed does not tell what they are in the version of the plan: what it tells
        of a key has to go on from as many rows as the replica has of it, one or none; one more if a column has another type than in
        the replica, such as a struct with a field that came with a row
    }, null if the changes are gone.

    Returns {'name': of the view, 'declarations', 'statements', 'views': those that are made}; none where nothing can have changed,
    because the replica shows the plan's version.

    Arguments:
      replica (dict): as a source of the plan.
-#}
{% macro get_overlay(backfill, state, observed, plan, replica) %}
    {%- set since, version = fromjson(replica.definition).version, dbt_backfill.get_source(plan).version -%}
    {%- if since == version -%} {{ return(none) }} {%- endif -%}
    {%- set keys, name = plan.key, dbt_backfill.get_stage_name(backfill, plan, '__overlay') -%}
    {%- set changes = dbt_backfill.ask(backfill.upstream, 'upstream_changes')(
        observed, since, version, keys, dbt_backfill.get_stage_name(backfill, plan, '__overlay_events')
    ) -%}
    {%- set events = dbt_backfill.get_range_scan_sql('(' ~ changes.events ~ ')', plan, state, backfill, keys, with_null_keys=true) -%}
    {%- set kept = dbt_backfill.get_range_scan_sql(
        '(' ~ dbt_backfill.get_replica_rows_sql(replica) ~ ')', plan, state, backfill, keys
    ) -%}
    {{ return({
        'name': name,
        'declarations': changes.get('declarations', []) + ['declare overlaid struct<count: bigint, doubtful: bigint>'],
        'statements': changes.get('setup', []) + [
            dbt_backfill.get_view_statement(name, dbt_backfill.get_last_states_sql(events, keys, changes), changes.literals),
            'cache table ' ~ name,
            'set overlaid = (' ~ dbt_backfill._get_overlaid_sql(name, keys, kept, replica, changes.alters_values) ~ ')',
        ],
        'views': [name] + changes.get('views', []),
    }) }}
{% endmacro %}


{% macro _get_overlaid_sql(name, keys, kept, replica, alters_values=false) -%}
    {%- set names = dbt_backfill.identifiers(fromjson(replica.definition).columns) -%}
    {%- set copied = '(' ~ dbt_backfill.get_replica_rows_sql(replica) ~ ')' -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) -%}
    {%- set doubts = [
        'overlay.__bf_unclear', dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys, 'overlay.')),
        'coalesce(kept.__bf_rows, 0) <> if(overlay.__bf_inserted, 0, 1)',
    ] -%}
    {#- Also of a row that is gone: it may be another one that went. -#}
    {%- if alters_values -%}
        {%- do doubts.append(dbt_backfill.altered_key_predicate(keys, 'overlay.')) -%}
    {%- endif -%}
    select struct(
        count(*),
        count_if({{ doubts | join(' or ') }})
            + if({{ dbt_backfill._get_types_sql(names, name) }} = {{ dbt_backfill._get_types_sql(names, copied) }}, 0, 1)
    )
    from {{ name }} as overlay
    left join (
        select {{ columns | join(', ') }}, count(*) as __bf_rows
        from (
            {{ kept }}
        )
        group by {{ columns | join(', ') }}
    ) as kept
    on {{ dbt_backfill.equal_columns(columns, 'overlay.', 'kept.') }}
{%- endmacro %}


{#- The types of columns, which Spark tells of no rows; an aggregate has a row of none. -#}
{% macro _get_types_sql(names, read) -%}
    (select typeof(any_value(struct({{ names }}))) from (select {{ names }} from {{ read }} limit 0))
{%- endmacro %}
