{#- What all plans of a run have in common, for the epoch after `state.epoch`. -#}
{% macro new_plan(backfill, state, kind, reason=none) %}
    {{ return({
        'epoch': state.epoch + 1,
        'plan_id': local_md5(invocation_id ~ model.unique_id ~ state.epoch ~ modules.datetime.datetime.now()),
        'backfill_id': state.backfill_id,
        'kind': kind,
        'reason': reason,
        'upstream': backfill.upstream.relation.render(),
        'upstream_kind': backfill.upstream.kind,
        'query': backfill.query,
        'query_hash': backfill.query_hash,
        'query_columns': backfill.query_columns,
        'used_settings': backfill.used_settings,
        'key': backfill.key,
        'vnode_count': backfill.options.vnode_count,
        'backfill_mode': backfill.options.backfill_mode,
        'backfill_rate_limit': backfill.options.backfill_rate_limit,
    }) }}
{% endmacro %}


{#- A plan that reads the upstream at a version, with the position unmoved so far. -#}
{% macro new_plan_at(backfill, state, kind, upstream, version, reason=none) %}
    {%- set plan = dbt_backfill.new_plan(backfill, state, kind, reason) -%}
    {%- set at = upstream.log | selectattr('version', 'equalto', version) | list | first | default(none) -%}
    {%- do plan.update({
        'upstream_id': upstream.id,
        'upstream_version': version | string,
        'upstream_committed_at': at.committed_at if at else none,
        'upstream_row_count': state.committed.get('upstream_row_count'),
        'range_low': state.get('position'),
        'range_high': state.get('position'),
        'last_range': false,
        'next_bounds': dbt_backfill._bounds_ahead(state),
        'bounds_complete': state.committed.bounds_complete,
    }) -%}
    {%- if upstream.get('feed') -%}
        {%- set pinned = kind == 'advance' and dbt_backfill._stays_at_snapshot(backfill, state) -%}
        {%- do plan.update(dbt_backfill._feed_columns_of_plan(backfill, state, upstream.feed, pinned)) -%}
    {%- endif -%}
    {{ return(plan) }}
{% endmacro %}


{#- The bounds that lie ahead of the position: those of the last plan, and its own if it was abandoned. -#}
{% macro _bounds_ahead(state) %}
    {%- set last = state.committed -%}
    {%- set own = [last.range_high] if state.dirty and last.get('range_high') != last.get('range_low') else [] -%}
    {{ return(own + last.next_bounds) }}
{% endmacro %}


{#- The position in a change table of the user's own: its newest, or, while the snapshot is pinned, the committed one. -#}
{% macro _feed_columns_of_plan(backfill, state, feed, pinned) %}
    {%- set columns = {'feed': dbt_backfill.describe_change_table(backfill.feed), 'feed_kind': backfill.feed.kind} -%}
    {%- if pinned -%}
        {%- for name in ['feed_id', 'feed_version', 'feed_committed_at'] -%}
            {%- do columns.update({name: state.committed.get(name)}) -%}
        {%- endfor -%}
    {%- else -%}
        {%- do columns.update({
            'feed_id': feed.id, 'feed_version': feed.version | string, 'feed_committed_at': feed.committed_at,
        }) -%}
    {%- endif -%}
    {{ return(columns) }}
{% endmacro %}
