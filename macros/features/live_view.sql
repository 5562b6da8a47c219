{#-
    The view `<mv>__live`, which the option `live_view` asks for: the whole of Q at the version of the last barrier, also while
    the MV is being filled.

    Everything in it is a literal: the version at which the barrier left the MV, the version of the upstream, the positions. So
    it is exact whenever it is read, in the middle of the next barrier too, and shows its own barrier until it is made anew
    after the next one. Versions that are cleaned away make it fail; it never shows other rows.

    It is for readers. Nothing that decides reads it, and losing it loses nothing.
-#}


{#-
    The view that a run finds, by its properties; none if there is none. Refuses, before anything is written, something else of
    its name, and a catalog that has no views.
-#}
{% macro check_live_view(backfill) %}
    {%- if not backfill.options.live_view -%} {{ return(none) }} {%- endif -%}
    {%- set existing = dbt_backfill.load_table(backfill.live) -%}
    {%- if existing is not none -%}
        {%- set properties = dbt_backfill.read_live_view(backfill.live) -%}
        {%- if properties is none -%}
            {%- do dbt_backfill.refuse(
                backfill.live.render() ~ ' exists, and is no live view of ours', 'Drop or rename it, or set live_view to false'
            ) -%}
        {%- endif -%}
        {{ return(properties) }}
    {%- endif -%}
    {%- do dbt_backfill._check_catalog_has_views(backfill) -%}
    {{ return(none) }}
{% endmacro %}


{#- Refuse a schema in which Spark makes no view, as one that is made for this and dropped at once shows. -#}
{% macro _check_catalog_has_views(backfill) %}
    {%- set trial = backfill.live.incorporate(path={'identifier': 'dbt_backfill_' ~ local_md5(invocation_id ~ backfill.live.render())}) -%}
    {%- set tried = dbt_backfill.run_json('try to make a view', dbt_backfill.get_try_view_sql(trial))[0] -%}
    {%- if tried.failed -%}
        {%- do dbt_backfill.refuse(
            'live_view needs a catalog with views, and Spark could not make one beside ' ~ backfill.mv.render(),
            'Set live_view to false, or keep the MV in a catalog that has views'
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro get_try_view_sql(trial) -%}
    begin
        declare failed boolean default false;
        begin
            declare exit handler for sqlexception
            begin
                set failed = true;
            end;
            create or replace view {{ trial.render() }} as select 1 as one;
            drop view if exists {{ trial.render() }};
        end;
        select to_json(struct(failed));
    end
{%- endmacro %}


{#- The properties of a view of ours that is there; none of anything else. -#}
{% macro read_live_view(live) %}
    {%- set properties = dbt_backfill.read_table_properties(live) -%}
    {{ return(properties if 'dbt_backfill.live' in properties else none) }}
{% endmacro %}


{#-
    Make the view of a state, after its barrier. A state that was given up is of no version, so the view of before stays.

    The version is read before it is asked whether the state still stands: so no barrier came between them. If one did, its run
    makes the view.
-#}
{% macro run_live_view(backfill, state) %}
    {%- if not dbt_backfill._has_live_view(backfill, state) -%} {{ return(none) }} {%- endif -%}
    {%- set sql = dbt_backfill.get_make_live_view_sql(backfill, state, dbt_backfill.read_version(backfill, 'mv')) -%}
    {%- do dbt_backfill.run_table('make the live view of the barrier ' ~ state.epoch, sql) -%}
    {#- Some catalogs keep the grants of a view that is replaced, others do not. -#}
    {%- do apply_grants(backfill.live, dbt_backfill._get_live_grants(), should_revoke=true) -%}
{% endmacro %}


{#- Those of the MV that a view can have. -#}
{% macro _get_live_grants() %}
    {%- set grants = {} -%}
    {%- for privilege, grantees in (config.get('grants') or {}).items() if privilege | lower == 'select' -%}
        {%- do grants.update({privilege: grantees}) -%}
    {%- endfor -%}
    {{ return(grants) }}
{% endmacro %}


{#- The generation that is filled beside the MV has none: that of the MV in use is whole. -#}
{% macro _has_live_view(backfill, state) %}
    {{ return(
        backfill.options.get('live_view', false) and backfill.generation != 'next' and not state.dirty
        and state.get('upstream_version') is not none and not state.committed.get('begun_anew')
    ) }}
{% endmacro %}


{#-
    The end of a run: the view is made if the run committed no barrier of the MV, and it is not there, or not of the last
    barrier, because the run of that one died, say. One that the model does not ask for any more is dropped. While a next
    generation is filled, the state is that of the next one, and the MV's own barriers make the view.

    Arguments:
      result (dict): as run_barriers or run_beside returned it.
      found (dict): see check_live_view.
-#}
{% macro settle_live_view(backfill, result, found) %}
    {%- if not backfill.options.live_view -%}
        {%- do dbt_backfill._drop_left_live_view(backfill) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- if not result.barriers and not result.get('filling', false)
            and not dbt_backfill._shows_state(backfill, result.state, found) -%}
        {%- do dbt_backfill.run_live_view(backfill, result.state) -%}
    {%- endif -%}
{% endmacro %}


{#- Whether the view is of this state, and of the version that the MV has now: one of before it was compacted may be cleaned away. -#}
{% macro _shows_state(backfill, state, found) %}
    {%- set of_state = [(state.committed or {}).get('backfill_id'), state.epoch | string] -%}
    {%- if not found or [found.get('dbt_backfill.live'), found.get('dbt_backfill.epoch')] != of_state -%} {{ return(false) }} {%- endif -%}
    {{ return(found.get('dbt_backfill.version') == dbt_backfill.read_version(backfill, 'mv')) }}
{% endmacro %}


{#-
    A script: the view is made only if the state still stands. Outside of a script Iceberg makes a view of its session catalog
    one of its own, and of that, once it is replaced, Spark goes on to read the text of before.
-#}
{% macro get_make_live_view_sql(backfill, state, version) -%}
    {%- set committed = state.committed -%}
    {%- set comment = 'The whole of ' ~ backfill.mv.render() ~ ' after its barrier ' ~ state.epoch ~ ', at the version '
        ~ state.upstream_version ~ ' of ' ~ dbt_backfill.get_source(committed).relation -%}
    begin
        if (
            select count(*) from {{ backfill.progress.render() }}
            where vnode = 0 and epoch = {{ state.epoch }} and plan_id is null
                and get_json_object(last, '$.backfill_id') = {{ dbt_backfill.string_literal(committed.backfill_id) }}
        ) = 1 then
            create or replace view {{ backfill.live.render() }}
            comment {{ dbt_backfill.string_literal(comment) }}
            tblproperties (
                'dbt_backfill.live' = {{ dbt_backfill.string_literal(committed.backfill_id) }},
                'dbt_backfill.epoch' = '{{ state.epoch }}',
                'dbt_backfill.version' = '{{ version }}'
            )
            as
            {{ dbt_backfill.get_live_sql(backfill, state, version) }};
        end if;
    end
{%- endmacro %}


{#-
    In a script too: there Iceberg does not rewrite it, whose session catalog takes a view for one of its own otherwise. Harmless
    where there is none.
-#}
{% macro get_drop_live_view_sql(live) -%}
    begin
        drop view if exists {{ live.render() }};
    end
{%- endmacro %}


{#- Drop the view of a model that does not ask for it any more. -#}
{% macro _drop_left_live_view(backfill) %}
    {#- Of another catalog dbt has no list of tables, and Spark is not asked in every run for what nobody wants. -#}
    {%- if dbt_backfill.get_catalog(backfill.live) is not none -%} {{ return(none) }} {%- endif -%}
    {%- if dbt_backfill.load_table(backfill.live) is not none and dbt_backfill.read_live_view(backfill.live) is not none -%}
        {%- do dbt_backfill.run_table('drop the live view', dbt_backfill.get_drop_live_view_sql(backfill.live)) -%}
        {%- do log(dbt_backfill.get_model_name(model) ~ ': dropped ' ~ backfill.live.render() ~ ', because live_view is not set', info=true) -%}
    {%- endif -%}
{% endmacro %}


{#-
    What the view shows: the whole of Q at the version of the committed barrier. The MV has what is up to the position, and Q over the
    upstream gives the rest, with the keys that have a null, which no range has read. While vnodes have different positions, columns are
    being filled or the MV has rows of before, in a sweep, Q over the upstream gives all.

    Arguments:
      state (dict): as read_state returned it, not `dirty`.
      version (string): of the MV, with which the state belongs, see read_version.
-#}
{% macro get_live_sql(relations, state, version) -%}
    {%- set plan, upstream = state.committed, dbt_backfill.get_upstream_of_plan(state.committed) -%}
    {%- set columns = dbt_backfill.identifiers(dbt_backfill.parse_columns(plan.query_columns) | map(attribute='name')) -%}
    {%- set keys, position = dbt_backfill.upstream_columns(plan.key), state.get('position') -%}
    {%- set is_prefix = state.uniform and not dbt_backfill.is_sweeping(state) and not dbt_backfill.get_filling(state)
        and (state.finished or position is not none) and version != 'none' -%}
    {%- set rows = 'select * from ' ~ dbt_backfill.ask(upstream, 'upstream_read')(upstream, state.upstream_version) -%}
    {%- if is_prefix and not state.finished -%}
        {%- set rows = rows ~ ' where (' ~ dbt_backfill.ordered_predicate(plan.key, keys, '>', position) ~ ') or '
            ~ dbt_backfill.null_key_predicate(keys) -%}
    {%- endif -%}
    {%- if is_prefix %}
    select {{ columns }}
    from {{ relations.mv.render() }} version as of {{ version }}
    {%- endif %}
    {%- if is_prefix and not state.finished %}
    union all
    {%- endif %}
    {%- if not is_prefix or not state.finished %}
    select {{ columns }}
    from (
        {{ dbt_backfill.get_query_sql(plan.query, upstream.relation, rows) }}
    )
    {%- endif %}
{%- endmacro %}
