{#-
    Give up a plan that cannot be executed. What it says of the number of vnodes, and of the names in the query, is then that of the
    state, which stays. It is never overwritten by another: marked as abandoned, it fences the runs
    that still execute it, and its epoch is committed at the old position as `dirty`. Nothing is marked once another run
    has committed it. Returns the plan as it now stands, none if another run has gone on.
-#}
{% macro mark_abandoned(backfill, state, plan, reason) %}
    {%- set aliased = state.committed.get('alias_columns') or [] -%}
    {%- set given_up = tojson(dict(
        plan, kind='abandon', reason=reason, vnode_count=state.committed.vnode_count,
        **({'alias_columns': aliased} if aliased != (plan.get('alias_columns') or []) else {})
    )) -%}
    {%- set sql -%}
        begin
            {{ dbt_backfill.get_guarded_update_sql(
                backfill,
                'update ' ~ backfill.progress.render() ~ " set plan_kind = 'abandon', plan = if(vnode = 0, "
                    ~ dbt_backfill.string_literal(given_up) ~ ', null) where ' ~ dbt_backfill.plan_stands_predicate(plan)
                    ~ " and plan_kind <> 'abandon'"
            ) }}
            {{ dbt_backfill.get_standing_plan_sql(backfill, plan.epoch) }};
        end
    {%- endset -%}
    {%- set standing = dbt_backfill.run_json('abandon the plan of the barrier ' ~ plan.epoch, sql, backfill.mv)[0] -%}
    {%- set plan_now = standing.get('plan') or {} -%}
    {{ return(plan_now if [plan_now.get('plan_id'), plan_now.get('kind')] == [plan.plan_id, 'abandon'] else none) }}
{% endmacro %}


{#- Send what stops the MERGEs of a plan that was given up, see get_stopping_sql. -#}
{% macro run_abandon(backfill, plan) %}
    {%- set sql = dbt_backfill.get_stopping_sql(backfill, plan) -%}
    {%- if sql -%}
        {%- do dbt_backfill.run_table('stop what is on its way in the barrier ' ~ plan.epoch, sql, backfill.mv) -%}
    {%- endif -%}
{% endmacro %}


{#-
    A statement that lets a MERGE of a plan that was given up fail which is on its way, past its fence; none if none can be. On Delta a
    change of the table's metadata does that. On Iceberg a row that is written anew does, as it is: merge-on-read notes a deleted
    position for it, which may be of any key, and each MERGE fails that finds one committed since its base. (An empty MV has no such row,
    and copy-on-write notes none.)

    An MV without the plan's key has no MERGE on its way that could land: the plan is one that replaces the MV, by no MERGE, and has not
    done so, or only begun to; or something else has replaced it since, and Iceberg merges nothing on the base of before.
-#}
{% macro get_stopping_sql(backfill, plan) -%}
    {%- if backfill.options.file_format == 'delta' -%}
        {{ return('alter table ' ~ backfill.mv.render() ~ " set tblproperties ('dbt_backfill.given_up' = '" ~ plan.epoch ~ "')") }}
    {%- elif not dbt_backfill.has_key_columns(dbt_backfill.get_table_columns(backfill.mv), plan.key) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(dbt_backfill.get_row_anew_sql(backfill.mv, plan.key)) }}
{%- endmacro %}


{#- Whether a key is among an MV's columns, see get_table_columns. What Spark cannot compare only has the name of one. -#}
{% macro has_key_columns(columns, keys) %}
    {%- set types = dbt_backfill.types_by_name(columns) -%}
    {%- for key in keys if modules.re.search('map<|variant', types.get(key.name | lower, 'map<')) -%} {{ return(false) }} {%- endfor -%}
    {{ return(true) }}
{% endmacro %}


{#- A MERGE that writes some row of the MV anew, as it is. -#}
{% macro get_row_anew_sql(mv, keys) -%}
    {%- set columns = dbt_backfill.mv_columns(keys) -%}
    merge into {{ mv.render() }} as mv
    using (select {{ columns | join(', ') }} from {{ mv.render() }} limit 1) as row
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'row.') }}
    when matched then update set {{ columns[0] }} = mv.{{ columns[0] }}
{%- endmacro %}


{#-
    What was given up since the last barrier that was executed, as the commit of an abandoned plan notes it: {'since': that
    barrier, 'plans': those that were given up after it, with `plan` the last}. None where a reset is among them, which
    another one follows, or where they are too many to be looked at.

    Arguments:
      committed (dict): the plan of the epoch before it.
-#}
{% macro add_given_up(committed, plan) %}
    {%- set earlier = committed.get('given_up') if committed.kind == 'abandon'
        else {'since': {'epoch': committed.epoch, 'sources': committed.sources}, 'plans': []} -%}
    {%- if earlier is none or earlier.plans | length >= 20 or dbt_backfill.is_abandoned_reset(dict(plan, kind='abandon')) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set noted = {} -%}
    {%- for name in ['epoch', 'sources', 'range_low', 'range_high', 'last_range', 'touched'] -%}
        {%- do noted.update({name: plan.get(name)}) -%}
    {%- endfor -%}
    {{ return({'since': earlier.since, 'plans': [noted] + earlier.plans}) }}
{% endmacro %}


{#-
    The ends of the ranges above the position that given-up plans could write to, [] for one that is open above; none
    where the whole MV has to be compared. In a sweep nothing is promised above the position. Below the position they could
    write what the upstream changed since the last executed barrier, which the feed still has to tell, up to a version that
    goes on from theirs; also of keys that came with theirs and have gone since.
-#}
{% macro find_touched(backfill, state, observed) %}
    {%- set given_up = state.committed.get('given_up') if state.dirty else none -%}
    {%- if not given_up or backfill.feed or not state.uniform
            or dbt_backfill.get_source(given_up.since).get('version') != state.get('upstream_version')
            or dbt_backfill.find_feed_gap(backfill, observed, given_up.since) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set touched = [] -%}
    {%- set begun = dbt_backfill.get_source(given_up.since) -%}
    {%- for plan in given_up.plans -%}
        {%- set source = dbt_backfill.get_source(plan) -%}
        {%- set moved = source.version != state.upstream_version -%}
        {%- if not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, source)
                or moved and dbt_backfill.upstream_traits(backfill.upstream).may_forget_keys
                and dbt_backfill.ask(backfill.upstream, 'forgets_keys')(observed, begun, source) -%}
            {{ return(none) }}
        {%- endif -%}
        {%- for high in plan.get('touched') or [] if high not in touched -%} {%- do touched.append(high) -%} {%- endfor -%}
        {%- if plan.last_range -%}
            {%- do touched.append([]) -%}
        {%- elif plan.get('range_high') not in [none, plan.get('range_low')] + touched -%}
            {%- do touched.append(plan.range_high) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if dbt_backfill.is_sweeping(state) -%} {{ return([]) }} {%- endif -%}
    {{ return([[]] if [] in touched else touched) }}
{% endmacro %}


{#- Give up a plan of which a guarded statement failed, the step `failed`, unless it did because another run went on. -#}
{% macro give_up_plan(backfill, plan, failed) %}
    {%- set now = dbt_backfill.read_state(backfill) -%}
    {%- if not dbt_backfill.is_standing(now, plan) -%} {%- do dbt_backfill.refuse_overtaken(plan) -%} {%- endif -%}
    {%- set given_up = dbt_backfill.mark_abandoned(
        backfill, now, plan, 'it could not ' ~ failed ~ ', and the upstream has gone on from its version ' ~ dbt_backfill.get_source(plan).version
    ) -%}
    {%- if given_up is none -%} {%- do dbt_backfill.refuse_overtaken(plan) -%} {%- endif -%}
    {%- do dbt_backfill.run_abandon(backfill, given_up) -%}
    {{ return(given_up) }}
{% endmacro %}
