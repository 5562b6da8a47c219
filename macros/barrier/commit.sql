{#-
    Step 5 of a barrier: the progress moves to the plan's epoch by one MERGE that is guarded by the epoch before
    it. The plan's row is then completed with what is known by now. Returns the committed state.

    Each barrier adds a file to Delta's table of barriers; every 50 of them are made one. Delta's own auto-compaction
    looks for small files at every commit, which made a commit half as dear again.

    Arguments:
      counts (dict): as get_merge_counts returned it; empty if the barrier had no changes.
-#}
{% macro commit_barrier(backfill, plan, counts={}) %}
    {%- set is_iceberg = dbt_backfill.get_file_format() == 'iceberg' -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.get_commit_sql(backfill, plan) }};
            merge into {{ backfill.barriers.render() }} as barriers
            using (
                select
                    {{ plan.epoch }} as epoch,
                    {{ counts.get('changed', 0) }} as changed,
                    {{ counts.get('deleted', 0) }} as deleted
                    {%- if is_iceberg %},
                    (select max(cast(snapshot_id as string)) from {{ backfill.mv.render() }}.refs where name = 'main') as snapshot
                    {%- endif %}
            ) as committed
            on barriers.epoch = committed.epoch and barriers.epoch = {{ plan.epoch }}
                and barriers.plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }}
            when matched and barriers.committed_at is null then update set
                committed_at = current_timestamp(),
                changed_row_count = committed.changed,
                {%- if is_iceberg %}
                mv_snapshot_id = committed.snapshot,
                {%- endif %}
                deleted_row_count = committed.deleted;
            {%- if not is_iceberg and plan.epoch % 50 == 0 %}
            execute immediate {{ dbt_backfill.string_literal('optimize ' ~ backfill.barriers.render()) }};
            {%- endif %}
            {{ dbt_backfill.get_drop_stages_sql(backfill.stages) }}
            {{ dbt_backfill.get_state_sql(backfill) }};
        end
    {%- endset -%}
    {%- set state = dbt_backfill.run_json('commit the barrier ' ~ plan.epoch, sql)[0] -%}
    {%- set given_up = state.get('dirty') and plan.kind != 'abandon' -%}
    {#- A reset that was overtaken may have emptied the MV anew: Iceberg replaces a table whatever happened to it. -#}
    {%- set overtaken = plan.kind == 'reset' and state.epoch > plan.epoch -%}
    {%- if state.epoch < plan.epoch or overtaken
            or state.epoch == plan.epoch and (given_up or state.committed.plan_id != plan.plan_id) -%}
        {%- do dbt_backfill.refuse_overtaken(plan) -%}
    {%- endif -%}
    {{ return(state) }}
{% endmacro %}


{% macro get_commit_sql(backfill, plan) -%}
    {%- if plan.kind == 'reset' and (dbt_backfill.is_abandoned_reset(backfill.committed)
            or not dbt_backfill._has_shape_of(backfill.committed, plan)) -%}
        {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {{ dbt_backfill.get_narrowed_progress_sql(backfill, plan) }};
        {% endif -%}
        {{ dbt_backfill.get_replace_progress_sql(backfill, plan) }}
    {%- else -%}
    merge into {{ backfill.progress.render() }} as progress
    using (
        select epoch, upstream_version, vnode_row_counts
        from {{ backfill.barriers.render() }}
        where epoch = {{ plan.epoch }} and plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }} and kind = '{{ plan.kind }}'
    ) as plan
    on progress.epoch = plan.epoch - 1
    when matched then update set
        {%- for column, value in dbt_backfill._committed_columns(plan).items() %}
        {{ column }} = {{ value }},
        {%- endfor %}
        epoch = plan.epoch
    {%- endif -%}
{%- endmacro %}


