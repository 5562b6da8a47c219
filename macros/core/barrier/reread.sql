{#-
    Keys whose last state the feed does not tell, because they stood twice in the upstream, are read from it once
    more, at the version of the plan: there each is to stand once again, or not at all. A part of the script that has
    the stage's summary in `staged`; it leaves in `reread`: {
      'count': how many keys, 'low', 'high': the least and the greatest of them as literals,
      'twice': up to three of them that stand twice in that version, too
    }, null where no key was in doubt. Doubtful are

      - keys whose events are no chain of states (`__bf_unclear`),
      - keys that were inserted and that the MV has: then there was a row already,
      - keys whose only event takes away a row that Q does not return, where the MV has one of that key,
      - keys that the feed may tell otherwise than they are (`staged.altered_keys`), and all those up to the position that it would
        tell so, of the upstream and of the MV: one of these it may be that has changed. These are no keys of the stage.

    All but the first need a look into the MV; of keys that were inserted or are gone between the bounds of the stage. It may have the
    plan's own changes already, where a run died in the middle of them: then more keys are read again, with the same result.

    Arguments:
      alters_values (boolean): see get_upstream_changes.
-#}
{% macro get_reread_statements(backfill, state, plan, keys, suspicions, alters_values=false) -%}
    {%- set again, doubtful = dbt_backfill.get_reread_names(backfill, plan) -%}
    {%- set doubtful_view = dbt_backfill.get_doubtful_keys_sql(backfill, plan, keys, suspicions, alters_values) -%}
    {%- set again_view = dbt_backfill.get_reread_sql(backfill, plan, keys, alters_values) -%}
    {%- set alike, anywhere = {}, {} -%}
    {%- if alters_values -%}
        {%- set keys_alike = dbt_backfill.string_literal('union\n' ~ dbt_backfill.get_alike_keys_sql(backfill, state, plan, keys)) -%}
        {%- set alike = {'__bf_alike__': 'if(staged.altered_keys > 0, ' ~ keys_alike ~ ", '')"} -%}
        {%- set anywhere = {'__bf_anywhere__': 'cast(staged.altered_keys > 0 as string)'} -%}
    {%- endif -%}
    if staged.suspects > 0 then
        {{ dbt_backfill.get_execute_with_literals_sql(
            'create or replace temporary view ' ~ doubtful ~ ' as\n' ~ doubtful_view,
            dict(dbt_backfill._bounds_of('staged', keys), **alike)
        ) }};
        cache table {{ doubtful }};
        set reread = ({{ dbt_backfill.get_reread_summary_sql(doubtful, keys) }});
        if reread.count > 0 then
            {{ dbt_backfill.get_execute_with_literals_sql(
                'create or replace temporary view ' ~ again ~ ' as\n' ~ again_view,
                dict(dbt_backfill._bounds_of('reread', keys), **anywhere)
            ) }};
            cache table {{ again }};
            set reread = named_struct(
                'count', reread.count, 'low', reread.low, 'high', reread.high,
                'twice', ({{ dbt_backfill.get_twice_sql(again, keys) }})
            );
        end if;
    end if
{%- endmacro %}


{#- The views of the upstream's rows with the keys in doubt, and of these keys. -#}
{% macro get_reread_names(backfill, plan) %}
    {{ return([
        dbt_backfill.get_stage_name(backfill, plan, '__again'),
        dbt_backfill.get_stage_name(backfill, plan, '__doubtful'),
    ]) }}
{% endmacro %}


{#- With alters_values `__bf_alike__` stands at its end for what get_alike_keys_sql adds. -#}
{% macro get_doubtful_keys_sql(backfill, plan, keys, suspicions, alters_values=false) -%}
    {%- set stage = dbt_backfill.get_stage_name(backfill, plan) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) | join(', ') -%}
    {%- set not_null = 'not ' ~ dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys)) -%}
    {%- set unclear = '(__bf_unclear or ' ~ dbt_backfill.altered_key_predicate(keys) ~ ')' if alters_values else '__bf_unclear' -%}
    select {{ columns }} from {{ stage }} where {{ unclear }} and {{ not_null }}
    {%- if '__bf_inserted' in suspicions %}
    {%- set gone = 'select * except (__bf_deleted, __bf_inserted, __bf_gone, __bf_unclear) from ' ~ stage ~ ' where __bf_gone' %}
    union
    select {{ columns }}
    from (
        select {{ columns }} from {{ stage }} where __bf_inserted and {{ not_null }}
        {%- if '__bf_gone' in suspicions %}
        union all
        select {{ columns }}
        from {{ stage }} as stage
        left anti join (
            {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, gone) }}
        ) as query
        on {{ dbt_backfill.carried_keys(keys, 'stage.', 'query.') }}
        where __bf_gone and {{ not_null }}
        {%- endif %}
    ) as stage
    left semi join {{ backfill.mv.render() }} as mv
    on {{ dbt_backfill.carried_keys(keys, 'stage.', 'mv.') }}
        and {{ dbt_backfill._between_bounds(dbt_backfill.mv_columns(keys, 'mv.'), keys) }}
    {%- endif %}
    {{ '__bf_alike__' if alters_values }}
{%- endmacro %}


