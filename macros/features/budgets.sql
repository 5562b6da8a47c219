{#-
    Return what the next barrier may read: {
      'rows': the largest number of rows in a range, like a rate limit; 0 if no range may be read, none if there is no limit,
      'ruled_by': the setting that applies: 'config', an operation ('pause', 'throttle'), the target duration ('barrier_seconds') or the
        rest of the run's budget ('run_rows'),
      'by', 'since': who ran the operation, and when; absent for other settings
    }

    A run calls this macro before each barrier if an operation or a budget may limit the range. An existing plan is executed unchanged. `run`: the
    variables of the loop in run_barriers.
-#}
{% macro get_allowance(backfill, state, run) %}
    {%- set options = backfill.options -%}
    {#- The previous generation reads no ranges, so no control applies to it. -#}
    {%- set control = {} if backfill.get('generation') == 'former' else state.get('control') or {} -%}
    {%- set allowance = dbt_backfill.get_ruling_allowance(options.backfill_rate_limit, control) -%}
    {%- if allowance.rows == 0 -%} {{ return(allowance) }} {%- endif -%}
    {%- if options.barrier_seconds -%}
        {%- set sized = dbt_backfill.get_sized_rows(options.barrier_seconds, state.get('committed') or {}, allowance.rows) -%}
        {%- set is_least = allowance.rows is none or sized < allowance.rows -%}
        {%- set allowance = {'rows': sized, 'ruled_by': 'barrier_seconds'} if is_least else allowance -%}
    {%- endif -%}
    {%- if options.run_rows and (allowance.rows is none or options.run_rows - run.rows < allowance.rows) -%}
        {%- set allowance = {'rows': [options.run_rows - run.rows, 0] | max, 'ruled_by': 'run_rows'} -%}
    {%- endif -%}
    {{ return(allowance) }}
{% endmacro %}


{#- Return the allowance from the last setting of an operation, see get_control_statement; without a setting, from the config's limit. -#}
{% macro get_ruling_allowance(limit, control) %}
    {%- set rows = control.get('value', 'default') -%}
    {%- if rows == 'default' -%} {{ return({'rows': limit, 'ruled_by': 'config'}) }} {%- endif -%}
    {{ return({
        'rows': rows | int, 'ruled_by': 'pause' if rows == '0' else 'throttle', 'by': control.get('set_by'), 'since': control.get('set_at'),
    }) }}
{% endmacro %}


{#-
    True if a budget of the run is used up. Then no further barrier begins. But the run still completes a requested rebuild, and still puts a complete
    next generation in place, because a later run would not know of the request. The budget of rows does not end a run that has no rows left to read.
-#}
{% macro is_budget_spent(backfill, run) %}
    {%- set options = backfill.options -%}
    {%- if run.rebuild or run.next -%} {{ return(false) }} {%- endif -%}
    {%- set seconds = (modules.datetime.datetime.now() - backfill.started_at).total_seconds() -%}
    {%- if options.run_minutes and seconds >= options.run_minutes * 60 -%} {{ return(true) }} {%- endif -%}
    {{ return(options.run_rows is not none and run.rows >= options.run_rows and not dbt_backfill.is_complete(run.state)) }}
{% endmacro %}


{#- Return a text of the setting that limits the ranges; empty if only the config limits the ranges, or if no rows are left to read. -#}
{% macro get_allowance_text(allowance, state) %}
    {%- set applies = allowance.ruled_by != 'config' and not dbt_backfill.is_complete(state) -%}
    {{ return(dbt_backfill.get_ruling_text(allowance) if applies else '') }}
{% endmacro %}


{#- Return a text such as `throttled to 1,000 rows by alice since 2026-11-24 12:00`. -#}
{% macro get_ruling_text(allowance) %}
    {%- set rows = dbt_backfill.get_count_text(allowance.rows) -%}
    {%- set words = {
        'pause': 'paused', 'throttle': 'throttled to ' ~ rows ~ ' rows',
        'barrier_seconds': 'up to ' ~ rows ~ ' by barrier_seconds', 'run_rows': 'up to ' ~ rows ~ ' by run_rows',
    } -%}
    {%- set setting = ' by ' ~ allowance.by ~ ' since ' ~ allowance.since if allowance.get('since') else '' -%}
    {{ return(words[allowance.ruled_by] ~ setting) }}
{% endmacro %}


{#-
    Return the size of the next range in rows, from the duration of the last barrier, see get_outcome_sql. If that barrier took more than 1.5 times
    the target (`seconds`), the size is halved, but is at least 1,000 rows. If it took less than half of the target, the size is doubled. Otherwise
    the size stays the same, so the known bounds of later ranges stay valid. The first range has as many rows as the rate limit (`most`), or 100,000.
-#}
{% macro get_sized_rows(seconds, committed, most) %}
    {%- set rows, took = committed.get('sized_rows') or most or 100000, committed.get('seconds') -%}
    {%- set limit = committed.get('backfill_rate_limit') -%}
    {%- if took is none or limit is none or not committed.get('range_row_count') -%} {{ return(rows) }} {%- endif -%}
    {%- if took > 1.5 * seconds -%} {{ return([[rows, limit] | min // 2, [rows, 1000] | min] | max) }} {%- endif -%}
    {#- Do not double the size if another limit has made the last range smaller: a range of full size may be slow. -#}
    {{ return(2 * rows if took < seconds / 2 and limit == rows else rows) }}
{% endmacro %}
