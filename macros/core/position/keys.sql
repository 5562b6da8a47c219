{#- Return the columns of the progress table with the position of these keys, quoted, each with `prefix` in front. -#}
{% macro position_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%} {%- do columns.append(prefix ~ dbt_backfill.identifier(key.position)) -%} {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return the columns of the upstream's key, quoted, each with `prefix` in front. -#}
{% macro upstream_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%} {%- do columns.append(prefix ~ dbt_backfill.identifier(key.upstream)) -%} {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return the columns of the MV that carry the key, quoted, each with `prefix` in front. -#}
{% macro mv_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%} {%- do columns.append(prefix ~ dbt_backfill.identifier(key.name)) -%} {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Return the key with the MV's column names instead of the upstream's, for macros that use the upstream's names. -#}
{% macro get_mv_keys(keys) %}
    {%- set renamed = [] -%}
    {%- for key in keys -%} {%- do renamed.append(dict(key, upstream=key.name)) -%} {%- endfor -%}
    {{ return(renamed) }}
{% endmacro %}


{#- Return a condition that two rows have the same key. `left_names`, `right_names`: `name` for the MV's names of the columns, else `upstream`. -#}
{% macro equal_keys(keys, left, right, left_names='name', right_names='name') -%}
    {%- set pairs = [] -%}
    {%- for key in keys -%}
        {%- do pairs.append(left ~ dbt_backfill.identifier(key[left_names]) ~ ' = ' ~ right ~ dbt_backfill.identifier(key[right_names])) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}


{#- Return `(columns) <op> (values)` as a comparison of tuples, with op one of >, >=, <, <=. The comparison is written as `a >= x and (a > x or (a = x
    and b > y))`. With this form Spark skips files of Parquet, Delta and Iceberg. With a comparison of structs, Spark would skip no file. The values
    are literals or columns. -#}
{% macro tuple_predicate(columns, op, values) -%}
    {%- set nested = [] -%}
    {%- for column in columns[:-1] -%}
        {%- set value = values[loop.index0] -%}
        {%- do nested.append('(' ~ column ~ ' ' ~ op[0] ~ ' ' ~ value ~ ' or (' ~ column ~ ' = ' ~ value ~ ' and ') -%}
    {%- endfor -%}
    {%- set tuple = nested | join ~ columns[-1] ~ ' ' ~ op ~ ' ' ~ values[-1] ~ '))' * nested | length -%}
    {{ return('(' ~ columns[0] ~ ' ' ~ op[0] ~ '= ' ~ values[0] ~ ' and ' ~ tuple ~ ')' if nested else tuple) }}
{%- endmacro %}


{#- Return a predicate that is true if any column of the key is null. Such a key has no order, so no range and no feed may have it. -#}
{% macro null_key_predicate(columns) -%}
    {{ return('(' ~ columns | join(' is null or ') ~ ' is null)') }}
{%- endmacro %}


{#- True if the backfill goes from the greatest key to the least. In this case every column of the key has the entry 'order': `descending`, and the
    order of the tuples is reversed. The words above, below, `low` and `high` refer to the order of the backfill if they describe a position or a
    range. The same words refer to the ascending order of the keys if they describe staged changes, files or a selection. -#}
{% macro is_descending(keys) %}
    {{ return(keys[0].get('order') == 'descending') }}
{% endmacro %}


{#- Return tuple_predicate in the order of the backfill: `<` means that a key comes earlier in the backfill. -#}
{% macro ordered_predicate(keys, columns, op, values) -%}
    {%- set turned = {'>': '<', '>=': '<=', '<': '>', '<=': '>='} -%}
    {{ return(dbt_backfill.tuple_predicate(columns, turned[op] if dbt_backfill.is_descending(keys) else op, values)) }}
{%- endmacro %}


{#-
    Return a SQL expression that renders `column` of `type` as the text of a literal of that type.

    The text is exact for every value (quotes, backslashes, unicode, NUL, dates before 1582, microseconds) and does not depend on the session's time
    zone. Spark folds this SQL to a literal, and pushes the literal down to files. A string with a `$` is written as hex, because Spark substitutes
    `${…}` in string literals.
-#}
{% macro literal_expression(column, type) -%}
    {%- set suffixes = {'int': '', 'bigint': 'L', 'smallint': 'S', 'tinyint': 'Y', 'boolean': ''} -%}
    {{ return("if(" ~ column ~ " rlike '^[ -#%&(-\\\\[\\\\]-~]*$', concat('\\'', " ~ column ~ ", '\\''), "
            ~ "concat('cast(X\\'', hex(cast(" ~ column ~ " as binary)), '\\' as string)'))" if type == 'string'
        else "concat('X\\'', hex(" ~ column ~ "), '\\'')" if type == 'binary'
        else "concat('timestamp_micros(', unix_micros(" ~ column ~ "), 'L)')" if type == 'timestamp'
        else "concat('date_from_unix_date(', unix_date(" ~ column ~ "), ')')" if type == 'date'
        else "concat(cast(" ~ column ~ " as string), '" ~ suffixes[type] ~ "')" if type in suffixes
        else "concat('cast(\\'', cast(" ~ column ~ " as string), '\\' as " ~ type ~ ")')") }}
{%- endmacro %}


{#- Return a SQL array of a key's literals as texts; null if the key is null. `prefix`: the prefix of the key's columns. -#}
{% macro literals_expression(keys, prefix='') -%}
    {%- set columns, literals = dbt_backfill.upstream_columns(keys, prefix), [] -%}
    {%- for key in keys -%} {%- do literals.append(dbt_backfill.literal_expression(columns[loop.index0], key.type)) -%} {%- endfor -%}
    {{ return('if(' ~ columns[0] ~ ' is null, null, array(' ~ literals | join(', ') ~ '))') }}
{%- endmacro %}


{#- Return the vnode of a row: `pmod(xxhash64(key), vnode_count)`. -#}
{% macro vnode_expression(keys, vnode_count, prefix='') -%}
    {{ return('cast(pmod(' ~ dbt_backfill.key_hash_expression(keys, prefix) ~ ', ' ~ vnode_count ~ ') as int)') }}
{%- endmacro %}


{#- Return the hash of a key. The hash depends on the types of the columns: an int and a bigint of the same value have different hashes. So each
    column is cast to the type that was recorded when the MV was created. A key keeps its vnode even if its type is widened later. -#}
{% macro key_hash_expression(keys, prefix='') -%}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append('cast(' ~ prefix ~ dbt_backfill.identifier(key.upstream) ~ ' as ' ~ dbt_backfill.type_sql(key.type) ~ ')') -%}
    {%- endfor -%}
    {{ return('xxhash64(' ~ columns | join(', ') ~ ')') }}
{%- endmacro %}


{#-
    Return a select of the part of the upstream that is already in the MV: the rows of `source` that are not above the position of their vnode. If all
    vnodes have the same position, the rows are compared with literals. Otherwise each row is compared with its vnode's row of the progress table.
    `source`: a relation or a select in parentheses, with the upstream's columns; `with_null_keys`: true to include rows whose key is null.
-#}
{% macro get_prefix_scan_sql(source, state, relations, keys, with_null_keys=false) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys, 'source.') -%}
    {%- set nulls = ' or ' ~ dbt_backfill.null_key_predicate(columns) if with_null_keys else '' -%}
    {%- if not state.uniform -%}
        select source.*
        from {{ source }} as source
        join {{ relations.progress.render() }} as progress
            on progress.vnode = {{ dbt_backfill.vnode_expression(keys, state.committed.vnode_count, 'source.') }}
        where progress.backfill_finished
            or {{ dbt_backfill.ordered_predicate(keys, columns, '<=', dbt_backfill.position_columns(keys, 'progress.')) ~ nulls }}
    {%- elif state.finished -%}
        select * from {{ source }} as source
    {%- else -%}
        select * from {{ source }} as source
        where {{ ('false' if state.get('position') is none else dbt_backfill.ordered_predicate(keys, columns, '<=', state.position)) ~ nulls }}
    {%- endif -%}
{%- endmacro %}


{#- Return a select of the range of a plan: the rows of `source` above the position of their vnode and up to the plan's range_high. The select returns
    the rows of all vnodes if `plan.vnodes` is none. If the positions differ, each row is compared with its vnode's row of the progress table, and
    range_low is the lowest position. -#}
{% macro get_range_scan_sql(source, plan, state, relations, keys, with_null_keys=false) -%}
    {%- set columns, vnode = dbt_backfill.upstream_columns(keys, 'source.'), dbt_backfill.vnode_expression(keys, plan.vnode_count, 'source.') -%}
    {%- set window = dbt_backfill.window_predicate(keys, columns, plan) -%}
    {%- set nulls = ' or ' ~ dbt_backfill.null_key_predicate(columns) if with_null_keys else '' -%}
    {%- if plan.get('vnodes') is none -%}
        select * from {{ source }} as source where ({{ window }}){{ nulls }}
    {%- elif state.uniform -%}
        select * from {{ source }} as source
        where {{ vnode }} in ({{ plan.vnodes | join(', ') }}) and (({{ window }}){{ nulls }})
    {%- else -%}
        {%- set positions = dbt_backfill.position_columns(keys, 'progress.') -%}
        select source.*
        from {{ source }} as source
        join {{ relations.progress.render() }} as progress on progress.vnode = {{ vnode }}
        where progress.vnode in ({{ plan.vnodes | join(', ') }})
            and (({{ window }} and ({{ positions[0] }} is null
                or {{ dbt_backfill.ordered_predicate(keys, columns, '>', positions) }})){{ nulls }})
    {%- endif -%}
{%- endmacro %}


{#- Return the predicate range_low < columns <= range_high, with literals, in the order of the backfill. The last range has no upper bound. -#}
{% macro window_predicate(keys, columns, plan) -%}
    {%- set low = none if plan.get('range_low') is none else dbt_backfill.ordered_predicate(keys, columns, '>', plan.range_low) -%}
    {%- set high = none if plan.get('last_range') else dbt_backfill.ordered_predicate(keys, columns, '<=', plan.range_high) -%}
    {{ return([low, high] | select | join(' and ') or 'true') }}
{%- endmacro %}


{#-
    Return a select of the upper bounds of the next ranges of about `rate_limit` rows each, from one pass over the remaining keys: {
      'bounds': a list of keys as literals' texts, in the order of the backfill,
      'complete': true if the bounds reach the end of the upstream,
      'rows': the number of rows that remain,
      'scans': how often the remaining ranges together would read each remaining row: a range reads each file, or split of a file, that may have a row
        of the range. Absent if Spark does not report the files
    }.

    The keys are sorted as tuples: all keys if few remain, else a sample. Every k-th key is a bound. The error of a range's size is about 1/sqrt(k). A
    bound at the end of the keys is left out, because the last range has no end. A frequent key that would be several bounds is returned once.

    Arguments:
      scan (string): a select of the keys beyond the position. total (string): a SQL expression of the upstream's number of rows.
      done (int): the number of rows of the snapshot that were read so far.
      by_file (boolean): true if the scan reads files of one table, so that Spark can report the files.
-#}
{% macro get_bounds_sql(scan, total, done, keys, rate_limit, by_file=true) -%}
    {%- set most, names = 256, dbt_backfill.upstream_columns(keys) -%}
    {%- set columns, turn = names | join(', '), ' desc' if dbt_backfill.is_descending(keys) else '' -%}
    with share as (
        select least(1e0, greatest(1e5, least(1e6, 1e3 * remaining / {{ rate_limit }})) / remaining) as sampled, remaining
        from (select greatest(1, {{ total }} - {{ done }}) as remaining)
    ),
    sample as (
        select
            *,
            {{ "input_file_name() as __bf_file, input_file_block_start() as __bf_split" if by_file else "'' as __bf_file, 0 as __bf_split" }},
            {#- corr() could divide by zero if all rows had the same value, so each row gets another value. #}
            monotonically_increasing_id() as __bf_place
        from ({{ scan }})
        {#- Null keys are left out here: they are not bounds. The check of the range's keys refuses them. #}
        where rand() < (select sampled from share) and not {{ dbt_backfill.null_key_predicate(names) }}
    ),
    ranked as (
        select
            {{ columns }}, __bf_file, __bf_split, __bf_place,
            row_number() over (order by {{ names | join(turn ~ ', ') ~ turn }}) as __bf_rank,
            count(*) over () as __bf_size,
            (select greatest(1, cast(floor({{ rate_limit }} * sampled) as bigint)) from share) as __bf_step
        from sample
    )
    select to_json(named_struct(
        'bounds', coalesce(array_distinct(transform(array_sort(flatten(collect_list(bounds))), bound -> bound.bound)), array()),
        'complete', coalesce(max(size) <= max(step) * {{ most + 1 }}, true),
        'rows', (select max(remaining) from share),
        'scans', if(bool_or(__bf_file = ''), null,
            round(sum(row_count * if(in_order, 1, last_rank div step - first_rank div step + 1)) / sum(row_count), 2))
    ))
    from (
        select
            __bf_file, max(__bf_size) as size, max(__bf_step) as step,
            count(*) as row_count, min(__bf_rank) - 1 as first_rank, max(__bf_rank) - 1 as last_rank,
            abs(corr(__bf_rank, __bf_place)) > 0.99 as in_order,
            collect_list(if(
                __bf_rank % __bf_step = 0 and __bf_rank < __bf_size and __bf_rank <= __bf_step * {{ most }},
                struct(__bf_rank as rank, {{ dbt_backfill.literals_expression(keys) }} as bound), null
            )) as bounds
        from ranked
        group by __bf_file, __bf_split
    )
{%- endmacro %}


{#-
    Return a scalar subquery that is true if a key may occur twice. The query puts 64 neighbouring values of a number in the key into one word, with
    one bit for each value. So there are up to 64 times fewer groups than keys. For the 6,000,000 keys of TPC-H lineitem, this query costs a third of
    a query that groups the keys by their hash. If the numbers are far apart, both queries cost the same. `number`: the column of the key that is a
    whole number or a date.
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


{#- Return a select of up to three keys, as literals, that occur more than once in a select of keys. -#}
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
