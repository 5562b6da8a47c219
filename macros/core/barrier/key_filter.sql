{#-
    This file makes a filter of the staged keys for the ON of the MERGE of changes. The filter is a condition on the MV only, so Spark applies it when
    it scans the MV. Without the filter, Spark shuffles every row of the MV between the bounds of the staged keys for the join. The filter may let
    other rows pass, because the ON compares the keys as well, but it never stops a row that has a staged key.

    For few keys whose first column is a number, the filter is a list of these numbers. (Spark pushes a list down to the files through Java values,
    which alter bytes that are not UTF-8 and some days of 1582. So a list of texts or times could skip the row of a staged key.) For other keys the
    filter is a Bloom filter: an array of words of 64 bits, in which each key has four bits of one word. The bits are stored inverted: 0 means that a
    key has set the bit. For very many keys there is no filter, because then most rows of the MV would pass.
-#}


{#-
    Return statements of a script that set its variable `merged`: {
      'upserts', 'drops': the number of keys in the view `rows` for which the query returns a row; the number of all other keys in this view,
      'filter': the filter of these keys, as the text of a condition on the MV (alias `mv`); absent if there is no filter
    } On Delta the words of a Bloom filter are put into a variable of the session that has the name of the view, so Delta's log has only this name. The
    ON does not qualify the name, because a column may be called `system`. On Iceberg, Spark resolves no variable in an ON, so it has the words.
-#}
{% macro get_merged_statements(backfill, keys, rows) -%}
    {%- set mv_keys, type, is_delta = dbt_backfill.get_mv_keys(keys), keys[0].type, backfill.options.file_format == 'delta' -%}
    {#- The largest number of keys for each form of the filter, and the largest number of words, which is a power of two. -#}
    {%- set limits = {'listed': 64, 'hashed': 500000, 'words': 65536} -%}
    {%- set listed = limits.listed if type in ['tinyint', 'smallint', 'int', 'bigint'] or type.startswith('decimal(') else 0 -%}
    {#- A column of the view would hide a variable of the same name. No column of an MV begins with `__bf_`. #}
    {%- set words -%}
        (
            select transform(array_sort(collect_list(struct(at, bits))), word -> ~word.bits)
            from (
                select at, bit_or(bits) as bits
                from (
                    select cast(shiftright(hash, 32) & (__bf_words - 1) as int) as at, {{ dbt_backfill.key_bits_expression('hash') }} as bits
                    from (select {{ dbt_backfill.key_hash_expression(mv_keys) }} as hash from {{ rows }})
                    union all
                    select explode(sequence(0, __bf_words - 1)), 0L
                )
                group by at
            )
        )
    {%- endset -%}
    {%- set hash = dbt_backfill.key_hash_expression(mv_keys, 'mv.') -%}
    {%- set filter = (rows if is_delta else "cast(split('__bf_words__', ',') as array<bigint>)")
        ~ '[cast(shiftright(' ~ hash ~ ', 32) & __bf_last__ as int)] & ' ~ dbt_backfill.key_bits_expression(hash) ~ ' = 0' -%}
    {#- The view has at most this number of keys. #}
    set __bf_keys = staged.count + coalesce(reread.count, 0);
    set merged = (
        select struct(count_if(not __bf_dropped), count_if(__bf_dropped), {% if listed <= 0 %} cast(null as string) {%- else -%}
            if(__bf_keys <= {{ listed }}, concat({{ dbt_backfill.string_literal(dbt_backfill.mv_columns(keys, 'mv.')[0] ~ ' in (') }}, array_join(
                collect_set({{ dbt_backfill.literal_expression(dbt_backfill.mv_columns(keys)[0], type) }}) filter (where __bf_keys <= {{ listed }}),
                ', '
            ), ')'), null) {%- endif -%})
        from {{ rows }}
    );
    if __bf_keys > {{ listed }} and __bf_keys <= {{ limits.hashed }} then
        set __bf_words = cast(least({{ limits.words }}, greatest(1, pow(2, ceil(log2(__bf_keys / 4))))) as int);
        {%- if is_delta %}
        execute immediate {{ dbt_backfill.string_literal('declare or replace variable ' ~ rows ~ ' array<bigint>') }};
        set system.session.{{ rows }} = {{ words }};
        {%- endif %}
        set merged = struct(merged.upserts, merged.drops, replace(replace(
            {{ dbt_backfill.string_literal(filter) }}, '__bf_last__', string(__bf_words - 1)
        ), '__bf_words__', {{ "''" if is_delta else 'array_join(' ~ words ~ ", ',')" }}));
    end if
{%- endmacro %}


{#- Return the bits of a key in its word of the Bloom filter, as a bigint. `hash`: a SQL expression of the key's hash. -#}
{% macro key_bits_expression(hash) -%}
    {%- set bits = [] -%}
    {%- for shift in [0, 6, 12, 18] -%} {%- do bits.append('shiftleft(1L, cast(shiftright(' ~ hash ~ ', ' ~ shift ~ ') & 63 as int))') -%} {%- endfor -%}
    {{ return('(' ~ bits | join(' | ') ~ ')') }}
{%- endmacro %}
