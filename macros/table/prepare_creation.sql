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
    {%- do dbt_backfill.check_location(backfill.mv) -%}
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


{#- Refuse to rebuild a Delta table elsewhere: it is replaced where it stands, and Delta fails once the rebuild is planned. -#}
{% macro check_location(mv) %}
    {%- if dbt_backfill.get_file_format() != 'delta' or not config.get('location_root') -%} {{ return(none) }} {%- endif -%}
    {%- set found = modules.re.search('Location: ([^\\n]*)', (dbt_backfill.load_table(mv) or {}).information or '') -%}
    {%- if not found -%} {{ return(none) }} {%- endif -%}
    {%- set wanted = config.get('location_root') ~ '/' ~ mv.identifier -%}
    {%- set paths = [] -%}
    {%- for place in [wanted, found.group(1)] -%}
        {#- Without its scheme and host, as Delta compares them. -#}
        {%- do paths.append(modules.re.sub('/+', '/', modules.re.sub('^\\w+:(//[^/]*)?', '', place)).rstrip('/')) -%}
    {%- endfor -%}
    {#- A relative one is somewhere in Spark's own warehouse. -#}
    {%- set below = '/' ~ modules.re.sub('^(\\.{1,2}/)+', '', paths[0]) -%}
    {%- set stands_there = paths[1] == paths[0] if paths[0].startswith('/') else paths[1].endswith(below) -%}
    {%- if not stands_there -%}
        {%- do dbt_backfill.refuse(
            'it stands at ' ~ found.group(1) ~ ', and its location_root would place it at ' ~ wanted,
            'Set location_root to its place, or drop it first, if it is an MV by the run-operation drop_backfill'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse a column to partition or cluster by that the query does not return; Iceberg's transforms are left to Spark. -#}
{% macro _check_columns_of_clauses(names) %}
    {%- for option in ['partition_by', 'clustered_by'] -%}
        {%- for column in dbt_backfill.get_layout_columns(option)
                if modules.re.fullmatch('\\w+', column) and column | lower not in names -%}
            {%- do dbt_backfill.refuse(
                option ~ " names the column '" ~ column ~ "', which its query does not return",
                'Select that column, or name another one'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
