{#- Return the error handlers of a script that may fail. Delta reports a conflict with another run by its own SQLSTATE. -#}
{% macro declare_failure_handlers() -%}
    declare exit handler for sqlstate '2D521' begin select to_json(named_struct('conflict', true)); end;
    declare exit handler for sqlexception begin select to_json(named_struct('failed', true)); end;
{%- endmacro %}


{#- Return the name of the step if an error handler has ended the step, else none. Refuse to continue after a conflict. -#}
{% macro find_failure(backfill, step, result) %}
    {%- if result.get('conflict') -%}
        {%- do dbt_backfill.refuse('another run or a compaction wrote to ' ~ backfill.mv.render() ~ ' while this run executed its barrier',
            'Nothing is lost; run again to continue. If this repeats, let no other run and no compaction work at the same time',
            id='mv-written-during-barrier') -%}
    {%- endif -%}
    {{ return(step if result.get('failed') else none) }}
{% endmacro %}


{#-
    Return two parts of a MERGE into a Delta MV. They write a mark to Delta's log: 'column' adds the column `__bf_plan` with the mark to the source,
    and 'condition' compares this column with the mark. Delta's log contains the conditions of a MERGE, see read_foreign_write. On Iceberg both parts
    are empty. `mark`: the id of a plan; for a repair, the id of the committed plan and ` repair`. `source`: the alias of the source.
-#}
{% macro get_mark(relations, mark, source) %}
    {%- if relations.options.file_format != 'delta' -%} {{ return({'column': '', 'condition': ''}) }} {%- endif -%}
    {%- set text = dbt_backfill.string_literal(mark) -%}
    {{ return({'column': ', ' ~ text ~ ' as __bf_plan', 'condition': ' and ' ~ source ~ '.__bf_plan = ' ~ text}) }}
{% endmacro %}


{#-
    Return one MERGE of changed rows. The MERGE deletes a key if the query no longer returns a row of the key.

    Arguments:
      rows (string): a select of the MV's columns and `__bf_dropped`, such as a select from the stage's second view.
      bounds (string): a condition on the MV (alias `mv`) that the keys of these rows fulfil. Its literals prune the files of the MV.
      range (string or none): a select of the rows of a range that the same MERGE writes.
      inserts (boolean): false if the MV has all these keys. Then the MERGE has no clause NOT MATCHED, and Spark can broadcast the rows to the scan of
        the MV.
-#}
{% macro get_changes_merge_sql(backfill, plan, rows, bounds, range=none, inserts=true) -%}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns)) -%}
    {%- set mark = dbt_backfill.get_mark(backfill, plan.plan_id, 'changes') -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select *{{ mark.column }}
        from (
            {{ rows }}
            {%- if range %}
            {%- set keys = dbt_backfill.mv_columns(plan.key) | join(', ') %}
            union all
            {# The keys are selected without an alias: Spark would repeat each filter on a column for its alias. #}
            select * except ({{ keys }}), {{ keys }}, false as __bf_dropped
            from (
                {{ range }}
            )
            {%- endif %}
        )
        where {{ dbt_backfill.get_fence(backfill, plan) }} {{ 'and (__bf_dropped or ' ~ kept ~ ')' if kept }}
    ) as changes
    on {{ dbt_backfill.equal_keys(plan.key, 'mv.', 'changes.') }} and {{ bounds }}
    when matched and not changes.__bf_dropped{{ mark.condition }} then update set *
    when matched then delete
    {%- if inserts %}
    when not matched and not changes.__bf_dropped then insert *
    {%- endif %}
{%- endmacro %}


{#-
    Return a condition on the MV (alias `mv`) that the staged keys fulfil: the bounds of these keys, and their filter, see key_filter.sql. Other rows
    may fulfil the condition too. With `at_once`, one MERGE writes changes and range, so the range's keys fulfil the condition as well. Then the
    condition uses only the first two columns of the key: with all columns, the OR that Spark pushes down would grow with the square of their number.
-#}
{% macro get_changes_bounds(plan, staged, at_once) %}
    {%- set columns, bounds, predicates = dbt_backfill.mv_columns(plan.key, 'mv.'), [[staged.low, staged.high]], [] -%}
    {%- if at_once -%}
        {%- set columns, low, high = columns[:2], plan.get('range_low'), none if plan.get('last_range') else plan.range_high -%}
        {%- do bounds.append([high, low] if dbt_backfill.is_descending(plan.key) else [low, high]) -%}
    {%- endif -%}
    {%- for low, high in bounds -%}
        {%- set parts = [] -%}
        {%- if low -%} {%- do parts.append(dbt_backfill.tuple_predicate(columns, '>=', low[:columns | length])) -%} {%- endif -%}
        {%- if high -%} {%- do parts.append(dbt_backfill.tuple_predicate(columns, '<=', high[:columns | length])) -%} {%- endif -%}
        {%- if staged.get('filter') and loop.first -%} {%- do parts.append(staged.filter) -%} {%- endif -%}
        {%- do predicates.append('(' ~ (parts | join(' and ') or 'true') ~ ')') -%}
    {%- endfor -%}
    {{ return('(' ~ predicates | join(' or ') ~ ')' if at_once else predicates[0]) }}
{% endmacro %}


{#-
    Return one MERGE of the query's rows in the range of a plan: the keys above the old position, up to the new position. If the MV already has one of
    these rows, the same plan has written it. The literals in ON prune all files of the MV.

    If an Iceberg MV is still empty, an INSERT OVERWRITE writes the first range. A MERGE would sort all rows by their key, because it needs the clause
    MATCHED: without this clause Iceberg does not check for conflicts. By its options, the INSERT OVERWRITE fails if anything was committed to the MV
    after the snapshot that this run has seen. So it also fails if a connection sends it twice. A later run that executes it writes the same rows.
-#}
{% macro get_range_merge_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, dbt_backfill.parse_columns(plan.query_columns), '__bf_row.') -%}
    {%- set mark = dbt_backfill.get_mark(backfill, plan.plan_id, 'range') -%}
    {%- set rows -%}
        {{ dbt_backfill.get_range_rows_sql(backfill, state, plan) }}
        where {{ dbt_backfill.get_fence(backfill, plan) }} {{ 'and ' ~ kept if kept }}
    {%- endset -%}
    {%- if backfill.options.file_format == 'iceberg' and state.committed.kind in ['create', 'reset'] and not state.dirty -%}
        {%- set distribution = (config.get('tblproperties') or {}).get('write.merge.distribution-mode', 'none') -%}
        {%- set seen, checks = state.get('mv_seen') or 'none', {'isolation-level': 'serializable', 'distribution-mode': distribution} -%}
        {%- if seen != 'none' -%} {%- do checks.update({'validate-from-snapshot-id': seen}) -%} {%- endif -%}
        {{ return('insert overwrite ' ~ backfill.mv.render() ~ ' with ' ~ dbt_backfill.property_list(checks) ~ ' by name\n' ~ rows) }}
    {%- endif -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select *{{ mark.column }}
        from (
            {{ rows }}
        )
    ) as range
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'range.') }}
        and {{ dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), plan) }}
    {{ dbt_backfill.get_iceberg_matched_clause('update set *') }}
    when not matched{{ mark.condition }} then insert *
{%- endmacro %}


