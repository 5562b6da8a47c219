{#-
    What a select of keys holds, as one struct: {'row_count', 'null_keys', 'duplicates': whether some keys may stand twice,
    'vnode_row_counts'}, and 'upstream_row_count', from one pass over the key columns, or two where many rows are read.

    Rows are grouped by the hash that also gives the vnode: one bigint instead of the key's columns. Unequal
    keys with one hash look like duplicates here; `get_duplicate_keys_sql` then tells.

    Arguments:
      scan (string): a select of the rows.
      total (string): a SQL expression of the upstream's number of rows.
      check_key (boolean): false counts per vnode only, which needs no shuffle of the keys.
      many (boolean): whether so many rows are read that a pass of its own for the duplicates is cheaper, see get_twice_by_words_sql.
-#}
{% macro get_key_check_sql(scan, total, keys, vnode_count, check_key, many=false) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) -%}
    {%- set number = dbt_backfill.find_number(keys) if check_key and many else none -%}
    {%- set by_hash = check_key and number is none -%}
    select named_struct(
        'upstream_row_count', {{ total }},
        'row_count', coalesce(sum(row_count), 0),
        'null_keys', coalesce(sum(null_keys), 0),
        'duplicates', {{ dbt_backfill.get_twice_by_words_sql(scan, keys, number) if number else 'coalesce(max(most), 0) > 1' }},
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
                    {{ dbt_backfill.null_key_predicate(columns) }} as null_key
                from ({{ scan }})
            )
            {{ 'group by hash' if by_hash }}
        )
        group by vnode
    )
{%- endmacro %}


{#-
    A scalar subquery: whether some keys may stand twice. 64 neighbouring values of a number in the key share a word, in
    which each has its bit, so there are up to 64 times fewer groups than keys. Over the 6,000,000 keys of TPC-H lineitem
    that costs a third of grouping them by their hash, and where the numbers have no neighbours as much.

    Arguments:
      number (dict): one of the keys, see find_number.
-#}
{% macro get_twice_by_words_sql(scan, keys, number) -%}
    {%- set word = [] -%}
    {%- for key in keys -%}
        {%- set column = dbt_backfill.identifier(key.upstream) -%}
        {%- do word.append('shiftright(' ~ dbt_backfill._number_expression(key) ~ ', 6)' if key == number else column) -%}
    {%- endfor -%}
    (
        select coalesce(bool_or(twice), false)
        from (
            select count(bit) > bit_count(bit_or(bit)) as twice
            from (
                select
                    xxhash64({{ word | join(', ') }}) as word,
                    shiftleft(cast(1 as bigint), cast({{ dbt_backfill._number_expression(number) }} & 63 as int)) as bit
                from ({{ scan }})
            )
            group by word
        )
    )
{%- endmacro %}


{#- The last column of the key that is a whole number or a day: in key order its values are neighbours. None if there is none. -#}
{% macro find_number(keys) %}
    {{ return(keys | selectattr('type', 'in', ['tinyint', 'smallint', 'int', 'bigint', 'date']) | list | last | default(none)) }}
{% endmacro %}


{% macro _number_expression(key) %}
    {%- set column = dbt_backfill.identifier(key.upstream) -%}
    {{ return('cast(' ~ ('unix_date(' ~ column ~ ')' if key.type == 'date' else column) ~ ' as bigint)') }}
{% endmacro %}


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
