{#- `1 row`, `12,345 rows`. -#}
{% macro get_count_text(count, noun) %}
    {{ return('{:,} {}{}'.format(count, noun, '' if count == 1 else 's')) }}
{% endmacro %}
