{#-
    persist_docs, only where the descriptions changed: each comment is a commit of the MV, and a run that has
    nothing to do writes nothing. A hash of what was applied stands in the table property `dbt_backfill.docs`. What is described of a
    column that the MV does not have is not in it, so that one that comes later gets its comment.

    Arguments:
      found (dict or none): the MV as this run has found it, see observe_state; none if it has made it.
      state (dict): as the run has left it.
-#}
{% macro apply_docs(backfill, found, state) %}
    {%- if not config.persist_relation_docs() and not config.persist_column_docs() -%} {{ return(none) }} {%- endif -%}
    {%- set described = [model.description if config.persist_relation_docs() else none] -%}
    {%- set present = dbt_backfill.parse_columns(state.committed.query_columns) | map(attribute='name') | list -%}
    {%- for name, column in model.columns.items() if config.persist_column_docs() and name | lower in present | map('lower') -%}
        {%- do described.append([name, column.description]) -%}
    {%- endfor -%}
    {%- set docs = local_md5(tojson(described)) -%}
    {%- if found and found.docs == docs -%} {{ return(none) }} {%- endif -%}
    {%- if config.persist_relation_docs() -%}
        {%- do dbt_backfill.run_table('comment on the MV', 'comment on table ' ~ backfill.mv.render() ~ ' is '
            ~ dbt_backfill.string_literal(model.description)) -%}
    {%- endif -%}
    {%- if config.persist_column_docs() -%}
        {%- do dbt_backfill._comment_on_columns(backfill.mv, found, present) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_table('note the comments', 'alter table ' ~ backfill.mv.render()
        ~ " set tblproperties ('dbt_backfill.docs' = '" ~ docs ~ "')") -%}
{% endmacro %}


{#-
    dbt-spark's own persist_docs loses backslashes and `${…}` of a description. A column without one has no comment yet
    where the MV was just made, and may have one of before elsewhere.

    Arguments:
      present (list): the names of the columns that it has.
-#}
{% macro _comment_on_columns(mv, found, present) %}
    {%- for name, column in validate_doc_columns(mv, model.columns, present).items() if column.description or (found or {}).get('docs') -%}
        {%- do dbt_backfill.run_table('comment on ' ~ name, 'alter table ' ~ mv.render() ~ ' alter column '
            ~ dbt_backfill.identifier(name) ~ ' comment ' ~ dbt_backfill.string_literal(column.description)) -%}
    {%- endfor -%}
{% endmacro %}
