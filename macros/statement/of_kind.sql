{#-
    The macro that answers a question for a kind of upstream, or of feed: its name is that of the kind and of the question,
    such as `delta_read_upstream`. The questions are in `upstream/upstream.sql`. Nothing but its name ties a macro to them, so
    a new kind is a new folder.
-#}
{% macro of_kind(kind, question) %}
    {{ return(dbt_backfill[kind ~ '_' ~ question]) }}
{% endmacro %}
