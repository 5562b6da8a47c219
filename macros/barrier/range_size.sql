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
