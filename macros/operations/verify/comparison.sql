{#-
    Return the result of observe_operated with three more entries: 'key', the key of the committed plan with the MV's column names; 'columns', see
    get_table_columns; and 'compared', those of the columns that are compared: not the volatile columns of the committed plan. Refuse an MV whose
    barrier is not committed. Also refuse an MV whose definition cannot be evaluated any more: its upstream version no longer exists, or a setting of
    the session has changed since the last barrier.
-#}
{% macro observe_verified(node) %}
    {%- set verified = dbt_backfill.observe_operated(node) -%}
    {%- set state, name = verified.state, verified.name -%}
    {%- do dbt_backfill.check_barrier_is_committed(state, name, 'Run the model first (dbt run --select ' ~ name ~ '), and then verify it') -%}
    {%- set plan = state.committed -%}
    {%- set changed = dbt_backfill.find_changed_setting(plan, state.settings) -%}
    {%- if changed -%}
        {%- do dbt_backfill.refuse(changed.words ~ ' is ' ~ changed.is ~ ', but was ' ~ changed.was ~ ' at its last barrier',
            'Set ' ~ changed.setting ~ ' to ' ~ changed.was, mv=name, id='setting-differs-from-barrier') -%}
    {%- endif -%}
    {%- if state.get('upstream_version') is not none -%}
        {%- set upstream, source = dbt_backfill.get_upstream_of_plan(plan), dbt_backfill.get_source(plan) -%}
        {%- if not dbt_backfill.exists_as_its_kind(upstream) or not dbt_backfill.ask(upstream, 'upstream_readable')(
            dbt_backfill.ask(upstream, 'read_upstream')(upstream, source), source
        ) -%}
            {%- do dbt_backfill.refuse(
                'the MV shows version ' ~ state.upstream_version ~ ' of its upstream ' ~ source.relation ~ ', but this version can no longer be read',
                'Run the model (dbt run --select ' ~ name ~ '), which moves the MV to a later version, and then verify the MV', mv=name,
                id='shown-version-gone') -%}
        {%- endif -%}
    {%- endif -%}
    {%- set columns = dbt_backfill.get_table_columns(verified.mv) -%}
    {{ return(dict(
        verified, key=dbt_backfill.get_mv_keys(plan.key), columns=columns, compared=dbt_backfill.without_names(columns, plan.get('volatile_columns')),
    )) }}
{% endmacro %}


{#-
    Stage the rows that are needed to evaluate an MV's definition, if the upstream keeps no versions: read all rows up to the position once, and wait
    until their changes have landed. `relations`: the tables of the MV, with 'name' and 'options': {'file_format'}. Return {
      'state': the state with `staged`, see get_promised_sql; unchanged if the upstream keeps versions,
      'unsettled': a select of the keys that have changed since the version that the MV shows, see selection_predicate. Nobody knows the rows of
        these keys at that version any more. None if the upstream keeps versions
    }
-#}
{% macro stage_definition(relations, state) %}
    {%- set committed, as_it_is = dbt_backfill.get_source(state.committed), {'state': state, 'unsettled': none} -%}
    {%- if state.get('upstream_version') is none -%} {{ return(as_it_is) }} {%- endif -%}
    {%- set upstream = dbt_backfill.get_upstream_of_plan(state.committed) -%}
    {%- if not dbt_backfill.upstream_traits(upstream).stages_ranges -%} {{ return(as_it_is) }} {%- endif -%}
    {%- set observed = dbt_backfill.ask(upstream, 'read_upstream')(upstream, committed) -%}
    {%- set followed = dict(committed, key=state.committed.key | map(attribute='upstream') | list) -%}
    {%- set gap = dbt_backfill.ask(upstream, 'upstream_gap')(observed, followed) -%}
    {%- set plan = dict(state.committed, kind='reanchor', touched=none, epoch=state.epoch + 1, sources=[committed]) -%}
    {%- set taken = {'unclear': gap.reason} if gap
        else dbt_backfill.ask(upstream, 'stage_range')(dict(relations, upstream=upstream), state, observed, plan) -%}
    {%- if taken.unclear or taken.waits -%}
        {%- do dbt_backfill.refuse('its definition cannot be evaluated now, because ' ~ (taken.unclear or taken.waits),
            'Run the model, which moves the MV to a later version, and then compare the MV', mv=relations.name, id='definition-not-evaluated') -%}
    {%- endif -%}
    {%- set version = dbt_backfill.get_source(taken.plan).version -%}
    {%- set changed = [] -%}
    {%- for column in dbt_backfill.upstream_columns(plan.key) -%} {%- do changed.append(column ~ ' as __bf_changed_' ~ loop.index) -%} {%- endfor -%}
    {%- set changes = dbt_backfill.ask(upstream, 'upstream_changes')(observed, committed.version, version, plan.key, none) -%}
    {{ return({
        'state': dict(state, staged={'version': version, 'source': dbt_backfill.get_source(taken.plan, 'stage')}),
        'unsettled': 'select distinct ' ~ changed | join(', ') ~ ' from (' ~ changes.events ~ ')',
    }) }}
{% endmacro %}


{#-
    Compare the selected part of the MV with its definition, in one pass over both. A key differs if its rows, or their number, differ. The
    differing keys are staged as a cached view, because later statements read only the rows of these keys. Return {
      'rows': how many rows of the MV were compared,
      'differing': the number of differing keys, 'null_keys': the number of differing keys that contain a null,
      'low', 'high': the first and the last differing key without nulls, as literals,
      'stage': the view
    }

    The state is read again after the comparison, because a barrier that began during the comparison may have changed the MV. The same check is
    necessary after a repair (`repaired`): a barrier does not conflict with the repair if the barrier only drops a row that the MV lacked.
-#}
{% macro run_comparison(verified, selection, repaired=false) %}
    {%- set stage = dbt_backfill.identifier([
        verified.mv.schema, verified.mv.identifier, 'differing', verified.state.epoch, invocation_id | replace('-', '')
    ] | join('__')) -%}
    {%- set columns = dbt_backfill.get_compared_columns(verified.compared) -%}
    {%- set keys = dbt_backfill.mv_columns(verified.key) | join(', ') -%}
    {%- set present = dbt_backfill.get_present_sql(verified, verified.state) -%}
    {%- set selected = dbt_backfill.selection_predicate(selection, verified.key) -%}
    {%- set null_key = dbt_backfill.null_key_predicate(dbt_backfill.mv_columns(verified.key)) -%}
    {%- set sql -%}
        begin
            create or replace temporary view {{ stage }} as
            select {{ keys }}
            from (
                select {{ keys }}
                from (
                    select {{ columns }}, 1 as __bf_count
                    from (
                        {{ dbt_backfill.get_promised_sql(verified, verified.state, selection) }}
                    )
                    union all
                    select {{ columns }}, -1 as __bf_count
                    from {{ present }}
                    where {{ selected }}
                )
                group by {{ dbt_backfill.identifiers(verified.compared | map(attribute='name')) }}
                having sum(__bf_count) != 0
            )
            group by {{ keys }};
            cache table {{ stage }};
            select to_json(named_struct(
                'rows', (select count(*) from {{ present }} where {{ selected }}),
                'differing', differing,
                'null_keys', null_keys,
                'low', {{ dbt_backfill.literals_expression(verified.key, 'low.') }},
                'high', {{ dbt_backfill.literals_expression(verified.key, 'high.') }},
                'begun', (
                    select count(*) from {{ verified.progress.render() }} where epoch <> {{ verified.state.epoch }} or plan_id is not null
                ) > 0
            ))
            from (
                select
                    count(*) as differing,
                    count_if({{ null_key }}) as null_keys,
                    min(struct({{ keys }})) filter (where not {{ null_key }}) as low,
                    max(struct({{ keys }})) filter (where not {{ null_key }}) as high
                from {{ stage }}
            );
        end
    {%- endset -%}
    {%- set found = dbt_backfill.run_json('compare with the definition', sql, verified.mv)[0] -%}
    {%- if found.begun -%}
        {%- do dbt_backfill.drop_stages([stage], verified.mv) -%}
        {%- do dbt_backfill.refuse_first([
            {'when': repaired, 'fact': 'another run began or committed a barrier while the MV was repaired, so the repair may have written old rows',
             'id': 'repair-during-a-run', 'change': 'Repeat the verification with repair: true while no barrier runs'},
            {'when': not repaired, 'fact': 'another run began or committed a barrier while the MV was compared with its query',
             'id': 'comparison-during-a-run', 'change': 'Verify the MV while no barrier runs'},
        ], mv=verified.name) -%}
    {%- endif -%}
    {{ return(dict(found, stage=stage)) }}
{% endmacro %}
