{#-
    Refuse a key that Iceberg orders otherwise than Spark: its uuid, which Spark shows as a string, so that files are
    skipped whose keys a range has. Nothing in SQL tells the two apart but what Iceberg makes of a comparison with a text
    that is no uuid: it takes the one of a string, and leaves the one of a uuid to Spark. A column cannot become a uuid
    without a gap.
-#}
{% macro iceberg_check_key_order(upstream, columns) %}
    {%- set relation = upstream.relation -%}
    {%- set plan = dbt_backfill.run_table('check the order of the key', dbt_backfill._get_comparisons_sql(relation, columns))[0][0] -%}
    {%- set taken = modules.re.search('IcebergScan\\(.*?filters=(.*)', plan) -%}
    {%- for column in columns -%}
        {%- if taken and "'no uuid " ~ loop.index ~ "'" not in taken.group(1) -%}
            {%- do dbt_backfill.refuse(
                'the key ' ~ column ~ ' of ' ~ relation.render()
                    ~ ' is a uuid, which Iceberg orders otherwise than Spark orders its text',
                'Follow a table that has it as a string, or name columns of another type in unique_key'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{% macro _get_comparisons_sql(relation, columns) -%}
    {%- set comparisons = [] -%}
    {%- for column in columns -%}
        {%- do comparisons.append(dbt_backfill.identifier(column) ~ " > 'no uuid " ~ loop.index ~ "'") -%}
    {%- endfor -%}
    explain select {{ dbt_backfill.identifiers(columns) }} from {{ relation.render() }} where {{ comparisons | join(' and ') }}
{%- endmacro %}
