{#-
    Compare the selected part of the MV with its definition, in one pass over both. The keys that differ are staged as a
    cached view, because what follows reads only their rows. Returns {
      'rows': how many rows of the MV were compared,
      'differing': how many keys differ, 'null_keys': how many of them are null,
      'low', 'high': the first and the last of the others, as literals,
      'stage': the view
    }

    The state is read once more after the comparison: a barrier that began in between has moved the MV.

    Arguments:
      repaired (boolean): whether it follows a repair, which no conflict stops where that barrier drops a row that the MV lacked.
-#}
{% macro run_comparison(verified, selection, repaired=false) %}
    {%- set stage = dbt_backfill.get_difference_stage_name(verified) -%}
    {%- set sql -%}
        begin
            create or replace temporary view {{ stage }} as
            {{ dbt_backfill.get_differing_keys_sql(verified, selection) }};
            cache table {{ stage }};
            {{ dbt_backfill.get_comparison_summary_sql(verified, selection, stage) }};
        end
    {%- endset -%}
    {%- set found = dbt_backfill.run_json('compare with the definition', sql, verified.mv)[0] -%}
    {%- if found.begun -%}
        {%- do dbt_backfill.drop_stages([stage], verified.mv) -%}
        {%- if repaired -%}
            {%- do dbt_backfill.refuse(
                'another run went on while it was repaired, so that rows may have been written as they were before that run',
                'Verify it again, and repair it, while no barrier runs', mv=verified.name
            ) -%}
        {%- endif -%}
        {%- do dbt_backfill.refuse(
            'another run went on while it was compared', 'Verify it while no barrier runs', mv=verified.name
        ) -%}
    {%- endif -%}
    {{ return(dict(found, stage=stage)) }}
{% endmacro %}


{% macro get_difference_stage_name(verified) %}
    {{ return(dbt_backfill.identifier([
        verified.mv.schema, verified.mv.identifier, 'differing', verified.state.epoch, invocation_id | replace('-', '')
    ] | join('__'))) }}
{% endmacro %}


{#- A select of the keys that have other rows in the MV than in its definition, or as many rows more or less. -#}
{% macro get_differing_keys_sql(verified, selection) -%}
    {%- set columns = dbt_backfill.get_compared_columns(verified.columns) -%}
    {%- set keys = dbt_backfill.mv_columns(verified.key) -%}
    select {{ dbt_backfill.get_staged_keys(verified.key) }}
    from (
        select {{ keys | join(', ') }}
        from (
            select {{ columns }}, 1 as __bf_count
            from (
                {{ dbt_backfill.get_promised_sql(verified, verified.state, selection) }}
            )
            union all
            select {{ columns }}, -1 as __bf_count
            from {{ dbt_backfill.get_present_sql(verified, verified.state) }}
            where {{ dbt_backfill.selection_predicate(selection, verified.key) }}
        )
        group by {{ dbt_backfill.identifiers(verified.columns | map(attribute='name')) }}
        having sum(__bf_count) != 0
    )
    group by {{ keys | join(', ') }}
{%- endmacro %}


{#- The key under names of our own, see staged_key_names. -#}
{% macro get_staged_keys(keys) -%}
    {%- set names, staged = dbt_backfill.staged_key_names(keys), [] -%}
    {%- for column in dbt_backfill.mv_columns(keys) -%}
        {%- do staged.append(column ~ ' as ' ~ names[loop.index0]) -%}
    {%- endfor -%}
    {{ return(staged | join(', ')) }}
{%- endmacro %}


{#- `__bf_key_1` and so on, each with `prefix` in front. -#}
{% macro staged_key_names(keys, prefix='') %}
    {%- set names = [] -%}
    {%- for _ in keys -%} {%- do names.append(prefix ~ '__bf_key_' ~ loop.index) -%} {%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{% macro get_comparison_summary_sql(verified, selection, stage) -%}
    {%- set names, keys = dbt_backfill.staged_key_names(verified.key), [] -%}
    {%- for key in verified.key -%}
        {%- do keys.append({'name': key.name, 'upstream': names[loop.index0], 'type': key.type}) -%}
    {%- endfor -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) -%}
    {%- set null_key = dbt_backfill.null_key_predicate(columns) -%}
    select to_json(named_struct(
        'rows', (
            select count(*)
            from {{ dbt_backfill.get_present_sql(verified, verified.state) }}
            where {{ dbt_backfill.selection_predicate(selection, verified.key) }}
        ),
        'differing', differing,
        'null_keys', null_keys,
        'low', {{ dbt_backfill.literals_expression(keys, 'low.') }},
        'high', {{ dbt_backfill.literals_expression(keys, 'high.') }},
        'begun', (
            select count(*) from {{ verified.progress.render() }} where epoch <> {{ verified.state.epoch }} or plan_id is not null
        ) > 0
    ))
    from (
        select
            count(*) as differing,
            count_if({{ null_key }}) as null_keys,
            min(struct({{ columns | join(', ') }})) filter (where not {{ null_key }}) as low,
            max(struct({{ columns | join(', ') }})) filter (where not {{ null_key }}) as high
        from {{ stage }}
    )
{%- endmacro %}


{#- The selection down to the keys that differ, as literals that prune files. A null key lies in no range. -#}
{% macro narrow_selection(selection, found) %}
    {%- set narrowed = dict(selection) -%}
    {%- if not found.null_keys -%} {%- do narrowed.update({'low': found.low, 'high': found.high}) -%} {%- endif -%}
    {{ return(narrowed) }}
{% endmacro %}