{#- The columns of the progress table that a barrier of the plan's kind sets. -#}
{% macro _committed_columns(plan) %}
    {%- if plan.kind == 'abandon' -%} {{ return({'dirty': 'true'}) }} {%- endif -%}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set positions = dbt_backfill.position_columns(keys) -%}
    {%- set columns = {'upstream_version': 'plan.upstream_version', 'dirty': 'false'} -%}
    {%- if plan.kind == 'reset' -%}
        {%- do columns.update({'backfill_finished': 'false', 'row_count': 'cast(0 as bigint)'}) -%}
        {%- for key in keys -%}
            {%- do columns.update({positions[loop.index0]: 'cast(null as ' ~ key.type ~ ')'}) -%}
        {%- endfor -%}
    {%- elif plan.kind == 'advance' and (plan.last_range or plan.get('range_row_count') is not none) -%}
        {%- set moves = 'true' if plan.get('vnodes') is none else 'progress.vnode in (' ~ plan.vnodes | join(', ') ~ ')' -%}
        {%- do columns.update({
            'backfill_finished': 'progress.backfill_finished or ' ~ moves if plan.last_range else 'progress.backfill_finished',
            'row_count': 'progress.row_count + coalesce(plan.vnode_row_counts[progress.vnode], 0)',
        }) -%}
        {%- set passed = dbt_backfill._passes(plan, keys, moves) -%}
        {%- for column in positions if not plan.last_range -%}
            {%- set moved = 'if(' ~ passed ~ ', ' ~ plan.range_high[loop.index0] ~ ', progress.' ~ column ~ ')' -%}
            {%- do columns.update({column: moved}) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(columns) }}
{% endmacro %}


{#-
    Whether the end of the plan's range is a new position of a vnode. Where positions differ, because only some vnodes
    were read before, the range begins at the lowest of them and may end below others: these stay where they are.
-#}
{% macro _passes(plan, keys, moves) %}
    {%- if moves == 'true' or plan.last_range -%} {{ return(moves) }} {%- endif -%}
    {%- set positions = dbt_backfill.position_columns(keys, 'progress.') -%}
    {{ return(moves ~ ' and (' ~ positions[0] ~ ' is null or '
        ~ dbt_backfill.tuple_predicate(positions, '<', plan.range_high) ~ ')') }}
{% endmacro %}


{#- Whether two plans make progress tables with the same columns and vnodes. -#}
{% macro _has_shape_of(left, right) %}
    {{ return(left.upstream_key == right.upstream_key and left.key_types == right.key_types
        and left.vnode_count == right.vnode_count) }}
{% endmacro %}


{#-
    Whether a committed plan is a reset that was given up (it reads no version). The MV may be an empty one of its columns,
    and the progress table has the key and vnodes of the plan before it: only another reset can follow.
-#}
{% macro is_abandoned_reset(plan) %}
    {{ return(plan.kind == 'abandon' and plan.get('upstream_version') is none) }}
{% endmacro %}


{#-
    Statement that replaces the progress table by one for another key or vnode_count, all NotStarted, if the
    epoch before the plan's is committed.
-#}
{% macro get_replace_progress_sql(backfill, plan) -%}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    create or replace table {{ backfill.progress.render() }}
    {{ dbt_backfill.table_clauses(backfill.progress, dbt_backfill.state_table_properties(keys)) }}
    as
    select *
    from (
        {{ dbt_backfill.get_not_started_sql(
            keys, plan.vnode_count, plan.epoch, dbt_backfill.string_literal(plan.backfill_id)
        ) }}
    )
    where {{ dbt_backfill.get_fence(backfill, plan) }}
{%- endmacro %}


{#-
    Statement that takes the columns of the position off the progress table, and changes nothing else: whatever
    reads the state can read it in between. A Hive metastore refuses to replace a table by one with a column that
    is of another type than the column at its place was, unless `hive.metastore.disallow.incompatible.col.type.changes`
    is off; new columns behind those that stay it takes. (Delta tells the metastore nothing of its columns.)
-#}
{% macro get_narrowed_progress_sql(backfill, plan) -%}
    create or replace table {{ backfill.progress.render() }}
    {{ dbt_backfill.table_clauses(backfill.progress, dbt_backfill.state_table_properties([])) }}
    as
    select {{ dbt_backfill.progress_columns() | join(', ') }}
    from {{ backfill.progress.render() }}
    where {{ dbt_backfill.get_fence(backfill, plan) }}
{%- endmacro %}
