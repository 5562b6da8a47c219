{#-
    After a barrier: compact the MV where `compact_every` or `sort_when_finished` asks for it. The barrier is committed by then,
    and the next one finds the MV with the same rows in other files, as after a compaction by hand. Where another run wrote to
    the MV meanwhile its rows go first: the compaction is left to the next time.

    Arguments:
      before (dict): the state that the barrier began from.
      state (dict): what it committed.
-#}
{% macro compact_mv(backfill, before, state) %}
    {%- set work = dbt_backfill.get_due_compaction(backfill.options, before, state) -%}
    {#- A next generation is written anew when it is put in place. -#}
    {%- if work is none or backfill.generation == 'next' -%} {{ return(none) }} {%- endif -%}
    {%- set started_at = modules.datetime.datetime.now() -%}
    {%- set unsorted = dbt_backfill.run_table(work ~ ' the MV after the barrier ' ~ state.epoch, dbt_backfill.get_compact_mv_sql(backfill, state, work))[0][0] -%}
    {%- set seconds = (modules.datetime.datetime.now() - started_at).total_seconds() -%}
    {%- do log(dbt_backfill.get_model_name(model) ~ ' [' ~ ('SORTED' if work == 'sort' and not unsorted else 'COMPACTED') ~ ' after BARRIER ' ~ state.epoch
        ~ (' · not sorted: ' ~ unsorted if unsorted else '') ~ ' · ' ~ dbt_backfill.get_duration_text(seconds) ~ ']', info=true) -%}
{% endmacro %}


{#- What is due after a barrier: 'sort', 'compact', or none. -#}
{% macro get_due_compaction(options, before, state) %}
    {%- set is_put_in_place = state.committed.get('kind') == 'swap' -%}
    {%- set has_finished = state.finished and (is_put_in_place or not before.get('finished', false)) -%}
    {%- if options.sort_when_finished and has_finished -%} {{ return('sort') }} {%- endif -%}
    {%- set every = options.compact_every -%}
    {%- if every and (has_finished or dbt_backfill.passes_multiple(before.get('epoch', 0), state.epoch, every)) -%} {{ return('compact') }} {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    A script. Delta has no order across partitions, and one of its own in a table with liquid clustering. Its result is why the MV was
    not sorted although it was to be; null if it was.
-#}
{% macro get_compact_mv_sql(backfill, state, work) -%}
    {%- set file_format, columns = dbt_backfill.get_file_format(), [] -%}
    {%- if work == 'sort' and not (file_format == 'delta' and config.get('clustered_by')) -%}
        {%- set partitions = dbt_backfill.get_layout_columns('partition_by') | map('lower') | list -%}
        {%- for key in state.committed.key if key.name | lower not in partitions -%}
            {%- do columns.append(dbt_backfill.identifier(key.name)) -%}
        {%- endfor -%}
    {%- endif -%}
    begin
        declare unsorted string;
        {{ dbt_backfill.get_compaction_sql(backfill.mv, file_format, columns) }}
        select unsorted;
    end
{%- endmacro %}
