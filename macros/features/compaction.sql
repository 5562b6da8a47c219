{#-
    Compact the MV after a committed barrier, if `compact_every` or `sort_when_finished` requires a compaction. `before`, `state`: the states before
    and after the barrier. The next barrier finds the same rows in other files, as after a manual compaction. If another run writes to the MV during
    the compaction, or if Spark fails, this macro gives up; if Spark fails, it also warns. A later barrier compacts the MV when the next compaction is
    due, but a sort is not tried again.

    One line reports the outcome: 'kept', why the files were not rewritten, and 'unsorted', why the MV was compacted but not sorted. An entry that
    does not apply is absent or null.
-#}
{% macro compact_mv(backfill, before, state) %}
    {%- set options, every = backfill.options, backfill.options.compact_every -%}
    {%- set has_finished = state.finished and (state.committed.get('kind') == 'swap' or not before.get('finished', false)) -%}
    {%- set is_due = every and (has_finished or state.epoch // every > before.get('epoch', 0) // every) -%}
    {%- set work = 'sort' if options.sort_when_finished and has_finished else 'compact' if is_due else none -%}
    {#- A next generation is not compacted, because the swap will write its rows once more. -#}
    {%- if work is none or backfill.generation == 'next' -%} {{ return(none) }} {%- endif -%}
    {%- set started_at = modules.datetime.datetime.now() -%}
    {%- set sql = dbt_backfill.get_compact_mv_sql(backfill, state, work) -%}
    {%- set attempt = dbt_backfill.try_table(work ~ ' the MV after the barrier ' ~ state.epoch, sql) -%}
    {%- set told, is_iceberg = attempt.table[0] if not attempt.error else none, dbt_backfill.get_file_format() == 'iceberg' -%}
    {#- Iceberg returns the number of replaced files (column 0) and the number of files that it failed to rewrite (column 3), but reports no conflict.
        If a sort replaced no file, although the MV has files, the sort has lost a conflict. -#}
    {%- set failed = told[3] if is_iceberg and told else 0 -%}
    {%- set error = attempt.error or ('Iceberg could not rewrite ' ~ failed ~ " files; Spark's log says why" if failed > 0 else none) -%}
    {%- if error -%}
        {%- do exceptions.warn(
            'backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': the MV could not be ' ~ ('sorted' if work == 'sort' else 'compacted')
                ~ ' after the barrier ' ~ state.epoch ~ '. That barrier is committed, so nothing is lost. '
                ~ ('To sort the MV, run the statement in docs/maintenance.md' if work == 'sort'
                    else 'A later run compacts the MV when that is due again') ~ '. ' ~ error
        ) -%}
    {%- endif -%}
    {%- if attempt.error -%} {{ return(none) }} {%- endif -%}
    {%- set outcome = fromjson(told[0]) if not is_iceberg
        else {'kept': failed ~ ' files could not be rewritten'} if failed > 0
        else {'kept': 'there were no files to put together, or another run wrote to it meanwhile'} if told[0] == 0 and work == 'compact'
        else {'kept': 'another run wrote to it meanwhile'} if told[0] == 0 and dbt_backfill.run_table(
            'count the files of the MV', 'select count(*) from ' ~ backfill.mv.render() ~ '.data_files'
        )[0][0] > 0 else {} -%}
    {%- set done = 'SORTED' if work == 'sort' and not outcome.get('unsorted') else 'COMPACTED' -%}
    {%- set parts = [
        ('NOT ' if outcome.get('kept') else '') ~ done ~ ' after BARRIER ' ~ state.epoch, outcome.get('kept'),
        'not sorted: ' ~ outcome.unsorted if outcome.get('unsorted') else none,
        dbt_backfill.get_duration_text((modules.datetime.datetime.now() - started_at).total_seconds()),
    ] -%}
    {%- do log(dbt_backfill.get_model_name(model) ~ ' [' ~ parts | select | join(' · ') ~ ']', info=true) -%}
{% endmacro %}


{#- Return the statement that sorts or compacts the MV; on Delta a script that returns the outcome. Delta cannot sort across partitions, and a table
    with liquid clustering has its own order. If Delta refuses the sort, the script compacts the table without sorting and raises no error. -#}
{% macro get_compact_mv_sql(backfill, state, work) -%}
    {%- set file_format, name, columns = dbt_backfill.get_file_format(), backfill.mv.render(), [] -%}
    {%- if work == 'sort' and not (file_format == 'delta' and config.get('clustered_by')) -%}
        {%- set partitions = dbt_backfill.as_list(config.get('partition_by') or []) | map('lower') | list -%}
        {%- for key in state.committed.key if key.name | lower not in partitions -%}
            {%- do columns.append(dbt_backfill.identifier(key.name)) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set order = columns | join(', ') -%}
    {%- if file_format == 'iceberg' -%}
        {%- set sorting = "strategy => 'sort', sort_order => " ~ dbt_backfill.string_literal(order) ~ ',' if columns else '' -%}
        {{ return(dbt_backfill.get_compaction_sql(backfill.mv, file_format, sorting) | trim | trim(';')) }}
    {%- endif -%}
    {%- set reasons = {'KD00D': 'its key has no statistics', '42613': 'it has liquid clustering', '42P10': 'it is partitioned by its key'} -%}
    {%- set sorting -%}
    begin
        {%- for state, reason in reasons.items() %}
        declare exit handler for sqlstate '{{ state }}' begin
            execute immediate {{ dbt_backfill.string_literal('optimize ' ~ name) }};
            set unsorted = {{ dbt_backfill.string_literal(reason) }};
        end;
        {%- endfor %}
        execute immediate {{ dbt_backfill.string_literal('optimize ' ~ name ~ ' zorder by (' ~ order ~ ')') }};
    end
    {%- endset -%}
    begin
        declare kept string;
        declare unsorted string;
        {{ dbt_backfill.get_compaction_sql(
            backfill.mv, file_format, sorting if columns else '', "set kept = 'another run wrote to it meanwhile'"
        ) }}
        select to_json(struct(kept, unsorted));
    end
{%- endmacro %}
