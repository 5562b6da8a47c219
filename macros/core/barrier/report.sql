{#- Log the line of a barrier. `allowance`: see get_allowance; it does not apply to a plan of an earlier run. -#}
{% macro report_barrier(backfill, barrier, allowance=none) %}
    {%- set plan = barrier.plan -%}
    {%- set parts = ['BARRIER ' ~ plan.epoch, dbt_backfill.get_progress_text(barrier.state)] + dbt_backfill.get_report_of_kind(barrier) -%}
    {%- set is_ours = plan.get('invocation_id', invocation_id) == invocation_id -%}
    {%- set ruled = dbt_backfill.get_allowance_text(allowance, barrier.state) if is_ours else '' -%}
    {%- set parts = parts + ([ruled] if ruled else []) + [dbt_backfill.get_time_text(barrier)] -%}
    {%- set generation = ' (next)' if backfill.generation == 'next' else '' -%}
    {%- do log(dbt_backfill.get_model_name(model) ~ generation ~ ' [' ~ parts | join(' · ') ~ ']', info=true) -%}
{% endmacro %}


{#- Return the middle of a barrier's line, as a list of texts. -#}
{% macro get_report_of_kind(barrier) %}
    {%- set plan, state, counts, parts = barrier.plan, barrier.state, barrier.counts, [] -%}
    {%- if plan.kind == 'reset' -%}
        {{ return(['emptied: ' ~ plan.reason]) }}
    {%- elif plan.kind == 'abandon' -%}
        {{ return(['plan given up: ' ~ plan.reason]) }}
    {%- elif plan.kind == 'rescale' -%}
        {%- set removed = counts.get('deleted') -%}
        {{ return(['rescaled ' ~ plan.reason] + (['{:,} rows are read again'.format(removed)] if removed else [])) }}
    {%- endif -%}
    {%- set version = 'version ' ~ dbt_backfill.get_source(plan).version -%}
    {%- if plan.kind == 'swap' -%}
        {{ return(['{:,} rows'.format(state.row_count), 'next generation put in place: ' ~ plan.reason, version]) }}
    {%- elif plan.kind == 'sweep' -%}
        {{ return(['sweeps from the start: ' ~ plan.reason, version]) }}
    {%- elif plan.kind == 'fill' -%}
        {%- do parts.append(('filled ' if plan.get('last_fill') else 'fills ') ~ plan.fills | map(attribute='name') | join(', ')) -%}
        {%- if not plan.get('last_fill') -%}
            {%- do parts.append('{:,} of {:,} rows'.format(plan.get('filled_row_count') or 0, state.row_count)) -%}
        {%- endif -%}
        {%- do parts.append('+{:,} read for it'.format(plan.get('range_row_count') or 0)) -%}
    {%- elif not state.finished or plan.get('range_row_count') is not none -%}
        {#- A database may not have estimated its rows. -#}
        {%- set total = plan.get('upstream_row_count') if not state.finished else none -%}
        {%- do parts.append('{:,}'.format(state.row_count) ~ (' of {:,}'.format(total) if total else '') ~ ' rows') -%}
        {%- set read = ' compared' if plan.get('sweeps') else ' backfilled' -%}
        {%- do parts.append('+{:,}'.format(plan.get('range_row_count') or 0) ~ read) -%}
    {%- endif -%}
    {%- if plan.kind == 'reanchor' -%}
        {%- do parts.append('re-anchored: ' ~ plan.reason ~ (', only what it could touch' if plan.get('touched') is not none else '')) -%}
    {%- endif -%}
    {%- if plan.get('drops') -%} {%- do parts.append('dropped ' ~ plan.drops | join(', ')) -%} {%- endif -%}
    {%- if counts -%}
        {%- do parts.append('{:,} changed'.format(counts.changed) ~ (', {:,} deleted'.format(counts.deleted) if 'deleted' in counts else '')) -%}
    {%- endif -%}
    {{ return(parts + [version]) }}
{% endmacro %}


{#- Return how much of a comparison one barrier does, to follow what is compared; empty without a rate limit. -#}
{% macro get_slices_text(rate_limit) %}
    {{ return(', up to ' ~ '{:,}'.format(rate_limit) ~ ' rows of the upstream per barrier' if rate_limit else '') }}
{% endmacro %}


{#-
    Give the adapter the line that it prints if dbt is stopped, such as
    `mv [STOPPED · 45.0 % · 150,000 of 333,412 rows · at id=150000 · after BARRIER 3]`.
-#}
{% macro note_place_of_run(backfill, state) %}
    {%- if adapter.type() != 'spark_backfill' or not state.get('committed') -%} {{ return(none) }} {%- endif -%}
    {%- set total = none if state.finished else state.committed.get('upstream_row_count') -%}
    {%- set rows = '{:,}'.format(state.row_count) ~ (' of {:,}'.format(total) if total else '') ~ ' rows' -%}
    {%- set parts, columns = [dbt_backfill.get_progress_text(state), rows], [] -%}
    {%- if not state.finished -%}
        {%- for literal in (state.get('position') if state.uniform else none) or [] -%}
            {%- do columns.append(state.committed.key[loop.index0].upstream ~ '=' ~ literal) -%}
        {%- endfor -%}
        {%- set somewhere = 'the beginning' if state.uniform else 'another position in each vnode' -%}
        {%- do parts.append('at ' ~ (columns | join(', ') or somewhere)) -%}
    {%- endif -%}
    {%- do parts.append('after BARRIER ' ~ state.epoch if state.epoch else 'before BARRIER 1') -%}
    {%- set generation = ' (next)' if backfill.generation == 'next' else '' -%}
    {%- do adapter.note_place(dbt_backfill.get_model_name(model) ~ generation ~ ' [STOPPED · ' ~ parts | join(' · ') ~ ']') -%}
{% endmacro %}


{#-
    Return how long the barrier took, how many rows it read in a second, and, if ranges are limited, how many barriers of its size are
    left and how long they would take one after the other, such as `4 s, 12,500 rows/s, 5 barriers left (about 20 s)`.
-#}
{% macro get_time_text(barrier) %}
    {%- set plan, rows, took = barrier.plan, barrier.plan.get('range_row_count'), dbt_backfill.get_duration_text(barrier.seconds) -%}
    {%- if not rows or not dbt_backfill.kind_reads_range(plan) -%} {{ return(took) }} {%- endif -%}
    {%- set took = took ~ ', ' ~ dbt_backfill.get_rate_text(rows / [barrier.seconds_without_copy, 0.001] | max) ~ ' rows/s' -%}
    {%- set left = dbt_backfill.get_progress(barrier.state).rows_left -%}
    {#- The barriers that are left are not like this one if it read some vnodes only, or was the last that filled a column. -#}
    {%- set differs = plan.get('vnodes') is not none or plan.get('fills') and not dbt_backfill.get_filling(barrier.state) -%}
    {%- if left is none or differs or dbt_backfill.is_complete(barrier.state) -%} {{ return(took) }} {%- endif -%}
    {%- set barriers = [1, (left / rows) | round(0, 'ceil') | int] | max -%}
    {{ return(took ~ ', ' ~ dbt_backfill.get_count_text(barriers, 'barrier')
        ~ ' left (about ' ~ dbt_backfill.get_duration_text(barriers * barrier.seconds_without_copy) ~ ')') }}
{% endmacro %}


{#- Return rows per second as `12,500`, and few of them as `1.5`. -#}
{% macro get_rate_text(rate) %}
    {{ return('{:.1f}'.format(rate) if rate < 10 else dbt_backfill.get_number_text(rate)) }}
{% endmacro %}


{#- Return a number as `12,500`, from a million on as `1.2 M` or `1.2 G`. -#}
{% macro get_number_text(number) %}
    {%- if number < 999999.5 -%} {{ return('{:,.0f}'.format(number)) }} {%- endif -%}
    {{ return('{:.1f} M'.format(number / 1e6) if number < 999949999 else '{:.1f} G'.format(number / 1e9)) }}
{% endmacro %}


{#- Return seconds as `12 s`, `3 min` or `2.5 h`. -#}
{% macro get_duration_text(seconds) %}
    {%- if seconds < 100 -%} {{ return('{:.0f} s'.format(seconds)) }} {%- endif -%}
    {{ return('{:.0f} min'.format(seconds / 60) if seconds < 6000 else '{:.1f} h'.format(seconds / 3600)) }}
{% endmacro %}


{#- Return the share of the upstream's rows that was backfilled, such as `40.0 %`, see get_progress. -#}
{% macro get_progress_text(state) %}
    {{ return('{:.1f} %'.format(dbt_backfill.get_progress(state).share * 100)) }}
{% endmacro %}


{#-
    Return how much of the upstream was backfilled; while columns are being filled, how many of the MV's rows were read for them: {
      'share': from 0 to 1. It is less than 1 until nothing is left, though rows that were deleted upstream still count as read,
      'rows_left': how many are left to be read; none if the upstream has not been counted
    }
-#}
{% macro get_progress(state) %}
    {%- if dbt_backfill.is_complete(state) -%} {{ return({'share': 1.0, 'rows_left': 0}) }} {%- endif -%}
    {%- set filling = dbt_backfill.get_filling(state) -%}
    {%- set read = filling.row_count if filling else state.row_count -%}
    {%- set total = state.row_count if filling else state.committed.get('upstream_row_count') -%}
    {{ return({
        'share': [read / total, 0.999] | min if total else 0.0,
        'rows_left': none if total is none else [total - read, 0] | max,
    }) }}
{% endmacro %}


{#- True if nothing is left to be read. -#}
{% macro is_complete(state) %}
    {{ return(state.finished and not dbt_backfill.get_filling(state)) }}
{% endmacro %}


{#-
    Return the message of a run's result: the barriers that it committed, why it ended if it did not use up `barriers_per_run`, and
    what controls it (`ruled`).

    Arguments:
      plan (dict or none): of the last barrier; none if nothing was written.
      first (integer): the epoch of the first one.
      ended, spent (boolean): true if it ended because nothing was left to do, or because a budget was used up.
      waits (string or none): see stage_range of the contract.
-#}
{% macro get_result_message(state, plan, first, ended, spent=false, ruled='', waits=none) %}
    {%- set progress = ' (' ~ dbt_backfill.get_progress_text(state) ~ ')' -%}
    {%- set complete, ruled = dbt_backfill.is_complete(state), ' · ' ~ ruled if ruled else '' -%}
    {%- set end = 'WAITS: ' ~ waits if waits else 'CAUGHT UP' if complete else 'PAUSED' -%}
    {%- if plan is none -%} {{ return(end ~ ('' if complete else progress) ~ ruled) }} {%- endif -%}
    {%- set barriers = 'BARRIER ' if first == plan.epoch else 'BARRIERS ' ~ first ~ ' to ' -%}
    {{ return(barriers ~ plan.epoch ~ progress ~ (', ' ~ end if ended else ', BUDGET SPENT' if spent else '') ~ ruled) }}
{% endmacro %}


{#- Report the run as dbt's result of the model; with the adapter, as fields in run_results.json too. -#}
{% macro store_result_of_run(result) %}
    {%- if adapter.type() == 'spark_backfill' -%}
        {%- set state, progress = result.state, dbt_backfill.get_progress(result.state) -%}
        {%- set rate, left = result.rows_backfilled / result.read_seconds if result.read_seconds else none, progress.rows_left -%}
        {%- do store_result('main', response=adapter.barrier_response(
            message=result.message, epoch=state.epoch, kind=result.plan.kind if result.plan else none, barriers=result.barriers,
            progress=progress.share, backfill_finished=dbt_backfill.is_complete(state),
            row_count=state.get('row_count'), upstream_row_count=state.committed.get('upstream_row_count'), rows_left=left,
            rows_per_second=rate, seconds_left=0.0 if left == 0 else (left / rate if rate and left else none),
            lag_seconds=state.get('lag_seconds'), upstream_version=state.get('upstream_version'),
            rows_backfilled=result.rows_backfilled, rows_changed=result.changed, rows_deleted=result.deleted
        )) -%}
    {%- else -%}
        {%- set rows = result.rows_backfilled + result.changed + result.deleted -%}
        {%- set code = 'BARRIER' if result.barriers else 'NO-OP' -%}
        {%- do store_raw_result('main', message=result.message, code=code, rows_affected=rows | string) -%}
    {%- endif -%}
{% endmacro %}