{#-
    The keys up to the position, of the upstream at the version of the plan and of the MV, that the feed would tell as it tells one of
    those that it may have altered.
-#}
{% macro get_alike_keys_sql(backfill, state, plan, keys) -%}
    {%- set columns, carried = dbt_backfill.upstream_columns(keys), [] -%}
    {%- for name in dbt_backfill.mv_columns(keys) -%} {%- do carried.append(name ~ ' as ' ~ columns[loop.index0]) -%} {%- endfor -%}
    select {{ columns | join(', ') }}
    from (
        select {{ columns | join(', ') }}
        from (
            {{ dbt_backfill.get_prefix_scan_sql(dbt_backfill.get_planned_read(backfill, plan), state, backfill, keys) }}
        )
        union all
        select {{ carried | join(', ') }}
        from (
            {{ dbt_backfill.get_prefix_scan_sql(backfill.mv.render(), state, backfill, dbt_backfill.get_mv_keys(keys)) }}
        )
    )
    left semi join (
        select {{ dbt_backfill._told_key(keys) }} as __bf_told
        from {{ dbt_backfill.get_stage_name(backfill, plan) }}
        where {{ dbt_backfill.altered_key_predicate(keys) }}
    ) as told
    on {{ dbt_backfill._told_key(keys) }} = told.__bf_told
{%- endmacro %}


{#- A text that is the same of a key and of what the feed tells of it, see altered_predicate; also of some others. -#}
{% macro _told_key(keys) -%}
    {%- set columns = [] -%}
    {%- for column in dbt_backfill.upstream_columns(keys) -%} {%- do columns.append(column ~ ' as k' ~ loop.index) -%} {%- endfor -%}
    regexp_replace(to_json(struct({{ columns | join(', ') }}), {{ dbt_backfill.whole_json_options() }}), '1582-10-(0[4-9]|1[0-6])[^"]*', '')
{%- endmacro %}


{#-
    The upstream's rows of these keys. Where some are told otherwise than they are, `__bf_anywhere__` stands for `true`: of bytes
    that are no UTF-8 files have other bounds.
-#}
{% macro get_reread_sql(backfill, plan, keys, alters_values=false) -%}
    select source.*
    from {{ dbt_backfill.get_planned_read(backfill, plan) }} as source
    left semi join {{ dbt_backfill.get_reread_names(backfill, plan)[1] }} as doubtful
    on {{ dbt_backfill.equal_columns(dbt_backfill.upstream_columns(keys), 'source.', 'doubtful.') }}
    where {{ '__bf_anywhere__ or ' if alters_values }}{{ dbt_backfill._between_bounds(dbt_backfill.upstream_columns(keys, 'source.'), keys) }}
{%- endmacro %}


{% macro get_reread_summary_sql(doubtful, keys) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) | join(', ') -%}
    select named_struct(
        'count', count,
        'low', {{ dbt_backfill.literals_expression(keys, 'low.') }},
        'high', {{ dbt_backfill.literals_expression(keys, 'high.') }},
        'twice', cast(null as array<array<string>>)
    )
    from (select count(*) as count, min(struct({{ columns }})) as low, max(struct({{ columns }})) as high from {{ doubtful }})
{%- endmacro %}


{% macro get_twice_sql(again, keys) -%}
    select collect_list(key)
    from (
        select {{ dbt_backfill.literals_expression(keys) }} as key
        from {{ again }}
        group by {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
        having count(*) > 1
        limit 3
    )
{%- endmacro %}


{#- The keys between bounds that are known only when the script runs: placeholders, and what they are replaced by. -#}
{% macro _between_bounds(columns, keys) -%}
    {%- set bounds = dbt_backfill._bounds_of('staged', keys).keys() | list -%}
    {{ return(dbt_backfill.tuple_predicate(columns, '>=', bounds[:keys | length])
        ~ ' and ' ~ dbt_backfill.tuple_predicate(columns, '<=', bounds[keys | length:])) }}
{%- endmacro %}


{% macro _bounds_of(variable, keys) %}
    {%- set bounds = {} -%}
    {%- for side in ['low', 'high'] -%}
        {%- for _ in keys -%}
            {%- do bounds.update({'__bf_' ~ side ~ '_' ~ loop.index ~ '__': variable ~ '.' ~ side ~ '[' ~ loop.index0 ~ ']'}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(bounds) }}
{% endmacro %}
