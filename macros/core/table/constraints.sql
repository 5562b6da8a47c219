{#-
    The constraints of an enforced contract as CHECK constraints of a Delta table: {name: expression}. NOT NULL is one of
    them: a table that is replaced `as select` has no column that is not nullable, and Delta makes none so later.

    Keys and references are left out, as Delta does not enforce them. Iceberg enforces no constraint at all.
-#}
{% macro get_constraints() %}
    {%- set constraints = {} -%}
    {%- if not (config.get('contract') or {}).enforced or dbt_backfill.get_file_format() != 'delta' -%}
        {{ return(constraints) }}
    {%- endif -%}
    {%- for name, column in model.columns.items() -%}
        {%- for constraint in column.constraints or [] -%}
            {%- if constraint.type == 'not_null' -%}
                {%- set plain = name | lower if modules.re.fullmatch('\\w+', name) else local_md5(name) -%}
                {%- do constraints.update({'not_null_' ~ plain: dbt_backfill.identifier(name) ~ ' is not null'}) -%}
            {%- elif constraint.type == 'check' -%}
                {%- do constraints.update(dbt_backfill._check_constraint(constraint)) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for constraint in model.constraints or [] if constraint.type == 'check' -%}
        {%- do constraints.update(dbt_backfill._check_constraint(constraint)) -%}
    {%- endfor -%}
    {{ return(constraints) }}
{% endmacro %}


{#- Delta's names of constraints are in lower case. -#}
{% macro _check_constraint(constraint) %}
    {%- set expression = constraint.expression | trim -%}
    {{ return({(constraint.name or 'check_' ~ local_md5(expression)) | lower: expression}) }}
{% endmacro %}


{#-
    The table properties that these are. The table is created with them, so that no crash leaves it without. Which of a
    table's constraints are ours is noted, so that those of its owner stay when ours change.
-#}
{% macro constraint_properties() %}
    {%- set properties = {} -%}
    {%- set constraints = dbt_backfill.get_constraints() -%}
    {%- for name, expression in constraints.items() -%}
        {%- do properties.update({'delta.constraints.' ~ name: expression}) -%}
    {%- endfor -%}
    {%- if constraints -%} {%- do properties.update({'dbt_backfill.constraints': tojson(constraints.keys() | list)}) -%} {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#-
    Refuse constraints that Spark cannot evaluate over the query's columns: Delta would take them, and fail at each MERGE.
    On Iceberg say that there are none.
-#}
{% macro check_constraints(query) %}
    {%- if (config.get('contract') or {}).enforced and dbt_backfill.get_file_format() == 'iceberg' -%}
        {%- set types = model.columns.values() | map(attribute='constraints') | sum(start=[]) + (model.constraints or []) -%}
        {%- if types | map(attribute='type') | select('in', ['not_null', 'check']) | list -%}
            {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': the constraints of its contract are not applied, because '
                ~ 'Iceberg enforces none. Put dbt tests on the model instead.') -%}
        {%- endif -%}
    {%- endif -%}
    {%- set constraints = dbt_backfill.get_constraints() -%}
    {%- if not constraints -%} {{ return(none) }} {%- endif -%}
    {%- set error = dbt_backfill.find_plan_error(dbt_backfill.run_table('check the constraints',
        'explain extended\nselect 1 from (\n' ~ query ~ '\n) where (' ~ constraints.values() | join(') and (') ~ ')')[0][0]) -%}
    {%- if error is not none -%}
        {%- do dbt_backfill.refuse(
            'Spark cannot evaluate the constraints of its contract: ' ~ error,
            'Correct the constraints'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Let an MV that exists have the constraints of today's contract: what was added to it is added, if all rows are so, and
    what it has no more is dropped. A run in which nothing changed asks and writes nothing.

    Arguments:
      found (dict or none): the MV as this run has found it, see observe_state; none if it has made it, with its constraints.
-#}
{% macro apply_constraints(backfill, found) %}
    {%- if found is none or backfill.options.file_format != 'delta' -%} {{ return(none) }} {%- endif -%}
    {%- set wanted, present, ours = dbt_backfill.get_constraints(), found.constraints.present, found.constraints.ours -%}
    {%- set statements = [] -%}
    {%- for name in (ours + wanted.keys() | list) | unique
            if name in present and present[name] != wanted.get(name) -%}
        {%- do statements.append('drop constraint if exists ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {%- for name, expression in wanted.items() if present.get(name) != expression -%}
        {%- do dbt_backfill._check_rows(backfill, expression) -%}
        {%- do statements.append('add constraint ' ~ dbt_backfill.identifier(name) ~ ' check (' ~ expression ~ ')') -%}
    {%- endfor -%}
    {%- if statements or ours | sort != wanted.keys() | sort -%}
        {%- do statements.append("set tblproperties ('dbt_backfill.constraints' = "
            ~ dbt_backfill.string_literal(tojson(wanted.keys() | list)) ~ ')') -%}
    {%- endif -%}
    {%- for statement in statements -%}
        {%- do dbt_backfill.run_table('apply the contract', 'alter table ' ~ backfill.mv.render() ~ ' ' ~ statement) -%}
    {%- endfor -%}
{% endmacro %}


{#- Delta takes an expression that is null for one that is not fulfilled. -#}
{% macro _check_rows(backfill, expression) %}
    {%- set sql = "select to_json(named_struct('count', count(*))) from " ~ backfill.mv.render() ~ ' where (' ~ expression
        ~ ') is not true' -%}
    {%- set broken = dbt_backfill.run_json('check the rows for a constraint', sql)[0]['count'] -%}
    {%- if broken -%}
        {%- do dbt_backfill.refuse(
            'its contract has the new constraint (' ~ expression ~ '), which ' ~ broken ~ ' of its rows do not fulfil',
            'Correct these rows upstream, or the constraint'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- The constraints of a table by its properties: {'present': {name: expression}, 'ours': a list of names}. -#}
{% macro read_constraints(properties) %}
    {%- set present = {} -%}
    {%- for name, value in properties.items() if name.startswith('delta.constraints.') -%}
        {%- do present.update({name[18:]: value}) -%}
    {%- endfor -%}
    {{ return({'present': present, 'ours': fromjson(properties.get('dbt_backfill.constraints', '[]'))}) }}
{% endmacro %}
