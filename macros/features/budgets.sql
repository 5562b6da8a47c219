{#-
    What the next barrier may read: {
      'rows': of a range at most, as a rate limit, 0 for none, none for any number,
      'ruled_by': what says so: 'config', a control that was set ('pause', 'throttle'), the target duration
        ('barrier_seconds') or what is left of the run's budget ('run_rows'),
      'by', 'since': of a control
    }

    It is decided before each barrier, from what is set by then. A plan that stands already is executed as it is.

    Arguments:
      run (namespace): of the loop, see _run_next_barrier.
-#}
{% macro get_allowance(backfill, state, run) %}
    {%- set allowance = dbt_backfill._get_controlled_allowance(backfill, state) -%}
    {%- if allowance.rows == 0 -%} {{ return(allowance) }} {%- endif -%}
    {%- set options = backfill.options -%}
    {%- if options.barrier_seconds -%}
        {%- set sized = dbt_backfill.get_sized_rows(options.barrier_seconds, run.measures, state, allowance.rows) -%}
        {%- if allowance.rows is none or sized < allowance.rows -%}
            {%- set allowance = dbt_backfill.new_allowance(sized, 'barrier_seconds') -%}
        {%- endif -%}
    {%- endif -%}
    {%- if options.run_rows and (allowance.rows is none or options.run_rows - run.rows < allowance.rows) -%}
        {%- set allowance = dbt_backfill.new_allowance([options.run_rows - run.rows, 0] | max, 'run_rows') -%}
    {%- endif -%}
    {{ return(allowance) }}
{% endmacro %}


{#- `control`: the newest row of a control, see get_controls_sql. -#}
{% macro new_allowance(rows, ruled_by, control=none) %}
    {{ return({'rows': rows, 'ruled_by': ruled_by, 'by': (control or {}).get('set_by'), 'since': (control or {}).get('set_at')}) }}
{% endmacro %}


{#- A control wins over the config, until it is lifted. The former of two generations reads no ranges anyway. -#}
{% macro _get_controlled_allowance(backfill, state) %}
    {%- set limit = backfill.options.backfill_rate_limit -%}
    {%- if backfill.get('generation') == 'former' -%} {{ return(dbt_backfill.new_allowance(limit, 'config')) }} {%- endif -%}
    {{ return(dbt_backfill.get_ruling_allowance(limit, state.get('controls') or {})) }}
{% endmacro %}


{#- What rules, of a limit that is configured and the controls that are set. -#}
{% macro get_ruling_allowance(limit, controls) %}
    {%- set pause, throttle = controls.get('pause') or {}, controls.get('rate_limit') or {} -%}
    {%- if pause.get('value') == 'true' -%}
        {{ return(dbt_backfill.new_allowance(0, 'pause', pause)) }}
    {%- elif throttle.get('value', 'default') != 'default' -%}
        {{ return(dbt_backfill.new_allowance(throttle.value | int, 'throttle', throttle)) }}
    {%- endif -%}
    {{ return(dbt_backfill.new_allowance(limit, 'config')) }}
{% endmacro %}


{#- The backfill as a barrier sees it that may read so much. -#}
{% macro get_allowed_backfill(backfill, allowance) %}
    {{ return(dict(backfill, options=dict(backfill.options, backfill_rate_limit=allowance.rows))) }}
{% endmacro %}


{#-
    Whether a budget of the run is used up, so that no further barrier begins. A rebuild that is asked for, and a next generation
    that is ready, are ended by this run, because no later one would know of them. Rows that are no longer there to be read
    use up nothing.
-#}
{% macro is_budget_spent(backfill, run) %}
    {%- set options = backfill.options -%}
    {%- if run.rebuild or run.next -%} {{ return(false) }} {%- endif -%}
    {%- if options.run_minutes
            and (modules.datetime.datetime.now() - backfill.started_at).total_seconds() >= options.run_minutes * 60 -%}
        {{ return(true) }}
    {%- endif -%}
    {{ return(options.run_rows is not none and run.rows >= options.run_rows and not dbt_backfill.is_complete(run.state)) }}
{% endmacro %}


{#- What rules, where it is not the config; empty if it is, and once nothing is left to be read. -#}
{% macro get_allowance_text(allowance, state) %}
    {%- if not allowance or allowance.ruled_by == 'config' or dbt_backfill.is_complete(state) -%} {{ return('') }} {%- endif -%}
    {{ return(dbt_backfill.get_ruling_text(allowance)) }}
{% endmacro %}


{#- Such as `throttled to 1,000 rows by alice since 2026-11-24 12:00`. -#}
{% macro get_ruling_text(allowance) %}
    {%- set rows = '{:,}'.format(allowance.rows) -%}
    {%- set words = {
        'pause': 'paused', 'throttle': 'throttled to ' ~ rows ~ ' rows',
        'barrier_seconds': 'up to ' ~ rows ~ ' by barrier_seconds', 'run_rows': 'up to ' ~ rows ~ ' by run_rows',
    } -%}
    {%- set setting = ' by ' ~ allowance.by ~ ' since ' ~ allowance.since if allowance.since else '' -%}
    {{ return(words[allowance.ruled_by] ~ setting) }}
{% endmacro %}


{#- The same of a control alone, which a run's result tells. -#}
{% macro get_control_text(allowance, state) %}
    {%- set is_set = allowance and allowance.ruled_by in ['pause', 'throttle'] -%}
    {{ return(dbt_backfill.get_allowance_text(allowance, state) if is_set else '') }}
{% endmacro %}


{#-
    How many rows a range may have to take about so many seconds, by what the last ones took: at most four times as many as the
    last one, and at least a quarter. Where that is near its limit, the limit stays, because the bounds of the ranges to come were
    found for it.

    A barrier has costs that no smaller range saves: it takes `fixed` seconds, and so many more per row. Both are read off the
    measures. So that a target that is hardly longer than the fixed part, or shorter, does not end in ranges of a few rows, the
    rows get at least half as long as the fixed part. Where a larger range took no longer, nothing is known of their price, and
    ranges grow. Of a single measure half is taken to be fixed as long as it is below the target, and nothing above it.

    Without a measure it is as many as the last barrier was to read, or what the rate limit says, or a first guess.

    Arguments:
      measures (list): of barriers, the last one at the end, see new_measure.
      most (int or none): the rate limit.
-#}
{% macro get_sized_rows(seconds, measures, state, most) %}
    {%- if not measures -%}
        {{ return((state.get('committed') or {}).get('backfill_rate_limit') or most or 100000) }}
    {%- endif -%}
    {%- set last = measures[-1] -%}
    {%- set warm = (measures | rejectattr('cold') | list or measures)[-4:] -%}
    {%- set line = dbt_backfill._fit_line(warm) -%}
    {%- if line is none -%}
        {%- set fixed = last.seconds / 2 if last.seconds < seconds else 0 -%}
        {%- set rows = last.rows * (seconds - fixed) / (last.seconds - fixed) -%}
    {%- elif line.per_row <= 0 -%}
        {%- set rows = 2 * warm | map(attribute='rows') | max -%}
    {%- else -%}
        {%- set rows = [seconds - line.fixed, line.fixed / 2] | max / line.per_row -%}
    {%- endif -%}
    {%- set limit = last.limit -%}
    {%- if limit and 0.8 * limit <= rows <= 1.25 * limit -%} {{ return(limit) }} {%- endif -%}
    {{ return([[rows, last.rows * 4] | min, last.rows / 4, 1] | max | int) }}
{% endmacro %}


{#-
    The line nearest to the measures, by least squares: {'fixed': seconds of a barrier without a row, 'per_row'}; none where they
    are of about the same number of rows.
-#}
{% macro _fit_line(measures) %}
    {%- set count = measures | length -%}
    {%- set rows = measures | map(attribute='rows') | sum / count -%}
    {%- set seconds = measures | map(attribute='seconds') | sum / count -%}
    {%- set sums = namespace(spread=0, slope=0) -%}
    {%- for one in measures -%}
        {%- set sums.spread = sums.spread + (one.rows - rows) ** 2 -%}
        {%- set sums.slope = sums.slope + (one.rows - rows) * (one.seconds - seconds) -%}
    {%- endfor -%}
    {%- if sums.spread <= count * (0.1 * rows) ** 2 -%} {{ return(none) }} {%- endif -%}
    {%- set slope = sums.slope / sums.spread -%}
    {#- A line that meets zero below is one of barriers without a fixed part. -#}
    {%- if slope * rows > seconds -%} {{ return({'fixed': 0, 'per_row': seconds / rows}) }} {%- endif -%}
    {{ return({'fixed': seconds - slope * rows, 'per_row': slope}) }}
{% endmacro %}


{#-
    How long a barrier took that has read a range: {
      'rows', 'seconds',
      'limit': the rate limit of its plan,
      'cold': whether it was the first one of its run, which also waits for a session that begins to work
    }
-#}
{% macro new_measure(rows, seconds, limit, cold) %}
    {{ return({'rows': rows, 'seconds': [seconds, 0.1] | max, 'limit': limit, 'cold': cold}) }}
{% endmacro %}


{#- Of a barrier of this run; none if it has read no range, and of one that an earlier run had planned. -#}
{% macro measure_barrier(barrier, cold) %}
    {%- set plan = barrier.plan -%}
    {%- if plan.kind != 'advance' or not plan.get('range_row_count')
            or plan.get('invocation_id', invocation_id) != invocation_id -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(dbt_backfill.new_measure(plan.range_row_count, barrier.range_seconds, plan.get('backfill_rate_limit'), cold)) }}
{% endmacro %}


{#- Of the last barriers of runs of before, as the history has them: an empty list where it is lost, and where nobody asks for them. -#}
{% macro read_measures(backfill, state) %}
    {%- if not backfill.options.barrier_seconds or state.get('missing') or not (state.get('committed') or {}).get('range_row_count') -%}
        {{ return([]) }}
    {%- endif -%}
    {%- set measures = [] -%}
    {%- set read = dbt_backfill.run_json('read how long the last barriers took', dbt_backfill.get_measures_sql(backfill, state), backfill.mv)[0] -%}
    {%- for one in read.get('measures') or [] -%}
        {%- do measures.append(dbt_backfill.new_measure(one.rows, one.seconds, one.get('limit'), one.cold)) -%}
    {%- endfor -%}
    {{ return(measures) }}
{% endmacro %}


{#- A barrier lasts from the commit of the one before it in the same run, and else from its plan, because it is not noted when it began. -#}
{% macro get_measures_sql(backfill, state) -%}
    begin
        declare measures string;
        begin
            declare exit handler for sqlstate '42P01' begin end;
            set measures = (
                select to_json(transform(
                    array_sort(collect_list(struct(epoch, range_row_count as rows, seconds, backfill_rate_limit as limit, cold))),
                    one -> struct(one.rows, one.seconds, one.limit, one.cold)
                ))
                from (
                    select
                        *,
                        before.committed_at is null or before.epoch <> epoch or before.invocation_id <> invocation_id as cold,
                        (unix_micros(committed_at) - unix_micros(if(cold, planned_at, before.committed_at))) / 1e6 as seconds
                    from (
                        select
                            *,
                            lag(struct(epoch + 1 as epoch, invocation_id, committed_at)) over (order by epoch) as before
                        from {{ backfill.barriers.render() }}
                        where epoch > {{ state.epoch - 5 }} and backfill_id = {{ dbt_backfill.string_literal(state.committed.backfill_id) }}
                    )
                )
                where kind = 'advance' and range_row_count > 0
            );
        end;
        select to_json(named_struct('measures', from_json(
            measures, 'array<struct<rows: bigint, seconds: double, limit: bigint, cold: boolean>>'
        )));
    end
{%- endmacro %}
