{#-
    What is needed to evaluate the definition of an MV whose upstream has no versions that can be read again: {
      'state': with `staged`, see get_promised_sql,
      'unsettled': a select of the keys that have changed since the version that the MV shows, see selection_predicate; their rows of
        then cannot be told any more
    }

    Of other upstreams the state as it was, and none. All rows up to the position are read for it, once, and the feed is waited for.

    Arguments:
      relations (dict): of the MV, with 'name' and 'options': {'file_format'}.
-#}
{% macro stage_definition(relations, state) %}
    {%- set committed, as_it_is = dbt_backfill.get_source(state.committed), {'state': state, 'unsettled': none} -%}
    {%- if state.get('upstream_version') is none -%} {{ return(as_it_is) }} {%- endif -%}
    {%- set upstream = dbt_backfill.get_upstream_of_plan(state.committed) -%}
    {%- if not dbt_backfill.upstream_traits(upstream).stages_ranges -%} {{ return(as_it_is) }} {%- endif -%}
    {%- set observed = dbt_backfill.ask(upstream, 'read_upstream')(upstream, committed) -%}
    {%- set gap = dbt_backfill.ask(upstream, 'upstream_gap')(observed, dbt_backfill.get_followed_source(state.committed)) -%}
    {%- set plan = dict(state.committed, kind='reanchor', touched=none, epoch=state.epoch + 1, sources=[committed]) -%}
    {%- set taken = {'unclear': gap.reason} if gap
        else dbt_backfill.take_staged_range(dict(relations, upstream=upstream), state, observed, plan) -%}
    {%- if taken.unclear or taken.waits -%}
        {%- do dbt_backfill.refuse(
            'its definition cannot be evaluated now, because ' ~ (taken.unclear or taken.waits),
            'Run the model, which takes it to a later version, and then compare it', mv=relations.name
        ) -%}
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


{#- How many keys that is, in a line of dbt's output. -#}
{% macro report_unsettled(relations, unsettled) %}
    {%- if unsettled -%}
        {%- set count = dbt_backfill.run_table(
            'count the keys that changed', 'select count(*) from (' ~ unsettled ~ ')', relations.mv
        )[0][0] -%}
        {%- do log(relations.name ~ ': ' ~ dbt_backfill.get_count_text(count | int, 'key')
            ~ (' has' if count | int == 1 else ' have') ~ ' changed since its last barrier, and cannot be compared', info=true) -%}
    {%- endif -%}
{% endmacro %}
