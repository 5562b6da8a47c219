{#- Return the columns of the position for these keys, quoted, each with `prefix` in front. -#}
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


{#- Return the key as the MV names it, for macros that take the upstream's names. -#}
{% macro get_mv_keys(keys) %}
    {%- set renamed = [] -%}
    {%- for key in keys -%} {%- do renamed.append(dict(key, upstream=key.name)) -%} {%- endfor -%}
    {{ return(renamed) }}
{% endmacro %}


{#- Return a condition that two rows with the MV's names of the columns have the same key. -#}
{% macro equal_keys(keys, left, right) -%}
    {{ return(dbt_backfill.equal_columns(dbt_backfill.mv_columns(keys), left, right)) }}
{%- endmacro %}


{#- Return a condition that two rows have the same key, where `left` has the upstream's names of the columns and `right` the MV's. -#}
{% macro carried_keys(keys, left, right) -%}
    {%- set pairs = [] -%}
    {%- for key in keys -%}
        {%- do pairs.append(left ~ dbt_backfill.identifier(key.upstream) ~ ' = ' ~ right ~ dbt_backfill.identifier(key.name)) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}


{#- Return a condition that two rows are equal in columns of the same names. -#}
{% macro equal_columns(columns, left, right) -%}
    {%- set pairs = [] -%}
    {%- for column in columns -%} {%- do pairs.append(left ~ column ~ ' = ' ~ right ~ column) -%} {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}


{#-
    Return `(columns) <op> (values)` as a comparison of tuples, with op one of >, >=, <, <=. It is written out as
    `a >= x and (a > x or (a = x and b > y))`, which prunes files of Parquet, Delta and Iceberg; comparing structs prunes nothing.

    Arguments:
      columns, values (lists of string): SQL expressions of equal length; literals as values, or columns.
-#}
{% macro tuple_predicate(columns, op, values) -%}
    {%- set nested = [] -%}
    {%- for column in columns[:-1] -%}
        {%- set value = values[loop.index0] -%}
        {%- do nested.append('(' ~ column ~ ' ' ~ op[0] ~ ' ' ~ value ~ ' or (' ~ column ~ ' = ' ~ value ~ ' and ') -%}
    {%- endfor -%}
    {%- set tuple = nested | join ~ columns[-1] ~ ' ' ~ op ~ ' ' ~ values[-1] ~ '))' * nested | length -%}
    {{ return('(' ~ columns[0] ~ ' ' ~ op[0] ~ '= ' ~ values[0] ~ ' and ' ~ tuple ~ ')' if nested else tuple) }}
{%- endmacro %}


{#- True where any column of the key is null. Null keys have no order: ranges and feeds refuse them. -#}
{% macro null_key_predicate(columns) -%}
    {{ return('(' ~ columns | join(' is null or ') ~ ' is null)') }}
{%- endmacro %}


{#-
    True if the positions of a backfill go down, not up: the columns of its key say `order` `descending`, all of them together, and the
    order of the tuples is turned around. Where plans, states and comments speak of a position, its range and what is above or below it,
    `low` and `high` are meant in this order. The bounds of staged changes, of files and of a selection are in the order of the keys.
-#}
{% macro is_descending(keys) %}
    {{ return(keys[0].get('order') == 'descending') }}
{% endmacro %}


{% macro get_order(keys) %}
    {{ return('descending' if dbt_backfill.is_descending(keys) else 'ascending') }}
{% endmacro %}


{#- Return the keys of a backfill in this order; an ascending one records none. -#}
{% macro with_order(keys, order) %}
    {%- set ordered = [] -%}
    {%- for key in keys -%}
        {%- set entries = {} -%}
        {%- for name, value in key.items() if name != 'order' -%} {%- do entries.update({name: value}) -%} {%- endfor -%}
        {%- do ordered.append(dict(entries, order=order) if order == 'descending' else entries) -%}
    {%- endfor -%}
    {{ return(ordered) }}
{% endmacro %}


{#- Return tuple_predicate in the order of the backfill, where `<` is what comes before; `columns` are the key's, under any names. -#}
{% macro ordered_predicate(keys, columns, op, values) -%}
    {%- set turned = {'>': '<', '>=': '<=', '<': '>', '<=': '>='} -%}
    {{ return(dbt_backfill.tuple_predicate(columns, turned[op] if dbt_backfill.is_descending(keys) else op, values)) }}
{%- endmacro %}


{#-
    True if a key may have this type. Spark compares and renders positions. Left out on purpose: float and double (NaN and statistics
    of files disagree), strings with a collation (equal keys with unequal hashes), and everything that has no order.
-#}
{% macro is_key_type(type) %}
    {{ return(modules.re.fullmatch(
        '(tinyint|smallint|int|bigint|string|date|timestamp|timestamp_ntz|boolean|binary|decimal\\(\\d+,\\d+\\))', type
    ) is not none) }}
{% endmacro %}


{#-
    Return a SQL expression that renders `column` of `type` as the text of a literal of that type.

    The text survives every value (quotes, backslashes, unicode, NUL, dates before 1582, microseconds), does not depend on the session's
    time zone, and folds to a literal that Spark pushes down to files. A `$` is among the characters that go as hex: Spark substitutes
    `${…}` inside string literals.
-#}
{% macro literal_expression(column, type) -%}
    {%- if type == 'string' -%}
        {{ return("if(" ~ column ~ " rlike '^[ -#%&(-\\\\[\\\\]-~]*$', concat('\\'', " ~ column ~ ", '\\''), "
            ~ "concat('cast(X\\'', hex(cast(" ~ column ~ " as binary)), '\\' as string)'))") }}
    {%- elif type == 'binary' -%}
        {{ return("concat('X\\'', hex(" ~ column ~ "), '\\'')") }}
    {%- elif type == 'timestamp' -%}
        {{ return("concat('timestamp_micros(', unix_micros(" ~ column ~ "), 'L)')") }}
    {%- elif type == 'date' -%}
        {{ return("concat('date_from_unix_date(', unix_date(" ~ column ~ "), ')')") }}
    {%- elif type in ['int', 'bigint', 'smallint', 'tinyint', 'boolean'] -%}
        {%- set suffix = {'bigint': 'L', 'smallint': 'S', 'tinyint': 'Y'}.get(type, '') -%}
        {{ return("concat(cast(" ~ column ~ " as string), '" ~ suffix ~ "')") }}
    {%- else -%}
        {{ return("concat('cast(\\'', cast(" ~ column ~ " as string), '\\' as " ~ type ~ ")')") }}
    {%- endif -%}
{%- endmacro %}


{#- Return an array of the literals' texts of a key, given as columns in `prefix`; null if the key is. -#}
{% macro literals_expression(keys, prefix='') -%}
    {%- set columns, literals = dbt_backfill.upstream_columns(keys, prefix), [] -%}
    {%- for key in keys -%} {%- do literals.append(dbt_backfill.literal_expression(columns[loop.index0], key.type)) -%} {%- endfor -%}
    {{ return('if(' ~ columns[0] ~ ' is null, null, array(' ~ literals | join(', ') ~ '))') }}
{%- endmacro %}


{#- Return the vnode of a row: `pmod(xxhash64(key), vnode_count)`. -#}
{% macro vnode_expression(keys, vnode_count, prefix='') -%}
    {{ return('cast(pmod(' ~ dbt_backfill.key_hash_expression(keys, prefix) ~ ', ' ~ vnode_count ~ ') as int)') }}
{%- endmacro %}


{#-
    Return the hash of a key. It depends on the columns' types (an int and a bigint of one value differ), so each is cast to the type
    that was recorded when the MV was created: a key that is widened later keeps its vnode.
-#}
{% macro key_hash_expression(keys, prefix='') -%}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append('cast(' ~ prefix ~ dbt_backfill.identifier(key.upstream) ~ ' as ' ~ dbt_backfill.type_sql(key.type) ~ ')') -%}
    {%- endfor -%}
    {{ return('xxhash64(' ~ columns | join(', ') ~ ')') }}
{%- endmacro %}
