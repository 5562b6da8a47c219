{#-
    What the flow of a barrier asks of the kind of its plan. Each kind answers in a file of its own, by macros of the names
    `<kind>_<question>`, see of_kind:

      traits()                               {
          'follows': whether it brings the MV to a version of the upstream; only such a barrier counts towards
            `barriers_per_run`,
          'reads_range': whether it may read a range, and move the position,
          'replaces_mv': whether the MV is a new table after it, whose query, key and number of vnodes may be others,
          'gives_up': whether it is what is left of a plan that was not executed,
          'rescales': whether the same rows have another number of vnodes after it; it reads no rows upstream and by no query
        }
      scan(backfill, state, plan)            a select of the upstream's rows that it reads anew, whose keys are checked while it
        is planned; none if it reads none
      follows_feed(plan)                     whether it merges what changed upstream below the position
      execute(backfill, state, plan, work)   runs what it does to the MV, the same whenever it is run for this plan and state:
        {'failed': the step that failed, if it was guarded, see run_merge, 'counts': get_merge_counts, {} if it merged no
        changes, 'left_at': of one that replaces the MV what run_replacement returned}
      columns(state, plan)                   what its commit sets in the progress table beside get_state_columns: {column: SQL
        over a row of it}
      report(barrier)                        the middle of its line in dbt's output, as a list of texts

    A kind is chosen by choose_plan, or, of a plan that stands, given up by mark_abandoned.
-#}


{#- Whether the plan has changes to merge: something was backfilled, and the version of what is followed moves. -#}
{% macro has_changes(state, plan) %}
    {%- if not dbt_backfill.of_kind(plan.kind, 'follows_feed')(plan) -%} {{ return(false) }} {%- endif -%}
    {%- set followed = 'feed' if dbt_backfill.get_source(plan, 'feed') else 'upstream' -%}
    {%- set since = dbt_backfill.get_source(dbt_backfill.get_feed_start(state), followed) or {} -%}
    {%- set moves = dbt_backfill.get_source(plan, followed).version != since.get('version') -%}
    {{ return(dbt_backfill.has_started(state) and moves and state.get('upstream_version') is not none) }}
{% endmacro %}


{#- What the commit of a kind sets with which every vnode begins anew. -#}
{% macro get_not_started_columns(plan) %}
    {%- set columns = {
        'upstream_version': dbt_backfill.string_literal(dbt_backfill.get_source(plan).get('version')),
        'backfill_finished': 'false',
        'row_count': '0',
    } -%}
    {%- for column in dbt_backfill.position_columns(plan.key) -%} {%- do columns.update({column: 'null'}) -%} {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The rows that a plan counts for a vnode, over a row of the progress table. -#}
{% macro get_vnode_row_count_sql(plan) -%}
    {%- set counts = dbt_backfill.string_literal(tojson(plan.get('vnode_row_counts') or {})) -%}
    coalesce(from_json({{ counts }}, 'map<string, bigint>')[cast(progress.vnode as string)], 0)
{%- endmacro %}


{#-
    The changes of a plan, staged by this run as it planned them, or now: {'failed': see run_merge, 'staged': none if there
    are none to merge}.
-#}
{% macro take_staged_changes(backfill, state, plan, work) %}
    {%- set staged = dbt_backfill.stage_changes(backfill, state, plan, work) if work.changes else work.staged -%}
    {%- set failed = (staged or {}).get('failed') -%}
    {{ return({'failed': failed, 'staged': staged if not failed and staged and staged.upserts + staged.drops else none}) }}
{% endmacro %}


{#- The merge of these changes, where there are any; returns what run_changes does. -#}
{% macro run_taken_changes(backfill, plan, work, changes) %}
    {%- if changes.staged -%} {{ return(dbt_backfill.run_changes(backfill, plan, work, changes.staged)) }} {%- endif -%}
    {{ return({'failed': changes.failed, 'counts': {}}) }}
{% endmacro %}


{#- One line before all rows that were read are compared with the query, at once or in slices; `slices`: see get_slices_text. -#}
{% macro report_comparison(state, plan, slices='') %}
    {%- do log(
        dbt_backfill.get_model_name(model) ~ ' compares all ' ~ '{:,}'.format(state.row_count)
            ~ ' rows read so far with its query' ~ slices ~ ', because ' ~ plan.reason,
        info=true
    ) -%}
{% endmacro %}


{#- How much of a comparison a barrier does, as it follows what is compared; empty without a rate limit. -#}
{% macro get_slices_text(rate_limit) %}
    {{ return(', up to ' ~ '{:,}'.format(rate_limit) ~ ' rows of the upstream per barrier' if rate_limit else '') }}
{% endmacro %}


{#- What kinds report that move or keep the position; `notes` are their own. -#}
{% macro get_report_of_merges(barrier, notes=[]) %}
    {%- set plan, state = barrier.plan, barrier.state -%}
    {%- set parts = [] -%}
    {%- if not state.finished or plan.get('range_row_count') is not none -%}
        {#- A database may not have estimated how many there are. -#}
        {%- set total = plan.get('upstream_row_count') if not state.finished else none -%}
        {%- do parts.append('{:,}'.format(state.row_count) ~ (' of {:,}'.format(total) if total else '') ~ ' rows') -%}
        {%- set read = ' compared' if plan.get('sweeps') else ' backfilled' -%}
        {%- do parts.append('+{:,}'.format(plan.get('range_row_count') or 0) ~ read) -%}
    {%- endif -%}
    {{ return(parts + notes + dbt_backfill.get_report_of_changes(barrier)) }}
{% endmacro %}


{#- What all kinds report that follow the upstream. -#}
{% macro get_report_of_changes(barrier) %}
    {%- set parts, counts = [], barrier.counts -%}
    {%- if barrier.plan.get('drops') -%} {%- do parts.append('dropped ' ~ barrier.plan.drops | join(', ')) -%} {%- endif -%}
    {%- if counts -%}
        {%- set deleted = ', {:,} deleted'.format(counts.deleted) if 'deleted' in counts else '' -%}
        {%- do parts.append('{:,} changed'.format(counts.changed) ~ deleted) -%}
    {%- endif -%}
    {{ return(parts + ['version ' ~ dbt_backfill.get_source(barrier.plan).version]) }}
{% endmacro %}
