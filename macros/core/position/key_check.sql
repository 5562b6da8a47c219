{#-
    Return a select of one struct, {'row_count', 'null_keys', 'duplicates': true if a key may occur twice, 'vnode_row_counts'} of the
    rows of a scan and 'upstream_row_count', from one pass over the key columns, or two where many rows are read.

    Rows are grouped by the hash that also gives the vnode: one bigint instead of the key's columns. Unequal keys with one hash look
    like duplicates here; `get_duplicate_keys_sql` then decides.

    Arguments:
      scan (string): a select of the rows.
      total (string): a SQL expression of the upstream's number of rows.
      check_key (boolean): false counts per vnode only, which needs no shuffle of the keys.
      many (boolean): true if so many rows are read that a separate pass for the duplicates is cheaper, see get_twice_by_words_sql.
-#}
{% macro get_key_check_sql(scan, total, keys, vnode_count, check_key, many=false) -%}
    {#- The last column that is a whole number or a day: in key order its values are neighbours. -#}
    {%- set numbers = keys | selectattr('type', 'in', ['tinyint', 'smallint', 'int', 'bigint', 'date']) | list if check_key and many else [] -%}
    {%- set by_hash = check_key and not numbers -%}
    select named_struct(
        'upstream_row_count', {{ total }},
        'row_count', coalesce(sum(row_count), 0),
        'null_keys', coalesce(sum(null_keys), 0),
        'duplicates', {{ dbt_backfill.get_twice_by_words_sql(scan, keys, numbers[-1]) if numbers else 'coalesce(max(most), 0) > 1' }},
        'vnode_row_counts', map_from_entries(collect_list(struct(vnode, row_count)))
    )
    from (
        select
            cast(pmod(hash, {{ vnode_count }}) as int) as vnode,
            sum(row_count) as row_count,
            sum(null_keys) as null_keys,
            max({{ 'row_count' if by_hash else '0' }}) as most
        from (
            select
                hash,
                {{ 'count(*)' if by_hash else '1' }} as row_count,
                {{ 'count_if(null_key)' if by_hash else 'int(null_key)' }} as null_keys
            from (
                select
                    {{ dbt_backfill.key_hash_expression(keys) }} as hash,
                    {{ dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys)) }} as null_key
                from ({{ scan }})
            )
            {{ 'group by hash' if by_hash }}
        )
        group by vnode
    )
{%- endmacro %}


{#-
    Return a scalar subquery that is true if a key may occur twice. 64 neighbouring values of a number in the key share a word, in
    which each has its bit, so there are up to 64 times fewer groups than keys. Over the 6,000,000 keys of TPC-H lineitem that costs
    a third of grouping them by their hash, and as much where the numbers have no neighbours.

    Arguments:
      number (dict): the key's column that is a number, or a date.
-#}
{% macro get_twice_by_words_sql(scan, keys, number) -%}
    {%- set column = dbt_backfill.identifier(number.upstream) -%}
    {%- set value = 'cast(' ~ ('unix_date(' ~ column ~ ')' if number.type == 'date' else column) ~ ' as bigint)' -%}
    {%- set word = [] -%}
    {%- for key in keys -%}
        {%- do word.append('shiftright(' ~ value ~ ', 6)' if key == number else dbt_backfill.identifier(key.upstream)) -%}
    {%- endfor -%}
    (
        select coalesce(bool_or(twice), false)
        from (
            select count(bit) > bit_count(bit_or(bit)) as twice
            from (
                select
                    xxhash64({{ word | join(', ') }}) as word,
                    shiftleft(cast(1 as bigint), cast({{ value }} & 63 as int)) as bit
                from ({{ scan }})
            )
            group by word
        )
    )
{%- endmacro %}


{#- Return the type of the struct that get_key_check_sql selects. -#}
{% macro key_check_type() %}
    {{ return('struct<upstream_row_count: bigint, row_count: bigint, null_keys: bigint, duplicates: boolean, '
        ~ 'vnode_row_counts: map<int, bigint>>') }}
{% endmacro %}


{#- Return a select of up to three keys that occur twice in a select of keys, as literals' texts. -#}
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