{#- Return the query's rows of the plan's range, or of another window, as the source of a MERGE. -#}
{% macro get_range_rows_sql(backfill, state, plan, window=none) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(dbt_backfill.get_range_read(backfill, plan), window or plan, state, backfill, plan.key) -%}
    {{ dbt_backfill.as_new_columns(dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, scan)) }}
{%- endmacro %}


{#- Return rows for the source of a MERGE, as a select that takes its columns out of a struct. For Spark these are new columns. Otherwise Spark would
    add a projection that pads char(n) columns and gives them new ids. But Delta has already resolved the clauses of its MERGE with the previous ids.
    The optimizer removes the struct. -#}
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
    Return one MERGE that compares the MV with the query in a window of keys, and merges the differing rows. The window is the range of a barrier in a
    sweep, or the window of a fill, with the field names of a range. The source of the MERGE has the same columns as the stage. Its rows are the
    query's rows that the MV lacks or has with other values, and the keys that only the MV has.
-#}
{% macro get_comparing_merge_sql(backfill, state, plan, window) -%}
    {%- set keys, names, coalesced = plan.key, dbt_backfill.mv_columns(plan.key), [] -%}
    {%- set compared = dbt_backfill.without_names(dbt_backfill.get_table_columns(backfill.mv), plan.get('volatile_columns')) -%}
    {%- for name in names -%}
        {%- do coalesced.append('coalesce(query.' ~ name ~ ', present.' ~ name ~ ') as ' ~ name) -%}
    {%- endfor -%}
    {%- set present = dbt_backfill.get_range_scan_sql(backfill.mv.render(), window, state, backfill, dbt_backfill.get_mv_keys(keys)) -%}
    {#- `kept` also checks rows that the MV already has, because another writer may have written them. -#}
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
            or {{ dbt_backfill.rows_differ(compared, 'present', 'query') }}
    {%- endset -%}
    {%- set bounds = dbt_backfill.window_predicate(keys, dbt_backfill.mv_columns(keys, 'mv.'), window) -%}
    {{ dbt_backfill.get_changes_merge_sql(backfill, plan, differing, bounds) }}
{%- endmacro %}


{#- Return one MERGE that compares the whole MV with the query over the upstream's rows up to the position, and merges the difference. The MERGE
    removes rows above the position. Only the target of the MERGE reads the MV. So the MERGE also removes rows that another writer has written with a
    null in the key, and every concurrent write is a conflict. -#}
{% macro get_reanchor_sql(backfill, state, plan) -%}
    {%- set keys = plan.key -%}
    {%- set scan = dbt_backfill.get_prefix_scan_sql(dbt_backfill.get_planned_read(backfill, plan), state, backfill, keys) -%}
    {%- set columns = dbt_backfill.get_table_columns(backfill.mv) -%}
    {%- set compared = dbt_backfill.without_names(columns, plan.get('volatile_columns')) -%}
    {#- The fence is not a condition of the query: if Spark sees that the prefix is empty, it drops the prefix together with its conditions. -#}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(backfill, columns) -%}
    {%- set mark = dbt_backfill.get_mark(backfill, plan.plan_id, 'prefix') -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select *{{ mark.column }}
        from (
            {#- Select in the order of the MV's columns: a column that was added later is the last column of the MV. #}
            select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }}
            from (
                {{ dbt_backfill.as_new_columns(dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, scan)) }}
            )
            {%- if kept %}
            where {{ kept }}
            {%- endif %}
            union all
            {{ dbt_backfill.get_fence_over_no_rows_sql(columns, fence) }}
        )
    ) as prefix
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'prefix.') }}
    when matched and {{ dbt_backfill.rows_differ(compared, 'mv', 'prefix') }}{{ mark.condition }} then update set *
    when not matched then insert *
    when not matched by source then delete
{%- endmacro %}


