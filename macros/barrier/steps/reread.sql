{#-
    Keys whose last state the feed does not tell, because they stood twice in the upstream, are read from it once
    more, at the version of the plan: there each is to stand once again, or not at all. A part of the script that has
    the stage's summary in `staged`; it leaves in `reread`: {
      'count': how many keys, 'low', 'high': the least and the greatest of them as literals,
      'twice': up to three of them that stand twice in that version, too
    }, null where no key was in doubt. Doubtful are

      - keys whose events are no chain of states (`__bf_unclear`),
      - keys that were inserted and that the MV has: then there was a row already,
      - keys whose only event takes away a row that Q does not return, where the MV has one of that key.

    The last two need a look into the MV, between the bounds of the stage. It may have the plan's own changes already,
    where a run died in the middle of them: then more keys are read again, with the same result.
-#}
{% macro get_reread_statements(backfill, plan, keys, suspicions) -%}
    {%- set again, doubtful = dbt_backfill.get_reread_names(backfill, plan) -%}
    {%- set doubtful_view = dbt_backfill.get_doubtful_keys_sql(backfill, plan, keys, suspicions) -%}
    {%- set again_view = dbt_backfill.get_reread_sql(backfill, plan, keys) -%}
    if staged.suspects > 0 then
        {{ dbt_backfill.get_execute_with_literals_sql(
            'create or replace temporary view ' ~ doubtful ~ ' as\n' ~ doubtful_view, dbt_backfill._bounds_of('staged', keys)
        ) }};
        cache table {{ doubtful }};
        set reread = ({{ dbt_backfill.get_reread_summary_sql(doubtful, keys) }});
        if reread.count > 0 then
            {{ dbt_backfill.get_execute_with_literals_sql(
                'create or replace temporary view ' ~ again ~ ' as\n' ~ again_view, dbt_backfill._bounds_of('reread', keys)
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


{% macro get_doubtful_keys_sql(backfill, plan, keys, suspicions) -%}
    {%- set stage = dbt_backfill.get_stage_name(backfill, plan) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) | join(', ') -%}
    {%- set not_null = 'not ' ~ dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys)) -%}
    select {{ columns }} from {{ stage }} where __bf_unclear and {{ not_null }}
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
{%- endmacro %}


{% macro get_reread_sql(backfill, plan, keys) -%}
    select source.*
    from {{ dbt_backfill.get_planned_read(backfill, plan) }} as source
    left semi join {{ dbt_backfill.get_reread_names(backfill, plan)[1] }} as doubtful
    on {{ dbt_backfill.equal_columns(dbt_backfill.upstream_columns(keys), 'source.', 'doubtful.') }}
    where {{ dbt_backfill._between_bounds(dbt_backfill.upstream_columns(keys, 'source.'), keys) }}
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


{#- The type of that struct. -#}
{% macro reread_summary_type() %}
    {{ return('struct<count: bigint, low: array<string>, high: array<string>, twice: array<array<string>>>') }}
{% endmacro %}


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
