{#-
    The macro that answers a question for a kind, of upstreams or of barriers: its name is that of the kind and of the
    question, such as `delta_read_upstream` or `reset_execute`. The questions stand in `upstream/upstream.sql` and in
    `barrier/kinds/kinds.sql`. Nothing but its name ties a macro to them, so a new kind is a new file, or folder.
-#}
{% macro of_kind(kind, question) %}
    {{ return(dbt_backfill[kind ~ '_' ~ question]) }}
{% endmacro %}


{#- The traits of the kind of a plan, see `barrier/kinds/kinds.sql`. -#}
{% macro get_traits(plan) %}
    {{ return(dbt_backfill.of_kind(plan.kind, 'traits')()) }}
{% endmacro %}
