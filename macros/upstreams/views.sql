{#- This file lets a model read its upstream through views. Barriers read the upstream at a version, and a view has no versions. So the text of each
    view becomes a part of the model's query, as a common table expression. A view with another text is therefore another query. -#}


{#-
    Return what a query reads: {
      'relation': the table that the query reads, if need be through views,
      'existing': this table, as load_table returned it,
      'sql': the query with the text of each view in it,
      'views': a list of {'name', 'settings': the settings that Spark has stored with the view}, the innermost view first
    }

    Refuse a view if its text does not mean the same here as in the view: it names its table without the schema, it was created in another current
    schema, or its columns have other types now. Afterwards, check_query checks that the query and the views are row-wise, and check_settings_of_views
    checks the settings. `relation`: the table or view that the query names; `views`: the views that the query was already read through.
-#}
{% macro read_through_views(relation, sql, views=[]) %}
    {%- set existing = dbt_backfill.load_table(relation, reads=true) -%}
    {%- if existing is none or not existing.is_view -%}
        {{ return({'relation': relation, 'existing': existing, 'sql': sql, 'views': views}) }}
    {%- endif -%}
    {%- set times = dbt_backfill.tokens(sql, relation) | selectattr('kind', 'equalto', 'upstream') | list | length -%}
    {%- if times > 1 -%}
        {%- do dbt_backfill.refuse('its query contains the name of the view ' ~ relation.render() ~ ' ' ~ times ~ ' times',
            'Read the view once; if one of these names is a field of a column, write an alias of the view before the column',
            id='view-named-repeatedly') -%}
    {%- endif -%}
    {%- set view = dbt_backfill.read_view(relation) -%}
    {%- set with_its_text -%}
with {{ dbt_backfill.identifier(relation.identifier) }} as (
    select {{ view.columns }}
    from (
{{ view.text }}
    )
)
(
{{ dbt_backfill.substitute_upstream(sql, relation) }}
)
    {%- endset -%}
    {{ return(dbt_backfill.read_through_views(view.reads, with_its_text, [view] + views)) }}
{% endmacro %}


{#-
    Return a view: {
      'name', 'text': its query,
      'columns': its columns, as a select list over its query,
      'operators': the lines of the analyzed plan of its query,
      'reads': the table or view that its query reads,
      'settings': the settings that Spark has stored with it
    }
-#}
{% macro read_view(view) %}
    {%- set name = view.render() -%}
    {%- if dbt_backfill.get_catalog(view) is not none -%}
        {%- do dbt_backfill.refuse('its query reads the view ' ~ name ~ ', which is not in the catalog of the session',
            'Read the table under the view', id='view-not-in-catalog') -%}
    {%- endif -%}
    {%- set facts = dbt_backfill.run_json('describe ' ~ view.identifier, 'describe extended ' ~ name ~ ' as json')[0] -%}
    {%- set current = "select to_json(named_struct('schema', concat_ws('.', current_catalog(), current_schema())))" -%}
    {%- set current = dbt_backfill.run_json('read the current schema', current)[0].schema -%}
    {#- Hive and Iceberg's session catalog create views without these facts. Spark reads them in the current schema and by the names of their columns. -#}
    {%- set outputs, created_in = facts.get('view_query_output_columns'), facts.get('view_catalog_and_namespace') or current -%}
    {%- set outputs, created_in = outputs or facts.columns | map(attribute='name') | list, created_in | replace('`', '') -%}
    {%- do dbt_backfill.refuse_first([
        {'when': not facts.get('view_text') or outputs | length != facts.columns | length or 'view_creation_spark_configuration' not in facts,
         'id': 'view-text-hidden', 'fact': 'its query reads the view ' ~ name ~ ', whose text or settings Spark does not show',
         'change': 'Create it by CREATE VIEW in the session catalog, or read the table under the view'},
        {'when': created_in != current,
         'id': 'view-current-schema', 'fact': 'its query reads the view ' ~ name ~ ', which was created with the current schema ' ~ created_in
            ~ ', but the current schema is ' ~ current, 'change': 'Create the view again, as dbt run --select does for a model'},
        {'when': facts.get('view_schema_mode') == 'EVOLUTION', 'fact': 'its query reads the view ' ~ name ~ ', whose columns change with its table',
         'id': 'view-schema-evolution', 'change': 'Create the view without WITH SCHEMA EVOLUTION'},
        {'when': facts.get('collation') not in [none, 'UTF8_BINARY'],
         'id': 'view-collation', 'fact': 'its query reads the view ' ~ name ~ ', which has the default collation ' ~ facts.collation,
         'change': 'Create the view without DEFAULT COLLATION'},
    ]) -%}
    {%- set sql -%}
select * except (__bf_view), 0 as __bf_end, __bf_view.*
from (select *, (select struct(*) from {{ view.render() }} where false) as __bf_view from (
{{ facts.view_text }}
) as __bf_query)
    {%- endset -%}
    {%- set plan = dbt_backfill.run_explain('read ' ~ view.identifier, sql) -%}
    {%- set error, analyzed = dbt_backfill.find_plan_error(plan), dbt_backfill.plan_section(plan, 'Analyzed') -%}
    {%- if error -%}
        {%- do dbt_backfill.refuse('its query reads the view ' ~ name ~ ', which Spark cannot run: ' ~ error, 'Correct the view', id='view-fails') -%}
    {%- endif -%}
    {%- set of_text, of_view = analyzed[0].split(', __bf_end: int, ', 1) -%}
    {%- set types, columns = {}, [] -%}
    {%- for column in dbt_backfill.parse_columns(of_text) -%} {%- do types.update({column.name: column.type}) -%} {%- endfor -%}
    {%- for column in dbt_backfill.parse_columns(of_view) -%}
        {%- set output = outputs[loop.index0] -%}
        {%- if types.get(output) != column.type -%}
            {%- do dbt_backfill.refuse(
                'its query reads the view ' ~ name ~ ', whose column ' ~ column.name ~ ' has the type ' ~ column.type
                    ~ ', but the query of the view returns ' ~ (types[output] if output in types else 'no such column'),
                'Create the view again, as dbt run --select does for a model', id='view-column-type') -%}
        {%- endif -%}
        {%- set as = '' if output == column.name else ' as ' ~ dbt_backfill.identifier(column.name) -%}
        {%- do columns.append(dbt_backfill.identifier(output) ~ as) -%}
    {%- endfor -%}
    {%- set parsed, names = dbt_backfill.plan_section(plan, 'Parsed') | join('\n'), [] -%}
    {%- for line in parsed.split('SubqueryAlias __bf_query\n', 1)[1].split('\n') if "- 'UnresolvedRelation [" in line -%}
        {%- set parts = line.split("- 'UnresolvedRelation [", 1)[1].split(']')[0].split(', ') -%}
        {#- A table that is named without its schema is not distinguished from a common table expression: both names have one part. -#}
        {%- if parts | length > 1 -%} {%- do names.append(parts) -%} {%- endif -%}
    {%- endfor -%}
    {%- if 'RelationTimeTravel ' in parsed -%}
        {%- do dbt_backfill.refuse('its query reads the view ' ~ name ~ ', which reads its table at a fixed version, which never changes',
            'Remove the AS OF clause from the view', id='view-fixed-version') -%}
    {%- endif -%}
    {%- if names | length != 1 or '/' in names[0][-1] -%}
        {%- do dbt_backfill.refuse(
            'its query reads the view ' ~ name ~ ', whose query reads '
                ~ (names | map('join', '.') | join(', ') if names else 'no table that is named with its schema'),
            'Read one table in the view, and write its name with its schema', id='view-query-unsupported') -%}
    {%- endif -%}
    {%- set operators = [] -%}
    {#- A view in this view is read later. check_query also reads the plan of the whole query, so nothing depends on finding the view's part here. -#}
    {%- for line in (analyzed | join('\n')).partition('\n      +- SubqueryAlias __bf_query\n')[2].split('\n')
            if dbt_backfill.plan_operator(line) != 'View' -%}
        {%- do operators.append(line) -%}
    {%- endfor -%}
    {%- set quoted, parts = [], names[0][1:] if names[0] | length > 2 and names[0][0] == 'spark_catalog' else names[0] -%}
    {%- for part in parts -%} {%- do quoted.append(part if modules.re.fullmatch('\\w+', part) else dbt_backfill.identifier(part)) -%} {%- endfor -%}
    {{ return({
        'name': name, 'text': facts.view_text, 'columns': columns | join(', '), 'operators': operators,
        'settings': facts.view_creation_spark_configuration,
        'reads': dbt_backfill.parse_relation(quoted | join('.')),
    }) }}
{% endmacro %}
