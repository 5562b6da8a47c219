{#-
    Whether the model's query returns what the committed one does, in the same columns, and only more columns: {
      'columns': these, as get_query_columns describes them; none if it is not so,
      'why': it is not so, as the end of a sentence
    }

    Columns that are still being filled may be defined otherwise: nothing is promised of them above the second position, and
    they are filled from the start again.

    That the others mean the same, and the rows are the same, is what Spark's optimized plans of both queries say, without the
    new columns. A plan prints a constant without its quotes and type; so each constant of the old query has to be in the new
    one, unless it may be one of a column that is being filled. (Were two printed alike after all, the ranges of the fill would
    find what differs.)

    Arguments:
      learned (dict): see new_learned.
-#}
{% macro find_new_columns(backfill, state, learned) %}
    {%- set last = state.committed -%}
    {%- set as_before = dict(backfill, query=last.query, query_hash=last.query_hash) -%}
    {%- set other = dbt_backfill.find_difference(as_before, state.settings, dict(learned, columns=last.query_columns), last) -%}
    {%- if other -%} {{ return({'columns': none, 'why': other}) }} {%- endif -%}
    {%- set filling = (dbt_backfill.get_filling(state) or {'columns': []}).columns -%}
    {%- set kept = dbt_backfill._without_names(dbt_backfill.parse_columns(last.query_columns), filling) -%}
    {%- set columns = dbt_backfill.get_mv_columns(backfill, backfill.query, backfill.upstream.relation.render()) -%}
    {%- set added = dbt_backfill._without_names(columns, kept) -%}
    {%- set gone = dbt_backfill._without_names(kept + filling, columns) -%}
    {%- set retyped = dbt_backfill._find_retyped(filling, added) -%}
    {%- if gone -%}
        {%- set why = 'it no longer returns ' ~ gone | map(attribute='name') | join(', ') -%}
    {%- elif retyped -%}
        {%- set why = retyped ~ ', which is being filled, has another type' -%}
    {%- elif not added -%}
        {%- set why = 'it returns no new column' -%}
    {%- else -%}
        {%- set why = dbt_backfill._find_other_meaning(backfill, last, kept, check_constants=not filling) -%}
    {%- endif -%}
    {{ return({'columns': none if why else added, 'why': why}) }}
{% endmacro %}


{#- How the model's query gives these columns otherwise than that of a plan; none if it does not. -#}
{% macro _find_other_meaning(backfill, plan, kept, check_constants) %}
    {%- set names, texts = kept | map(attribute='name') | list, [] -%}
    {%- for column in kept -%} {%- do texts.append(column.name ~ ': ' ~ column.type) -%} {%- endfor -%}
    {%- set other = 'it returns other rows, or other values in the columns that it had' -%}
    {%- set now = dbt_backfill.explain_comparably(backfill, backfill.query, names) -%}
    {%- if now is none or now.columns != texts | join(', ') -%}
        {{ return('it returns a column that it had with another name or type') }}
    {%- elif now != dbt_backfill.explain_comparably(backfill, plan.query, names) -%}
        {{ return(other) }}
    {%- endif -%}
    {%- set constants = dbt_backfill.get_constants(backfill.query) -%}
    {%- set before = dbt_backfill.get_constants(plan.query) if check_constants else [] -%}
    {%- for constant in before if before.count(constant) > constants.count(constant) -%} {{ return(other) }} {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Columns without those that have the name of one of `others`. -#}
{% macro _without_names(columns, others) %}
    {%- set names = others | map(attribute='name') | map('lower') | list -%}
    {%- set left = [] -%}
    {%- for column in columns if column.name | lower not in names -%} {%- do left.append(column) -%} {%- endfor -%}
    {{ return(left) }}
{% endmacro %}


{#- The name of the first column that has another type than the one of that name among `others`; none if there is none. -#}
{% macro _find_retyped(columns, others) %}
    {%- for column in columns -%}
        {%- for other in others if other.name | lower == column.name | lower and other.type != column.type -%}
            {{ return(other.name) }}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    What is to be filled once its query returns these columns more. Refuses what the MV cannot get, and a version that the query
    does not read: one that is pinned, or in which the upstream has not the columns that they are made of.
-#}
{% macro begin_filling(backfill, state, observed, learned, version, columns) %}
    {%- if not state.uniform -%}
        {%- do dbt_backfill.refuse(
            'its query returns new columns, and its vnodes have different positions',
            'Let them come to the end (without backfill_vnodes) with the query of before, or rebuild the MV with --full-refresh'
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_new_columns(backfill.mv, columns, (dbt_backfill.get_filling(state) or {'columns': []}).columns) -%}
    {%- if state.get('upstream_version') is not none -%}
        {%- do dbt_backfill.check_query_at(backfill, dict(observed, altered=true), learned, version) -%}
    {%- endif -%}
    {{ return(dbt_backfill.new_filling(columns)) }}
{% endmacro %}
