{#-
    Return a select of the progress of the project's MVs, for the user's own model, dashboard or alert. The select has one row per MV, or per vnode;
    progress_of_mv_columns and progress_of_vnode_columns list its columns. An MV without a state has no row. As a run-operation, this macro prints a
    table that is 80 characters wide. The table also shows how far each MV is behind its upstream, and lists unusual facts below an MV.

    Usage:
      select * from ({{ dbt_backfill.backfill_progress() }}) where lag_seconds > 3600
      dbt run-operation backfill_progress
      dbt run-operation backfill_progress --args '{model: my_mv, by: vnode}'
      dbt run-operation backfill_progress --args '{format: json}'

    Arguments:
      models (string or list): the names of models, written as for verify_backfill; by default all backfilled_mv. `model` has the same meaning.
      by (string): `vnode` for one row per vnode.
      format (string): only for the run-operation: `json` prints one JSON object per line, for programs.
-#}
{% macro backfill_progress(models=none, model=none, by=none, format=none) %}
    {%- set given = {'model': model, 'models': models, 'by': by, 'format': format} -%}
    {%- do dbt_backfill.check_arguments('backfill_progress', given, kwargs, {
        'format': [format in [none, 'json'], 'json, or leave it out'], 'by': [by in [none, 'vnode'], 'vnode, or leave it out'],
    }) -%}
    {#- While dbt parses the model that calls this macro, read nothing. -#}
    {%- set backfills = dbt_backfill.find_backfills(model if models is none else models) if execute else [] -%}
    {%- set states = backfills | selectattr('why', 'none') | list -%}
    {#- Print only for this run-operation, and not while dbt parses models for it. A model, or the user's own operation, gets the select. -#}
    {%- if execute and invocation_args_dict.get('which') == 'run-operation'
            and invocation_args_dict.get('macro', '').split('.')[-1] == 'backfill_progress' -%}
        {%- set rows = [] if not states else dbt_backfill.read_progress_and_lags(states) if by != 'vnode'
            else dbt_backfill.read_progress_rows(dbt_backfill.get_progress_of_vnodes_sql(states)) -%}
        {%- if format == 'json' -%}
            {%- for row in rows -%} {%- do log(tojson(row), info=true) -%} {%- endfor -%}
            {{ return('') }}
        {%- elif not backfills -%}
            {%- do log('no model of this project has the materialization backfilled_mv', info=true) -%}
        {%- elif by == 'vnode' -%}
            {%- do dbt_backfill._report_vnodes(rows) -%}
        {%- else -%}
            {%- do dbt_backfill._report_mvs(rows) -%}
        {%- endif -%}
        {%- for backfill in backfills if backfill.why is not none -%} {%- do log(backfill.model ~ ': ' ~ backfill.why, info=true) -%} {%- endfor -%}
        {{ return('') }}
    {%- elif states -%}
        {{ return(dbt_backfill.get_progress_of_vnodes_sql(states) if by == 'vnode' else dbt_backfill.get_progress_sql(states)) }}
    {%- endif -%}
    {%- set columns, nulls = dbt_backfill.progress_of_vnode_columns() if by == 'vnode' else dbt_backfill.progress_of_mv_columns(), [] -%}
    {%- for name, type in columns.items() -%} {%- do nulls.append('cast(null as ' ~ type ~ ') as ' ~ name) -%} {%- endfor -%}
    {{ return('select ' ~ nulls | join(', ') ~ ' from range(0)') }}
{% endmacro %}


{#- Return the select of backfill_progress with one row per vnode. -#}
{% macro backfill_progress_by_vnode(models=none, model=none) %}
    {{ return(dbt_backfill.backfill_progress(models, model, by='vnode')) }}
{% endmacro %}


{#-
    Return the selected MVs in the order of their names. A next generation that has a state follows its MV. A list of {
      'model', 'generation', 'relations', 'has_history', 'has_controls', 'ruled_by', 'rate_limit': see core/state/progress.sql,
      'why': why there is no readable state, as the end of a sentence; none if the state can be read
    }
-#}
{% macro find_backfills(models=none) %}
    {%- set nodes, found = dbt_backfill.find_backfilled_mvs() if models is none else [], [] -%}
    {%- for name in ([models] if models is string else models or []) -%}
        {%- do nodes.append(dbt_backfill.find_backfilled_mv(name, 'backfill_progress')) -%}
    {%- endfor -%}
    {%- for node in nodes | sort(attribute='unique_id') -%}
        {%- set mv, limit = dbt_backfill.get_node_relation(node), dbt_backfill.get_option_of(node, 'backfill_rate_limit') -%}
        {%- for generation, relations in [(none, dbt_backfill.get_relations(mv)), ('next', dbt_backfill.get_next_relations(mv))] -%}
            {%- set existing = dbt_backfill.load_table(relations.progress) -%}
            {%- set format = dbt_backfill.read_listed_properties(existing, relations.progress).get('dbt_backfill.format') -%}
            {%- set why = 'it has not run yet' if existing is none
                else relations.progress.render() ~ ' is no state of this package' if format is none
                else 'its state has the format ' ~ format ~ ', which this version of the package does not read'
                    if format != dbt_backfill.state_format() else none -%}
            {%- if generation is none or why is none and dbt_backfill.read_next_of(relations) is not none -%}
                {#- The controls of the MV in use also apply to its next generation. -#}
                {%- do found.append({
                    'model': dbt_backfill.get_model_name(node), 'generation': generation, 'relations': relations, 'why': why,
                    'has_history': why is none and dbt_backfill.load_table(relations.barriers) is not none,
                    'has_controls': why is none and generation is none and dbt_backfill.has_own_controls(relations),
                    'ruled_by': mv.render(), 'rate_limit': limit if limit is integer else none,
                }) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#-
    Print the data from which the command `dbt-backfill report` makes a page: one line of JSON for the project, and one line per MV.

    The first line is {'project', 'target', 'read_at', 'mvs': the number of lines that follow}. The line of an MV has 'model' and
    'generation'. If the MV has no readable state, it also has 'why', the reason as the end of a sentence. Otherwise it has the fields of
    `backfill_progress` with `format: json`, 'source' (the table that the MV follows, and the table's version that it shows), and the lists
    'barriers', 'vnodes' and 'controls', see get_barrier_groups_sql, get_vnode_groups_sql, get_rate_limits_sql.

    Usage:
      dbt run-operation backfill_report
      dbt run-operation backfill_report --args '{models: [my_mv, other_mv]}'

    Arguments:
      models (string or list): the names of models, written as for verify_backfill; by default all backfilled_mv. `model` has the same meaning.
-#}
{% macro backfill_report(models=none, model=none) %}
    {%- do dbt_backfill.check_arguments('backfill_report', {'model': model, 'models': models}, kwargs) -%}
    {#- Before an operation, dbt parses the models, and a model may call this macro. During the parse, read nothing. -#}
    {%- if not execute -%} {{ return('') }} {%- endif -%}
    {%- set backfills = dbt_backfill.find_backfills(model if models is none else models) -%}
    {%- set states = backfills | selectattr('why', 'none') | list -%}
    {%- set controlled = states | selectattr('has_controls') | list -%}
    {%- do log(tojson({
        'project': project_name, 'target': target.name, 'read_at': run_started_at.isoformat(), 'mvs': backfills | length,
    }), info=true) -%}
    {%- if states -%}
        {%- set rows, lists = dbt_backfill.read_progress_and_lags(states), {} -%}
        {%- for name, sql, order in [
            ('barriers', dbt_backfill.get_barrier_groups_sql(states), 'first_epoch'),
            ('vnodes', dbt_backfill.get_vnode_groups_sql(states), 'first_vnode'),
            ('controls', dbt_backfill.get_rate_limits_sql(controlled) if controlled else none, 'set_at'),
        ] -%}
            {%- do lists.update({name: dbt_backfill.run_json(
                'read the ' ~ name, 'select to_json(struct(*)) from (\n' ~ sql ~ '\n) order by relation, ' ~ order
            ) if sql else []}) -%}
        {%- endfor -%}
        {%- for row in rows -%}
            {%- for name, found in lists.items() -%}
                {%- do row.update({name: found | selectattr('relation', 'equalto', row.relation) | list}) -%}
            {%- endfor -%}
            {%- do log(tojson(row), info=true) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- for backfill in backfills if backfill.why is not none -%}
        {%- do log(tojson({'model': backfill.model, 'generation': backfill.generation, 'why': backfill.why}), info=true) -%}
    {%- endfor -%}
{% endmacro %}


{#- Return the rows of a progress select, in the order of the models. -#}
{% macro read_progress_rows(sql) %}
    {%- set columns = '*' ~ (", date_format(set_at, 'yyyy-MM-dd HH:mm') as set_since" if ' as set_at' in sql else '') -%}
    {{ return(dbt_backfill.run_json('read the progress', 'select to_json(struct(' ~ columns ~ ')) from (\n' ~ sql ~ '\n) order by relation'
        ~ (', vnode' if ' as vnode,' in sql else ''))) }}
{% endmacro %}


{#- Return the rows of get_progress_sql, in the order of the models. Each row also has 'source', the table that the MV follows; 'behind', the number
    of its versions that the MV does not show yet; and 'behind_seconds', the age of the oldest of these versions. An unknown value is none. -#}
{% macro read_progress_and_lags(states) %}
    {%- set rows = dbt_backfill.read_progress_rows(
        dbt_backfill.get_progress_sql(states, dbt_backfill.followed_source('barrier.sources') ~ ' as source')
    ) -%}
    {%- set lags, ages = [], [] -%}
    {%- for row in rows -%}
        {%- do lags.append(dict({'versions': none, 'since': none}, **(dbt_backfill._find_lag(row.get('source')) or {}))) -%}
        {%- set since = dbt_backfill.string_literal(lags[-1].since) -%}
        {%- do ages.append('timestampdiff(second, try_cast(' ~ since ~ ' as timestamp_ltz), current_timestamp())') -%}
    {%- endfor -%}
    {%- set is_asked = lags | rejectattr('since', 'none') | list -%}
    {%- set seconds = dbt_backfill.run_json('compute the lags', 'select to_json(array(' ~ ages | join(', ') ~ '))')[0] if is_asked else [] -%}
    {%- for row in rows -%}
        {%- do row.update({'behind': lags[loop.index0].versions, 'behind_seconds': seconds[loop.index0] if seconds else none}) -%}
    {%- endfor -%}
    {{ return(rows) }}
{% endmacro %}


{#- Return the answer to upstream_lag; none if the table does not exist, was replaced, keeps no versions, or was not read yet. -#}
{% macro _find_lag(source) %}
    {%- if not source or source.get('version') is none -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = {'relation': dbt_backfill.parse_relation(source.relation), 'kind': source.kind} -%}
    {%- if dbt_backfill.upstream_traits(upstream).stages_ranges or not dbt_backfill.exists_as_its_kind(upstream) -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.ask(upstream, 'upstream_lag')(dbt_backfill.ask(upstream, 'read_upstream')(upstream, source), source)) }}
{% endmacro %}


{#- Print a line per MV, and below it a line for each unusual fact about it. -#}
{% macro _report_mvs(rows) %}
    {%- set widths = [20, 7, 18, 7, 7, 11] -%}
    {%- if rows -%} {%- do dbt_backfill._report_line(['model', 'done', 'rows', 'rows/s', 'left', 'behind'], widths) -%} {%- endif -%}
    {%- for row in rows -%}
        {%- set count, total = dbt_backfill.get_number_text(row.row_count), row.get('upstream_row_count') -%}
        {%- set rate, left, seconds = row.get('rows_per_second'), row.get('seconds_left'), row.behind_seconds -%}
        {%- set age = ' (' ~ dbt_backfill.get_duration_text(seconds) ~ ')' if row.behind and seconds is not none else '' -%}
        {%- set behind = row.behind ~ age if row.behind is not none else '?' if row.get('upstream_version') else '' -%}
        {%- do dbt_backfill._report_line([
            row.model ~ (' (next)' if row.get('generation') else ''),
            '%.1f %%' | format(row.progress * 100),
            count if total is none or row.backfill_finished else count ~ ' of ' ~ dbt_backfill.get_number_text(total),
            ('%.1f' | format(rate) if rate < 10 else dbt_backfill.get_number_text(rate)) if rate else '',
            dbt_backfill.get_duration_text(left) if left else '',
            behind,
        ], widths) -%}
        {%- set ruling = dbt_backfill.get_ruling_text(
            {'ruled_by': row.ruled_by, 'rows': row.get('rate_limit'), 'by': row.get('set_by'), 'since': row.get('set_since')}
        ) if row.ruled_by != 'config' else 'paused by its config: backfill_rate_limit is 0' if row.get('rate_limit') == 0 else none -%}
        {%- for applies, note in [
            (ruling and not row.backfill_finished, ruling),
            (row.sweeping, 'sweeps: its earlier rows are compared with the query'),
            (row.get('filling'), 'fills ' ~ row.get('filling')),
            (row.get('planned'), 'barrier ' ~ (row.epoch + 1) ~ ' is planned (' ~ row.get('planned')
                ~ '): a run is at work, or the next run continues it'),
            (0 < row.vnodes_finished < row.vnode_count, dbt_backfill.get_count_text(row.vnodes_finished)
                ~ ' of ' ~ dbt_backfill.get_count_text(row.vnode_count) ~ ' vnodes have finished'),
        ] if applies -%}
            {%- do log('  ' ~ note, info=true) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{#- Print a heading per MV, and below it a line per vnode. -#}
{% macro _report_vnodes(rows) %}
    {%- set widths = [6, 7, 23, 38] -%}
    {%- for row in rows -%}
        {%- if loop.first or row.relation != rows[loop.index0 - 1].relation -%}
            {%- do log(row.model ~ (' (next)' if row.get('generation') else '') ~ ', barrier ' ~ row.epoch, info=true) -%}
            {%- do dbt_backfill._report_line(['vnode', 'done', 'rows', 'position'], widths, last_left=true) -%}
        {%- endif -%}
        {%- set count, total = dbt_backfill.get_count_text(row.row_count), row.get('upstream_row_count') -%}
        {%- do dbt_backfill._report_line([
            row.vnode, '%.1f %%' | format(row.progress * 100),
            count if total is none or row.backfill_finished else count ~ ' of about ' ~ dbt_backfill.get_count_text(total),
            'end' if row.backfill_finished else row.get('current_pos', 'not begun'),
        ], widths, last_left=true) -%}
    {%- endfor -%}
{% endmacro %}


{#- Print one line of a table. The first column, and with `last_left` the last, is left-aligned and may be shortened; others are right-aligned. -#}
{% macro _report_line(values, widths, last_left=false) %}
    {%- set cells = [] -%}
    {%- for value in values -%}
        {%- set text, width = value | string, widths[loop.index0] -%}
        {%- set is_left = loop.first or loop.last and last_left -%}
        {%- set text = text[:width - 1] ~ '…' if is_left and text | length > width else text -%}
        {%- do cells.append(text.ljust(width) if is_left else text.rjust(width)) -%}
    {%- endfor -%}
    {%- do log((cells | join('  ')).rstrip(), info=true) -%}
{% endmacro %}