{#- Return one MERGE that removes all rows of each key that occurs several times in the MV, and all rows with a null in the key. The comparison that
    follows inserts the query's rows of these keys. A MERGE that compares rows could not remove one of two rows of the same key. -#}
{% macro get_duplicates_removal_sql(backfill, plan) -%}
    {%- set columns, same = dbt_backfill.mv_columns(plan.key), [] -%}
    {%- for column in columns -%} {%- do same.append('mv.' ~ column ~ ' <=> duplicates.' ~ column) -%} {%- endfor -%}
    {%- set mark = dbt_backfill.get_mark(backfill, plan.plan_id, 'duplicates') -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select *{{ mark.column }}
        from (
            select {{ columns | join(', ') }}
            from {{ backfill.mv.render() }}
            group by {{ columns | join(', ') }}
            having count(*) > 1 or {{ dbt_backfill.null_key_predicate(columns) }}
        )
        where {{ dbt_backfill.get_fence(backfill, plan) }}
    ) as duplicates
    on {{ same | join(' and ') }}
    when matched{{ mark.condition }} then delete
{%- endmacro %}


{#- Return one MERGE that removes the rows that given-up plans may have written above the position. Up to the position, the MERGE of the changes
    repairs all rows that these plans could write. -#}
{% macro get_removal_sql(backfill, plan) -%}
    {%- set keys, columns, windows = plan.key, dbt_backfill.mv_columns(plan.key, 'mv.'), [] -%}
    {%- for high in plan.touched -%}
        {%- set window = {'range_low': plan.get('range_low'), 'range_high': high, 'last_range': high == []} -%}
        {%- do windows.append(dbt_backfill.window_predicate(keys, columns, window)) -%}
    {%- endfor -%}
    {%- set mark = dbt_backfill.get_mark(backfill, plan.plan_id, 'touched') -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select {{ dbt_backfill.mv_columns(keys) | join(', ') }}{{ mark.column }}
        from {{ backfill.mv.render() }} as mv
        where ({{ windows | join(' or ') }}) and {{ dbt_backfill.get_fence(backfill, plan) }}
    ) as touched
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'touched.') }} and ({{ windows | join(' or ') }})
    when matched{{ mark.condition }} then delete
{%- endmacro %}


