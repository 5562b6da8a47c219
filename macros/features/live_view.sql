{#-
    This file makes the view `<mv>__live`, if the option `live_view` is set. The view returns all rows of the query at the version of the last
    barrier, even while the MV is being filled. The view is only for users: no decision of this package depends on it.

    The view contains only literals: the MV's version after the barrier, the version of the upstream, the positions. So the view is exact even while
    the next barrier runs. That barrier then replaces the view. If somebody has removed files of one of these versions, reading the view fails.
-#}


{#- Return the properties of the existing live view; none if there is no live view. Refuse another table or view of that name, and a schema in which
    Spark cannot create views: a trial view is created and dropped immediately. A run calls this macro before it writes anything. -#}
{% macro check_live_view(backfill) %}
    {%- if dbt_backfill.load_table(backfill.live) is not none -%}
        {%- set properties = dbt_backfill.read_live_view(backfill.live) -%}
        {%- if properties is none -%}
            {%- do dbt_backfill.refuse(
                backfill.live.render() ~ ' exists, but is not a live view of this package', 'Drop or rename that relation, or set live_view to false',
                id='live-view-name-taken') -%}
        {%- endif -%}
        {{ return(properties) }}
    {%- endif -%}
    {%- set trial = backfill.live.incorporate(path={'identifier': 'dbt_backfill_' ~ local_md5(invocation_id ~ backfill.live.render())}) -%}
    {%- set sql -%}
    begin
        declare failed boolean default false;
        begin
            declare exit handler for sqlexception begin set failed = true; end;
            create or replace view {{ trial.render() }} as select 1 as one;
            drop view if exists {{ trial.render() }};
        end;
        select to_json(struct(failed));
    end
    {%- endset -%}
    {%- if dbt_backfill.run_json('try to make a view', sql)[0].failed -%}
        {%- do dbt_backfill.refuse('live_view needs a catalog with views, but Spark could not create a view beside ' ~ backfill.mv.render(),
            'Set live_view to false, or keep the MV in a catalog that has views', id='live-view-not-created') -%}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the properties of a live view; none if the relation is not a live view of this package. -#}
{% macro read_live_view(live) %}
    {%- set properties = dbt_backfill.read_table_properties(live) -%}
    {{ return(properties if 'dbt_backfill.live' in properties else none) }}
{% endmacro %}


{#-
    Make the view for a state, right after the barrier that committed the state. If the plan was given up, the state belongs to no version of the
    upstream, so the previous view stays. A next generation gets no view, because the view of the MV in use already shows all rows.

    The MV's version is read before the script checks that the state is unchanged, so the version belongs to the state. If another run has committed a
    barrier in between, that run makes the view. Outside of a script, Iceberg's session catalog would make an Iceberg view. After a replacement of
    such a view, Spark would still read its previous text.
-#}
{% macro run_live_view(backfill, state) %}
    {%- set committed = state.committed -%}
    {%- if backfill.generation == 'next' or state.dirty or state.get('upstream_version') is none or committed.get('foreign_write') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set version = dbt_backfill.read_version(backfill, 'mv') -%}
    {%- set comment = 'The whole of ' ~ backfill.mv.render() ~ ' after its barrier ' ~ state.epoch ~ ', at the version '
        ~ state.upstream_version ~ ' of ' ~ dbt_backfill.get_source(committed).relation -%}
    {%- set sql -%}
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
    {%- endset -%}
    {%- do dbt_backfill.run_table('make the live view of the barrier ' ~ state.epoch, sql) -%}
    {#- A view can have only the grant `select` of the MV's grants. Some catalogs keep the grants of a replaced view, other catalogs do not. -#}
    {%- set grants = {} -%}
    {%- for privilege, grantees in (config.get('grants') or {}).items() if privilege | lower == 'select' -%}
        {%- do grants.update({privilege: grantees}) -%}
    {%- endfor -%}
    {%- do apply_grants(backfill.live, grants, should_revoke=true) -%}
{% endmacro %}


{#-
    At the end of a run, make a missing or outdated view. If the run committed a barrier of the MV, that barrier has already made the view. A view is
    outdated in two cases. It does not belong to the last barrier, for example because a run died. Or it does not belong to the MV's current version:
    after a compaction, the previous files may be removed. While a next generation is filled, `result` belongs to this generation, so no view is made.

    Drop the view if the model does not have the option any more. In this case a run calls this macro only if dbt lists a relation with the view's
    name. `result`: the result of run_barriers or run_beside; `found`: the result of check_live_view.
-#}
{% macro make_or_drop_live_view(backfill, result, found) %}
    {%- set live = backfill.live -%}
    {%- if backfill.options.live_view -%}
        {%- if not result.barriers and not result.get('filling', false) -%}
            {%- set of_state = [(result.state.committed or {}).get('backfill_id'), result.state.epoch | string] -%}
            {%- if not found or [found.get('dbt_backfill.live'), found.get('dbt_backfill.epoch')] != of_state
                    or found.get('dbt_backfill.version') != dbt_backfill.read_version(backfill, 'mv') -%}
                {%- do dbt_backfill.run_live_view(backfill, result.state) -%}
            {%- endif -%}
        {%- endif -%}
    {%- elif dbt_backfill.read_live_view(live) is not none -%}
        {%- do dbt_backfill.run_table('drop the live view', dbt_backfill.get_drop_live_view_sql(live)) -%}
        {%- do log(dbt_backfill.get_model_name(model) ~ ': dropped ' ~ live.render() ~ ', because live_view is not set', info=true) -%}
    {%- endif -%}
{% endmacro %}


{#- Return a script that drops the view, if it exists. Inside a script, Iceberg's session catalog does not treat it as an Iceberg view. -#}
{% macro get_drop_live_view_sql(live) -%}
    begin
        drop view if exists {{ live.render() }};
    end
{%- endmacro %}


{#-
    Return the view's query, which returns all rows of the model's query (Q) at the version of the committed barrier. The rows up to the position come
    from the MV. The other rows come from Q over the upstream. Rows with a null in the key are among the other rows, because no range has read them.
    All rows come from Q over the upstream if the vnodes have different positions, if columns are being filled, or during a sweep. `version`: the
    version of the MV that belongs to the state, which is not `dirty`.
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
    {{ 'union all' if not state.finished }}
    {%- endif %}
    {%- if not is_prefix or not state.finished %}
    select {{ columns }}
    from (
        {{ dbt_backfill.get_query_sql(plan.query, upstream.relation, rows) }}
    )
    {%- endif %}
{%- endmacro %}
