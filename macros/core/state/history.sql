{#-
    The history, `<mv>__barriers`: its columns as name -> [type in the JSON of a barrier, none if it is derived; SQL
    over `barrier`, none if it is not shown]. One row per committed barrier, for people. Nothing that decides reads it. It is written
    at the end of a run, and of every so many barriers, from what the progress table keeps until then; a run that died
    leaves that to the next one, and a history that was lost begins anew.
-#}
{% macro history_columns() %}
    {%- set plain = {
        'plan_id': 'string', 'backfill_id': 'string', 'kind': 'string', 'reason': 'string', 'upstream_row_count': 'bigint',
        'range_low': 'array<string>', 'range_high': 'array<string>', 'last_range': 'boolean', 'vnodes': 'array<int>',
        'range_row_count': 'bigint', 'sweeps': 'boolean', 'at_once': 'boolean', 'changed_row_count': 'bigint', 'deleted_row_count': 'bigint',
        'touched': 'array<array<string>>', 'query': 'string', 'query_hash': 'string', 'settings': 'map<string, string>',
        'vnode_count': 'int', 'backfill_mode': 'string', 'backfill_rate_limit': 'bigint', 'invocation_id': 'string',
        'planned_at': 'timestamp_ltz', 'committed_at': 'timestamp_ltz', 'mv_snapshot_id': 'string',
        'sources': dbt_backfill.rows_type(dbt_backfill.source_fields()),
    } -%}
    {%- set columns = {'epoch': ['bigint', 'barrier.epoch']} -%}
    {%- for name, type in plain.items() -%} {%- do columns.update({name: [type, 'barrier.' ~ name]}) -%} {%- endfor -%}
    {%- for role in ['upstream', 'feed'] -%}
        {%- set source = "get(filter(barrier.sources, source -> source.role = '" ~ role ~ "'), 0)" -%}
        {%- do columns.update({role: [none, source ~ '.relation']}) -%}
        {%- for field in ['id', 'version', 'committed_at'] -%}
            {%- do columns.update({role ~ '_' ~ field: [none, source ~ '.' ~ field]}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do columns.update({
        'key': [dbt_backfill.rows_type(dbt_backfill.key_fields()), none],
        'unique_key': [none, 'barrier.key.name'],
        'upstream_key': [none, 'barrier.key.upstream'],
        'key_types': [none, 'barrier.key.type'],
        'vnode_row_counts': ['map<string, bigint>', 'transform_keys(barrier.vnode_row_counts, (vnode, rows) -> cast(vnode as int))'],
    }) -%}
    {{ return(columns) }}
{% endmacro %}


{#- A select of the barriers that the history may not have yet, those after the epoch `written`. -#}
{% macro get_unwritten_sql(relations, written) -%}
    {%- set texts -%}
        select explode(array_append(coalesce(unwritten, array()), last)) as text
        from {{ relations.progress.render() }}
        where vnode = 0
    {%- endset -%}
    {{ dbt_backfill.get_barriers_sql(texts) }}
    where barrier.epoch > {{ written }}
{%- endmacro %}


{#- A select of the history's columns of some barriers; `texts`: a select of these as JSON, `text`. -#}
{% macro get_barriers_sql(texts) -%}
    {%- set columns, fields = dbt_backfill.history_columns(), [] -%}
    {%- for name, column in columns.items() if column[0] -%} {%- do fields.append(name ~ ' ' ~ column[0]) -%} {%- endfor -%}
    select
        {%- for name, column in columns.items() if column[1] %}
        {{ column[1] }} as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select from_json(text, {{ dbt_backfill.string_literal(fields | join(', ')) }}) as barrier
        from (
            {{ texts }}
        )
    )
{%- endmacro %}


{#-
    Statements of a script that write it. They can be repeated, and run twice at once: a MERGE is checked for conflicts,
    and what the loser has not written the next run will.

    Each adds a file; every 50 barriers they are made one. Delta's own auto-compaction looks for small files at every
    commit.

    Arguments:
      written (int or none): the last epoch that it is known to have; none if it does not exist.
      epoch (int): the committed one.
-#}
{% macro get_history_statements(relations, written, epoch) -%}
    {%- set since = written if written is not none else -1 -%}
    {%- set unwritten = dbt_backfill.get_unwritten_sql(relations, since) -%}
    {%- if written is none %}
    create table if not exists {{ relations.barriers.render() }}
    {#- Without an id: it may outlive its MV. #}
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
        {{ dbt_backfill.get_matched_clause('update set *') }}
        when not matched then insert *
    {%- endset -%}
    {{ dbt_backfill.get_yielding_sql(merge, dbt_backfill.get_file_format()) }}
    {{ dbt_backfill._get_compaction_statement(relations, since, epoch) }}
{%- endmacro %}


{#-
    The same where only the barrier is missing that the script has just committed, by an INSERT, which reads nothing: on
    `state`, the state as the script has read it, and only if this execution of the script is the one that has
    committed it (`token`), and not an earlier sending of it or another run.
-#}
{% macro get_last_barrier_statements(relations, epoch) -%}
    {%- set last = "get_json_object(state, '$.last')" -%}
    if get_json_object({{ last }}, '$.committed_by') = token then
        insert into {{ relations.barriers.render() }} ({{ dbt_backfill.shown_columns() | join(', ') }})
        {{ dbt_backfill.get_barriers_sql('select ' ~ last ~ ' as text') }};
        {{ dbt_backfill._get_compaction_statement(relations, epoch - 1, epoch) }}
    end if;
{%- endmacro %}


{% macro shown_columns() %}
    {%- set shown = [] -%}
    {%- for name, column in dbt_backfill.history_columns().items() if column[1] -%} {%- do shown.append(name) -%} {%- endfor -%}
    {{ return(shown) }}
{% endmacro %}


{% macro _get_compaction_statement(relations, since, epoch) -%}
    {%- if dbt_backfill.passes_multiple(since, epoch, 50) %}
    {{ dbt_backfill.get_compaction_sql(relations.barriers, dbt_backfill.get_file_format()) }}
    {%- endif %}
{%- endmacro %}


{#- Write what the history does not have yet, unless it has it all. Returns the state, of which it then has everything. -#}
{% macro write_history(backfill, state) %}
    {%- if state.written is not none and state.written >= state.epoch -%} {{ return(state) }} {%- endif -%}
    {%- do dbt_backfill.run_table('write the history',
        'begin\n' ~ dbt_backfill.get_history_statements(backfill, state.written, state.epoch) ~ '\nend') -%}
    {{ return(dict(state, written=state.epoch)) }}
{% endmacro %}


{#-
    Properties of the state tables, by format. Serializable isolation is what makes two runs that plan or commit
    one epoch conflict; it is the default of both formats and set explicitly, so that nothing depends on it.
    Both tables are small and copied on write, so that the progress table stays one file, and know nothing of their
    rows but the history's epochs: what Delta gathers of the rest costs more than it saves.
-#}
{% macro state_table_properties() %}
    {%- set properties = dbt_backfill.exact_table_properties() -%}
    {%- if dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- do properties.update({'format-version': '2', 'write.metadata.delete-after-commit.enabled': 'true'}) -%}
        {%- do properties.update(dbt_backfill.write_modes_of_iceberg('copy-on-write')) -%}
    {%- else -%}
        {%- do properties.update({
            'delta.enableDeletionVectors': 'false', 'delta.enableChangeDataFeed': 'false', 'delta.dataSkippingNumIndexedCols': '1',
        }) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#-
    Those of the progress table. A full refresh may give it other columns for the position, with any name and type of a
    key, so a Delta table has from the start what these need.
-#}
{% macro progress_properties(creation) %}
    {%- set properties = dbt_backfill.state_table_properties() -%}
    {%- if dbt_backfill.get_file_format() == 'delta' -%}
        {%- do properties.update({'delta.columnMapping.mode': 'name', 'delta.feature.timestampNtz': 'supported'}) -%}
        {%- do properties.update({'delta.dataSkippingNumIndexedCols': '0'}) -%}
    {%- endif -%}
    {%- do properties.update(dbt_backfill.own_table_properties(creation.backfill_id)) -%}
    {{ return(properties) }}
{% endmacro %}
