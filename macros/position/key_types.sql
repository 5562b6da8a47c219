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
