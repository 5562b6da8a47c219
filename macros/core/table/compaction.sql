{#-
    Return a statement of a script that makes few files of a table's small ones. It gives way to another run that has written the table
    meanwhile: the next one does it. Iceberg's would raise an error there, which no handler can take; with partial progress it writes it
    to its log.

    Arguments:
      sorting (string): writes all rows again, sorted: on Delta another statement, on Iceberg arguments of the procedure; else empty.
      noted (string): what a script on Delta does where it gave way, see get_yielding_sql.
-#}
{% macro get_compaction_sql(relation, file_format, sorting='', noted='') -%}
    {%- if file_format == 'delta' -%}
        {%- set optimize = 'execute immediate ' ~ dbt_backfill.string_literal('optimize ' ~ relation.render()) -%}
        {{ return(dbt_backfill.get_yielding_sql(sorting or optimize, file_format, noted)) }}
    {%- endif -%}
    {%- set catalog = dbt_backfill.get_catalog(relation) -%}
    call {{ catalog ~ '.' if catalog }}system.rewrite_data_files(
        table => {{ dbt_backfill.string_literal(relation.render()) }},
        {{ sorting }}
        options => map('partial-progress.enabled', 'true', {{ "'rewrite-all', 'true'" if sorting else "'min-input-files', '2'" }})
    );
{%- endmacro %}


{#- True if the number of barriers passes a multiple of `every` after `since`, up to `epoch`: then a table is compacted. -#}
{% macro passes_multiple(since, epoch, every) %}
    {{ return(epoch // every > [since, 0] | max // every) }}
{% endmacro %}
