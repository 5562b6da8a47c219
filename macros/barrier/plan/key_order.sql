{#-
    Refuse a key that what is followed orders otherwise than Spark, so that files are skipped whose keys a range has.

    Asked at the first barrier, before a rebuild and after a gap; a column cannot change its order without one.
-#}
{% macro check_key_order(backfill) %}
    {%- set texts = backfill.key | selectattr('type', 'equalto', 'string') | map(attribute='upstream') | list -%}
    {%- if backfill.get('key_order_checked') or not texts -%} {{ return(none) }} {%- endif -%}
    {%- do backfill.update({'key_order_checked': true}) -%}
    {%- for followed in [backfill.upstream, backfill.feed] if followed -%}
        {%- do dbt_backfill.check_upstream_key_order(followed, texts) -%}
    {%- endfor -%}
{% endmacro %}
