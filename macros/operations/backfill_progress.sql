{#-
    How far the MVs of the project are: a select of one row per MV, or per vnode, for a model, a dashboard or an alert of the
    user's own. Its columns are those of progress_of_mv_columns, and of progress_of_vnode_columns. Of MVs that have no state yet
    it has no row. As a run-operation it prints a table, with how far the MV is behind its upstream.

    Usage:
      select * from ({{ dbt_backfill.backfill_progress() }}) where lag_seconds > 3600
      dbt run-operation backfill_progress
      dbt run-operation backfill_progress --args '{model: my_mv, by: vnode}'
      dbt run-operation backfill_progress --args '{format: json}'

    Arguments:
      models (string or list): the names of models, as verify_backfill takes them; all backfilled_mv by default. So is `model`.
      by (string): `vnode` for one row per vnode.
      format (string): of the run-operation, `json` for an object per line, for programs.
-#}
{% macro backfill_progress(models=none, model=none, by=none, format=none) %}
    {%- do dbt_backfill.check_argument_names('backfill_progress', kwargs, ['model', 'models', 'by', 'format'], 'backfill_progress') -%}
    {%- if format not in [none, 'json'] -%}
        {%- do dbt_backfill.refuse_argument('backfill_progress', 'format', format, 'json, or leave it out') -%}
    {%- endif -%}
    {%- if by not in [none, 'vnode'] -%}
        {%- do dbt_backfill.refuse_argument('backfill_progress', 'by', by, 'vnode, or leave it out') -%}
    {%- endif -%}
    {%- set models = model if models is none else models -%}
    {%- if dbt_backfill.is_run_operation('backfill_progress') -%}
        {%- do dbt_backfill.report_progress(models, by, format) -%}
        {{ return('') }}
    {%- endif -%}
    {{ return(dbt_backfill.get_progress_select(models, by)) }}
{% endmacro %}


{#- The same select with one row per vnode. -#}
{% macro backfill_progress_by_vnode(models=none, model=none) %}
    {{ return(dbt_backfill.get_progress_select(model if models is none else models, 'vnode')) }}
{% endmacro %}


{#- Nothing is asked while dbt parses the model that has it. -#}
{% macro get_progress_select(models, by) %}
    {%- set of_vnodes = by == 'vnode' -%}
    {%- set backfills = dbt_backfill.find_backfills(models) | selectattr('why', 'none') | list if execute else [] -%}
    {%- if not backfills -%}
        {{ return(dbt_backfill.get_no_progress_sql(
            dbt_backfill.progress_of_vnode_columns() if of_vnodes else dbt_backfill.progress_of_mv_columns()
        )) }}
    {%- endif -%}
    {{ return(dbt_backfill.get_progress_of_vnodes_sql(backfills) if of_vnodes else dbt_backfill.get_progress_sql(backfills)) }}
{% endmacro %}


{#-
    Whether the invocation is `dbt run-operation` of this macro, and not a model, or an operation of the user's own, that uses it.
    Models are parsed in such an invocation too.
-#}
{% macro is_run_operation(name) %}
    {{ return(execute and invocation_args_dict.get('which') == 'run-operation' and invocation_args_dict.get('macro', '').split('.')[-1] == name) }}
{% endmacro %}


{#-
    The MVs whose state is to be looked at, and their next generations, in the order of their names: a list of {
      'model', 'generation', 'relations', 'has_history', 'has_controls', 'ruled_by', 'rate_limit': see state/progress.sql,
      'why': why there is no state to look at, as the end of a sentence; none if there is one
    }
-#}
{% macro find_backfills(models=none) %}
    {%- set nodes, found = dbt_backfill.find_backfilled_mvs() if models is none else [], [] -%}
    {%- for name in ([models] if models is string else models or []) -%} {%- do nodes.append(dbt_backfill.find_backfilled_mv(name, 'backfill_progress')) -%} {%- endfor -%}
    {%- for node in nodes | sort(attribute='unique_id') -%}
        {%- set mv = dbt_backfill.get_node_relation(node) -%}
        {%- do found.append(dbt_backfill._find_backfill(node, dbt_backfill.get_relations(mv))) -%}
        {#- It is ruled by the controls of the MV in use. -#}
        {%- set next = dict(
            dbt_backfill._find_backfill(node, dbt_backfill.get_next_relations(mv), 'next'), has_controls=false, ruled_by=mv.render()
        ) -%}
        {%- if next.why is none -%} {%- do found.append(next) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{% macro _find_backfill(node, relations, generation=none) %}
    {%- set existing = dbt_backfill.load_table(relations.progress) -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing, relations.progress) -%}
    {%- set format = properties.get('dbt_backfill.format') -%}
    {%- set limit = dbt_backfill.get_option_of(node, 'backfill_rate_limit') -%}
    {%- set why = none -%}
    {%- if existing is none -%} {%- set why = 'it has not run yet' -%}
    {%- elif format is none -%} {%- set why = relations.progress.render() ~ ' is no state of ours' -%}
    {%- elif format != dbt_backfill.state_format() -%} {%- set why = 'its state has the format ' ~ format ~ ', which this version of the package does not read' -%}
    {%- endif -%}
    {{ return({
        'model': dbt_backfill.get_model_name(node), 'generation': generation, 'relations': relations, 'why': why,
        'has_history': why is none and dbt_backfill.load_table(relations.barriers) is not none,
        'has_controls': why is none and dbt_backfill.has_own_controls(relations),
        'ruled_by': relations.mv.render(), 'rate_limit': limit if limit is integer else none,
    }) }}
{% endmacro %}
