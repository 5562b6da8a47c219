{#-
    Refuse a key that what is followed orders otherwise than Spark, so that files are skipped whose keys a range has.

    Asked at the first barrier, before a rebuild and after a gap; a column cannot change its order without one. Once in a
    run: returns what it has learned, see new_learned, with that.
-#}
{% macro check_key_order(backfill, learned) %}
    {%- set texts = learned.key | selectattr('type', 'equalto', 'string') | map(attribute='upstream') | list -%}
    {%- if learned.key_order_checked or not texts -%} {{ return(learned) }} {%- endif -%}
    {%- for followed in [backfill.upstream, backfill.feed] if followed and dbt_backfill.upstream_traits(followed).may_order_texts_otherwise -%}
        {%- do dbt_backfill.ask(followed, 'check_key_order')(followed, texts) -%}
    {%- endfor -%}
    {{ return(dict(learned, key_order_checked=true)) }}
{% endmacro %}
