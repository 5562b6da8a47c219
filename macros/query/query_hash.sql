{#-
    What a query means, as an md5 of its text without comments and with one space for any white space.

    A change of it means that rows merged before and after come from different queries; a change of layout
    or of a comment does not.
-#}
{% macro query_hash(query) %}
    {%- set pieces = [] -%}
    {%- for token in dbt_backfill.tokens(query) -%}
        {%- if token.kind in ['comment', 'code'] -%}
            {%- set text = ' ' if token.kind == 'comment' else modules.re.sub('\\s+', ' ', token.text) -%}
            {%- set text = text.lstrip() if pieces and pieces[-1].endswith(' ') else text -%}
            {%- if text -%} {%- do pieces.append(text) -%} {%- endif -%}
        {%- else -%}
            {%- do pieces.append(token.text) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(local_md5(pieces | join | trim)) }}
{% endmacro %}
