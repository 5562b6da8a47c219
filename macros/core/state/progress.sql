{#-
    The macros of this file return SQL that shows users the progress of MVs: one row per MV, or one row per vnode. The SQL reads the progress tables
    and, if they exist, the histories and the controls. `backfills`: a list of {
      'model', 'generation': the values of the first columns,
      'relations': see get_relations,
      'has_history', 'has_controls': true if these tables exist and can be read,
      'ruled_by': the name of the MV whose controls apply,
      'rate_limit': the rate limit of the config, or none
    }
-#}


{#- Return the columns of get_progress_sql, in order: {name: type}. -#}
{% macro progress_of_mv_columns() %}
    {{ return({
        'model': 'string', 'relation': 'string', 'generation': 'string', 'backfill_finished': 'boolean', 'progress': 'double',
        'row_count': 'bigint', 'upstream_row_count': 'bigint', 'rows_left': 'bigint', 'rows_per_second': 'double',
        'seconds_left': 'double', 'epoch': 'bigint', 'kind': 'string', 'upstream_version': 'string', 'committed_at': 'timestamp_ltz',
        'lag_seconds': 'bigint', 'rows_changed': 'bigint', 'rows_deleted': 'bigint', 'vnode_count': 'int', 'vnodes_finished': 'int',
        'planned': 'string', 'invocation_id': 'string', 'mode': 'string', 'sweeping': 'boolean', 'filling': 'string',
        'paused': 'boolean', 'rate_limit': 'bigint', 'ruled_by': 'string', 'set_by': 'string', 'set_at': 'timestamp_ltz',
    }) }}
{% endmacro %}


{#- Return the columns of get_progress_of_vnodes_sql, in order: {name: type}. -#}
{% macro progress_of_vnode_columns() %}
    {{ return({
        'model': 'string', 'relation': 'string', 'generation': 'string', 'vnode': 'int', 'backfill_finished': 'boolean',
        'progress': 'double', 'row_count': 'bigint', 'upstream_row_count': 'bigint', 'current_pos': 'string', 'epoch': 'bigint',
        'upstream_version': 'string',
    }) }}
{% endmacro %}


{#- Return a select of one row per MV. `progress` is the share of the upstream's rows that were read. While columns are being filled, `progress` is
    the share of the MV's rows for which the columns were filled. Rows that were deleted upstream after they were read still count. So the share is
    kept below 1 until no rows are left to read. `also`: the SQL of one more column, over a row of `measured`, see get_measured_sql. -#}
{% macro get_progress_sql(backfills, also=none) -%}
    {#- These values are computed here. All other values are columns of `measured` with the same names. -#}
    {%- set values = {
        'backfill_finished': 'complete', 'progress': dbt_backfill._progress_expression('rows_done', 'rows_total'),
        'upstream_row_count': 'barrier.upstream_row_count', 'rows_left': 'left_to_read',
        'rows_per_second': 'if(complete, null, rows_per_second)',
        'seconds_left': 'if(complete, 0, if(allowed.rate_limit = 0, null, left_to_read / rows_per_second))',
        'kind': 'barrier.kind', 'committed_at': 'barrier.committed_at',
        'lag_seconds': 'timestampdiff(second, try_cast(get(barrier.sources, 0).committed_at as timestamp_ltz), current_timestamp())',
        'rows_changed': 'barrier.changed_row_count', 'rows_deleted': 'barrier.deleted_row_count',
        'invocation_id': 'barrier.invocation_id', 'mode': 'barrier.backfill_mode',
        'filling': "if(is_filling, array_join(barrier.fills.name, ', '), null)", 'paused': "allowed.ruled_by = 'pause'",
        'rate_limit': 'allowed.rate_limit', 'ruled_by': 'allowed.ruled_by', 'set_by': 'allowed.set_by', 'set_at': 'allowed.set_at',
    } -%}
    {%- set columns = [] -%}
    {%- for name, type in dbt_backfill.progress_of_mv_columns().items() -%}
        {%- do columns.append('cast(' ~ values.get(name, 'measured.' ~ name) ~ ' as ' ~ type ~ ') as ' ~ name) -%}
    {%- endfor -%}
    with states as (
        {{ dbt_backfill.get_states_sql(backfills) }}
    ),
    measured as (
        {{ dbt_backfill.get_measured_sql() }}
    ),
    {#- Compute the median over the last ten barriers whose range is of the same kind as the next range (of a fill, of a sweep, or neither). A barrier
        that a later run completed may seem to last for days, but a single long barrier hardly changes the median. #}
    rates as (
        select relation, percentile(rate, 0.5) as rows_per_second
        from (
            select
                timed.relation,
                timed.range_row_count / greatest((unix_micros(timed.committed_at) - unix_micros(timed.begun_at)) / 1e6, 0.001) as rate,
                row_number() over (partition by timed.relation order by timed.epoch desc) as number
            from (
                {{ dbt_backfill.get_timed_barriers_sql(backfills) }}
            ) as timed
            join measured
                on timed.relation = measured.relation and timed.backfill_id = measured.barrier.backfill_id
                and timed.kind = if(measured.is_filling, 'fill', 'advance')
                and coalesce(timed.sweeps, false) = measured.sweeping
            where timed.range_row_count > 0
        )
        where number <= 10
        group by relation
    ),
    allowed as (
        {{ dbt_backfill._get_allowed_sql(backfills) }}
    )
    select
        {{ (columns + ([also] if also else [])) | join(',\n        ') }}
    from measured
    join allowed on measured.relation = allowed.relation
    left join rates on measured.relation = rates.relation
{%- endmacro %}


{#- Return the entry of a plan's `sources` from which the MV reads changes: the change table, or else the upstream. -#}
{% macro followed_source(sources) -%}
    coalesce(get(filter({{ sources }}, source -> source.role = 'feed'), 0), get({{ sources }}, 0))
{%- endmacro %}


{#- Return a share from 0 to 1. It is 1 only if the column `complete` is true. -#}
{% macro _progress_expression(done, total) -%}
    case when complete then 1 when coalesce({{ total }}, 0) = 0 then 0 else least({{ done }} / {{ total }}, 0.999) end
{%- endmacro %}


{#- Return the SQL of the first columns, which identify the MV. -#}
{% macro _get_names_sql(backfill) -%}
    {{ dbt_backfill.string_literal(backfill.model) }} as model,
        {{ dbt_backfill.string_literal(backfill.relations.mv.render()) }} as relation,
        cast({{ dbt_backfill.string_literal(backfill.generation) }} as string) as generation
{%- endmacro %}


{#- Return a select of one row per MV: the values that all its vnodes have in common, and the sums over its vnodes. -#}
{% macro get_states_sql(backfills) -%}
    {%- for backfill in backfills %}
    {{- '\n    union all\n    ' if not loop.first }}select
        {{ dbt_backfill._get_names_sql(backfill) }},
        {{ dbt_backfill.string_literal(backfill.ruled_by) }} as controlled,
        cast({{ 'null' if backfill.rate_limit is none else backfill.rate_limit }} as bigint) as configured,
        min(epoch) as epoch, cast(sum(row_count) as bigint) as row_count, max(upstream_version) as upstream_version,
        bool_or(dirty) as dirty, bool_and(backfill_finished) as finished,
        count(*) as vnode_count, count_if(backfill_finished) as vnodes_finished,
        max(plan_kind) as planned, max(last) as last, max(unwritten) as unwritten
    from {{ backfill.relations.progress.render() }}
    {%- endfor %}
{%- endmacro %}


{#- Return a select of the rows of `states` with more columns: 'barrier', 'is_filling', 'sweeping', 'complete', 'rows_done', 'rows_total' and
    'left_to_read', by the rules of get_filling, is_sweeping and the test backfill_complete. -#}
{% macro get_measured_sql() -%}
    {%- set fields = dbt_backfill.string_literal(
        'backfill_id string, kind string, fills array<struct<name string>>, last_fill boolean, filled_row_count bigint, sweeps boolean, '
            ~ 'upstream_row_count bigint, changed_row_count bigint, deleted_row_count bigint, backfill_mode string, '
            ~ 'invocation_id string, committed_at timestamp_ltz, sources array<struct<' ~ dbt_backfill.source_fields() | join(': string, ') ~ ': string>>'
    ) -%}
    select *, if(complete, 0, greatest(rows_total - rows_done, 0)) as left_to_read
    from (
        select
            *,
            all_read and not is_filling as complete,
            if(is_filling, coalesce(barrier.filled_row_count, 0), row_count) as rows_done,
            if(is_filling, row_count, barrier.upstream_row_count) as rows_total
        from (
            select
                *,
                finished and not dirty and coalesce(planned not in ('reset', 'abandon'), true) as all_read,
                not finished and (barrier.kind = 'sweep' or coalesce(barrier.sweeps, false)) as sweeping,
                size(coalesce(barrier.fills, array())) > 0 and (dirty or not coalesce(barrier.last_fill, false)) as is_filling
            from (
                select * except (last), from_json(last, {{ fields }}) as barrier
                from states
            )
        )
    )
{%- endmacro %}


{#-
    Return a select over `measured` of how many rows the next barrier of each MV may read, by the rules of get_ruling_allowance. The columns are
    'rate_limit' (0 for no rows, null for any number), 'ruled_by' (`config`, `throttle` or `pause`), 'set_by' and 'set_at' (both null for `config`).
-#}
{% macro _get_allowed_sql(backfills) -%}
    select
        measured.relation,
        if(rows <> 'default', cast(rows as bigint), configured) as rate_limit,
        case when rows = '0' then 'pause' when rows <> 'default' then 'throttle' else 'config' end as ruled_by,
        if(rows <> 'default', set_by, null) as set_by,
        if(rows <> 'default', set_at, null) as set_at
    from measured
    left join (
        select
            owner.relation, max_by(value, controls.set_at) as rows, max_by(set_by, controls.set_at) as set_by,
            max(controls.set_at) as set_at
        from (
            select '' as relation, '' as backfill_id, '' as value, '' as set_by, current_timestamp() as set_at from range(0)
            {%- for backfill in backfills if backfill.has_controls %}
            union all
            {{ dbt_backfill.get_controls_sql(backfill) }}
            {%- endfor %}
        ) as controls
        join measured as owner on controls.relation = owner.relation and controls.backfill_id = owner.barrier.backfill_id
        group by owner.relation
    ) as controls on measured.controlled = controls.relation
{%- endmacro %}


{#- Return a select of the rate limits that users have set for an MV, with the id of the MV's backfill, see get_control_statement. -#}
{% macro get_controls_sql(backfill) -%}
    select
        {{ dbt_backfill.string_literal(backfill.relations.mv.render()) }} as relation, backfill_id,
        if(control = 'pause', if(value = 'true', '0', 'default'), value) as value, set_by, cast(set_at as timestamp_ltz) as set_at
    from {{ backfill.relations.controls.render() }}
{%- endmacro %}


{#- Return a select of the last barriers of each MV, from the history and from the progress table, with the time when each barrier began. This is the
    time of the previous commit if the same invocation made both barriers, else the time of the barrier's plan. `more`: further columns, {name: type},
    which both the history and the stored barriers have. -#}
{% macro get_timed_barriers_sql(backfills, more={}) -%}
    {%- set columns = dict({
        'backfill_id': 'string', 'epoch': 'bigint', 'kind': 'string', 'sweeps': 'boolean', 'range_row_count': 'bigint',
        'invocation_id': 'string', 'planned_at': 'timestamp_ltz', 'committed_at': 'timestamp_ltz',
    }, **more) -%}
    {%- set fields, cast = [], [] -%}
    {%- for name, type in columns.items() -%}
        {%- do fields.append(name ~ ' ' ~ type) -%}
        {%- do cast.append('cast(' ~ name ~ ' as ' ~ type ~ ') as ' ~ name) -%}
    {%- endfor -%}
    select
        *,
        lag(struct(epoch + 1 as epoch, invocation_id, committed_at)) over (partition by relation, backfill_id order by epoch) as before,
        coalesce(if(before.epoch = epoch and before.invocation_id = invocation_id, before.committed_at, null), planned_at) as begun_at
    from (
        select distinct *
        from (
            select relation, barrier.*
            from (
                select relation, from_json(text, {{ dbt_backfill.string_literal(fields | join(', ')) }}) as barrier
                from (select relation, explode(array_append(coalesce(unwritten, array()), last)) as text from states)
            )
            {%- for backfill in backfills if backfill.has_history %}
            union all
            select {{ dbt_backfill.string_literal(backfill.relations.mv.render()) }}, {{ cast | join(', ') }}
            from {{ backfill.relations.barriers.render() }}
            {%- endfor %}
        )
    )
{%- endmacro %}


{#- Return a select of one row per vnode. The upstream's rows are not counted per vnode, so every vnode is assumed to have the same number of rows.
    Vnodes at the same position have the same progress. -#}
{% macro get_progress_of_vnodes_sql(backfills) -%}
    {%- set rows_done = 'if(is_filling, barrier.filled_row_count, sum(row_count) over same_position / count(*) over same_position)' -%}
    {%- set values = {
        'backfill_finished': 'complete',
        'progress': dbt_backfill._progress_expression(rows_done, 'if(is_filling, total_row_count, about)'),
        'upstream_row_count': 'if(complete, row_count, greatest(round(about), row_count))',
    } -%}
    {%- set columns = [] -%}
    {%- for name, type in dbt_backfill.progress_of_vnode_columns().items() -%}
        {%- do columns.append('cast(' ~ values.get(name, name) ~ ' as ' ~ type ~ ') as ' ~ name) -%}
    {%- endfor -%}
    with states as (
        {%- for backfill in backfills %}
        {{- '\n        union all' if not loop.first }}
        select
            {{ dbt_backfill._get_names_sql(backfill) }},
            vnode, epoch, row_count, upstream_version, dirty, backfill_finished as finished, plan_kind as planned,
            max(last) over () as last, count(*) over () as vnode_count, sum(row_count) over () as total_row_count,
            nullif(to_json(
                struct(* except ({{ dbt_backfill.progress_columns().keys() | join(', ') }})), map('ignoreNullFields', 'true')
            ), '{}') as current_pos
        from {{ backfill.relations.progress.render() }}
        {%- endfor %}
    ),
    measured as (
        select *, barrier.upstream_row_count / vnode_count as about from ({{ dbt_backfill.get_measured_sql() }})
    )
    select
        {{ columns | join(',\n        ') }}
    from measured
    window same_position as (partition by relation, finished, current_pos)
{%- endmacro %}
