{#-
    A statement of a script that makes few files of a table's small ones, and gives way to another run that has written the table
    meanwhile: the next one does it. Iceberg's would raise an error there, which no handler can take; with partial progress it
    notes it in its log.

    Arguments:
      sorted_by (list): columns, quoted. All rows are written again, so that those are together whose values are: on Delta by
        `zorder by`.
-#}
{% macro get_compaction_sql(relation, file_format, sorted_by=[]) -%}
    {%- if file_format == 'delta' -%}
        {%- set order = ' zorder by (' ~ sorted_by | join(', ') ~ ')' if sorted_by else '' -%}
        {%- set optimize = 'execute immediate ' ~ dbt_backfill.string_literal('optimize ' ~ relation.render() ~ order) -%}
        {{ return(dbt_backfill.get_yielding_sql(optimize, file_format)) }}
    {%- endif -%}
    {%- set catalog = dbt_backfill.get_catalog(relation) -%}
    call {{ catalog ~ '.' if catalog }}system.rewrite_data_files(
        table => {{ dbt_backfill.string_literal(relation.render()) }},
        {%- if sorted_by %}
        strategy => 'sort', sort_order => {{ dbt_backfill.string_literal(sorted_by | join(', ')) }},
        {%- endif %}
        options => map('partial-progress.enabled', 'true', {{ "'rewrite-all', 'true'" if sorted_by else "'min-input-files', '2'" }})
    );
{%- endmacro %}


{#- Whether the barriers after `since`, up to `epoch`, come to a multiple of `every` of them: then the table is compacted. -#}
{% macro passes_multiple(since, epoch, every) %}
    {{ return(epoch // every > [since, 0] | max // every) }}
{% endmacro %}
