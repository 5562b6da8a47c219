{#-
    Print what is left of a backfill, without writing anything: the number of rows, ranges and barriers, and the bytes that each range reads. Also
    print if a replica will be read, and the statements with which a barrier writes. The operation refuses everything that a run of the model would
    refuse. It reads no more rows than a run reads to plan a barrier: at most one pass over the keys that are left.

    Usage:
      dbt run-operation explain_backfill --args '{model: my_mv}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
-#}
{% macro explain_backfill(model=none) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'explain_backfill') -%}
    {%- set name = dbt_backfill.get_model_name(node) -%}
    {%- do dbt_backfill.check_arguments('explain_backfill', {'model': model}, kwargs, mv=name) -%}
    {%- for line in dbt_backfill.get_explained_lines(node) -%} {%- do log(name ~ ': ' ~ line, info=true) -%} {%- endfor -%}
{% endmacro %}


{#- Return the lines that explain_backfill prints for a model. -#}
{% macro get_explained_lines(node) %}
    {#- Set dbt's variable `model` to the node, because macros read the config and the name of the model from this variable. -#}
    {%- do model.update(node) -%}
    {%- set backfill = dict(
        dbt_backfill.get_backfill(dbt_backfill.get_node_relation(node), render(node.raw_code) | trim), name=dbt_backfill.get_model_name(node)
    ) -%}
    {%- set found, mv = dbt_backfill.observe_tables(backfill), backfill.mv.render() -%}
    {%- if found.get('takeover') -%}
        {{ return(['the next run replaces ' ~ mv ~ ', which is not an MV yet' if found.takeover == 'replace'
            else 'the next run adopts ' ~ mv ~ ': its rows are compared with its query'
                ~ dbt_backfill.get_slices_text(backfill.options.backfill_rate_limit) ~ ', and only what differs is written']) }}
    {%- endif -%}
    {#- If a first run died after it had stored its plan, the next run continues this plan. -#}
    {%- set left = none if found.get('observed') or found.is_of_another_model else found.left.get('planned') -%}
    {%- set observed = found.get('observed') or found.missing -%}
    {%- set observed = dict(observed, state=dict(observed.state, planned=left)) if left else observed -%}
    {%- set state, planned = dbt_backfill.observe_mv(backfill, observed.state), observed.state.get('planned') -%}
    {#- Decide on a rebuild in the same way as a run does before its first barrier. -#}
    {%- set rebuild = none if state.get('missing') else dbt_backfill.find_change(backfill, state, observed.analysis).rebuild -%}
    {%- set allowance = dbt_backfill.get_allowance(backfill, state, {'rows': 0}) -%}
    {%- set backfill = dict(
        backfill, options=dict(backfill.options, backfill_rate_limit=allowance.rows),
        partitions=observed.mv.partitions if observed.get('mv') else none
    ) -%}
    {%- set upstream = dbt_backfill.observe_upstream(backfill, state, dbt_backfill.get_feed_start(state) or planned) -%}
    {%- set name, newest = backfill.upstream.relation.render(), 'version ' ~ upstream.version -%}
    {%- set lines, total = ['nothing of ' ~ name ~ ' was read yet; it is at ' ~ newest], (state.committed or {}).get('upstream_row_count') -%}
    {%- if dbt_backfill.has_started(state) -%}
        {%- set lines = [dbt_backfill.get_count_text(state.row_count) ~ (' of ' ~ dbt_backfill.get_count_text(total) if total else '') ~ ' rows of ' ~ name
            ~ ' were read, up to version ' ~ state.upstream_version
            ~ (', which is the newest' if state.upstream_version == upstream.version | string else '; it is at ' ~ newest)] -%}
    {%- endif -%}
    {%- set ruled = dbt_backfill.get_allowance_text(allowance, state) -%}
    {%- if ruled -%} {%- do lines.append('what a range may read: ' ~ ruled) -%} {%- endif -%}
    {%- if planned -%}
        {{ return(lines + [
            'the barrier ' ~ planned.epoch ~ ' was planned at ' ~ planned.planned_at ~ ' but is not committed; the next run continues it'
        ]) }}
    {%- endif -%}
    {%- set replica = dbt_backfill.find_replica(backfill, state, upstream) -%}
    {%- set bounds_from = dbt_backfill.new_copied_source(replica) if replica and dbt_backfill.is_whole(replica) else none -%}
    {%- set choice = dbt_backfill.choose_plan(dict(backfill, source=bounds_from), state, upstream, observed.analysis, rebuild) -%}
    {%- if choice is none -%}
        {%- set waits = allowance.rows == 0 and not dbt_backfill.is_complete(state) -%}
        {{ return(lines + ['there is nothing to do' ~ (' while no range may be read' if waits else '')]) }}
    {%- endif -%}
    {{ return(lines + dbt_backfill._get_plan_lines(backfill, state, choice.plan, replica)) }}
{% endmacro %}


{#- Return the lines about the next barrier. The last line lists the statements with which the barrier writes. -#}
{% macro _get_plan_lines(backfill, state, plan, replica) %}
    {%- set has_changes = dbt_backfill.has_changes(state, plan) -%}
    {%- set has_range = plan.last_range or plan.get('range_high') != plan.get('range_low') -%}
    {%- set moves = has_range or plan.get('fills') -%}
    {#- A run executes these steps. explain_backfill does not count the changes and the rows of the range, so assume that both exist. -#}
    {%- set staged = {'name': 'staged', 'upserts': 1, 'drops': 0, 'low': none, 'high': none} if has_changes else none -%}
    {%- set steps = dbt_backfill.get_steps(
        backfill, state, dict(plan, range_row_count=1 if moves else none, at_once=false), staged
    ) | map(attribute='name') | list -%}
    {%- set statements = ['plan the barrier ' ~ plan.epoch] + steps + ['commit the barrier ' ~ plan.epoch] -%}
    {%- set at_once = ' (both by one statement if they are few)' if staged and plan.kind == 'advance' and moves and not plan.sweeps else '' -%}
    {%- set lines = [] -%}
    {%- if plan.kind != 'advance' -%}
        {%- do lines.append('the next barrier is of the kind ' ~ plan.kind ~ (': ' ~ plan.reason if plan.get('reason') else '')) -%}
    {%- else -%}
        {%- if has_changes -%} {%- do lines.append('the next barrier merges the changes since the last barrier') -%} {%- endif -%}
        {%- if has_range -%} {%- do lines.extend(dbt_backfill._get_range_lines(backfill, state, plan, replica)) -%} {%- endif -%}
    {%- endif -%}
    {{ return(lines + ['the barrier writes with the statements: ' ~ statements | join(', ') ~ at_once]) }}
{% endmacro %}


{#- Return the lines about the ranges ahead: their rows, barriers and runs, their source, and their bytes. -#}
{% macro _get_range_lines(backfill, state, plan, replica) %}
    {#- `known` has the number of rows that are left, with the rows of the plan's range, and the scans, see get_bounds_sql. `known` is none if no run
        has measured them together with the bounds of ranges. With `auto`, a run without known scans makes no replica. -#}
    {%- set known = plan.get('evidence') or dbt_backfill.get_known_evidence(state, dbt_backfill.get_source(state.committed, 'replica')) -%}
    {%- set evidence = known -%}
    {%- if not evidence and not replica and not plan.last_range and not dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%}
        {%- set evidence = dbt_backfill.find_bounds(backfill, state, plan).evidence -%}
    {%- endif -%}
    {%- if not evidence -%}
        {%- set total = dbt_backfill.ask(backfill.upstream, 'row_count_sql')(backfill.upstream, dbt_backfill.get_source(plan).version) -%}
        {%- set counted = dbt_backfill.run_json('count the rows of the upstream', "select to_json(named_struct('rows', " ~ total ~ '))')[0] -%}
        {%- set evidence = {'rows': [(counted.get('rows') or 0) - (state.row_count or 0), 0] | max, 'scans': none} -%}
    {%- endif -%}
    {%- set rows, scans = evidence.rows, evidence.get('scans') -%}
    {%- set bytes = none if dbt_backfill.upstream_traits(backfill.upstream).stages_ranges
        else dbt_backfill.ask(backfill.upstream, 'byte_count')(backfill.upstream) -%}
    {%- set copies = not replica and dbt_backfill.may_replicate(backfill) and dbt_backfill.wants_replica(backfill, plan, known) -%}
    {%- set options, ranges, runs = backfill.options, dbt_backfill.count_ranges_ahead(plan), [1] -%}
    {%- set limit = options.backfill_rate_limit -%}
    {%- for left, of_a_run in [(ranges, options.barriers_per_run), (rows, options.run_rows)] if of_a_run -%}
        {%- do runs.append((left / of_a_run) | round(0, 'ceil') | int) -%}
    {%- endfor -%}
    {#- The number of runs is a minimum if there may be more ranges, or if a budget may shorten a range. The number is also a minimum with
        run_minutes, because nobody knows how many barriers fit into this time. -#}
    {%- set is_least = not plan.get('bounds_complete') and not plan.last_range or options.run_minutes or options.run_rows -%}
    {%- set lines = [
        dbt_backfill.get_count_text(rows) ~ ' rows are left, in ' ~ dbt_backfill.get_ranges_text(plan)
            ~ (' of up to ' ~ dbt_backfill.get_count_text(limit) ~ ' rows' if limit else ', because the model has no backfill_rate_limit'),
        'a barrier for each, in ' ~ ('about ' if options.barrier_seconds else 'at least ' if is_least else '')
            ~ dbt_backfill.get_count_text(runs | max, 'run') ~ ' of dbt'
            ~ ('; barrier_seconds will change the size of later ranges' if options.barrier_seconds else ''),
    ] -%}
    {%- if replica -%}
        {%- do lines.append('the ranges are read from ' ~ backfill.replica.render()) -%}
    {%- elif ranges != 1 and dbt_backfill.may_replicate(backfill) -%}
        {%- set so = ', so ' if known or copies else '; a run that uses the bounds of an earlier run does not know that, so ' -%}
        {%- do lines.append(
            'replicate is ' ~ options.replicate ~ ': ' ~ (dbt_backfill.get_scans_text(backfill, plan, evidence) ~ so if scans else '')
                ~ ('the rows are first copied in the order of the key' if copies else 'the ranges are read from the upstream')
        ) -%}
    {%- endif -%}
    {%- if bytes and rows -%}
        {#- Assume that the rows that are left have a proportional share of the bytes of the upstream's files. -#}
        {%- set megabytes = bytes * rows / (rows + (state.row_count or 0)) / 1000000 -%}
        {%- set of_a_range = dbt_backfill.get_count_text('%.1f' | format(megabytes * (1 if copies or replica else [scans or 1, ranges] | min) / ranges)) ~ ' MB' -%}
        {%- set left = dbt_backfill.get_count_text('%.1f' | format(megabytes)) ~ ' MB' -%}
        {#- A range does not read columns that the query does not need, but their size is not known. -#}
        {%- set unneeded = ', at most: columns that are not needed are left out' -%}
        {%- if copies -%}
            {%- set parts = dbt_backfill.count_parts(backfill, plan) -%}
            {%- set copying = 'the copy reads ' ~ left ~ ' once' if parts == 1
                else 'each of about ' ~ dbt_backfill.get_count_text(parts, 'part') ~ ' of the copy reads ' ~ left -%}
            {%- do lines.append(copying ~ '; a range then reads about ' ~ of_a_range ~ ' of it' ~ unneeded) -%}
        {%- else -%}
            {%- set source = ' of the copy' if replica else ' of the ' ~ left ~ ' of the upstream that are left' -%}
            {%- do lines.append('a range reads about ' ~ of_a_range ~ source ~ unneeded) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(lines) }}
{% endmacro %}