{#- Return the statements that replace the MV by an empty table with the plan's columns. The arguments are described at get_steps. -#}
{% macro get_reset_steps(backfill, plan, columns=none) %}
    {#- The argument `columns` belongs to this run's query, so it is used only if the plan has this query. -#}
    {%- set columns = (columns if plan.query == backfill.query else none)
        or dbt_backfill.get_mv_columns(backfill, plan.query, dbt_backfill.get_source(plan).relation) -%}
    {%- set steps, fence = [], dbt_backfill.get_fence(backfill, plan) -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' and dbt_backfill.is_retyped(backfill.mv, columns) -%}
        {#- A Hive metastore refuses to replace an Iceberg table if a column position gets another type. So first remove all columns. -#}
        {%- set sql -%}
            create or replace table {{ backfill.mv.render() }}
            {{ dbt_backfill.table_clauses(backfill.mv, dbt_backfill.mv_table_properties([], plan.backfill_id)) }}
            as
            select * except (fenced)
            from (select {{ fence }} as fenced)
            where not fenced
        {%- endset -%}
        {%- do steps.append({'name': 'take the columns off ' ~ backfill.mv.identifier, 'sql': sql}) -%}
    {%- endif -%}
    {#- A replacement changes the table's metadata, so it also stops a MERGE that has passed its fence. DELETE and TRUNCATE would not stop such a
        MERGE, and the rows of the MERGE would come back. -#}
    {%- set sql -%}
        create or replace table {{ backfill.mv.render() }}
        {{ dbt_backfill.mv_clauses(backfill.mv, columns, plan.backfill_id) }}
        as
        {{ dbt_backfill.get_fence_over_no_rows_sql(columns, fence) }}
    {%- endset -%}
    {%- do steps.append({'name': 'empty the MV in the barrier ' ~ plan.epoch, 'sql': sql}) -%}
    {{ return(steps) }}
{% endmacro %}


{#- True if a column has another type than the MV's column at the same position, see get_reset_steps, or than the MV's column with the same name.
    Iceberg would treat the columns of the same name as one column, and the MV may have been partitioned by this column. -#}
{% macro is_retyped(mv, columns) %}
    {%- set present = dbt_backfill.get_table_columns(mv) -%}
    {%- set types = dbt_backfill.types_by_name(present) -%}
    {%- for column in columns -%}
        {%- set at_its_place = present[loop.index0].type if loop.index0 < present | length else column.type -%}
        {%- if [at_its_place, types.get(column.name | lower, column.type)] != [column.type, column.type] -%}
            {{ return(true) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Return the statement that replaces the MV by the rows of the next generation. These rows are read at the version that the plan has recorded. The
    MV keeps its grants. The comments on columns come from the next generation, and the statement sets everything else. A next generation without a
    version has no rows. The fence is evaluated even if there is no row. -#}
{% macro get_swap_sql(backfill, plan) -%}
    {%- set next = dbt_backfill.parse_relation(plan.generation.relation) -%}
    {%- set columns, fence = dbt_backfill.get_table_columns(next), dbt_backfill.get_fence(backfill, plan) -%}
    {#- The current config says how the new MV is partitioned. -#}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(dict(backfill, partitions=none), dbt_backfill.parse_columns(plan.query_columns)) -%}
    {%- set version = plan.generation.get('version') -%}
    create or replace table {{ backfill.mv.render() }}
    {{ dbt_backfill.mv_clauses(backfill.mv, columns, plan.backfill_id) }}
    {%- if config.persist_relation_docs() %}
    comment {{ dbt_backfill.string_literal(model.description) }}
    {%- endif %}
    as
    select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }}
    from {{ next.render() }}
    {%- if version is not none %} version as of {{ version }} {%- endif %}
    where {{ fence }} {{- ' and ' ~ kept if kept }} {%- if version is none %} and false {%- endif %}
    union all
    {{ dbt_backfill.get_fence_over_no_rows_sql(columns, fence) }}
{%- endmacro %}


{#- Return a SQL expression over a row that is about to be written to the MV. The expression is true if the MV stores the row's values unchanged;
    otherwise it raises an error. Return none if the MV stores every value unchanged. `columns`: the columns of the row, as {'name', 'type'}. -#}
{% macro unaltered_partition_predicate(backfill, columns, prefix='') %}
    {%- set cases = [] -%}
    {%- for column in dbt_backfill.get_partition_columns(backfill, columns) -%}
        {%- set value, type = prefix ~ dbt_backfill.identifier(column.name), column.type -%}
        {%- set text = 'cast(' ~ value ~ ' as string)' -%}
        {%- set altered = {
            'string': text ~ " in ('', '__HIVE_DEFAULT_PARTITION__') or not is_valid_utf8(" ~ text ~ ')',
            'timestamp': 'not (try_cast(' ~ text ~ ' as timestamp_ltz) <=> ' ~ value ~ ')',
        }.get('string' if type in ['char', 'varchar', 'binary'] else type) -%}
        {%- if altered -%}
            {%- set fact = 'backfilled_mv ' ~ backfill.mv.identifier ~ ': its query returns the ' ~ type ~ " '" -%}
            {%- set shown = 'hex(' ~ value ~ ')' if type == 'binary' else text -%}
            {%- set change = "' in the column " ~ column.name ~ ', by which the MV is partitioned, but Delta would store another value. Correct '
                ~ 'the row upstream; or change the value that the query returns, or the column in partition_by, and rebuild with '
                ~ '--full-refresh.' -%}
            {%- do cases.append('when ' ~ altered ~ ' then raise_error(concat(' ~ dbt_backfill.string_literal(fact) ~ ', ' ~ shown ~ ', '
                ~ dbt_backfill.string_literal(change) ~ '))') -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return('case ' ~ cases | join(' ') ~ ' else true end' if cases else none) }}
{% endmacro %}


{#-
    Return a SQL expression that is true as long as the plan is to be executed. It raises an error once another run has committed the plan's epoch or
    given the plan up. The fence is part of the source of every MERGE and replacement of a plan. An ALTER has no source, so the statement right before
    the ALTER evaluates the fence (get_alter_script). The statement of get_stopping_sql needs no fence, because it runs after its plan was given up.

    Delta and Iceberg first fix the MV's version on which a statement is based, and then evaluate the source of the statement. So a statement that
    passes the fence conflicts with every commit that the MV gets after that version. The fence reads one row of the progress table. Without this row
    there is no state, and no statement passes.

    Arguments:
      plan (dict or none): none for a repair. A repair is not a barrier: it restores the rows of the committed epoch. The fence lets a repair pass
        as long as no plan of a later barrier is stored, and the state is that of the same MV.
      state (dict): only of a repair: the committed state.
-#}
{% macro get_fence(backfill, plan, state=none) -%}
    {%- set stands = dbt_backfill.executable_plan_predicate(plan) if plan else 'epoch = ' ~ state.epoch
        ~ " and plan_id is null and get_json_object(last, '$.backfill_id') = " ~ dbt_backfill.string_literal(state.committed.backfill_id) -%}
    {%- set during = 'this run executed the barrier ' ~ plan.epoch if plan else 'the MV was repaired at epoch ' ~ state.epoch -%}
    coalesce(
        (
            select case
                when {{ stands }} then true
                else raise_error(concat(
                    'backfilled_mv {{ backfill.mv.identifier }}: another run changed the state while {{ during }} (committed epoch ', epoch,
                    coalesce(concat(' of invocation ', get_json_object(last, '$.invocation_id')), ''),
                    coalesce(concat('; ', plan_kind, ' of invocation ', get_json_object(plan, '$.invocation_id'),
                    ', planned at ', get_json_object(plan, '$.planned_at')), ''),
                    '). This statement wrote nothing; run again to continue, and let only one run of the model work at a time.'
                ))
            end
            from {{ backfill.progress.render() }}
            where vnode = 0
        ),
        cast(raise_error('backfilled_mv {{ backfill.mv.identifier }}: its state is gone. This statement wrote nothing. Restore it, or drop the MV with drop_backfill.') as boolean)
    )
{%- endmacro %}


{#- Return a condition on the progress table: the plan is stored for the next epoch and was not given up. `prefix`: of the columns. -#}
{% macro executable_plan_predicate(plan, prefix='') %}
    {{ return(prefix ~ 'epoch = ' ~ (plan.epoch - 1) ~ ' and ' ~ prefix ~ 'plan_id = ' ~ dbt_backfill.string_literal(plan.plan_id)
        ~ ' and ' ~ prefix ~ 'plan_kind = ' ~ dbt_backfill.string_literal(plan.kind)) }}
{% endmacro %}
