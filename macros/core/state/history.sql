{#-
    Return the columns of the history, `<mv>__barriers`, in their order: {'recorded': {name: its type in the JSON of a barrier}, 'derived': {name: SQL
    over `barrier` and its sources `upstream_source` and `feed_source`}}. The history has one row per committed barrier. The history is for users; no
    decision of a run depends on it. The progress table keeps the barriers until they are written to the history, at the end of a run and after every
    20 barriers. If a run dies, the next run writes the missing barriers. If the history is lost, a new history begins.
-#}
{% macro history_columns() %}
    {%- set recorded = {
        'epoch': 'bigint', 'plan_id': 'string', 'backfill_id': 'string', 'kind': 'string', 'reason': 'string', 'upstream_row_count': 'bigint',
        'range_low': 'array<string>', 'range_high': 'array<string>', 'last_range': 'boolean', 'vnodes': 'array<int>',
        'range_row_count': 'bigint', 'sweeps': 'boolean', 'at_once': 'boolean', 'changed_row_count': 'bigint', 'deleted_row_count': 'bigint',
        'touched': 'array<array<string>>', 'query': 'string', 'query_hash': 'string', 'settings': 'map<string, string>',
        'vnode_count': 'int', 'backfill_mode': 'string', 'backfill_rate_limit': 'bigint', 'invocation_id': 'string',
        'planned_at': 'timestamp_ltz', 'committed_at': 'timestamp_ltz',
        'sources': 'array<struct<' ~ dbt_backfill.source_fields() | join(': string, ') ~ ': string>>',
    } -%}
    {%- set derived = {} -%}
    {%- for role in ['upstream', 'feed'] -%}
        {%- do derived.update({role: role ~ '_source.relation'}) -%}
        {%- for field in ['id', 'version', 'committed_at'] -%}
            {%- do derived.update({role ~ '_' ~ field: role ~ '_source.' ~ field}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return({'recorded': recorded, 'derived': dict(derived, **{
        'mv_snapshot_id': 'barrier.mv_version',
        'unique_key': 'barrier.key.name', 'upstream_key': 'barrier.key.upstream', 'key_types': 'barrier.key.type',
        'vnode_row_counts': 'transform_keys(barrier.vnode_row_counts, (vnode, rows) -> cast(vnode as int))',
    })}) }}
{% endmacro %}


{#- Return a select of some barriers with the columns of the history. `texts`: a select of these barriers as JSON, in the column `text`. -#}
{% macro get_barriers_sql(texts) -%}
    {%- set columns, fields = dbt_backfill.history_columns(), [] -%}
    {%- for name, type in columns.recorded.items() -%} {%- do fields.append(name ~ ' ' ~ type) -%} {%- endfor -%}
    {%- set key = 'array<struct<name: string, upstream: string, type: string, position: string>>' -%}
    {%- do fields.append('key ' ~ key ~ ', vnode_row_counts map<string, bigint>, mv_version string') -%}
    select
        barrier.* except (key, vnode_row_counts, mv_version)
        {%- for name, sql in columns.derived.items() %},
        {{ sql }} as {{ name }}
        {%- endfor %}
    from (
        select
            barrier,
            get(filter(barrier.sources, source -> source.role = 'upstream'), 0) as upstream_source,
            get(filter(barrier.sources, source -> source.role = 'feed'), 0) as feed_source
        from (
            select from_json(text, {{ dbt_backfill.string_literal(fields | join(', ')) }}) as barrier
            from (
                {{ texts }}
            )
        )
    )
{%- endmacro %}


{#-
    Return statements of a script that write the history. The statements can be repeated, and two runs may execute them at the same time. If the MERGE
    of one run loses a conflict, the next run writes the missing barriers. Each MERGE adds a file, so the files are compacted every 50 barriers.
    Delta's own auto-compaction is not used, because it looks for small files at every commit. `written`: the last epoch that the history is known to
    have; none if the history does not exist. `epoch`: the committed epoch.
-#}
{% macro get_history_statements(relations, written, epoch) -%}
    {%- set since = written if written is not none else -1 -%}
    {%- set texts -%}
        select explode(array_append(coalesce(unwritten, array()), last)) as text
        from {{ relations.progress.render() }}
        where vnode = 0
    {%- endset -%}
    {%- set unwritten = dbt_backfill.get_barriers_sql(texts) ~ '\n    where barrier.epoch > ' ~ since -%}
    {%- if written is none %}
    create table if not exists {{ relations.barriers.render() }}
    {#- The history has no id of the MV, because the history may outlive the MV. #}
    {{ dbt_backfill.table_clauses(relations.barriers, dict(
        dbt_backfill.state_table_properties(), **{'dbt_backfill.format': dbt_backfill.state_format()}
    )) }}
    as
    select * from ({{ unwritten }}) where false;
    {%- endif %}
    {% set merge -%}
        merge into {{ relations.barriers.render() }} as barriers
        using (
            {{ unwritten }}
        ) as unwritten
        on barriers.epoch = unwritten.epoch and barriers.backfill_id = unwritten.backfill_id and barriers.epoch > {{ since }}
        {{ dbt_backfill.get_iceberg_matched_clause('update set *') }}
        when not matched then insert *
    {%- endset -%}
    {{ dbt_backfill.get_yielding_sql(merge, dbt_backfill.get_file_format()) }}
    {%- if epoch // 50 > [since, 0] | max // 50 %}
    {{ dbt_backfill.get_compaction_sql(relations.barriers, dbt_backfill.get_file_format()) }}
    {%- endif %}
{%- endmacro %}


{#- Return statements of a script that add a barrier to the history. The script has just committed this barrier; its variable `state` has the barrier.
    The history has all earlier barriers, so an INSERT is enough, and the INSERT reads no table. The script may have been executed twice, or another
    run may have committed the barrier. The id `committed_by` shows which execution has committed the barrier: only this execution writes it. -#}
{% macro get_last_barrier_statements(relations, epoch) -%}
    {%- set last = "get_json_object(state, '$.last')" -%}
    if get_json_object({{ last }}, '$.committed_by') = get_json_object(outcome, '$.committed_by') then
        insert into {{ relations.barriers.render() }} by name
        {{ dbt_backfill.get_barriers_sql('select ' ~ last ~ ' as text') }};
        {%- if epoch % 50 == 0 %}
        {{ dbt_backfill.get_compaction_sql(relations.barriers, dbt_backfill.get_file_format()) }}
        {%- endif %}
    end if;
{%- endmacro %}


{#- Write the barriers that the history does not have yet. Return the state with the last epoch in the history. -#}
{% macro write_history(backfill, state) %}
    {%- if state.written is not none and state.written >= state.epoch -%} {{ return(state) }} {%- endif -%}
    {%- do dbt_backfill.run_table('write the history',
        'begin\n' ~ dbt_backfill.get_history_statements(backfill, state.written, state.epoch) ~ '\nend') -%}
    {{ return(dict(state, written=state.epoch)) }}
{% endmacro %}
