{#-
    Run a statement that writes the MV. With `may_give_up`, of a plan which an earlier run left while the upstream has gone on: where
    it fails, that is told, so that the plan can be given up, and nothing is raised. (Jinja catches no error; a script of SQL
    does.) So a row on which the query or a constraint fails does not hold the MV for ever once it was corrected upstream.

    Returns {'may_give_up', 'failed': the step if it failed, none as a rule, 'result': dbt's table, none with may_give_up}.
-#}
{% macro run_merge(backfill, work, step, sql) %}
    {%- if not work.may_give_up -%}
        {{ return({'may_give_up': false, 'failed': none, 'result': dbt_backfill.run_table(step, sql, backfill.mv)}) }}
    {%- endif -%}
    {%- set script -%}
        begin
            {{ dbt_backfill.declare_failure_handlers() }}
            {{ sql }};
            select to_json(named_struct('done', true));
        end
    {%- endset -%}
    {%- set failed = dbt_backfill.find_failure(backfill, step, dbt_backfill.run_json(step, script)[0]) -%}
    {{ return({'may_give_up': true, 'failed': failed, 'result': none}) }}
{% endmacro %}


{#- The handlers of such a script; Delta's conflicts with another run have a state of their own. -#}
{% macro declare_failure_handlers() -%}
    declare exit handler for sqlstate '2D521' begin select to_json(named_struct('conflict', true)); end;
    declare exit handler for sqlexception begin select to_json(named_struct('failed', true)); end;
{%- endmacro %}


{#- The step if its result is that of a handler, none if it is not. -#}
{% macro find_failure(backfill, step, result) %}
    {%- if result.get('conflict') -%}
        {%- do dbt_backfill.refuse(
            'another run or a compaction wrote to ' ~ backfill.mv.render() ~ ' while this one went on with its barrier',
            'Nothing is lost; run again to continue'
        ) -%}
    {%- endif -%}
    {{ return(step if result.get('failed') else none) }}
{% endmacro %}


{#- Whether the range of a plan is merged: there are rows in it, or, in a sweep, there may be some to take away. -#}
{% macro range_has_rows(plan) %}
    {{ return(plan.get('range_row_count') or plan.get('sweeps') and plan.get('range_row_count') is not none) }}
{% endmacro %}


{#-
    How many rows of the MV a MERGE wrote: {'changed', 'deleted'}, as numbers or SQL expressions for the commit.

    Delta returns that, but not from inside of a script, where it is null. Iceberg returns nothing and notes it in the summary of the
    snapshot that the MERGE made: the newest, or, where another MERGE of the barrier followed it, the one before.

    Arguments:
      counts (string): of which rows: 'changes', those of the stage, of which each one that the query returns is updated or inserted,
        and only the MERGE knows how many of the others there were to be deleted; 'all', of which nothing is known before; 'deleted'.
      merged (dict): what run_merge returned.
      staged (dict or none): as stage_changes returned it.
-#}
{% macro get_merge_counts(backfill, plan, counts, merged, staged=none) %}
    {%- set count = dbt_backfill.count_of_merge -%}
    {%- if counts == 'changes' -%}
        {{ return({'changed': staged.upserts, 'deleted': count(backfill, plan, merged, 'deleted') if staged.drops else 0}) }}
    {%- elif counts == 'deleted' -%}
        {{ return({'changed': 0, 'deleted': count(backfill, plan, merged, 'deleted')}) }}
    {%- endif -%}
    {{ return({
        'changed': count(backfill, plan, merged, 'updated') ~ ' + ' ~ count(backfill, plan, merged, 'inserted'),
        'deleted': count(backfill, plan, merged, 'deleted'),
    }) }}
{% endmacro %}


{#- `action`: `updated`, `inserted` or `deleted`. -#}
{% macro count_of_merge(backfill, plan, merged, action) -%}
    {%- if backfill.options.file_format == 'delta' -%}
        {%- set name = 'num_' ~ action ~ '_rows' -%}
        {%- if merged.may_give_up -%} {{ return('cast(null as bigint)') }} {%- endif -%}
        {%- set result = merged.result -%}
        {{ return(result[0][name] | int if result and name in result.column_names else 0) }}
    {%- endif -%}
    {%- set name = 'spark.merge-into.num-target-rows-' -%}
    {%- set range_follows = dbt_backfill.kind_reads_range(plan) and dbt_backfill.range_has_rows(plan) and not plan.at_once -%}
    {%- set sql -%}
        (
            select max(cast(summary['{{ name ~ action }}'] as bigint))
            from (
                select summary, row_number() over (order by committed_at desc) as number
                from {{ backfill.mv.render() }}.snapshots
                where summary['{{ name }}inserted'] is not null
            )
            where number = {{ 2 if range_follows or plan.get('touched') else 1 }}
        )
    {%- endset -%}
    {{ return(sql) }}
{%- endmacro %}


{#- The counts of a committed plan; without those that are not known. -#}
{% macro get_committed_counts(committed) %}
    {%- if committed.get('changed_row_count') is none -%} {{ return({}) }} {%- endif -%}
    {%- set counts = {'changed': committed.changed_row_count} -%}
    {%- if committed.get('deleted_row_count') is not none -%} {%- do counts.update({'deleted': committed.deleted_row_count}) -%} {%- endif -%}
    {{ return(counts) }}
{% endmacro %}


{#- The rows of a range, in addition to those of the stage, where one MERGE merges both. -#}
{% macro get_range_beside_changes_sql(backfill, state, plan) -%}
    {%- set keys = dbt_backfill.mv_columns(plan.key) | join(', ') %}
    union all
    {# As they are: from an alias of a column that a filter names, Spark derives that filter once more. #}
    select * except ({{ keys }}), {{ keys }}, false as __bf_dropped
    from (
        {{ dbt_backfill.get_range_rows_sql(backfill, state, plan) }}
    )
{%- endmacro %}


{#-
    One MERGE of changed rows. A key whose row the query no longer returns is deleted.

    `rows`: a select like that of the stage; `bounds`: where their keys lie, by literals that prune the target's files.
-#}
{% macro get_changes_merge_sql(backfill, plan, rows, bounds) -%}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns)) -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select *
        from (
            {{ rows }}
        )
        where {{ dbt_backfill.get_fence(backfill, plan) }} {{ 'and (__bf_dropped or ' ~ kept ~ ')' if kept }}
    ) as changes
    on {{ dbt_backfill.equal_keys(plan.key, 'mv.', 'changes.') }} and {{ bounds }}
    when matched and not changes.__bf_dropped then update set *
    when matched then delete
    when not matched and not changes.__bf_dropped then insert *
{%- endmacro %}


{#-
    Over the MV as `mv`: these keys and those of the range, by the first two columns of the key. That is more than there are,
    which is all that it has to be: what Spark makes of an OR of two such bounds, to push it down, grows with the square of
    their columns.
-#}
{% macro at_once_predicate(plan, staged) %}
    {%- set columns = dbt_backfill.mv_columns(plan.key, 'mv.')[:2] -%}
    {%- set low, high = plan.get('range_low'), none if plan.get('last_range') else plan.range_high -%}
    {%- if dbt_backfill.is_descending(plan.key) -%} {%- set low, high = high, low -%} {%- endif -%}
    {{ return('(' ~ dbt_backfill.bounds_predicate(columns, staged.low, staged.high) ~ ' or '
        ~ dbt_backfill.bounds_predicate(columns, low, high) ~ ')') }}
{% endmacro %}


{#- `low`, `high`: literals, of these columns or of more; none where it is open. -#}
{% macro bounds_predicate(columns, low, high) %}
    {%- set parts, count = [], columns | length -%}
    {%- if low -%} {%- do parts.append(dbt_backfill.tuple_predicate(columns, '>=', low[:count])) -%} {%- endif -%}
    {%- if high -%} {%- do parts.append(dbt_backfill.tuple_predicate(columns, '<=', high[:count])) -%} {%- endif -%}
    {{ return('(' ~ (parts | join(' and ') or 'true') ~ ')') }}
{% endmacro %}


{#-
    One MERGE of Q(upstream @ S where P_k < pk <= P_k+1). A row that is there already was written by this same plan. The
    literals in ON prune the target to nothing.
-#}
{% macro get_range_merge_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns), '__bf_row.') -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        {{ dbt_backfill.get_range_rows_sql(backfill, state, plan) }}
        where {{ dbt_backfill.get_fence(backfill, plan) }} {{ 'and ' ~ kept if kept }}
    ) as range
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'range.') }}
        and {{ dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), plan) }}
    {{ dbt_backfill.get_iceberg_matched_clause('update set *') }}
    when not matched then insert *
{%- endmacro %}


{#- The query's rows of the plan's range, or of another one. -#}
{% macro get_range_rows_sql(backfill, state, plan, window=none) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(
        dbt_backfill.get_range_read(backfill, plan), window or plan, state, backfill, plan.key
    ) -%}
    {{ dbt_backfill.get_merged_query_sql(plan.query, backfill.upstream.relation, scan) }}
{%- endmacro %}


{#- The query as the source of a MERGE. -#}
{% macro get_merged_query_sql(query, upstream, scan) -%}
    {{ dbt_backfill.as_new_columns(dbt_backfill.get_query_sql(query, upstream, scan)) }}
{%- endmacro %}


{#-
    A select for the source of a MERGE, whose columns are taken out of a struct, so that they are new ones: over a relation
    with char(n) columns Spark puts a projection that pads them, with other columns, when Delta has already resolved the
    clauses of its MERGE. The optimizer takes the struct away.
-#}
{% macro as_new_columns(rows) -%}
    select __bf_row.*
    from (
        select struct(*) as __bf_row
        from (
            {{ rows }}
        )
    )
{%- endmacro %}


{#-
    One MERGE of the rows by which the MV differs from Q(upstream @ S) in a window of keys: the range of a barrier in a sweep, or the
    window of a fill. Its source is a select like that of the stage: the query's rows that the MV has not, and the keys that only the MV
    has.

    Arguments:
      window (dict): the bounds, as a plan has those of its range.
-#}
{% macro get_comparing_merge_sql(backfill, state, plan, window) -%}
    {%- set keys, names, columns, coalesced = plan.key, dbt_backfill.mv_columns(plan.key), dbt_backfill.get_table_columns(backfill.mv), [] -%}
    {%- for name in names -%}
        {%- do coalesced.append('coalesce(query.' ~ name ~ ', present.' ~ name ~ ') as ' ~ name) -%}
    {%- endfor -%}
    {%- set present = dbt_backfill.get_range_scan_sql(backfill.mv.render(), window, state, backfill, dbt_backfill.get_mv_keys(keys)) -%}
    {#- Also rows that the table has already, from who wrote it before. -#}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns), '__bf_row.') -%}
    {%- set differing -%}
        select
            query.* except ({{ names | join(', ') }}),
            {{ coalesced | join(',\n            ') }},
            query.{{ names[0] }} is null as __bf_dropped
        from (
            {{ dbt_backfill.get_range_rows_sql(backfill, state, plan, window) }}
            {{ 'where ' ~ kept if kept }}
        ) as query
        full outer join (
            {{ dbt_backfill.as_new_columns(present) }}
        ) as present
        on {{ dbt_backfill.equal_keys(keys, 'query.', 'present.') }}
        where query.{{ names[0] }} is null or present.{{ names[0] }} is null
            or {{ dbt_backfill.rows_differ(columns, 'present', 'query') }}
    {%- endset -%}
    {{ dbt_backfill.get_changes_merge_sql(backfill, plan, differing, dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), window)) }}
{%- endmacro %}


{#-
    One MERGE that compares the whole MV, also above the position, with Q(upstream @ S where pk <= current_pos), and merges the
    difference. It reads the MV as the target of the MERGE alone, so that another writer's rows with a null
    in the key are removed too, and every concurrent write is a conflict.
-#}
{% macro get_reanchor_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    {%- set read = dbt_backfill.get_planned_read(backfill, plan) -%}
    {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, backfill, keys) -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {#- Not in the query: where Spark sees that the prefix is empty, it drops it with all its conditions. -#}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, columns) -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        {#- Columns that were added to the MV are its last ones, wherever the query has them. #}
        select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }}
        from (
            {{ dbt_backfill.get_merged_query_sql(plan.query, backfill.upstream.relation, scan) }}
        )
        {%- if kept %}
        where {{ kept }}
        {%- endif %}
        union all
        {{ dbt_backfill.get_fence_over_no_rows_sql(columns, fence) }}
    ) as prefix
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'prefix.') }}
    when matched and {{ dbt_backfill.rows_differ(columns, 'mv', 'prefix') }} then update set *
    when not matched then insert *
    when not matched by source then delete
{%- endmacro %}


{#-
    One MERGE that removes the rows of the MV above the position that plans which were given up may have written. What they could
    write below it are changes like any other.
-#}
{% macro get_removal_sql(backfill, plan) -%}
    {%- set keys = plan.key -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select {{ dbt_backfill.mv_columns(keys) | join(', ') }}
        from {{ backfill.mv.render() }} as mv
        where ({{ dbt_backfill.touched_predicate(keys, plan) }}) and {{ dbt_backfill.get_fence(backfill, plan) }}
    ) as touched
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'touched.') }} and ({{ dbt_backfill.touched_predicate(keys, plan) }})
    when matched then delete
{%- endmacro %}


{#- The ranges above the position that given-up plans could write to, over the MV's columns as `mv`. -#}
{% macro touched_predicate(keys, plan) -%}
    {%- set windows = [] -%}
    {%- for high in plan.touched -%}
        {%- set window = {'range_low': plan.get('range_low'), 'range_high': high, 'last_range': high == []} -%}
        {%- do windows.append(dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), window)) -%}
    {%- endfor -%}
    {{ return(windows | join(' or ')) }}
{%- endmacro %}
