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
      'model', 'generation', 'relations', 'has_history', 'has_controls', 'ruled_by', 'rate_limit': see core/state/progress.sql,
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


{#-
    Print how far MVs are, as a table of 80 columns, and beneath an MV what is unusual about it; or, for programs, as JSON, an
    object per line.
-#}
{% macro report_progress(models, by, format=none) %}
    {%- set backfills, states = dbt_backfill.find_backfills(models), [] -%}
    {%- for backfill in backfills if backfill.why is none -%} {%- do states.append(backfill) -%} {%- endfor -%}
    {%- set rows = [] if not states else dbt_backfill.read_progress_rows(dbt_backfill.get_progress_of_vnodes_sql(states)) if by == 'vnode'
        else dbt_backfill.find_lags(dbt_backfill.read_progress_rows(
            dbt_backfill.get_progress_sql(states, dbt_backfill.followed_source_column())
        )) -%}
    {%- if format == 'json' -%}
        {%- for row in rows -%} {%- do log(tojson(row), info=true) -%} {%- endfor -%}
        {{ return(none) }}
    {%- elif not backfills -%}
        {%- do log('no model of this project has the materialization backfilled_mv', info=true) -%}
    {%- elif by == 'vnode' -%}
        {%- do dbt_backfill._report_vnodes(rows) -%}
    {%- else -%}
        {%- do dbt_backfill._report_mvs(rows) -%}
    {%- endif -%}
    {%- for backfill in backfills if backfill.why is not none -%}
        {%- do log(backfill.model ~ ': ' ~ backfill.why, info=true) -%}
    {%- endfor -%}
{% endmacro %}


{#- The rows of such a select, in the order of the models. -#}
{% macro read_progress_rows(sql) %}
    {%- set columns = '*' ~ (", date_format(set_at, 'yyyy-MM-dd HH:mm') as set_since" if ' as set_at' in sql else '') -%}
    {{ return(dbt_backfill.run_json('read the progress', 'select to_json(struct(' ~ columns ~ ')) from (\n' ~ sql ~ '\n) order by relation'
        ~ (', vnode' if ' as vnode,' in sql else ''))) }}
{% endmacro %}


{#-
    The rows with how far each MV is behind its upstream, or its change table, by the log of that: 'behind', how many versions, and
    'behind_seconds', for how long; absent where that cannot be told.
-#}
{% macro find_lags(rows) %}
    {%- set lags, since = [], [] -%}
    {%- for row in rows -%}
        {%- set lag = dbt_backfill._find_lag(row.get('source')) or {} -%}
        {%- do lags.append(lag) -%}
        {%- do since.append(dbt_backfill.string_literal(lag.get('since'))) -%}
    {%- endfor -%}
    {%- set seconds = [] -%}
    {%- if since | reject('equalto', 'null') | list -%}
        {%- set ages = [] -%}
        {%- for at in since -%} {%- do ages.append(dbt_backfill.get_lag_sql(at)) -%} {%- endfor -%}
        {%- set seconds = dbt_backfill.run_json('tell the lags', 'select to_json(array(' ~ ages | join(', ') ~ '))')[0] -%}
    {%- endif -%}
    {%- set told = [] -%}
    {%- for row in rows -%}
        {%- do told.append(dict(
            row, behind=lags[loop.index0].get('versions'), behind_seconds=seconds[loop.index0] if seconds else none
        )) -%}
    {%- endfor -%}
    {{ return(told) }}
{% endmacro %}


{#-
    See get_upstream_lag; none where the table is gone or is another one, where nothing was read yet, and of a table without versions
    of its own, of which it is not known how many are ahead.
-#}
{% macro _find_lag(source) %}
    {%- if not source or source.get('version') is none -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = {'relation': dbt_backfill.parse_relation(source.relation), 'kind': source.kind} -%}
    {%- if dbt_backfill.upstream_traits(upstream).stages_ranges or not dbt_backfill.stands_as_noted(upstream) -%} {{ return(none) }} {%- endif -%}
    {{ return(dbt_backfill.ask(upstream, 'upstream_lag')(dbt_backfill.ask(upstream, 'read_upstream')(upstream, source), source)) }}
{% endmacro %}


{% macro _report_mvs(rows) %}
    {%- set widths = [20, 7, 18, 7, 7, 11] -%}
    {%- if rows -%} {%- do dbt_backfill._report_line(['model', 'done', 'rows', 'rows/s', 'left', 'behind'], widths) -%} {%- endif -%}
    {%- for row in rows -%}
        {%- set count = dbt_backfill.get_number_text(row.row_count) -%}
        {%- set total = row.get('upstream_row_count') -%}
        {%- set rate, left = row.get('rows_per_second'), row.get('seconds_left') -%}
        {%- do dbt_backfill._report_line([
            row.model ~ (' (next)' if row.get('generation') else ''),
            '{:.1f} %'.format(row.progress * 100),
            count if total is none or row.backfill_finished else count ~ ' of ' ~ dbt_backfill.get_number_text(total),
            dbt_backfill.get_rate_text(rate) if rate else '',
            dbt_backfill.get_duration_text(left) if left else '',
            dbt_backfill._behind_text(row),
        ], widths) -%}
        {%- for note in dbt_backfill._progress_notes(row) -%} {%- do log('  ' ~ note, info=true) -%} {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{#- Such as `0`, or `12 (5 min)`; `?` where nobody knows. -#}
{% macro _behind_text(row) %}
    {%- if row.behind is none -%} {{ return('?' if row.get('upstream_version') else '') }} {%- endif -%}
    {%- set seconds = row.behind_seconds -%}
    {{ return(row.behind ~ (' (' ~ dbt_backfill.get_duration_text(seconds) ~ ')' if row.behind and seconds is not none else '')) }}
{% endmacro %}


{#- What is to be known of an MV that is not just filled, or followed. -#}
{% macro _progress_notes(row) %}
    {%- set notes, allowance = [], {'ruled_by': row.ruled_by, 'rows': row.get('rate_limit'), 'by': row.get('set_by'), 'since': row.get('set_since')} -%}
    {%- if not row.backfill_finished -%}
        {%- if row.ruled_by != 'config' -%} {%- do notes.append(dbt_backfill.get_ruling_text(allowance)) -%}
        {%- elif row.get('rate_limit') == 0 -%} {%- do notes.append('paused by its config: backfill_rate_limit is 0') -%}
        {%- endif -%}
    {%- endif -%}
    {%- if row.sweeping -%} {%- do notes.append('sweeps: its rows of before are compared with the query') -%} {%- endif -%}
    {%- if row.get('filling') -%} {%- do notes.append('fills ' ~ row.filling) -%} {%- endif -%}
    {%- if row.get('planned') -%}
        {%- do notes.append('barrier ' ~ (row.epoch + 1) ~ ' is planned (' ~ row.planned ~ '): a run is at work, or the next one goes on with it') -%}
    {%- endif -%}
    {%- if 0 < row.vnodes_finished < row.vnode_count -%}
        {%- do notes.append('{:,} of {:,} vnodes have finished'.format(row.vnodes_finished, row.vnode_count)) -%}
    {%- endif -%}
    {{ return(notes) }}
{% endmacro %}


{% macro _report_vnodes(rows) %}
    {%- set widths, told = [6, 7, 23, 38], namespace(relation=none) -%}
    {%- for row in rows -%}
        {%- if row.relation != told.relation -%}
            {%- set told.relation = row.relation -%}
            {%- do log(row.model ~ (' (next)' if row.get('generation') else '') ~ ', barrier ' ~ row.epoch, info=true) -%}
            {%- do dbt_backfill._report_line(['vnode', 'done', 'rows', 'position'], widths, last_left=true) -%}
        {%- endif -%}
        {%- set count, total = '{:,}'.format(row.row_count), row.get('upstream_row_count') -%}
        {%- do dbt_backfill._report_line([
            row.vnode, '{:.1f} %'.format(row.progress * 100),
            count if total is none or row.backfill_finished else count ~ ' of about ' ~ '{:,}'.format(total),
            'end' if row.backfill_finished else row.get('current_pos', 'not begun'),
        ], widths, last_left=true) -%}
    {%- endfor -%}
{% endmacro %}


{#- One line of a table: the first column to the left, the others to the right. What is too long for the first one is shortened. -#}
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
