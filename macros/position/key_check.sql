{#-
    What a select of keys holds, as one struct: {'row_count', 'null_keys', 'duplicates': whether some keys may stand twice,
    'vnode_row_counts'}, and 'upstream_row_count', from one pass over the key columns.

    Rows are grouped by the hash that also gives the vnode: one bigint instead of the key's columns. Unequal
    keys with one hash look like duplicates here; `get_duplicate_keys_sql` then tells.

    Arguments:
      scan (string): a select of the rows.
      total (string): a SQL expression of the upstream's number of rows.
      check_key (boolean): false counts per vnode only, which needs no shuffle of the keys.
-#}
{% macro get_key_check_sql(scan, total, keys, vnode_count, check_key) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) -%}
    select named_struct(
        'upstream_row_count', {{ total }},
        'row_count', coalesce(sum(row_count), 0),
        'null_keys', coalesce(sum(null_keys), 0),
        'duplicates', coalesce(max(most), 0) > 1,
        'vnode_row_counts', map_from_entries(collect_list(struct(vnode, row_count)))
    )
    from (
        select
            cast(pmod(hash, {{ vnode_count }}) as int) as vnode,
            sum(row_count) as row_count,
            sum(null_keys) as null_keys,
            max({{ 'row_count' if check_key else '0' }}) as most
        from (
            select
                hash,
                {{ 'count(*)' if check_key else '1' }} as row_count,
                {{ 'count_if(null_key)' if check_key else 'int(null_key)' }} as null_keys
            from (
                select
                    {{ dbt_backfill.key_hash_expression(keys) }} as hash,
                    {{ dbt_backfill.null_key_predicate(columns) }} as null_key
                from ({{ scan }})
            )
            {{ 'group by hash' if check_key }}
        )
        group by vnode
    )
{%- endmacro %}


{#- The type of that struct. -#}
{% macro key_check_type() %}
    {{ return('struct<upstream_row_count: bigint, row_count: bigint, null_keys: bigint, duplicates: boolean, '
        ~ 'vnode_row_counts: map<int, bigint>>') }}
{% endmacro %}


{#- Up to three keys that stand twice in a select of keys, as literals' texts. -#}
{% macro get_duplicate_keys_sql(scan, keys) -%}
    select to_json(named_struct('key', {{ dbt_backfill.literals_expression(keys) }}))
    from (
        select {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
        from ({{ scan }})
        group by all
        having count(*) > 1
        limit 3
    )
{%- endmacro %}
