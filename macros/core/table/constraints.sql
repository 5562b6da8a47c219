{#-
    Return the constraints of an enforced contract as CHECK constraints of a Delta table: {name: expression}. NOT NULL is one of
    them: a table that is replaced `as select` has no column that is not nullable, and Delta makes none so later.

    Keys and references are left out, as Delta does not enforce them. Iceberg enforces no constraint at all.
-#}
{% macro get_constraints() %}
    {%- set constraints = {} -%}
    {%- if not (config.get('contract') or {}).enforced or dbt_backfill.get_file_format() != 'delta' -%} {{ return(constraints) }} {%- endif -%}
    {%- for name, declared in model.columns.items() | list + [(none, model)] -%}
        {%- for constraint in declared.constraints or [] -%}
            {%- if constraint.type == 'not_null' and name is not none -%}
                {%- set plain = name | lower if modules.re.fullmatch('\\w+', name) else local_md5(name) -%}
                {%- do constraints.update({'not_null_' ~ plain: dbt_backfill.identifier(name) ~ ' is not null'}) -%}
            {%- elif constraint.type == 'check' -%}
                {#- Delta's names of constraints are in lower case. -#}
                {%- set expression = constraint.expression | trim -%}
                {%- do constraints.update({(constraint.name or 'check_' ~ local_md5(expression)) | lower: expression}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(constraints) }}
{% endmacro %}


{#- Refuse constraints that Spark cannot evaluate: Delta would take them, and fail at each MERGE. Warn on Iceberg, which has none. -#}
{% macro check_constraints(query) %}
    {%- if (config.get('contract') or {}).enforced and dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set types = model.columns.values() | map(attribute='constraints') | sum(start=[]) + (model.constraints or []) -%}
        {%- if types | map(attribute='type') | select('in', ['not_null', 'check']) | list -%}
            {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': the constraints of its contract are not applied, '
                ~ 'because Iceberg enforces none. Put dbt tests on the model instead.') -%}
        {%- endif -%}
    {%- endif -%}
    {%- set constraints = dbt_backfill.get_constraints() -%}
    {%- if not constraints -%} {{ return(none) }} {%- endif -%}
    {%- set error = dbt_backfill.find_plan_error(dbt_backfill.run_table('check the constraints',
        'explain extended\nselect 1 from (\n' ~ query ~ '\n) where (' ~ constraints.values() | join(') and (') ~ ')')[0][0]) -%}
    {%- if error is not none -%}
        {%- do dbt_backfill.refuse('Spark cannot evaluate the constraints of its contract: ' ~ error, 'Correct the constraints') -%}
    {%- endif -%}
{% endmacro %}


{#-
    Give an MV that exists the constraints of today's contract: add those that are new, if all rows fulfil them, and drop those that
    are gone. A run in which nothing changed asks and writes nothing.

    Arguments:
      found (dict or none): the MV as this run has found it, see observe_state; none if it has created it, with its constraints.
-#}
{% macro apply_constraints(backfill, found) %}
    {%- if found is none or backfill.options.file_format != 'delta' -%} {{ return(none) }} {%- endif -%}
    {%- set wanted, present, ours = dbt_backfill.get_constraints(), found.constraints.present, found.constraints.ours -%}
    {%- set statements = [] -%}
    {%- for name in (ours + wanted.keys() | list) | unique if name in present and present[name] != wanted.get(name) -%}
        {%- do statements.append('drop constraint if exists ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {%- for name, expression in wanted.items() if present.get(name) != expression -%}
        {#- To Delta a row for which the expression is null does not fulfil it. -#}
        {%- set broken = dbt_backfill.run_json('check the rows for a constraint', "select to_json(named_struct('count', count(*))) from "
            ~ backfill.mv.render() ~ ' where (' ~ expression ~ ') is not true')[0]['count'] -%}
        {%- if broken -%}
            {%- do dbt_backfill.refuse(
                'its contract has the new constraint (' ~ expression ~ '), which ' ~ broken ~ ' of its rows do not fulfil',
                'Correct these rows upstream, or the constraint'
            ) -%}
        {%- endif -%}
        {%- do statements.append('add constraint ' ~ dbt_backfill.identifier(name) ~ ' check (' ~ expression ~ ')') -%}
    {%- endfor -%}
    {%- if statements or ours | sort != wanted.keys() | sort -%}
        {%- set names = dbt_backfill.string_literal(tojson(wanted.keys() | list)) -%}
        {%- do statements.append("set tblproperties ('dbt_backfill.constraints' = " ~ names ~ ')') -%}
    {%- endif -%}
    {%- for statement in statements -%}
        {%- do dbt_backfill.run_table('apply the contract', 'alter table ' ~ backfill.mv.render() ~ ' ' ~ statement) -%}
    {%- endfor -%}
{% endmacro %}


{#- Return the constraints of a table by its properties: {'present': {name: expression}, 'ours': a list of names}. -#}
{% macro read_constraints(properties) %}
    {%- set present = {} -%}
    {%- for name, value in properties.items() if name.startswith('delta.constraints.') -%}
        {%- do present.update({name[18:]: value}) -%}
    {%- endfor -%}
    {{ return({'present': present, 'ours': fromjson(properties.get('dbt_backfill.constraints', '[]'))}) }}
{% endmacro %}
