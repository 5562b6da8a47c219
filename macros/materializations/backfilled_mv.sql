{#-
    Make a materialized view (MV) that is filled in slices from a large, changing table. The MV is exact from the first slice on:

        at every commit of the MV,  MV = Q(upstream @ S where pk <= current_pos), per vnode

    Here Q is the model's query and S is one version of the upstream. A run has one barrier, or several (`barriers_per_run`). A barrier has these
    steps: observe, plan, merge the changes, merge the next range, commit the progress. docs/barrier.md has a drawing of a barrier.
-#}
{% materialization backfilled_mv, adapter='spark', supported_languages=['sql'] %}
    {#- Macros can see the flag `--sample` only in the arguments of the invocation. dbt 2 does not list it there, but filters the upstream. -#}
    {%- set sampled = invocation_args_dict.get('sample') is not none
        or dbt_version.startswith('2') and dbt_backfill.get_unsampled_sql(sql, false, true) != sql -%}
    {%- set reads_nothing = flags.EMPTY or sampled -%}
    {%- set existing_relation = load_relation(this) -%}
    {%- set backfill = dbt_backfill.get_backfill(this, dbt_backfill.get_unsampled_sql(sql, flags.EMPTY, sampled)) -%}

    {{ dbt_backfill.run_all_hooks(pre_hooks, outside_first=true) }}

    {%- set options = backfill.options -%}
    {%- set live = dbt_backfill.check_live_view(backfill) if options.live_view and not reads_nothing else none -%}
    {%- set observed = dbt_backfill.observe_state(backfill, reads_nothing) -%}
    {%- set found = observed.mv -%}
    {%- if reads_nothing -%}
        {%- if observed.state.get('missing') -%} {%- do dbt_backfill.create_backfill(backfill, observed.state) -%} {%- endif -%}
        {%- set flag = '--empty' if flags.EMPTY else '--sample' -%}
        {%- do store_raw_result('main', message='NO-OP (' ~ flag ~ ')', code='NO-OP', rows_affected='0') -%}
    {%- else -%}
        {%- do dbt_backfill.run_switch_of_feed(backfill, found) -%}
        {%- set rebuild = 'full refresh' if should_full_refresh() else none -%}
        {%- set has_next = dbt_backfill.is_listed(dbt_backfill.get_next_relations(this).progress) -%}
        {%- set next = dbt_backfill.find_next_generation(backfill, observed, rebuild)
            if options.full_refresh_mode == 'beside' or has_next else none -%}
        {%- set result = dbt_backfill.run_beside(backfill, observed, next) if next
            else dbt_backfill.run_barriers(backfill, observed, rebuild) -%}
        {%- if result.replaced -%} {%- set found = none -%} {%- endif -%}
        {%- if options.live_view or dbt_backfill.is_listed(backfill.live) -%}
            {%- do dbt_backfill.make_or_drop_live_view(backfill, result, live) -%}
        {%- endif -%}
        {%- do dbt_backfill.store_result_of_run(result) -%}
    {%- endif -%}

    {%- do apply_grants(this, config.get('grants'), should_revoke(existing_relation, should_full_refresh())) -%}
    {#- While a next generation is filled, the MV still has the rows of the previous query. -#}
    {%- set is_former = not reads_nothing and result.get('filling', false) -%}
    {%- set state = observed.state if reads_nothing else result.state -%}
    {%- if not is_former and (config.persist_relation_docs() or config.persist_column_docs()) -%}
        {%- do dbt_backfill.apply_docs(backfill, found, state) -%}
    {%- endif -%}
    {#- Rows that a sweep has not compared yet, and columns that are not filled yet, may violate the contract. -#}
    {%- set is_whole = not reads_nothing and not is_former and not dbt_backfill.is_sweeping(state) and not dbt_backfill.get_filling(state) -%}
    {%- set has_constraints = found and ((config.get('contract') or {}).enforced or 'dbt_backfill.constraints' in found.properties) -%}
    {%- if is_whole and has_constraints -%} {%- do dbt_backfill.apply_constraints(backfill, found.properties) -%} {%- endif -%}

    {{ dbt_backfill.run_all_hooks(post_hooks, outside_first=false) }}

    {#- Return both relations, because tests of the same invocation look them up in dbt's cache. -#}
    {{ return({'relations': [backfill.mv, backfill.progress]}) }}
{% endmaterialization %}


{#- Switch the change data feed of an existing Delta MV on, if another backfilled_mv follows the MV now. The follower has not begun yet: without the
    feed its first run is refused. `found`: see observe_existing; none if the MV does not exist. -#}
{% macro run_switch_of_feed(backfill, found) %}
    {%- set name = 'delta.enableChangeDataFeed' -%}
    {%- if found and dbt_backfill.get_file_format() == 'delta' and name not in found.properties
            and name not in (config.get('tblproperties') or {}) and dbt_backfill.has_follower(model.unique_id) -%}
        {%- do dbt_backfill.run_table('switch the change data feed on', dbt_backfill.get_set_properties_sql(backfill.mv, {name: 'true'})) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Run the hooks of a model, including hooks that run outside of a transaction (`before_begin`, `after_commit`). Spark has no transactions, and
    dbt-spark's own materializations silently skip such hooks. Here these hooks run before all other hooks (`outside_first`) or after them, as in
    other adapters. `hooks`: as dbt passes them to a materialization, a list of {'sql', 'transaction'}.
-#}
{% macro run_all_hooks(hooks, outside_first) %}
    {%- set inside, outside = [], [] -%}
    {%- for hook in hooks -%} {%- do (inside if hook.get('transaction', true) else outside).append({'sql': hook.sql, 'transaction': true}) -%} {%- endfor -%}
    {{ run_hooks(outside + inside if outside_first else inside + outside) }}
{% endmacro %}


{#- Report the run as dbt's result of the model. With this package's adapter, run_results.json also gets the fields of BarrierResponse. -#}
{% macro store_result_of_run(result) %}
    {%- if adapter.type() == 'spark_backfill' -%}
        {%- set state, progress = result.state, dbt_backfill.get_progress(result.state) -%}
        {%- set rate, left = result.rows_backfilled / result.read_seconds if result.read_seconds else none, progress.rows_left -%}
        {%- do store_result('main', response=adapter.barrier_response(
            message=result.message, epoch=state.epoch, kind=result.plan.kind if result.plan else none, barriers=result.barriers,
            progress=progress.share, backfill_finished=dbt_backfill.is_complete(state) and not state.dirty,
            row_count=state.get('row_count'), upstream_row_count=state.committed.get('upstream_row_count'), rows_left=left,
            rows_per_second=rate, seconds_left=0.0 if left == 0 else (left / rate if rate and left else none),
            lag_seconds=state.get('lag_seconds'), upstream_version=state.get('upstream_version'),
            rows_backfilled=result.rows_backfilled, rows_changed=result.changed, rows_deleted=result.deleted
        )) -%}
    {%- else -%}
        {%- set rows = result.rows_backfilled + result.changed + result.deleted -%}
        {%- set code = 'BARRIER' if result.barriers else 'NO-OP' -%}
        {%- do store_raw_result('main', message=result.message, code=code, rows_affected=rows | string) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return the query with the upstream's plain name instead of the filtered subquery that dbt inserts for `--empty` and `--sample`. A run with one of
    these flags reads nothing, but it creates the tables for the real query.

    Only subqueries that dbt itself writes are replaced, each of them once. The patterns match only an innermost subquery, because a filter of the
    user may enclose the subquery of dbt and have the same form.
-#}
{% macro get_unsampled_sql(sql, empty, sampled) %}
    {%- set name = '((?:`[^`]+`|[^\\s()`])+)' -%}
    {%- if empty -%}
        {%- set limited = '\\(select \\* from ' ~ name ~ ' where false limit 0\\)(?: _dbt_limit_subq_\\w+)?' -%}
        {%- set sql = modules.re.sub(limited, '\\1', sql) -%}
    {%- endif -%}
    {%- if sampled -%}
        {%- set time = "'\\d{4}-\\d\\d-\\d\\d[ T]\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?[+-]\\d\\d:\\d\\d'" -%}
        {%- set filter = '(?:' ~ name ~ ' >= ' ~ time ~ '(?: and \\2 < ' ~ time ~ ')?|' ~ name ~ ' < ' ~ time ~ ')' -%}
        {%- set filtered = '\\(select \\* from ' ~ name ~ ' where ' ~ filter ~ '\\)(?: _dbt_et_filter_subq_\\w+)?' -%}
        {%- set sql = modules.re.sub(filtered, '\\1', sql) -%}
    {%- endif -%}
    {{ return(sql) }}
{% endmacro %}
