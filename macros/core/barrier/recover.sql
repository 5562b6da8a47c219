{#- Decide what happens to a plan that an earlier run left. Return {'plan': the plan to execute, 'may_give_up': see run_merge}. As a rule the plan is
    executed word for word. The plan is abandoned if the data that the plan reads is gone, or if the MV is to be rebuilt anyway. -#}
{% macro adopt_plan(backfill, state, observed, plan, rebuild) %}
    {%- if plan.get('backfill_id') != state.committed.get('backfill_id') -%} {%- do dbt_backfill.refuse_concurrent_run(plan) -%} {%- endif -%}
    {#- A plan of the kind `rescale` or `abandon` is always executed. Such a plan reads nothing that can be lost, and a rebuild can follow it. -#}
    {%- set may_be_lost, lost = plan.kind not in ['rescale', 'abandon'], none -%}
    {%- if may_be_lost -%}
        {%- set source, is_swap, options = dbt_backfill.get_source(plan), plan.get('generation') is not none, backfill.options -%}
        {%- if is_swap -%}
            {%- set is_kept = dbt_backfill.exists_with_id(dbt_backfill.parse_relation(plan.generation.relation), plan.generation.id) -%}
            {%- set lost = none if is_kept else plan.generation.relation ~ ', which it puts in place, is gone' -%}
        {%- elif source.get('version') is not none and not dbt_backfill.ask(backfill.upstream, 'upstream_readable')(observed, source) -%}
            {%- set lost = 'version ' ~ source.version ~ ' of the upstream can no longer be read' -%}
        {%- elif dbt_backfill.has_changes(state, plan) -%}
            {%- set lost = dbt_backfill.find_feed_gap(backfill, observed, dbt_backfill.get_feed_start(state)) -%}
        {%- endif -%}
        {%- set stage = none if is_swap else dbt_backfill.get_source(plan, 'stage') -%}
        {%- if stage and not lost and not dbt_backfill.ask(backfill.upstream, 'stage_kept')(observed, source, stage) -%}
            {%- set lost = 'the rows that were staged for it, or later events of its feed, are gone' -%}
        {%- endif -%}
        {#- If the MV is to be rebuilt, the plan is executed only if the plan itself rebuilds the MV with the current query, vnode_count and order. So
            a user can correct a model after the query of a reset has failed: the failed reset is given up here. A failed swap is given up by a full
            refresh with full_refresh_mode `in_place`. The order of a swap is not compared, because the next generation of a swap is complete. -#}
        {%- set wanted = not rebuild or dbt_backfill.replaces_mv(plan) and plan.vnode_count == options.vnode_count
            and (options.full_refresh_mode == 'beside' if is_swap else plan.key[0].get('order', 'ascending') == options.backfill_order)
            and not dbt_backfill.find_difference(backfill, state.settings, dbt_backfill.new_analysis(), plan) -%}
        {%- if lost or not wanted -%}
            {%- set given_up = dbt_backfill.run_mark_abandoned(backfill, state, plan, lost or rebuild) -%}
            {%- if given_up is none -%} {%- do dbt_backfill.refuse_concurrent_run(plan) -%} {%- endif -%}
            {{ return({'plan': given_up, 'may_give_up': false}) }}
        {%- endif -%}
        {#- If the plan has the committed query, the plan is not compared with the model's current query. The current query may have other columns,
            which the MV gets after this plan. If the current query differs in more than columns, the run was refused earlier or rebuilds the MV. -#}
        {%- set alters = options.on_schema_change in ['append_new_columns', 'sync_all_columns'] and plan.query_hash == state.committed.query_hash -%}
        {%- set as_planned = dict(
            backfill, query=plan.query, query_hash=plan.query_hash, options=dict(options, volatile_columns=plan.get('volatile_columns'))
        ) if alters else backfill -%}
        {%- if not is_swap -%} {%- do dbt_backfill.check_model_of_plan(as_planned, state.settings, plan) -%} {%- endif -%}
    {%- endif -%}
    {#- Log a line for the user, because the plan may fail again, as in the earlier run. -#}
    {%- if plan.kind != 'abandon' -%}
        {%- set name = dbt_backfill.get_model_name(model) -%}
        {%- do log(
            name ~ ' continues barrier ' ~ plan.epoch ~ ' (' ~ plan.kind ~ '), which was planned at ' ~ plan.planned_at
                ~ ' but not committed. If it fails on a row, correct the row upstream and run again. To give the plan up: '
                ~ dbt_backfill.get_operation_text('abandon_plan', '{model: ' ~ name ~ '}'), info=true
        ) -%}
    {%- endif -%}
    {#- The run may give a plan up only if the next plan would read a newer version than this plan. -#}
    {%- set followed, now = ('feed', observed.feed) if backfill.feed else ('upstream', observed) -%}
    {%- set may_give_up = may_be_lost and dbt_backfill.get_source(plan).get('version') is not none
        and (dbt_backfill.get_source(plan, followed) or {}).get('version') != now.version -%}
    {{ return({'plan': plan, 'may_give_up': may_give_up}) }}
{% endmacro %}


{#- Refuse a plan of another deployment of the model: it has another query, or its query depends on settings that this session does not have. A
    rescale is not refused, because it executes no query. `settings`: see get_result_settings; `views`: temporary views to drop before a refusal. -#}
{% macro check_model_of_plan(backfill, settings, plan, views=[]) %}
    {%- if plan.kind == 'rescale' -%} {{ return(none) }} {%- endif -%}
    {%- set difference = dbt_backfill.find_difference(backfill, settings, dbt_backfill.new_analysis(), plan) -%}
    {%- if difference -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {#- If the expression of a new column fails on a row, the plan fails at every run, so the user may have to give it up. -#}
        {%- set instead = ', or give that plan up: ' ~ dbt_backfill.get_operation_text('abandon_plan', '{model: '
            ~ dbt_backfill.get_model_name(model) ~ '}') if plan.get('fills') or plan.get('drops') else '' -%}
        {%- do dbt_backfill.refuse('another run has planned the barrier ' ~ plan.epoch ~ ' with another query, config or session: ' ~ difference,
            'Run only one deployment of the model' ~ instead ~ '. This run wrote nothing', id='planned-with-another-query') -%}
    {%- endif -%}
{% endmacro %}


{#- Give up a plan that cannot be executed: change the kind of the stored plan to `abandon`. The fence then stops every run that still executes the
    plan. Later the plan's epoch is committed at the old position and marked `dirty`. The MV keeps its number of vnodes, so the abandoned plan gets
    this number. Return the abandoned plan. Change nothing and return none if another run has already committed or replaced the plan. -#}
{% macro run_mark_abandoned(backfill, state, plan, reason) %}
    {%- set given_up = tojson(dict(plan, kind='abandon', reason=reason, vnode_count=state.committed.vnode_count)) -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.get_state_statement(backfill, 'update ' ~ backfill.progress.render()
                ~ " set plan_kind = 'abandon', plan = if(vnode = 0, " ~ dbt_backfill.string_literal(given_up) ~ ', null) where epoch = '
                ~ (plan.epoch - 1) ~ ' and plan_id = ' ~ dbt_backfill.string_literal(plan.plan_id) ~ " and plan_kind <> 'abandon'") }}
            {{ dbt_backfill.get_next_plan_sql(backfill, plan) }};
        end
    {%- endset -%}
    {%- set stored = dbt_backfill.run_json('abandon the plan of the barrier ' ~ plan.epoch, sql, backfill.mv)[0].get('plan') or {} -%}
    {{ return(stored if [stored.get('plan_id'), stored.get('kind')] == [plan.plan_id, 'abandon'] else none) }}
{% endmacro %}


{#- Send the statement that stops the MERGEs of a plan that was given up, see get_stopping_sql. -#}
{% macro run_stopping(backfill, plan) %}
    {%- set sql = dbt_backfill.get_stopping_sql(backfill, plan) -%}
    {%- if sql -%} {%- do dbt_backfill.run_table('stop what is on its way in the barrier ' ~ plan.epoch, sql, backfill.mv) -%} {%- endif -%}
{% endmacro %}


{#-
    Return a statement that makes every running MERGE of a given-up plan fail, even a MERGE that has passed its fence. Return none if no MERGE can be
    running. On Delta the statement changes the table's metadata. On Iceberg it is a MERGE that writes one row of the MV again, unchanged.
    Merge-on-read records the old row as deleted. A MERGE fails if any deletion was committed after the MERGE began. (The statement has no effect on
    an empty MV, which has no row to write, or with copy-on-write, which records no deletion.)

    If the MV lacks the plan's key, no running MERGE can be committed. The key is missing in two cases. The plan is to replace the MV, so it has no
    MERGE. Or something else has replaced the MV: Iceberg commits no MERGE to a table that was replaced after the MERGE began.
-#}
{% macro get_stopping_sql(backfill, plan) -%}
    {%- set mv = backfill.mv.render() -%}
    {%- if backfill.options.file_format == 'delta' -%}
        {{ return('alter table ' ~ mv ~ " set tblproperties ('dbt_backfill.given_up' = '" ~ plan.epoch ~ "')") }}
    {%- endif -%}
    {%- set types = dbt_backfill.types_by_name(dbt_backfill.get_table_columns(backfill.mv)) -%}
    {#- A column of a type that Spark cannot compare is not a column of the key. It only has the same name. -#}
    {%- for key in plan.key -%}
        {%- set type = types.get(key.name | lower, 'map<') -%}
        {%- if 'map<' in type or 'variant' in type -%} {{ return(none) }} {%- endif -%}
    {%- endfor -%}
    {%- set columns = dbt_backfill.mv_columns(plan.key) -%}
    merge into {{ mv }} as mv
    using (select {{ columns | join(', ') }} from {{ mv }} limit 1) as row
    on {{ dbt_backfill.equal_keys(plan.key, 'mv.', 'row.') }}
    when matched then update set {{ columns[0] }} = mv.{{ columns[0] }}
{%- endmacro %}


{#- Return the plans that were given up after the last executed barrier: {'since': the last executed barrier, 'plans': the given-up plans, with the
    newest (`plan`) first}. The commit of an abandoned plan records this dict. Return none if there are more than 20 plans: then the whole MV is
    compared. Return none if one of the plans replaces the MV: then a reset or swap has to follow. `committed`: the plan of the previous epoch. -#}
{% macro add_given_up(committed, plan) %}
    {%- set earlier = committed.get('given_up') if committed.kind == 'abandon'
        else {'since': {'epoch': committed.epoch, 'sources': committed.sources, 'key': committed.get('key')}, 'plans': []} -%}
    {%- if earlier is none or earlier.plans | length >= 20 or dbt_backfill.is_abandoned_reset(plan) -%} {{ return(none) }} {%- endif -%}
    {%- set noted = {
        'epoch': plan.epoch, 'sources': plan.sources, 'range_low': plan.get('range_low'), 'range_high': plan.get('range_high'),
        'last_range': plan.get('last_range'), 'touched': plan.get('touched'),
    } -%}
    {{ return({'since': earlier.since, 'plans': [noted] + earlier.plans}) }}
{% endmacro %}


{#-
    Return the ranges above the position that given-up plans could write to, as a list of their ends, with [] for a range without an end. During a
    sweep the list is empty, because the sweep compares the rows above the position anyway. Return none if the whole MV has to be compared.

    Given-up plans could write to two parts of the MV: these ranges, and the rows that changed upstream after the last executed barrier. It is enough
    to compare both parts under three conditions. The feed still lists all of these changes. The upstream was not restored to a version that is older
    than a version that a given-up plan read. The feed does not leave out a key that was added in such a version and deleted afterwards.
-#}
{% macro find_touched_ranges(backfill, state, observed) %}
    {%- set given_up = state.committed.get('given_up') if state.dirty else none -%}
    {%- set begun = dbt_backfill.get_source(given_up.since) if given_up else none -%}
    {%- if not given_up or backfill.feed or not state.uniform or begun.get('version') is none or begun.version != state.get('upstream_version')
            or dbt_backfill.find_feed_gap(backfill, observed, given_up.since) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set touched = [] -%}
    {%- for plan in given_up.plans -%}
        {%- set source = dbt_backfill.get_source(plan) -%}
        {%- if not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, source)
                or source.version != state.upstream_version and dbt_backfill.upstream_traits(backfill.upstream).may_forget_keys
                and dbt_backfill.ask(backfill.upstream, 'forgets_keys')(observed, begun, source) -%}
            {{ return(none) }}
        {%- endif -%}
        {%- for high in plan.get('touched') or [] -%} {%- if high not in touched -%} {%- do touched.append(high) -%} {%- endif -%} {%- endfor -%}
        {%- if plan.last_range -%}
            {%- do touched.append([]) -%}
        {%- elif plan.get('range_high') not in [none, plan.get('range_low')] + touched -%}
            {%- do touched.append(plan.range_high) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if dbt_backfill.is_sweeping(state) -%} {{ return([]) }} {%- endif -%}
    {{ return([[]] if [] in touched else touched) }}
{% endmacro %}


{#- Give up a plan after its step `failed` has failed. Refuse to continue if another run has committed or replaced the plan. -#}
{% macro give_up_plan(backfill, plan, failed) %}
    {%- set now = dbt_backfill.read_state(backfill) -%}
    {%- set given_up = dbt_backfill.run_mark_abandoned(
        backfill, now, plan, 'it could not ' ~ failed ~ ', and the upstream has a later version than ' ~ dbt_backfill.get_source(plan).version
    ) if dbt_backfill.is_executable(now, plan) else none -%}
    {%- if given_up is none -%} {%- do dbt_backfill.refuse_concurrent_run(plan) -%} {%- endif -%}
    {%- do dbt_backfill.run_stopping(backfill, given_up) -%}
    {{ return(given_up) }}
{% endmacro %}


{#-
    Return a plan that repairs the MV without a feed: a re-anchor, a sweep or a reset. If plans were given up and the keys that they could write to
    are known, the returned plan compares only these keys. Otherwise all rows up to the position are read and their keys are checked again, in one
    barrier or in slices (a sweep). A user can refuse this comparison by `on_gap`, or after a foreign write by `on_foreign_write`. If nothing was
    backfilled yet, the plan is a reset, except during a sweep: then the MV keeps its previous rows.

    Arguments:
      whole (boolean): true if all rows have to be compared, because of a foreign write, because the changes cannot be read, or because the feed does
        not list all changes.
      filling (dict or none): see new_filling. A plan that reads the whole prefix again also fills these columns to the end.
      views (list): the temporary views to drop before a refusal.
-#}
{% macro choose_recovery(backfill, state, observed, analysis, reason, started, whole=false, views=[], filling=none) %}
    {%- set ended = {'drops': filling.drops} if filling else {} -%}
    {%- if filling and filling.columns -%}
        {%- set ended = dict(
            ended, fills=filling.columns, fill_low=filling.position, fill_high=none, last_fill=true, next_bounds=[], bounds_complete=false
        ) -%}
    {%- endif -%}
    {%- if not started and not dbt_backfill.is_sweeping(state) -%}
        {{ return(dbt_backfill.new_reset_plan(backfill, state, analysis, reason)) }}
    {%- endif -%}
    {%- set plan = dict(
        dbt_backfill.new_plan_at(backfill, state, analysis, 'reanchor', observed, observed.version, reason),
        removes_duplicates=state.get('foreign_write') is not none,
    ) -%}
    {%- set touched = none if whole or filling and filling.columns else dbt_backfill.find_touched_ranges(backfill, state, observed) -%}
    {%- set option = 'on_foreign_write' if state.get('foreign_write') else 'on_gap' -%}
    {%- set sweeps = backfill.options[option] == 'sweep' or dbt_backfill.is_sweeping(state) -%}
    {%- if touched is none and started and backfill.options[option] == 'fail' -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- do dbt_backfill.refuse(
            'its next barrier would compare its query with all ' ~ dbt_backfill.get_count_text(state.row_count) ~ ' rows read so far, because '
                ~ reason,
            'Set ' ~ option ~ "='reanchor' to allow that, " ~ option ~ "='sweep' to compare them in slices, or rebuild the MV with --full-refresh",
            id='whole-table-comparison') -%}
    {%- elif touched is none and sweeps -%}
        {#- The plan of a sweep records the old position as range_low. If the sweep is given up, the state keeps that position. -#}
        {{ return(dict(dict(plan, kind='sweep', range_high=none, next_bounds=[], bounds_complete=false), **ended)) }}
    {%- endif -%}
    {{ return(dict(plan, touched=touched, **ended)) }}
{% endmacro %}


{#- Return a plan that rebuilds the MV. The rebuilt MV may have another key, number of vnodes and order than before. -#}
{% macro new_reset_plan(backfill, state, analysis, reason) %}
    {{ return(dict(
        dbt_backfill.new_plan(backfill, state, analysis, 'reset', reason), sweeps=false, vnode_count=backfill.options.vnode_count,
        key=dbt_backfill.with_order(dbt_backfill.place_positions(backfill, state, analysis.key), backfill.options.backfill_order),
    )) }}
{% endmacro %}


{#- Return a plan that replaces the MV by the generation `next`, see read_filled_generation. -#}
{% macro new_swap_plan(backfill, state, analysis, next, reason) %}
    {%- set filled, taken = next.state.committed, {} -%}
    {%- for name in ['sources', 'query', 'query_hash', 'query_columns', 'volatile_columns', 'vnode_count', 'backfill_mode', 'upstream_row_count'] -%}
        {%- do taken.update({name: filled.get(name)}) -%}
    {%- endfor -%}
    {{ return(dict(
        dbt_backfill.new_plan(backfill, state, dict(analysis, key=filled.key), 'swap', reason),
        sweeps=false, last_range=true, next_bounds=[], bounds_complete=true,
        settings=dbt_backfill.get_result_settings(state.settings, filled.settings),
        key=dbt_backfill.place_positions(backfill, state, filled.key),
        counted={'vnode_row_counts': '(select map_from_entries(collect_list(struct(vnode, row_count))) from '
            ~ next.backfill.progress.render() ~ ')'},
        generation={'relation': next.backfill.mv.render(), 'id': filled.backfill_id, 'version': next.version},
        **taken
    )) }}
{% endmacro %}


{#- Return the key of a rebuild, see keep_positions. If the key or the number of vnodes changes, the progress table may get new columns. -#}
{% macro place_positions(backfill, state, key) %}
    {%- if dbt_backfill.has_shape_of(state.committed, key, backfill.options.vnode_count) -%}
        {{ return(dbt_backfill.keep_positions(key, state.committed)) }}
    {%- endif -%}
    {{ return(dbt_backfill.keep_positions(key, none, dbt_backfill.get_column_types(backfill.progress))) }}
{% endmacro %}
