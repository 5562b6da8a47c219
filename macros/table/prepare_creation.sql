{#- What has to be known about the query's columns before the tables are created. -#}
{% macro prepare_creation(backfill) %}
    {#- Not of the model's own text: the barriers' name for the upstream has no metadata columns and no branches. -#}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- do dbt_backfill.check_table_properties() -%}
    {%- do dbt_backfill.check_columns(columns, dbt_backfill.mv_table_properties([], '')) -%}
    {%- do dbt_backfill.check_constraints(
        dbt_backfill.get_query_sql(backfill.query, backfill.upstream.relation, 'select * from ' ~ backfill.upstream.relation.render())
    ) -%}
    {%- do dbt_backfill._check_clauses() -%}
    {%- do dbt_backfill._check_columns_of_clauses(columns | map(attribute='name') | map('lower') | list) -%}
    {{ return(columns) }}
{% endmacro %}


{#- Refuse how no Delta table can be laid out: Delta says so only when the state stands already. -#}
{% macro _check_clauses() %}
    {%- if dbt_backfill.get_file_format() != 'delta' or not config.get('clustered_by') -%} {{ return(none) }} {%- endif -%}
    {%- if config.get('buckets') -%}
        {%- do dbt_backfill.refuse(
            'buckets is ' ~ config.get('buckets') ~ ', and a Delta table has none',
            'Remove buckets: clustered_by alone is liquid clustering'
        ) -%}
    {%- elif config.get('partition_by') -%}
        {%- do dbt_backfill.refuse(
            'partition_by and clustered_by are both set, and a Delta table is partitioned or clustered', 'Remove one of them'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse a column to partition or cluster by that the query does not return; Iceberg's transforms are left to Spark. -#}
{% macro _check_columns_of_clauses(names) %}
    {%- for option in ['partition_by', 'clustered_by'] -%}
        {%- set columns = config.get(option) or [] -%}
        {%- for column in ([columns] if columns is string else columns)
                if modules.re.fullmatch('\\w+', column) and column | lower not in names -%}
            {%- do dbt_backfill.refuse(
                option ~ " names the column '" ~ column ~ "', which its query does not return",
                'Select that column, or name another one'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
