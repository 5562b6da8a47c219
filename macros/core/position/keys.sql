{#- The columns of the position for these keys, quoted. -#}
{% macro position_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.position)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The columns of the upstream's key, quoted, each with `prefix` in front. -#}
{% macro upstream_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.upstream)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The columns of the MV that carry the key, quoted, each with `prefix` in front. -#}
{% macro mv_columns(keys, prefix='') %}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append(prefix ~ dbt_backfill.identifier(key.name)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- The key as the MV names it, for macros that take the upstream's names. -#}
{% macro get_mv_keys(keys) %}
    {%- set renamed = [] -%}
    {%- for key in keys -%} {%- do renamed.append(dict(key, upstream=key.name)) -%} {%- endfor -%}
    {{ return(renamed) }}
{% endmacro %}


{#- A condition that the key of two rows is the same, where both have the MV's names of its columns. -#}
{% macro equal_keys(keys, left, right) -%}
    {{ return(dbt_backfill.equal_columns(dbt_backfill.mv_columns(keys), left, right)) }}
{%- endmacro %}


{#- The same where `left` has the upstream's names of the columns and `right` the MV's. -#}
{% macro carried_keys(keys, left, right) -%}
    {%- set pairs = [] -%}
    {%- for column in dbt_backfill.upstream_columns(keys, left) -%}
        {%- do pairs.append(column ~ ' = ' ~ dbt_backfill.mv_columns(keys, right)[loop.index0]) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}


{#- A condition that two rows are equal in columns of the same names. -#}
{% macro equal_columns(columns, left, right) -%}
    {%- set pairs = [] -%}
    {%- for column in columns -%}
        {%- do pairs.append(left ~ column ~ ' = ' ~ right ~ column) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{%- endmacro %}


{#-
    `(columns) <op> (values)` as tuples, with op one of >, >=, <, <=.

    Written out as `a >= x and (a > x or (a = x and b > y))`, which prunes files of Parquet, Delta and Iceberg;
    comparing structs prunes nothing.

    Arguments:
      columns, values (lists of string): SQL expressions of equal length; literals as values, or columns.
-#}
{% macro tuple_predicate(columns, op, values) -%}
    {%- set tuple = dbt_backfill._tuple_comparison(columns, op, values) -%}
    {%- if columns | length == 1 -%}
        {{ return(tuple) }}
    {%- endif -%}
    {{ return('(' ~ columns[0] ~ ' ' ~ op[0] ~ '= ' ~ values[0] ~ ' and ' ~ tuple ~ ')') }}
{%- endmacro %}


{% macro _tuple_comparison(columns, op, values) -%}
    {%- if columns | length == 1 -%}
        {{ return(columns[0] ~ ' ' ~ op ~ ' ' ~ values[0]) }}
    {%- endif -%}
    {%- set rest = dbt_backfill._tuple_comparison(columns[1:], op, values[1:]) -%}
    {{ return('(' ~ columns[0] ~ ' ' ~ op[0] ~ ' ' ~ values[0]
        ~ ' or (' ~ columns[0] ~ ' = ' ~ values[0] ~ ' and ' ~ rest ~ '))') }}
{%- endmacro %}


{#- True where any column of the key is null. Null keys have no order: ranges and feeds refuse them. -#}
{% macro null_key_predicate(columns) -%}
    {{ return('(' ~ columns | join(' is null or ') ~ ' is null)') }}
{%- endmacro %}


{#-
    The order of a backfill is that of its positions. They go up; or down, where the columns of the key say `order` `descending`:
    all of them together, the order of the tuples turned around. Where plans, states and comments speak of a position, its range
    and what is above or below it, `low` and `high` are meant in this order. The bounds of staged changes, of files and of a
    selection are in that of the keys.
-#}
{% macro is_descending(keys) %}
    {{ return(keys[0].get('order') == 'descending') }}
{% endmacro %}


{% macro get_order(keys) %}
    {{ return('descending' if dbt_backfill.is_descending(keys) else 'ascending') }}
{% endmacro %}


{#- The keys of a backfill in this order; nothing is noted with those of an ascending one. -#}
{% macro with_order(keys, order) %}
    {%- set ordered = [] -%}
    {%- for key in keys -%}
        {%- set ascending = {} -%}
        {%- for name, value in key.items() if name != 'order' -%} {%- do ascending.update({name: value}) -%} {%- endfor -%}
        {%- do ordered.append(dict(ascending, order=order) if order == 'descending' else ascending) -%}
    {%- endfor -%}
    {{ return(ordered) }}
{% endmacro %}


{#-
    tuple_predicate in the order of the backfill, where `<` is what comes before.

    Arguments:
      columns (list): of the key, under any of their names.
-#}
{% macro ordered_predicate(keys, columns, op, values) -%}
    {%- set turned = {'>': '<', '>=': '<=', '<': '>', '<=': '>='} -%}
    {{ return(dbt_backfill.tuple_predicate(columns, turned[op] if dbt_backfill.is_descending(keys) else op, values)) }}
{%- endmacro %}


{#-
    Positions are compared and rendered by Spark, by the types below only. Left out on purpose: float and
    double (NaN and statistics of files disagree), strings with a collation (equal keys with unequal hashes),
    and everything that has no order.
-#}
{% macro is_key_type(type) %}
    {{ return(modules.re.fullmatch(
        '(tinyint|smallint|int|bigint|string|date|timestamp|timestamp_ntz|boolean|binary|decimal\\(\\d+,\\d+\\))', type
    ) is not none) }}
{% endmacro %}


{#-
    A SQL expression that renders `column` of `type` as the text of a literal of that type.

    The text survives every value (quotes, backslashes, unicode, NUL, dates before 1582, microseconds), does
    not depend on the session's time zone, and folds to a literal that Spark pushes down to files. A `$` is
    among the characters that go as hex: Spark substitutes `${…}` inside string literals.
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


{#- An array of the literals' texts of a key, given as columns in `prefix`; null if the key is. -#}
{% macro literals_expression(keys, prefix='') -%}
    {%- set literals = [] -%}
    {%- for key in keys -%}
        {%- do literals.append(
            dbt_backfill.literal_expression(prefix ~ dbt_backfill.identifier(key.upstream), key.type)
        ) -%}
    {%- endfor -%}
    {{ return('if(' ~ prefix ~ dbt_backfill.identifier(keys[0].upstream) ~ ' is null, null, array('
        ~ literals | join(', ') ~ '))') }}
{%- endmacro %}


{#-
    The vnode of a row: `pmod(xxhash64(key), vnode_count)`.

    The hash depends on the columns' types (an int and a bigint of one value differ), so each is cast to the
    type that was recorded when the MV was created: a key that is widened later keeps its vnode.
-#}
{% macro vnode_expression(keys, vnode_count, prefix='') -%}
    {{ return('cast(pmod(' ~ dbt_backfill.key_hash_expression(keys, prefix) ~ ', ' ~ vnode_count ~ ') as int)') }}
{%- endmacro %}


{% macro key_hash_expression(keys, prefix='') -%}
    {%- set columns = [] -%}
    {%- for key in keys -%}
        {%- do columns.append('cast(' ~ prefix ~ dbt_backfill.identifier(key.upstream) ~ ' as ' ~ dbt_backfill.type_sql(key.type) ~ ')') -%}
    {%- endfor -%}
    {{ return('xxhash64(' ~ columns | join(', ') ~ ')') }}
{%- endmacro %}
