{#-
    Return a part of the staging script. If a key existed twice in the upstream, the feed does not report its last state. This part reads such
    keys again from the upstream, at the version of the plan. In this version each key has to occur once or not at all. This part reads the variable
    `staged` of the script, and sets its variable `reread`, which is null if no key was in doubt: {
      'count': the number of keys in doubt, 'low', 'high': the least and the greatest of these keys as literals,
      'twice': up to three keys that occur twice in the version of the plan
    }
    The following keys are in doubt:

      - keys whose events are not a chain of states (`__bf_unclear`),
      - keys that were inserted although the MV has them: a row existed already,
      - keys whose first event removes a row that Q does not return, although the MV has a row of that key (`__bf_before`),
      - keys that the feed may report with another value than they have (`staged.altered_keys`). Several keys may be reported with the same value, and
        any of them may have changed. So all such keys up to the position, in the upstream and in the MV, are in doubt. The stage lacks them.

    All cases except the first one need a read of the MV. For the second and the third, only the rows between the bounds of the stage are read. If a
    run died while it executed the plan, the MV may already have changes of the plan. In this case more keys are read again, but the result is the
    same.

    Arguments:
      names (dict): the names of the views, see get_stage_names.
      suspicions (list): predicates of the stage; a key is a suspect if one of them is true.
      altered (string or none): see altered_key_predicate.
-#}
{% macro get_reread_statements(backfill, state, plan, names, suspicions, altered) -%}
    {%- set keys, key_columns = plan.key, dbt_backfill.upstream_columns(plan.key) -%}
    {%- set columns, source_columns = key_columns | join(', '), dbt_backfill.upstream_columns(keys, 'source.') -%}
    {#- The bounds are known only when the script runs. So the two views are written with placeholders. The script replaces each placeholder by the
        value of one of these expressions. -#}
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
    {#- Strings with bytes that are not UTF-8 have other values in the feed than in the statistics of files, so no file is skipped for them. -#}
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
        {{ dbt_backfill.get_execute_with_literals_sql('create or replace temporary view ' ~ names.doubtful ~ ' as\n' ~ doubtful_keys, of_stage) }};
        cache table {{ names.doubtful }};
        set reread = (
            select named_struct(
                'count', count, 'low', {{ dbt_backfill.literals_expression(keys, 'low.') }},
                'high', {{ dbt_backfill.literals_expression(keys, 'high.') }}, 'twice', cast(null as array<array<string>>)
            )
            from (select count(*) as count, min(struct({{ columns }})) as low, max(struct({{ columns }})) as high from {{ names.doubtful }})
        );
        if reread.count > 0 then
            {{ dbt_backfill.get_execute_with_literals_sql('create or replace temporary view ' ~ names.again ~ ' as\n' ~ rows, of_reread) }};
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


{#- Return a select of the keys in doubt. `low` and `high`: placeholders of the bounds of the stage. If the feed may alter keys, the select ends with
    the placeholder `__bf_alike__`. The script replaces this placeholder by get_alike_keys_sql or by nothing. -#}
{% macro get_doubtful_keys_sql(backfill, plan, names, suspicions, altered, low, high) -%}
    {%- set keys, stage = plan.key, names.states -%}
    {%- set columns, mv_columns, carried = dbt_backfill.upstream_columns(keys), dbt_backfill.mv_columns(keys, 'mv.'), [] -%}
    {%- for column in columns -%} {%- do carried.append(mv_columns[loop.index0] ~ ' as ' ~ column) -%} {%- endfor -%}
    {%- set listed, not_null = columns | join(', '), 'not ' ~ dbt_backfill.null_key_predicate(columns) -%}
    {%- set unclear = '(__bf_unclear or ' ~ altered ~ ')' if altered else '__bf_unclear' -%}
    select {{ listed }} from {{ stage }} where {{ unclear }} and {{ not_null }}
    {%- if '__bf_inserted' in suspicions %}
    union
    {#- The few keys of the stage are on the right of the join, so that Spark can broadcast them and need not shuffle the keys of the MV. #}
    select {{ carried | join(', ') }}
    from {{ backfill.mv.render() }} as mv
    left semi join (
        select {{ listed }} from {{ stage }} where __bf_inserted and {{ not_null }}
        {%- if '__bf_before is not null' in suspicions %}
        {%- set before = 'select * except (__bf_version, __bf_is_upsert, __bf_image) from (select __bf_before.* from ' ~ stage
            ~ ' where __bf_before is not null)' %}
        union all
        select {{ listed }}
        from {{ stage }} as stage
        left anti join (
            {{ dbt_backfill.get_query_sql(plan.query, backfill.upstream.relation, before) }}
        ) as query
        on {{ dbt_backfill.equal_keys(keys, 'stage.', 'query.', 'upstream') }}
        where __bf_before is not null and {{ not_null }}
        {%- endif %}
    ) as stage
    on {{ dbt_backfill.equal_keys(keys, 'mv.', 'stage.', right_names='upstream') }}
    where {{ dbt_backfill.tuple_predicate(mv_columns, '>=', low) }} and {{ dbt_backfill.tuple_predicate(mv_columns, '<=', high) }}
    {%- endif %}
    {{ '__bf_alike__' if altered }}
{%- endmacro %}


{#- Return a select of the keys that the feed cannot distinguish from a key that the feed may have altered. The select reads the keys up to the
    position, from the MV and from the upstream at the version of the plan. -#}
{% macro get_alike_keys_sql(backfill, state, plan, names, altered) -%}
    {%- set keys, columns, carried, numbered = plan.key, dbt_backfill.upstream_columns(plan.key), [], [] -%}
    {%- for name in dbt_backfill.mv_columns(keys) -%} {%- do carried.append(name ~ ' as ' ~ columns[loop.index0]) -%} {%- endfor -%}
    {%- for column in columns -%} {%- do numbered.append(column ~ ' as k' ~ loop.index) -%} {%- endfor -%}
    {#- This text is the same for a key and for the value that the feed reports for this key, see altered_predicate. A few different keys have the
        same text as well. -#}
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
