{#- One line per barrier in dbt's output. `allowance`: see get_allowance; it does not rule a plan of an earlier run. -#}
{% macro report_barrier(backfill, barrier, allowance=none) %}
    {%- set plan = barrier.plan -%}
    {%- set parts = ['BARRIER ' ~ plan.epoch, dbt_backfill.get_progress_text(barrier.state)] -%}
    {%- do parts.extend(dbt_backfill.get_report_of_kind(barrier)) -%}
    {%- set is_ours = plan.get('invocation_id', invocation_id) == invocation_id -%}
    {%- set ruled = dbt_backfill.get_allowance_text(allowance, barrier.state) if is_ours else '' -%}
    {%- if ruled -%} {%- do parts.append(ruled) -%} {%- endif -%}
    {%- do parts.append(dbt_backfill.get_time_text(barrier)) -%}
    {%- set generation = ' (next)' if backfill.generation == 'next' else '' -%}
    {%- do log(dbt_backfill.get_model_name(model) ~ generation ~ ' [' ~ parts | join(' · ') ~ ']', info=true) -%}
{% endmacro %}


{#- The middle of a barrier's line in dbt's output, as a list of texts. -#}
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
        {#- A database may not have estimated how many there are. -#}
        {%- set total = plan.get('upstream_row_count') if not state.finished else none -%}
        {%- do parts.append('{:,}'.format(state.row_count) ~ (' of {:,}'.format(total) if total else '') ~ ' rows') -%}
        {%- set read = ' compared' if plan.get('sweeps') else ' backfilled' -%}
        {%- do parts.append('+{:,}'.format(plan.get('range_row_count') or 0) ~ read) -%}
    {%- endif -%}
    {%- if plan.kind == 'reanchor' -%}
        {%- set limited = ', only what it could touch' if plan.get('touched') is not none else '' -%}
        {%- do parts.append('re-anchored: ' ~ plan.reason ~ limited) -%}
    {%- endif -%}
    {%- if plan.get('drops') -%} {%- do parts.append('dropped ' ~ plan.drops | join(', ')) -%} {%- endif -%}
    {%- if counts -%}
        {%- set deleted = ', {:,} deleted'.format(counts.deleted) if 'deleted' in counts else '' -%}
        {%- do parts.append('{:,} changed'.format(counts.changed) ~ deleted) -%}
    {%- endif -%}
    {{ return(parts + [version]) }}
{% endmacro %}


{#- How much of a comparison a barrier does, as it follows what is compared; empty without a rate limit. -#}
{% macro get_slices_text(rate_limit) %}
    {{ return(', up to ' ~ '{:,}'.format(rate_limit) ~ ' rows of the upstream per barrier' if rate_limit else '') }}
{% endmacro %}


{#-
    Let the adapter know where the model stands, which it tells if dbt is stopped, such as
    `mv [STOPPED · 45.0 % · 150,000 of 333,412 rows · at id=150000 · after BARRIER 3]`.
-#}
{% macro tell_place(backfill, state) %}
    {%- if adapter.type() != 'spark_backfill' or not state.get('committed') -%} {{ return(none) }} {%- endif -%}
    {%- set parts = [dbt_backfill.get_progress_text(state)] -%}
    {%- set total = state.committed.get('upstream_row_count') -%}
    {%- do parts.append('{:,}'.format(state.row_count) ~ (' of {:,}'.format(total) if total and not state.finished else '') ~ ' rows') -%}
    {%- if not state.finished -%} {%- do parts.append(dbt_backfill.get_position_text(state)) -%} {%- endif -%}
    {%- set generation = ' (next)' if backfill.generation == 'next' else '' -%}
    {%- do parts.append('after BARRIER ' ~ state.epoch if state.epoch else 'before BARRIER 1') -%}
    {%- do adapter.note_place(dbt_backfill.get_model_name(model) ~ generation ~ ' [STOPPED · ' ~ parts | join(' · ') ~ ']') -%}
{% endmacro %}


{#- Up to which key the upstream was read, such as `at carrier='UA', flight=1545`. -#}
{% macro get_position_text(state) %}
    {%- if not state.uniform -%} {{ return('at another position in each vnode') }} {%- endif -%}
    {%- if state.get('position') is none -%} {{ return('at the beginning') }} {%- endif -%}
    {%- set columns = [] -%}
    {%- for column in state.committed.key -%}
        {%- do columns.append(column.upstream ~ '=' ~ state.position[loop.index0]) -%}
    {%- endfor -%}
    {{ return('at ' ~ columns | join(', ')) }}
{% endmacro %}


{#-
    How long the barrier took, how many rows of the snapshot it read in a second, and, where ranges are limited, how many of its
    size are left and how long they would take one after the other, such as `4 s, 12,500 rows/s, 5 barriers left (about 20 s)`.
-#}
{% macro get_time_text(barrier) %}
    {%- set took = dbt_backfill.get_duration_text(barrier.seconds) -%}
    {%- set rows, left = barrier.plan.get('range_row_count'), dbt_backfill.get_rows_left(barrier.state) -%}
    {%- if not rows or not dbt_backfill.reads_range(barrier.plan) -%} {{ return(took) }} {%- endif -%}
    {%- set took = took ~ ', ' ~ dbt_backfill.get_rate_text(rows / [barrier.range_seconds, 0.001] | max) ~ ' rows/s' -%}
    {#- Those that are left are not like this one where it read some vnodes only, or was the last of those that fill a column. -#}
    {%- set differs = barrier.plan.get('vnodes') is not none
        or barrier.plan.get('fills') and not dbt_backfill.get_filling(barrier.state) -%}
    {%- if left is none or differs or dbt_backfill.is_complete(barrier.state) -%} {{ return(took) }} {%- endif -%}
    {%- set barriers = [1, (left / rows) | round(0, 'ceil') | int] | max -%}
    {{ return(took ~ ', ' ~ dbt_backfill.get_count_text(barriers, 'barrier')
        ~ ' left (about ' ~ dbt_backfill.get_duration_text(barriers * barrier.range_seconds) ~ ')') }}
{% endmacro %}


{#- Rows per second as `12,500`, and few of them as `1.5`. -#}
{% macro get_rate_text(rate) %}
    {{ return('{:.1f}'.format(rate) if rate < 10 else dbt_backfill.get_number_text(rate)) }}
{% endmacro %}


{#- Up to a million as it is, then `1.2 M` and `1.2 G`. -#}
{% macro get_number_text(number) %}
    {%- if number < 999999.5 -%} {{ return('{:,.0f}'.format(number)) }} {%- endif -%}
    {{ return('{:.1f} M'.format(number / 1e6) if number < 999949999 else '{:.1f} G'.format(number / 1e9)) }}
{% endmacro %}


{#- Seconds as `12 s`, `3 min` or `2.5 h`. -#}
{% macro get_duration_text(seconds) %}
    {%- if seconds < 100 -%} {{ return('{:.0f} s'.format(seconds)) }} {%- endif -%}
    {{ return('{:.0f} min'.format(seconds / 60) if seconds < 6000 else '{:.1f} h'.format(seconds / 3600)) }}
{% endmacro %}


{#-
    The share of the upstream's rows that was backfilled, such as `40.0 %`; 100.0 % only once it has finished. While columns are
    being filled, the share of the rows that were read for them.
-#}
{% macro get_progress_text(state) %}
    {{ return('{:.1f} %'.format(dbt_backfill.get_progress(state) * 100)) }}
{% endmacro %}


{#- The same as a number from 0 to 1. Rows deleted upstream since they were read can take it to 1 early. -#}
{% macro get_progress(state) %}
    {%- if dbt_backfill.is_complete(state) -%} {{ return(1.0) }} {%- endif -%}
    {%- set read = dbt_backfill._get_rows_read(state) -%}
    {{ return([read.rows / read.of, 0.999] | min if read.of else 0.0) }}
{% endmacro %}


{#- How many rows are left to be read; none where the upstream has not been counted. -#}
{% macro get_rows_left(state) %}
    {%- if dbt_backfill.is_complete(state) -%} {{ return(0) }} {%- endif -%}
    {%- set read = dbt_backfill._get_rows_read(state) -%}
    {{ return(none if read.of is none else [read.of - read.rows, 0] | max) }}
{% endmacro %}


{#- {'rows': how many were read, 'of': of how many, none where the upstream has not been counted}; see get_progress_text. -#}
{% macro _get_rows_read(state) %}
    {%- set filling = dbt_backfill.get_filling(state) -%}
    {%- if filling -%} {{ return({'rows': filling.row_count, 'of': state.row_count}) }} {%- endif -%}
    {{ return({'rows': state.row_count, 'of': state.committed.get('upstream_row_count')}) }}
{% endmacro %}


{#- Whether nothing is left to be read. -#}
{% macro is_complete(state) %}
    {{ return(state.finished and not dbt_backfill.get_filling(state)) }}
{% endmacro %}


{#-
    What dbt prints as the model's result: the barriers that the run committed, and, where it looked for another one and
    there was nothing to do or a budget was used up, why it ended, and what rules it (`ruled`).

    Arguments:
      plan (dict or none): of the last barrier; none if nothing was written.
      first (integer): the epoch of the first one.
      waits (string or none): see stage_range of the contract.
-#}
{% macro get_result_message(state, plan, first, ended, spent=false, ruled='', waits=none) %}
    {%- set progress = ' (' ~ dbt_backfill.get_progress_text(state) ~ ')' -%}
    {%- set end = 'WAITS: ' ~ waits if waits else 'CAUGHT UP' if dbt_backfill.is_complete(state) else 'PAUSED' -%}
    {%- set ruled = ' · ' ~ ruled if ruled else '' -%}
    {%- if plan is none -%}
        {{ return(end ~ ('' if dbt_backfill.is_complete(state) else progress) ~ ruled) }}
    {%- endif -%}
    {%- set barriers = 'BARRIER ' if first == plan.epoch else 'BARRIERS ' ~ first ~ ' to ' -%}
    {{ return(barriers ~ plan.epoch ~ progress ~ (', ' ~ end if ended else ', BUDGET SPENT' if spent else '') ~ ruled) }}
{% endmacro %}


{#- Report the run as dbt's result of the model; with the adapter, as fields in run_results.json too. -#}
{% macro store_result_of_run(result) %}
    {%- if adapter.type() == 'spark_backfill' -%}
        {%- set rate = result.rows_backfilled / result.read_seconds if result.read_seconds else none -%}
        {%- set left = dbt_backfill.get_rows_left(result.state) -%}
        {%- do store_result('main', response=adapter.barrier_response(
            message=result.message,
            epoch=result.state.epoch,
            kind=result.plan.kind if result.plan else none,
            barriers=result.barriers,
            progress=dbt_backfill.get_progress(result.state),
            backfill_finished=dbt_backfill.is_complete(result.state),
            row_count=result.state.get('row_count'),
            upstream_row_count=result.state.committed.get('upstream_row_count'),
            rows_left=left,
            rows_per_second=rate,
            seconds_left=0.0 if left == 0 else (left / rate if rate and left else none),
            lag_seconds=result.state.get('lag_seconds'),
            rows_backfilled=result.rows_backfilled,
            rows_changed=result.changed,
            rows_deleted=result.deleted,
            upstream_version=result.state.get('upstream_version')
        )) -%}
    {%- else -%}
        {%- set rows = result.rows_backfilled + result.changed + result.deleted -%}
        {%- set code = 'BARRIER' if result.barriers else 'NO-OP' -%}
        {%- do store_raw_result('main', message=result.message, code=code, rows_affected=rows | string) -%}
    {%- endif -%}
{% endmacro %}
