{#- From here on the operation is this model: what reads the model's config, or names it, finds it. -#}
{% macro speak_for(node) %}
    {%- do model.update(node) -%}
{% endmacro %}


{#- What explain_backfill says of a model, as a list of lines. -#}
{% macro get_explained_lines(node) %}
    {%- set backfill = dict(
        dbt_backfill.get_backfill(dbt_backfill.get_node_relation(node), render(node.raw_code) | trim), name=dbt_backfill.get_model_name(node)
    ) -%}
    {%- set observed = dbt_backfill._observe_explained(backfill) -%}
    {%- set state, planned = observed.state, observed.state.get('planned') -%}
    {%- set upstream = dbt_backfill.observe_upstream(backfill, state, dbt_backfill.get_feed_start(state) or planned) -%}
    {%- set begun = [dbt_backfill._get_begun_line(backfill, state, upstream)] -%}
    {%- if planned -%}
        {{ return(begun + ['the barrier ' ~ planned.epoch ~ ' was planned at ' ~ planned.planned_at ~ ' and not committed; the next run goes on with it']) }}
    {%- endif -%}
    {%- set replica = dbt_backfill.find_replica(backfill, state, upstream) -%}
    {%- set choice = dbt_backfill.choose_plan(
        dbt_backfill.with_bounds_from(backfill, replica), state, upstream, observed.learned, none
    ) -%}
    {%- if choice is none -%} {{ return(begun + ['there is nothing to do']) }} {%- endif -%}
    {{ return(begun + dbt_backfill._get_plan_lines(backfill, state, choice.plan, replica)) }}
{% endmacro %}


{#- As observe_state, of what a run would write nothing for. -#}
{% macro _observe_explained(backfill) %}
    {%- set existing = dbt_backfill.get_existing_relations(backfill) -%}
    {%- if existing.mv is none and existing.progress is none -%}
        {{ return(dbt_backfill.observe_missing(backfill, dbt_backfill.read_settings())) }}
    {%- endif -%}
    {%- do dbt_backfill.check_both_exist(backfill, existing) -%}
    {{ return(dbt_backfill.observe_existing(backfill, existing)) }}
{% endmacro %}


{% macro _get_begun_line(backfill, state, upstream) %}
    {%- set name, newest = backfill.upstream.relation.render(), 'version ' ~ upstream.version -%}
    {%- if not dbt_backfill.has_started(state) -%} {{ return('nothing of ' ~ name ~ ' was read yet; it is at ' ~ newest) }} {%- endif -%}
    {%- set total = state.committed.get('upstream_row_count') -%}
    {{ return('{:,}'.format(state.row_count) ~ (' of {:,}'.format(total) if total else '') ~ ' rows of ' ~ name ~ ' were read, up to version '
        ~ state.upstream_version ~ (', which is the newest' if state.upstream_version == upstream.version | string else '; it is at ' ~ newest)) }}
{% endmacro %}


{% macro _get_plan_lines(backfill, state, plan, replica) %}
    {%- set lines = [] -%}
    {%- if plan.kind != 'advance' -%}
        {%- do lines.append('the next barrier is of the kind ' ~ plan.kind ~ (': ' ~ plan.reason if plan.get('reason') else '')) -%}
    {%- elif dbt_backfill.has_changes(state, plan) -%}
        {%- do lines.append('the next barrier merges what has changed since') -%}
    {%- endif -%}
    {%- if plan.kind == 'advance' and dbt_backfill.has_range(plan) -%}
        {%- do lines.extend(dbt_backfill._get_range_lines(backfill, state, plan, replica)) -%}
    {%- endif -%}
    {{ return(lines + [dbt_backfill._get_statements_line(backfill)]) }}
{% endmacro %}


{% macro _get_range_lines(backfill, state, plan, replica) %}
    {%- set measured = dbt_backfill._measure_ahead(backfill, state, plan, replica) -%}
    {%- set ranges, rate_limit = dbt_backfill.count_ranges_ahead(plan), backfill.options.backfill_rate_limit -%}
    {%- set per_run = backfill.options.barriers_per_run -%}
    {%- set runs = 1 if per_run is none else (ranges / per_run) | round(0, 'ceil') | int -%}
    {%- set lines = [
        '{:,} rows are left, in '.format(measured.rows) ~ dbt_backfill.get_ranges_text(plan)
            ~ (' of up to {:,} rows'.format(rate_limit) if rate_limit else ', because it has no backfill_rate_limit'),
        'a barrier for each, in ' ~ ('at least ' if not plan.get('bounds_complete') and not plan.last_range else '')
            ~ dbt_backfill.get_count_text(runs, 'run') ~ ' of dbt',
    ] -%}
    {%- if measured.bytes -%}
        {%- set scans = [measured.scans or 1, ranges] | min -%}
        {%- do lines.append(
            'a range reads about ' ~ dbt_backfill._megabytes_text(measured.bytes * scans / ranges) ~ ' of the '
                ~ dbt_backfill._megabytes_text(measured.bytes) ~ ' of the upstream, at most: columns that are not needed are left out'
        ) -%}
    {%- endif -%}
    {{ return(lines + dbt_backfill._get_replica_lines(backfill, plan, measured, replica)) }}
{% endmacro %}


{% macro _get_replica_lines(backfill, plan, measured, replica) %}
    {%- if replica -%} {{ return(['the ranges are read from ' ~ backfill.replica.render()]) }} {%- endif -%}
    {%- if dbt_backfill.count_ranges_ahead(plan) == 1 or not dbt_backfill.may_replicate(backfill) -%} {{ return([]) }} {%- endif -%}
    {{ return([
        'replicate is ' ~ backfill.options.replicate ~ ': ' ~ (dbt_backfill.get_scans_text(backfill, plan, measured) ~ ', so ' if measured.scans else '')
            ~ ('they are copied first, ordered by the key' if dbt_backfill.wants_replica(backfill, plan, measured) else 'the ranges are read from it')
    ]) }}
{% endmacro %}


{#- {'rows', 'scans', see get_bounds_sql; none if it is not known, 'bytes': of the upstream's files, none likewise}. -#}
{% macro _measure_ahead(backfill, state, plan, replica) %}
    {%- set evidence = plan.get('evidence') -%}
    {%- if not evidence and not replica and not plan.last_range and not dbt_backfill.stages_ranges(backfill.upstream) -%}
        {%- set evidence = dbt_backfill.find_bounds(backfill, state, plan).evidence -%}
    {%- endif -%}
    {%- if not evidence -%}
        {%- set total = dbt_backfill.get_row_count_sql(backfill.upstream, dbt_backfill.get_source(plan).version) -%}
        {%- set counted = dbt_backfill.run_json('count the rows of the upstream', "select to_json(named_struct('rows', " ~ total ~ '))')[0] -%}
        {%- set evidence = {'rows': [(counted.get('rows') or 0) - (state.row_count or 0), 0] | max, 'scans': none} -%}
    {%- endif -%}
    {{ return(dict(evidence, bytes=dbt_backfill.get_byte_count(backfill.upstream))) }}
{% endmacro %}


{#- By docs/statements.md. -#}
{% macro _get_statements_line(backfill) %}
    {%- set followed = (backfill.feed or backfill.upstream).kind -%}
    {%- set first, more = ('6 or 7', '3 or 4') if followed == 'iceberg' else ('7 or 8', '4 or 5') -%}
    {%- if dbt_backfill.stages_ranges(backfill.upstream) -%}
        {{ return('a barrier with a range sends about 12 statements, see docs/statements.md') }}
    {%- endif -%}
    {{ return('the first barrier of a run sends ' ~ first ~ ' statements, each further one ' ~ more ~ ('; one more because of change_feed' if backfill.feed else '')) }}
{% endmacro %}


{% macro _megabytes_text(bytes) %}
    {{ return('{:,.1f} MB'.format(bytes / 1000000)) }}
{% endmacro %}
