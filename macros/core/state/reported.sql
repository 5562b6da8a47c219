{#-
    The macros of this file return the data of the plots of `backfill_report`, in addition to get_progress_sql. A plot has room for 80 groups of
    barriers and 256 groups of vnodes per MV. A group is a row with the sums over consecutive barriers or vnodes. `backfills`: see state/progress.sql.
-#}


{#-
    Return a select of the groups of barriers of each MV, with the columns
      'relation', 'first_epoch', 'last_epoch', 'barriers': the number of barriers, 'kinds', 'begun_at', 'committed_at',
      'row_count', 'upstream_row_count': after the last barrier of the group,
      'row_count_before': the row_count before the first barrier of the group,
      'range_row_count', 'changed_row_count', 'deleted_row_count': the sums of the group, 'rate_limit': the rate limit of the last barrier,
      'planning': the seconds from the previous commit to the plan (observing, staging the changes and checking the keys), if the same invocation
        made both,
      'executing': the seconds from the plan to the commit,
      'reading': the seconds of planning and executing, only of barriers that read a range,
      'delay': the most seconds between the commit of a new upstream version and the barrier that read this version,
      'notable': the last barriers that are neither an advance nor a fill
-#}
{% macro get_barrier_groups_sql(backfills) -%}
        with states as (
        {{ dbt_backfill.get_states_sql(backfills) }}
    ),
    measured as (
        {{ dbt_backfill.get_measured_sql() }}
    ),
    barriers as (
        {{ dbt_backfill._get_reported_barriers_sql(backfills) }}
    )
    select
        relation,
        min(epoch) as first_epoch, max(epoch) as last_epoch, count(*) as barriers,
        array_sort(collect_set(kind)) as kinds,
        min(begun_at) as begun_at, max(committed_at) as committed_at,
        min_by(row_count_before, epoch) as row_count_before, max_by(row_count, epoch) as row_count,
        max_by(upstream_row_count, epoch) as upstream_row_count,
        sum(range_row_count) as range_row_count, sum(changed_row_count) as changed_row_count, sum(deleted_row_count) as deleted_row_count,
        max_by(backfill_rate_limit, epoch) as rate_limit,
        sum(planning) as planning, sum(executing) as executing,
        sum(coalesce(planning, 0) + executing) filter (where range_row_count > 0) as reading,
        max(delay) as delay,
        sort_array(collect_list(struct(epoch, kind, reason, committed_at)) filter (where notable and newest <= 80)) as notable
    from (
        select
            *,
            greatest(count(*) over (partition by relation) / 80, 1) as size,
            row_number() over (partition by relation order by epoch) as number,
            row_number() over (partition by relation, notable order by epoch desc) as newest
        from barriers
        where committed_at is not null
    )
    group by relation, floor((number - 1) / size)
{%- endmacro %}


{#- Return a select of one row per barrier, with the total number of rows that had been read at its end. The history does not store this total. A
    reset or a sweep starts a new total. A barrier after the last start has the number in the state minus the rows that later barriers read. An
    earlier barrier has the sum of the rows that were read since its total started; null if this start is not known. -#}
{% macro _get_reported_barriers_sql(backfills) -%}
    {%- set more = {
        'reason': 'string', 'upstream_row_count': 'bigint', 'changed_row_count': 'bigint', 'deleted_row_count': 'bigint',
        'backfill_rate_limit': 'bigint', 'sources': 'array<struct<' ~ dbt_backfill.source_fields() | join(': string, ') ~ ': string>>',
    } -%}
    select
        *,
        row_count - moved as row_count_before,
        kind not in ('create', 'advance', 'fill') as notable,
        nullif({{ dbt_backfill._seconds_between('begun_at', 'planned_at') }}, 0) as planning,
        {{ dbt_backfill._seconds_between('planned_at', 'committed_at') }} as executing,
        if(
            followed.version <> lag(followed.version) over (partition by relation order by epoch),
            {{ dbt_backfill._seconds_between('try_cast(followed.committed_at as timestamp_ltz)', 'committed_at') }}, null
        ) as delay
    from (
        select
            *,
            case
                when era = max(era) over (partition by relation)
                    then total_row_count - sum(moved) over (partition by relation, era) + moved_so_far
                when min_by(kind, epoch) over (partition by relation, era) in ('create', 'adopt', 'replace', 'reset', 'sweep')
                    then moved_so_far
            end as row_count
        from (
            select *, sum(moved) over (partition by relation, era order by epoch) as moved_so_far
            from (
                select
                    timed.*,
                    {{ dbt_backfill.followed_source('timed.sources') }} as followed,
                    if(timed.kind = 'advance', coalesce(timed.range_row_count, 0), 0) as moved,
                    count_if(timed.kind not in ('advance', 'fill', 'reanchor', 'abandon'))
                        over (partition by timed.relation order by timed.epoch) as era,
                    measured.row_count as total_row_count
                from ({{ dbt_backfill.get_timed_barriers_sql(backfills, more) }}) as timed
                join measured on timed.relation = measured.relation and timed.backfill_id = measured.barrier.backfill_id
            )
        )
    )
{%- endmacro %}


{#- Return the seconds between two times: 0 if `until` is earlier, because they may come from different clocks; null if one is null. -#}
{% macro _seconds_between(since, until) -%}
    if({{ until }} < {{ since }}, 0, (unix_micros({{ until }}) - unix_micros({{ since }})) / 1e6)
{%- endmacro %}


{#- Return a select of the vnodes of each MV: 'relation', 'first_vnode', 'last_vnode', 'vnodes', 'finished', 'begun', 'row_count', 'progress'. -#}
{% macro get_vnode_groups_sql(backfills) -%}
    select
        relation,
        min(vnode) as first_vnode, max(vnode) as last_vnode, count(*) as vnodes,
        count_if(backfill_finished) as finished, count_if(backfill_finished or current_pos is not null) as begun,
        sum(row_count) as row_count, avg(progress) as progress
    from (
        select *, greatest(count(*) over (partition by relation) / 256, 1) as size
        from ({{ dbt_backfill.get_progress_of_vnodes_sql(backfills) }})
    )
    group by relation, floor(vnode / size)
{%- endmacro %}


{#- Return a select of the newest rate limits that users have set for MVs: 'relation', 'value', 'set_by', 'set_at'. -#}
{% macro get_rate_limits_sql(backfills) -%}
    with states as (
        {{ dbt_backfill.get_states_sql(backfills) }}
    )
    select * except (newest)
    from (
        select
            states.relation, controls.value, controls.set_by, controls.set_at,
            row_number() over (partition by states.relation order by controls.set_at desc) as newest
        from states
        join (
            {%- for backfill in backfills %}
            {{- '\n            union all' if not loop.first }}
            {{ dbt_backfill.get_controls_sql(backfill) }}
            {%- endfor %}
        ) as controls
        on states.relation = controls.relation and get_json_object(states.last, '$.backfill_id') = controls.backfill_id
    )
    where newest <= 80
{%- endmacro %}
