{#-
    Return a part of the staging script that reads keys whose last state the feed does not report, because they existed twice in the
    upstream, once more from the upstream, at the version of the plan: there each has to be once again, or not at all. The script has the
    stage's summary in `staged`; this part leaves in `reread`: {
      'count': how many keys, 'low', 'high': the least and the greatest of them as literals,
      'twice': up to three of them that exist twice in that version too
    }, null if no key was in doubt. Doubtful are

      - keys whose events are no chain of states (`__bf_unclear`),
      - keys that were inserted and that the MV has: then there was a row already,
      - keys whose only event takes away a row that Q does not return, where the MV has one of that key,
      - keys that the feed may list otherwise than they are (`staged.altered_keys`), and all those up to the position that it would
        list so, of the upstream and of the MV: one of these it may be that has changed. These are no keys of the stage.

    All but the first need a look into the MV; of keys that were inserted or are gone between the bounds of the stage. It may have the
    plan's own changes already, if a run died in the middle of them: then more keys are read again, with the same result.

    Arguments:
      names (dict): of the views, see get_stage_names.
      suspicions (list): names of columns of the stage, one of which is true of a suspect.
      altered (string or none): see altered_key_predicate.
-#}
{% macro get_reread_statements(backfill, state, plan, names, suspicions, altered) -%}
    {%- set keys, key_columns = plan.key, dbt_backfill.upstream_columns(plan.key) -%}
    {%- set columns, source_columns = key_columns | join(', '), dbt_backfill.upstream_columns(keys, 'source.') -%}
    {#- The bounds are known only when the script runs. These are their placeholders, and what replaces them in the two views. -#}
    {%- set low, high, of_stage, of_reread = [], [], {}, {} -%}
    {%- for side, placeholders in [('low', low), ('high', high)] -%}
        {%- for _ in keys -%}
            {%- set placeholder, bound = '__bf_' ~ side ~ '_' ~ loop.index ~ '__', side ~ '[' ~ loop.index0 ~ ']' -%}
            {%- do placeholders.append(placeholder) -%}
            {%- do of_stage.update({placeholder: 'staged.' ~ bound}) -%}
            {%- do of_reread.update({placeholder: 'reread.' ~ bound}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set doubtful_keys = dbt_backfill.get_doubtful_keys_sql(backfill, plan, names, suspicions, altered, low, high) -%}
    {#- Bytes that are no UTF-8 have other bounds in files than in the feed, so their rows are looked for in all files. -#}
    {%- set rows -%}
        select source.*
        from {{ dbt_backfill.get_planned_read(backfill, plan) }} as source
        left semi join {{ names.doubtful }} as doubtful
        on {{ dbt_backfill.equal_keys(keys, 'source.', 'doubtful.', 'upstream', 'upstream') }}
        where {{ '__bf_anywhere__ or ' if altered }}
            {{- dbt_backfill.tuple_predicate(source_columns, '>=', low) }} and {{ dbt_backfill.tuple_predicate(source_columns, '<=', high) }}
    {%- endset -%}
    {%- if altered -%}
        {%- set alike = dbt_backfill.string_literal('union\n' ~ dbt_backfill.get_alike_keys_sql(backfill, state, plan, names, altered)) -%}
        {%- do of_stage.update({'__bf_alike__': 'if(staged.altered_keys > 0, ' ~ alike ~ ", '')"}) -%}
        {%- do of_reread.update({'__bf_anywhere__': 'cast(staged.altered_keys > 0 as string)'}) -%}
    {%- endif -%}
    if staged.suspects > 0 then
        {{ dbt_backfill.get_execute_with_literals_sql(
            'create or replace temporary view ' ~ names.doubtful ~ ' as\n' ~ doubtful_keys, of_stage
        ) }};
        cache table {{ names.doubtful }};
        set reread = (
            select named_struct(
                'count', count,
                'low', {{ dbt_backfill.literals_expression(keys, 'low.') }},
                'high', {{ dbt_backfill.literals_expression(keys, 'high.') }},
                'twice', cast(null as array<array<string>>)
            )
            from (select count(*) as count, min(struct({{ columns }})) as low, max(struct({{ columns }})) as high from {{ names.doubtful }})
        );
        if reread.count > 0 then
            {{ dbt_backfill.get_execute_with_literals_sql(
                'create or replace temporary view ' ~ names.again ~ ' as\n' ~ rows, of_reread
            ) }};
            cache table {{ names.again }};
            set reread = named_struct('count', reread.count, 'low', reread.low, 'high', reread.high, 'twice', (
                select collect_list(key)
                from (
                    select {{ dbt_backfill.literals_expression(keys) }} as key
                    from {{ names.again }}
                    group by {{ columns }}
                    having count(*) > 1
                    limit 3
                )
            ));
        end if;
    end if
{%- endmacro %}


{#-
    Return a select of the keys in doubt; `low` and `high`: placeholders of the bounds of the stage. If the feed may alter keys, the text
    `__bf_alike__` at its end is to be replaced by get_alike_keys_sql, or by nothing.
-#}
{% macro get_doubtful_keys_sql(backfill, plan, names, suspicions, altered, low, high) -%}
    {%- set keys, stage = plan.key, names.states -%}
    {%- set columns, mv_columns = dbt_backfill.upstream_columns(keys), dbt_backfill.mv_columns(keys, 'mv.') -%}
    {%- set listed, not_null = columns | join(', '), 'not ' ~ dbt_backfill.null_key_predicate(columns) -%}
    {%- set unclear = '(__bf_unclear or ' ~ altered ~ ')' if altered else '__bf_unclear' -%}
    select {{ listed }} from {{ stage }} where {{ unclear }} and {{ not_null }}
    {%- if '__bf_inserted' in suspicions %}
    union
    select {{ listed }}
    from (
        select {{ listed }} from {{ stage }} where __bf_inserted and {{ not_null }}
        {%- if '__bf_gone' in suspicions %}
        {%- set gone = 'select * except (__bf_deleted, __bf_inserted, __bf_gone, __bf_unclear) from ' ~ stage ~ ' where __bf_gone' %}
        union all
        select {{ listed }}
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
        and {{ dbt_backfill.tuple_predicate(mv_columns, '>=', low) }} and {{ dbt_backfill.tuple_predicate(mv_columns, '<=', high) }}
    {%- endif %}
    {{ '__bf_alike__' if altered }}
{%- endmacro %}


{#-
    Return a select of the keys up to the position, of the upstream at the version of the plan and of the MV, that the feed would list as
    it lists one of those that it may have altered.
-#}
{% macro get_alike_keys_sql(backfill, state, plan, names, altered) -%}
    {%- set keys, columns, carried, numbered = plan.key, dbt_backfill.upstream_columns(plan.key), [], [] -%}
    {%- for name in dbt_backfill.mv_columns(keys) -%} {%- do carried.append(name ~ ' as ' ~ columns[loop.index0]) -%} {%- endfor -%}
    {%- for column in columns -%} {%- do numbered.append(column ~ ' as k' ~ loop.index) -%} {%- endfor -%}
    {#- A text that is the same of a key and of what the feed lists for it, see altered_predicate; also of some other keys. -#}
    {%- set listed = 'regexp_replace(to_json(struct(' ~ numbered | join(', ') ~ '), ' ~ dbt_backfill.whole_json_options()
        ~ "), '1582-10-(0[4-9]|1[0-6])[^\"]*', '')" -%}
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
        select {{ listed }} as __bf_told
        from {{ names.states }}
        where {{ altered }}
    ) as told
    on {{ listed }} = told.__bf_told
{%- endmacro %}
