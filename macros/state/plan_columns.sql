{#-
    A plan as the columns of `<mv>__barriers`, in order: name -> [type, SQL value].

    A plan holds everything that executing it needs, so that a later run can adopt it word for word: every
    step is a pure function of the plan and of the position that it starts from.

    Arguments:
      plan (dict): epoch, plan_id, backfill_id, kind, upstream, upstream_kind, upstream_id, upstream_version,
        upstream_committed_at, feed, feed_kind, feed_id, feed_version, feed_committed_at, upstream_row_count, range_low, range_high (lists of literals' texts; none as low:
        from the start; none as high with last_range: open above), last_range, vnodes (list, none for all),
        vnode_row_counts (a SQL map of vnodes to snapshot rows), range_row_count, touched (of a re-anchor that is limited to
        what given-up plans could touch: the ends of their ranges, [] where one is open above), next_bounds (lists of literals' texts
        of the ranges to come), bounds_complete (whether they reach the end), query, query_hash, query_columns,
        used_settings (see find_used_settings: those to note beside the others), key, vnode_count, backfill_mode,
        backfill_rate_limit, reason. What is absent is null.
-#}
{% macro plan_columns(plan) %}
    {%- set text, texts = dbt_backfill.string_literal, dbt_backfill.string_array_literal -%}
    {{ return({
        'epoch': ['bigint', plan.epoch],
        'plan_id': ['string', text(plan.plan_id)],
        'backfill_id': ['string', text(plan.backfill_id)],
        'kind': ['string', text(plan.kind)],
        'reason': ['string', text(plan.get('reason'))],
        'upstream': ['string', text(plan.upstream)],
        'upstream_kind': ['string', text(plan.get('upstream_kind'))],
        'upstream_id': ['string', text(plan.get('upstream_id'))],
        'upstream_version': ['string', text(plan.get('upstream_version'))],
        'upstream_committed_at': ['string', text(plan.get('upstream_committed_at'))],
        'feed': ['string', text(plan.get('feed'))],
        'feed_kind': ['string', text(plan.get('feed_kind'))],
        'feed_id': ['string', text(plan.get('feed_id'))],
        'feed_version': ['string', text(plan.get('feed_version'))],
        'feed_committed_at': ['string', text(plan.get('feed_committed_at'))],
        'upstream_row_count': ['bigint', plan.get('upstream_row_count')],
        'range_low': ['array<string>', texts(plan.get('range_low'))],
        'range_high': ['array<string>', texts(plan.get('range_high'))],
        'last_range': ['boolean', 'true' if plan.get('last_range') else 'false'],
        'vnodes': ['array<int>', 'array(' ~ plan.vnodes | join(', ') ~ ')' if plan.get('vnodes') is not none else 'null'],
        'vnode_row_counts': ['map<int, bigint>', plan.get('vnode_row_counts', 'map()')],
        'range_row_count': ['bigint', plan.get('range_row_count')],
        'touched': ['array<array<string>>', dbt_backfill._bounds_literal(plan.get('touched'))],
        'next_bounds': ['array<array<string>>', dbt_backfill._bounds_literal(plan.get('next_bounds') or [])],
        'bounds_complete': ['boolean', 'true' if plan.get('bounds_complete') else 'false'],
        'query': ['string', text(plan.query)],
        'query_hash': ['string', text(plan.query_hash)],
        'query_columns': ['string', text(plan.query_columns)],
        'settings': ['map<string, string>', dbt_backfill.settings_expression(plan.used_settings)],
        'unique_key': ['array<string>', texts(plan.key | map(attribute='name') | list)],
        'upstream_key': ['array<string>', texts(plan.key | map(attribute='upstream') | list)],
        'key_types': ['array<string>', texts(plan.key | map(attribute='type') | list)],
        'vnode_count': ['int', plan.vnode_count],
        'backfill_mode': ['string', text(plan.get('backfill_mode'))],
        'backfill_rate_limit': ['bigint', plan.get('backfill_rate_limit')],
        'invocation_id': ['string', text(invocation_id)],
        'planned_at': ['timestamp', 'current_timestamp()'],
        'committed_at': ['timestamp', 'null'],
        'changed_row_count': ['bigint', 'null'],
        'deleted_row_count': ['bigint', 'null'],
        'mv_snapshot_id': ['string', 'null'],
    }) }}
{% endmacro %}


{#- Positions, lists of literals' texts, as an array of arrays; `null` for none. -#}
{% macro _bounds_literal(bounds) %}
    {%- if bounds is none -%} {{ return('null') }} {%- endif -%}
    {%- set literals = [] -%}
    {%- for bound in bounds -%} {%- do literals.append(dbt_backfill.string_array_literal(bound)) -%} {%- endfor -%}
    {{ return('array(' ~ literals | join(', ') ~ ')') }}
{% endmacro %}


{#- A plan as a select of one row. -#}
{% macro get_plan_row_sql(plan) -%}
    {%- set columns = [] -%}
    {%- for name, column in dbt_backfill.plan_columns(plan).items() -%}
        {%- do columns.append('cast(' ~ (column[1] if column[1] is not none else 'null') ~ ' as ' ~ column[0] ~ ') as ' ~ name) -%}
    {%- endfor -%}
    select
        {{ columns | join(',\n        ') }}
{%- endmacro %}


{#- The key of a plan that was read back, as a list of {'name', 'upstream', 'type'}. -#}
{% macro get_plan_keys(plan) %}
    {%- set keys = [] -%}
    {%- for column in plan.unique_key -%}
        {%- do keys.append({
            'name': column,
            'upstream': plan.upstream_key[loop.index0],
            'type': plan.key_types[loop.index0],
        }) -%}
    {%- endfor -%}
    {{ return(keys) }}
{% endmacro %}
