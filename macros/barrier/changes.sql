{#-
    The changed keys of a barrier, staged: the keys that changed in (S_k, S_k+1] and have pk <= P_k in their
    vnode, each with its last state, as a cached temporary view. The feed is dear and read more than once.

    The view belongs to the session and its name carries epoch, plan and invocation, so that a stalled run
    cannot swap it under another. Returns {'name', 'count', 'null_keys', 'unclear_keys', 'low', 'high': the least
    and the greatest key as literals}.

    While a barrier is planned the same statements are part of a script, see `plan_barrier`; this is for a plan
    that was adopted.
-#}
{% macro stage_changes(backfill, state, plan) %}
    {%- set stage = dbt_backfill.get_stage(backfill, state, plan, dbt_backfill.get_plan_keys(plan)) -%}
    {%- set sql -%}
        begin
            {%- for declaration in stage.declarations %}
            {{ declaration }};
            {%- endfor %}
            {{ stage.statements | join(';\n            ') }};
            select to_json(({{ stage.summary }}));
        end
    {%- endset -%}
    {%- set staged = dbt_backfill.run_json('stage the changes', sql)[0] -%}
    {%- do staged.update({'name': dbt_backfill.get_stage_name(backfill, plan)}) -%}
    {%- do backfill.stages.append(staged.name) -%}
    {{ return(staged) }}
{% endmacro %}


{% macro get_stage_name(backfill, plan) %}
    {%- set invocation = invocation_id | replace('-', '') -%}
    {{ return(dbt_backfill.identifier(
        [backfill.mv.schema, backfill.mv.identifier, 'changes', plan.epoch, plan.plan_id, invocation] | join('__')
    )) }}
{% endmacro %}


{#- {'declarations' of a script, 'statements' that make the stage in it, 'summary': a select of what it holds}. -#}
{% macro get_stage(backfill, state, plan, keys) %}
    {%- set name = dbt_backfill.get_stage_name(backfill, plan) -%}
    {%- set changes = dbt_backfill.get_changes(backfill, state, plan, keys) -%}
    {%- set events = dbt_backfill.get_prefix_scan_sql('(' ~ changes.events ~ ')', state, backfill, keys, with_null_keys=true) -%}
    {%- set last_states = dbt_backfill.get_last_states_sql(events, keys, changes.may_repeat) -%}
    {%- set view = 'create or replace temporary view ' ~ name ~ ' as\n' ~ last_states -%}
    {%- if changes.literals -%}
        {%- set text = namespace(sql=dbt_backfill.string_literal(view)) -%}
        {%- for literal in changes.literals -%}
            {%- set text.sql = 'replace(' ~ text.sql ~ ", '" ~ literal ~ "', " ~ literal ~ ')' -%}
        {%- endfor -%}
        {%- set view = 'execute immediate ' ~ text.sql -%}
    {%- endif -%}
    {{ return({
        'declarations': changes.get('declarations', []),
        'statements': changes.get('setup', []) + [view, 'cache table ' ~ name],
        'summary': dbt_backfill.get_stage_summary_sql(name, keys),
    }) }}
{% endmacro %}


{#-
    One row per key: its last event's columns, `__bf_deleted`, and `__bf_unclear` where the feed does not give
    one last state.

    The latest version wins; within one version an insert or after-image beats a delete or before-image of the
    same key. A before-image without an after-image is how an UPDATE that changes the key shows, and a delete.
    Inserts minus deletes must come to the presence of one row; if not, a key stood twice in the upstream. In a change
    table of the user's own an event may stand twice.
-#}
{% macro get_last_states_sql(events, keys, may_repeat=false) -%}
    select
        last.* except (__bf_version, __bf_is_upsert),
        not last.__bf_is_upsert as __bf_deleted,
        {{ 'false' if may_repeat else 'balance not in (if(last.__bf_is_upsert, 1, -1), 0)' }} as __bf_unclear
    from (
        select
            max_by(struct(*), struct(__bf_version, __bf_is_upsert)) as last,
            sum(if(__bf_is_upsert, 1, -1)) as balance
        from ({{ events }})
        group by {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
    )
{%- endmacro %}


{#- What a stage holds, as one struct: see `stage_changes`. -#}
{% macro get_stage_summary_sql(stage, keys) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) -%}
    {%- set null_key = dbt_backfill.null_key_predicate(columns) -%}
    select named_struct(
        'count', count,
        'null_keys', null_keys,
        'unclear_keys', unclear_keys,
        'low', {{ dbt_backfill.literals_expression(keys, 'low.') }},
        'high', {{ dbt_backfill.literals_expression(keys, 'high.') }}
    )
    from (
        select
            count_if(not {{ null_key }}) as count,
            count_if({{ null_key }} and not __bf_deleted) as null_keys,
            count_if(__bf_unclear) as unclear_keys,
            min(struct({{ columns | join(', ') }})) filter (where not {{ null_key }}) as low,
            max(struct({{ columns | join(', ') }})) filter (where not {{ null_key }}) as high
        from {{ stage }}
    )
{%- endmacro %}


{#- The type of that struct. -#}
{% macro stage_summary_type() %}
    {{ return('struct<count: bigint, null_keys: bigint, unclear_keys: bigint, low: array<string>, high: array<string>>') }}
{% endmacro %}


{#- Why the staged changes cannot be merged; none if they can. -#}
{% macro find_unclear_changes(staged) %}
    {%- if staged.null_keys or staged.unclear_keys -%}
        {{ return(
            'the feed has ' ~ (staged.null_keys + staged.unclear_keys) ~ ' keys that are null or stood twice in the upstream'
        ) }}
    {%- endif -%}
{% endmacro %}


{#-
    Step 3 of a barrier: one MERGE of the staged changes. A key whose row Q no longer returns is deleted. Returns
    get_merge_counts.
-#}
{% macro run_changes(backfill, plan, staged) %}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set columns = dbt_backfill.mv_columns(keys, 'mv.') -%}
    {%- set upstream_columns = dbt_backfill.upstream_columns(keys, 'stage.') -%}
    {%- set staged_keys, joined, matched = [], [], [] -%}
    {%- for column in upstream_columns -%}
        {%- do staged_keys.append(column ~ ' as __bf_key_' ~ loop.index) -%}
        {%- do joined.append('query.' ~ dbt_backfill.identifier(keys[loop.index0].name) ~ ' = ' ~ column) -%}
        {%- do matched.append(columns[loop.index0] ~ ' = changes.__bf_key_' ~ loop.index) -%}
    {%- endfor -%}
    {%- set scan = 'select * except (__bf_deleted, __bf_unclear) from ' ~ staged.name ~ ' where not __bf_deleted' -%}
    {%- set present = 'changes.' ~ dbt_backfill.mv_columns(keys)[0] ~ ' is not null' -%}
    {%- set sql -%}
        merge into {{ backfill.mv.render() }} as mv
        using (
            select query.*, {{ staged_keys | join(', ') }}
            from {{ staged.name }} as stage
            left join (
                {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, scan) }}
            ) as query
            on {{ joined | join(' and ') }}
            where not {{ dbt_backfill.null_key_predicate(upstream_columns) }}
                and {{ dbt_backfill.get_fence(backfill, plan) }}
        ) as changes
        on {{ matched | join(' and ') }}
            and {{ dbt_backfill.tuple_predicate(columns, '>=', staged.low) }}
            and {{ dbt_backfill.tuple_predicate(columns, '<=', staged.high) }}
        when matched and {{ present }} then update set *
        when matched then delete
        when not matched and {{ present }} then insert *
    {%- endset -%}
    {%- set result = dbt_backfill.run_table('merge the changes of the barrier ' ~ plan.epoch, sql) -%}
    {{ return(dbt_backfill.get_merge_counts(backfill, plan, result)) }}
{% endmacro %}
