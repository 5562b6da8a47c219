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
