{#- Refuse null keys and keys that stand twice. Returns if there are none: unequal keys may have one hash. -#}
{% macro refuse_keys(backfill, state, plan, checked, views=[]) %}
    {%- if checked.null_keys -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_source(plan).relation ~ ' has ' ~ dbt_backfill.get_count_text(checked.null_keys, 'row')
                ~ ' with a null in ' ~ plan.key | map(attribute='upstream') | join(', ') ~ ', in version ' ~ dbt_backfill.get_source(plan).version,
            'Give these rows a key or delete them; a primary key is never null'
        ) -%}
    {%- endif -%}
    {%- set scan = dbt_backfill.get_checked_scan(backfill, state, plan) -%}
    {%- set duplicates = dbt_backfill.run_json(
        'find the duplicate keys', dbt_backfill.get_duplicate_keys_sql(scan, plan.key)
    ) -%}
    {%- if duplicates -%}
        {%- do dbt_backfill.refuse_duplicate_keys(plan, duplicates | map(attribute='key') | list, views) -%}
    {%- endif -%}
{% endmacro %}


{#- `duplicates`: some of the keys, as lists of literals; `views`: those to drop. -#}
{% macro refuse_duplicate_keys(plan, duplicates, views) %}
    {%- do dbt_backfill.drop_stages(views) -%}
    {%- do dbt_backfill.refuse(
        'the key ' ~ plan.key | map(attribute='upstream') | join(', ') ~ ' is not unique in ' ~ dbt_backfill.get_source(plan).relation
            ~ ', in version ' ~ dbt_backfill.get_source(plan).version ~ '; it stands twice with ('
            ~ duplicates | map('join', ', ') | join('), (') ~ ')',
        'Delete the duplicates, or name in unique_key the columns that are unique'
    ) -%}
{% endmacro %}
