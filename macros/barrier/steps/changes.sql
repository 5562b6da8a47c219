{#- The rows of a range, in addition to those of the stage, where one MERGE merges both. -#}
{% macro get_range_beside_changes_sql(backfill, state, plan) -%}
    {%- set keys = dbt_backfill.mv_columns(plan.key) | join(', ') %}
    union all
    {# As they are: from an alias of a column that a filter names, Spark derives that filter once more. #}
    select * except ({{ keys }}), {{ keys }}, false as __bf_dropped
    from (
        {{ dbt_backfill.get_range_rows_sql(backfill, state, plan) }}
    )
{%- endmacro %}


{#-
    One MERGE of changed rows. A key whose row the query no longer returns is deleted.

    `rows`: a select like that of the stage; `bounds`: where their keys lie, by literals that prune the target's files.
-#}
{% macro get_changes_merge_sql(backfill, plan, rows, bounds) -%}
    merge into {{ backfill.mv.render() }} as mv
    using (
        select *
        from (
            {{ rows }}
        )
        where {{ dbt_backfill.get_fence(backfill, plan) }} {{ dbt_backfill.and_kept(backfill, plan, unless='__bf_dropped') }}
    ) as changes
    on {{ dbt_backfill.equal_keys(plan.key, 'mv.', 'changes.') }} and {{ bounds }}
    when matched and not changes.__bf_dropped then update set *
    when matched then delete
    when not matched and not changes.__bf_dropped then insert *
{%- endmacro %}


{#- Over the MV as `mv`: the keys between the least and the greatest staged one. -#}
{% macro staged_predicate(plan, staged) %}
    {{ return(dbt_backfill._between(dbt_backfill.mv_columns(plan.key, 'mv.'), staged.low, staged.high)) }}
{% endmacro %}


{#-
    Over the MV as `mv`: these keys and those of the range, by the first two columns of the key. That is more than there are,
    which is all that it has to be: what Spark makes of an OR of two such bounds, to push it down, grows with the square of
    their columns.
-#}
{% macro at_once_predicate(plan, staged) %}
    {%- set columns = dbt_backfill.mv_columns(plan.key, 'mv.')[:2] -%}
    {%- set low, high = plan.get('range_low'), none if plan.get('last_range') else plan.range_high -%}
    {%- if dbt_backfill.is_descending(plan.key) -%} {%- set low, high = high, low -%} {%- endif -%}
    {{ return('(' ~ dbt_backfill._between(columns, staged.low, staged.high) ~ ' or '
        ~ dbt_backfill._between(columns, low, high) ~ ')') }}
{% endmacro %}


{#- `low`, `high`: literals, of these columns or of more; none where it is open. -#}
{% macro _between(columns, low, high) %}
    {%- set parts, count = [], columns | length -%}
    {%- if low -%} {%- do parts.append(dbt_backfill.tuple_predicate(columns, '>=', low[:count])) -%} {%- endif -%}
    {%- if high -%} {%- do parts.append(dbt_backfill.tuple_predicate(columns, '<=', high[:count])) -%} {%- endif -%}
    {{ return('(' ~ (parts | join(' and ') or 'true') ~ ')') }}
{% endmacro %}


{#-
    The changes of a plan that has some, see has_changes: as get_upstream_changes describes them, and of the query, as far as the
    run has learned, {
      'drops_rows',
      'read_columns': those by which it is told whether a change leaves the MV's row as it was; none where that is not asked: the
        feed does not tell what a row was, or the MV's row may not be what the query made of that
    }
-#}
{% macro get_changes(backfill, state, observed, learned, plan) %}
    {%- set view = dbt_backfill.get_stage_name(backfill, plan, '__events') -%}
    {%- if backfill.feed -%}
        {%- set changes = dbt_backfill.get_change_table_events(
            backfill.feed, observed.feed, dbt_backfill.get_source(dbt_backfill.get_feed_start(state), 'feed').version,
            dbt_backfill.get_source(plan, 'feed').version, plan.key, learned.feed_columns, view
        ) -%}
    {%- else -%}
        {%- set changes = dbt_backfill.ask(backfill.upstream, 'upstream_changes')(
            observed, state.upstream_version, dbt_backfill.get_source(plan).version, plan.key, view
        ) -%}
    {%- endif -%}
    {%- set events = dbt_backfill._get_events_of_version(changes.events, learned, dbt_backfill.get_source(plan).version) -%}
    {%- set is_exact = plan.kind == 'advance' and not plan.get('sweeps') and not state.dirty -%}
    {{ return(dict(
        changes, events=events, drops_rows=learned.drops_rows, read_columns=learned.read_columns if is_exact and changes.tells_before else none
    )) }}
{% endmacro %}


{#-
    Events without columns that the upstream has not at the version of their plan: Delta tells changes with the columns of its newest
    version.
-#}
{% macro _get_events_of_version(events, learned, version) -%}
    {%- if learned.upstream_columns is none or learned.version != version -%} {{ return(events) }} {%- endif -%}
    {%- set columns = learned.upstream_columns -%}
    {%- if learned.feed_columns is not none -%} {%- set columns = columns | select('in', learned.feed_columns) | list -%} {%- endif -%}
    select {{ dbt_backfill.identifiers(columns) }}, __bf_version, __bf_is_upsert
    from (
        {{ events }}
    )
{%- endmacro %}
