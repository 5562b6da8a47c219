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
        'uses_time_zone': backfill.uses_time_zone,
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
        'next_bounds': state.committed.next_bounds,
        'bounds_complete': state.committed.bounds_complete,
    }) -%}
    {{ return(plan) }}
{% endmacro %}
