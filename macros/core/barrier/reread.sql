{#-
    Return a part of the staging script that reads keys whose last state the feed does not report, because they stood twice in the
    upstream, once more from the upstream, at the version of the plan: there each has to be once again, or not at all. The script has the
    stage's summary in `staged`; this part leaves in `reread`: {
      'count': how many keys, 'low', 'high': the least and the greatest of them as literals,
      'twice': up to three of them that stand twice in that version, too
    }, null if no key was in doubt. Doubtful are

      - keys whose events are no chain of states (`__bf_unclear`),
      - keys that were inserted and that the MV has: then there was a row already,
      - keys whose only event takes away a row that Q does not return, where the MV has one of that key,
      - keys that the feed may list otherwise than they are (`staged.altered_keys`), and all those up to the position that it would
        list so, of the upstream and of the MV: one of these it may be that has changed. These are no keys of the stage.

    All but the first need a look into the MV; of keys that were inserted or are gone between the bounds of the stage. It may have the
    plan's own changes already, if a run died in the middle of them: then more keys are read again, with the same result.

    Arguments:
      alters_keys (boolean): see may_alter_keys.
-#}
{% macro get_reread_statements(backfill, state, plan, keys, suspicions, alters_keys=false) -%}
    {%- set again, doubtful = dbt_backfill.get_reread_names(backfill, plan) -%}
    {%- set names, alike, anywhere = dbt_backfill.upstream_columns(keys), {}, {} -%}
    {%- set columns = names | join(', ') -%}
    {%- set doubtful_keys = dbt_backfill.get_doubtful_keys_sql(backfill, plan, keys, suspicions, alters_keys) -%}
    {#- Bytes that are no UTF-8 have other bounds in files than in the feed, so their rows are looked for in all files. -#}
    {%- set rows -%}
        select source.*
        from {{ dbt_backfill.get_planned_read(backfill, plan) }} as source
        left semi join {{ doubtful }} as doubtful
        on {{ dbt_backfill.equal_keys(keys, 'source.', 'doubtful.', 'upstream', 'upstream') }}
        where {{ '__bf_anywhere__ or ' if alters_keys }}{{ dbt_backfill._between_bounds(dbt_backfill.upstream_columns(keys, 'source.'), keys) }}
    {%- endset -%}
    {%- if alters_keys -%}
        {%- set keys_alike = dbt_backfill.string_literal('union\n' ~ dbt_backfill.get_alike_keys_sql(backfill, state, plan, keys)) -%}
        {%- set alike = {'__bf_alike__': 'if(staged.altered_keys > 0, ' ~ keys_alike ~ ", '')"} -%}
        {%- set anywhere = {'__bf_anywhere__': 'cast(staged.altered_keys > 0 as string)'} -%}
    {%- endif -%}
    if staged.suspects > 0 then
        {{ dbt_backfill.get_execute_with_literals_sql(
            'create or replace temporary view ' ~ doubtful ~ ' as\n' ~ doubtful_keys,
            dict(dbt_backfill._bounds_of('staged', keys), **alike)
        ) }};
        cache table {{ doubtful }};
        set reread = (
            select named_struct(
                'count', count,
                'low', {{ dbt_backfill.literals_expression(keys, 'low.') }},
                'high', {{ dbt_backfill.literals_expression(keys, 'high.') }},
                'twice', cast(null as array<array<string>>)
            )
            from (select count(*) as count, min(struct({{ columns }})) as low, max(struct({{ columns }})) as high from {{ doubtful }})
        );
        if reread.count > 0 then
            {{ dbt_backfill.get_execute_with_literals_sql(
                'create or replace temporary view ' ~ again ~ ' as\n' ~ rows,
                dict(dbt_backfill._bounds_of('reread', keys), **anywhere)
            ) }};
            cache table {{ again }};
            set reread = named_struct('count', reread.count, 'low', reread.low, 'high', reread.high, 'twice', (
                select collect_list(key)
                from (
                    select {{ dbt_backfill.literals_expression(keys) }} as key
                    from {{ again }}
                    group by {{ columns }}
                    having count(*) > 1
                    limit 3
                )
            ));
        end if;
    end if
{%- endmacro %}


{#- Return the names of the views of the upstream's rows with the keys in doubt, and of these keys. -#}
{% macro get_reread_names(backfill, plan) %}
    {{ return([dbt_backfill.get_stage_name(backfill, plan, '__again'), dbt_backfill.get_stage_name(backfill, plan, '__doubtful')]) }}
{% endmacro %}


{#- Return a select of the keys in doubt. With alters_keys `__bf_alike__` at its end is replaced by get_alike_keys_sql. -#}
{% macro get_doubtful_keys_sql(backfill, plan, keys, suspicions, alters_keys=false) -%}
    {%- set stage, names = dbt_backfill.get_stage_name(backfill, plan), dbt_backfill.upstream_columns(keys) -%}
    {%- set columns, not_null = names | join(', '), 'not ' ~ dbt_backfill.null_key_predicate(names) -%}
    {%- set unclear = '(__bf_unclear or ' ~ dbt_backfill.altered_key_predicate(keys) ~ ')' if alters_keys else '__bf_unclear' -%}
    select {{ columns }} from {{ stage }} where {{ unclear }} and {{ not_null }}
    {%- if '__bf_inserted' in suspicions %}
    union
    select {{ columns }}
    from (
        select {{ columns }} from {{ stage }} where __bf_inserted and {{ not_null }}
        {%- if '__bf_gone' in suspicions %}
        {%- set gone = 'select * except (__bf_deleted, __bf_inserted, __bf_gone, __bf_unclear) from ' ~ stage ~ ' where __bf_gone' %}
        union all
        select {{ columns }}
        from {{ stage }} as stage
        left anti join (
            {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, gone) }}
        ) as query
        on {{ dbt_backfill.equal_keys(keys, 'stage.', 'query.', 'upstream') }}
        where __bf_gone and {{ not_null }}
        {%- endif %}
    ) as stage
    left semi join {{ backfill.mv.render() }} as mv
    on {{ dbt_backfill.equal_keys(keys, 'stage.', 'mv.', 'upstream') }}
        and {{ dbt_backfill._between_bounds(dbt_backfill.mv_columns(keys, 'mv.'), keys) }}
    {%- endif %}
    {{ '__bf_alike__' if alters_keys }}
{%- endmacro %}


{#-
    Return a select of the keys up to the position, of the upstream at the version of the plan and of the MV, that the feed would list as
    it lists one of those that it may have altered.
-#}
{% macro get_alike_keys_sql(backfill, state, plan, keys) -%}
    {%- set names, carried, numbered = dbt_backfill.upstream_columns(keys), [], [] -%}
    {%- for name in dbt_backfill.mv_columns(keys) -%} {%- do carried.append(name ~ ' as ' ~ names[loop.index0]) -%} {%- endfor -%}
    {%- for name in names -%} {%- do numbered.append(name ~ ' as k' ~ loop.index) -%} {%- endfor -%}
    {#- A text that is the same of a key and of what the feed lists for it, see altered_predicate; also of some other keys. -#}
    {%- set listed = 'regexp_replace(to_json(struct(' ~ numbered | join(', ') ~ '), ' ~ dbt_backfill.whole_json_options()
        ~ "), '1582-10-(0[4-9]|1[0-6])[^\"]*', '')" -%}
    select {{ names | join(', ') }}
    from (
        select {{ names | join(', ') }}
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
        select {{ listed }} as __bf_told
        from {{ dbt_backfill.get_stage_name(backfill, plan) }}
        where {{ dbt_backfill.altered_key_predicate(keys) }}
    ) as told
    on {{ listed }} = told.__bf_told
{%- endmacro %}


{#- Return a predicate of keys between bounds that are known only when the script runs: it has the placeholders of _bounds_of. -#}
{% macro _between_bounds(columns, keys) -%}
    {%- set bounds = dbt_backfill._bounds_of('', keys).keys() | list -%}
    {{ return(dbt_backfill.tuple_predicate(columns, '>=', bounds[:keys | length])
        ~ ' and ' ~ dbt_backfill.tuple_predicate(columns, '<=', bounds[keys | length:])) }}
{%- endmacro %}


{#- Return {placeholder of a bound: the expression that replaces it}; `variable` has the bounds. -#}
{% macro _bounds_of(variable, keys) %}
    {%- set bounds = {} -%}
    {%- for side in ['low', 'high'] -%}
        {%- for _ in keys -%}
            {%- do bounds.update({'__bf_' ~ side ~ '_' ~ loop.index ~ '__': variable ~ '.' ~ side ~ '[' ~ loop.index0 ~ ']'}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(bounds) }}
{% endmacro %}
