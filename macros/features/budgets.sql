{#-
    Return what the next barrier may read: {
      'rows': of a range at most, as a rate limit, 0 for none, none for any number,
      'ruled_by': what says so: 'config', what people have set ('pause', 'throttle'), the target duration ('barrier_seconds') or what is
        left of the run's budget ('run_rows'),
      'by', 'since': who has set it, and when; absent of what nobody has set
    }

    A run asks before each barrier whose range something else than the config may limit. A plan that exists already is executed as it is.

    Arguments:
      run (namespace): of the loop of run_barriers.
-#}
{% macro get_allowance(backfill, state, run) %}
    {%- set options = backfill.options -%}
    {#- The previous generation reads no ranges anyway. -#}
    {%- set control = {} if backfill.get('generation') == 'former' else state.get('control') or {} -%}
    {%- set allowance = dbt_backfill.get_ruling_allowance(options.backfill_rate_limit, control) -%}
    {%- if allowance.rows == 0 -%} {{ return(allowance) }} {%- endif -%}
    {%- if options.barrier_seconds -%}
        {%- set sized = dbt_backfill.get_sized_rows(options.barrier_seconds, state.get('committed') or {}, allowance.rows) -%}
        {%- if allowance.rows is none or sized < allowance.rows -%}
            {%- set allowance = {'rows': sized, 'ruled_by': 'barrier_seconds'} -%}
        {%- endif -%}
    {%- endif -%}
    {%- if options.run_rows and (allowance.rows is none or options.run_rows - run.rows < allowance.rows) -%}
        {%- set allowance = {'rows': [options.run_rows - run.rows, 0] | max, 'ruled_by': 'run_rows'} -%}
    {%- endif -%}
    {{ return(allowance) }}
{% endmacro %}


{#-
    Return the allowance of a limit that is configured, or of what people have set, which applies until it is lifted.

    Arguments:
      control (dict): what people have set last, see get_control_statement.
-#}
{% macro get_ruling_allowance(limit, control) %}
    {%- set rows = control.get('value', 'default') -%}
    {%- if rows == 'default' -%} {{ return({'rows': limit, 'ruled_by': 'config'}) }} {%- endif -%}
    {{ return({
        'rows': rows | int, 'ruled_by': 'pause' if rows == '0' else 'throttle', 'by': control.get('set_by'), 'since': control.get('set_at'),
    }) }}
{% endmacro %}


{#-
    True if a budget of the run is used up, so that no further barrier begins. A rebuild that is asked for, and a next generation that is
    ready, are ended by this run, because no later one would know of them. A budget of rows ends no run that has none left to read.
-#}
{% macro is_budget_spent(backfill, run) %}
    {%- set options = backfill.options -%}
    {%- if run.rebuild or run.next -%} {{ return(false) }} {%- endif -%}
    {%- if options.run_minutes
            and (modules.datetime.datetime.now() - backfill.started_at).total_seconds() >= options.run_minutes * 60 -%}
        {{ return(true) }}
    {%- endif -%}
    {{ return(options.run_rows is not none and run.rows >= options.run_rows and not dbt_backfill.is_complete(run.state)) }}
{% endmacro %}


{#- Return what limits the ranges, where it is not the config; empty if it is, and once nothing is left to be read. -#}
{% macro get_allowance_text(allowance, state) %}
    {%- set applies = allowance.ruled_by != 'config' and not dbt_backfill.is_complete(state) -%}
    {{ return(dbt_backfill.get_ruling_text(allowance) if applies else '') }}
{% endmacro %}


{#- Return a text such as `throttled to 1,000 rows by alice since 2026-11-24 12:00`. -#}
{% macro get_ruling_text(allowance) %}
    {%- set rows = '{:,}'.format(allowance.rows) -%}
    {%- set words = {
        'pause': 'paused', 'throttle': 'throttled to ' ~ rows ~ ' rows',
        'barrier_seconds': 'up to ' ~ rows ~ ' by barrier_seconds', 'run_rows': 'up to ' ~ rows ~ ' by run_rows',
    } -%}
    {%- set setting = ' by ' ~ allowance.by ~ ' since ' ~ allowance.since if allowance.get('since') else '' -%}
    {{ return(words[allowance.ruled_by] ~ setting) }}
{% endmacro %}


{#-
    Return the size of the next range in rows, by how long the last one took: half of it after a barrier that took more than one and a half
    times as long as it is to take, down to 1,000 rows, and twice as much after one that took less than half. The first one has as many
    rows as the rate limit, or 100,000. As long as the size stays, the bounds that were found for the ranges to come stay too.

    Arguments:
      seconds (number): how long a barrier is to take.
      committed (dict): the plan that was committed last, with `sized_rows` and `seconds`, see get_outcome_sql.
      most (int or none): the rate limit.
-#}
{% macro get_sized_rows(seconds, committed, most) %}
    {%- set rows, took = committed.get('sized_rows') or most or 100000, committed.get('seconds') -%}
    {%- set limit = committed.get('backfill_rate_limit') -%}
    {%- if took is none or limit is none or not committed.get('range_row_count') -%} {{ return(rows) }} {%- endif -%}
    {%- if took > 1.5 * seconds -%} {{ return([[rows, limit] | min // 2, [rows, 1000] | min] | max) }} {%- endif -%}
    {#- A range that a limit has cut may be fast where a whole one is not. -#}
    {{ return(2 * rows if took < seconds / 2 and limit == rows else rows) }}
{% endmacro %}
