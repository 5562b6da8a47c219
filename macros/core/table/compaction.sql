{#-
    A statement of a script that makes few files of a table's small ones, and gives way to another run that has written the table
    meanwhile: the next one does it. Iceberg's would raise an error there, which no handler can take; with partial progress it
    notes it in its log.

    Arguments:
      sorted_by (list): columns, quoted. All rows are written again, so that those are together whose values are: on Delta by
        `zorder by`. The script then has a variable `unsorted`, which gets the reason where the table cannot be sorted.
      noted (string): what a script on Delta does where it gave way, see get_yielding_sql.
-#}
{% macro get_compaction_sql(relation, file_format, sorted_by=[], noted='') -%}
    {%- if file_format == 'delta' -%}
        {%- set optimize = 'execute immediate ' ~ dbt_backfill.string_literal('optimize ' ~ relation.render()) -%}
        {%- set sort = dbt_backfill._get_sort_sql(relation, sorted_by, optimize) if sorted_by else optimize -%}
        {{ return(dbt_backfill.get_yielding_sql(sort, file_format, noted)) }}
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


{#- On Delta. What only Delta can say, of the table as it is, is no error: it is compacted then as a table without an order is. -#}
{% macro _get_sort_sql(relation, columns, optimize) -%}
    {%- set sort = 'optimize ' ~ relation.render() ~ ' zorder by (' ~ columns | join(', ') ~ ')' -%}
    {%- set reasons = {
        'KD00D': 'its key has no statistics', '42613': 'it has liquid clustering', '42P10': 'it is partitioned by its key',
    } -%}
    begin
        {%- for state, reason in reasons.items() %}
        declare exit handler for sqlstate '{{ state }}' begin
            {{ optimize }};
            set unsorted = {{ dbt_backfill.string_literal(reason) }};
        end;
        {%- endfor %}
        execute immediate {{ dbt_backfill.string_literal(sort) }};
    end
{%- endmacro %}


{#- Whether the barriers after `since`, up to `epoch`, come to a multiple of `every` of them: then the table is compacted. -#}
{% macro passes_multiple(since, epoch, every) %}
    {{ return(epoch // every > [since, 0] | max // every) }}
{% endmacro %}
