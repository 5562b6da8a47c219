{#-
    What the command `dbt-backfill report` makes a page of, for programs: a line of JSON of the project, and one per MV. It reads,
    and writes nothing.

    The first: {'project', 'target', 'read_at', 'mvs': how many lines follow}. Then of each MV 'model' and 'generation', and either
    'why', why it has no state to look at, as the end of a sentence, or what `backfill_progress` has with `format: json`,
    'source' (the table that it follows, and the version of it that the MV shows), and lists: 'barriers', 'vnodes', 'controls',
    see get_barrier_groups_sql, get_vnode_groups_sql, get_settings_sql.

    Usage:
      dbt run-operation backfill_report
      dbt run-operation backfill_report --args '{models: [my_mv, other_mv]}'

    Arguments:
      models (string or list): the names of models, as verify_backfill takes them; all backfilled_mv by default. So is `model`.
-#}
{% macro backfill_report(models=none, model=none) %}
    {%- do dbt_backfill.check_argument_names('backfill_report', kwargs, ['model', 'models'], 'backfill_report') -%}
    {#- An operation begins with parsing the models, one of which may call this. -#}
    {%- if not execute -%} {{ return('') }} {%- endif -%}
    {%- set backfills = dbt_backfill.find_backfills(model if models is none else models) -%}
    {%- set states = backfills | selectattr('why', 'none') | list -%}
    {%- do log(tojson({
        'project': project_name, 'target': target.name, 'read_at': run_started_at.isoformat(), 'mvs': backfills | length,
    }), info=true) -%}
    {%- for row in (dbt_backfill._read_reported(states) if states else []) -%} {%- do log(tojson(row), info=true) -%} {%- endfor -%}
    {%- for backfill in backfills if backfill.why is not none -%}
        {%- do log(tojson({'model': backfill.model, 'generation': backfill.generation, 'why': backfill.why}), info=true) -%}
    {%- endfor -%}
{% endmacro %}


{#- The objects of the MVs that have a state. -#}
{% macro _read_reported(states) %}
    {%- set rows = dbt_backfill.find_lags(dbt_backfill.read_progress_rows(
        dbt_backfill.get_progress_sql(states, dbt_backfill.followed_source_column())
    )) -%}
    {%- set controlled = states | selectattr('has_controls') | list -%}
    {%- set barriers = dbt_backfill._read_rows('read the barriers', dbt_backfill.get_barrier_groups_sql(states), 'first_epoch') -%}
    {%- set vnodes = dbt_backfill._read_rows('read the vnodes', dbt_backfill.get_vnode_groups_sql(states), 'first_vnode') -%}
    {%- set controls = dbt_backfill._read_rows('read the controls', dbt_backfill.get_settings_sql(controlled), 'set_at') if controlled else [] -%}
    {%- set told = [] -%}
    {%- for row in rows -%}
        {%- do told.append(dict(
            row,
            barriers=barriers | selectattr('relation', 'equalto', row.relation) | list,
            vnodes=vnodes | selectattr('relation', 'equalto', row.relation) | list,
            controls=controls | selectattr('relation', 'equalto', row.relation) | list,
        )) -%}
    {%- endfor -%}
    {{ return(told) }}
{% endmacro %}


{% macro _read_rows(step, sql, order) %}
    {{ return(dbt_backfill.run_json(step, 'select to_json(struct(*)) from (\n' ~ sql ~ '\n) order by relation, ' ~ order)) }}
{% endmacro %}
