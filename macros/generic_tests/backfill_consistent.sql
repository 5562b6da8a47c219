{#-
    Passes if the MV is what it promises: Q(upstream @ S where pk <= current_pos), with S and the positions of the
    progress table, compared both ways with duplicates counted. Fails with the rows that are `missing` in the MV
    and those that are `unexpected` there.

    It reads the whole prefix of the upstream and the whole MV.

    Usage, on a model with materialized='backfilled_mv':
      data_tests:
        - dbt_backfill.backfill_consistent
-#}
{% test backfill_consistent(model) %}
    {%- if execute -%}
        {%- set relations = dbt_backfill.get_relations(model) -%}
        {%- do dbt_backfill.check_has_state(relations) -%}
        {%- set state = dbt_backfill.read_state(relations) -%}
        {%- if state.get('planned') or state.dirty -%}
            {%- do dbt_backfill.refuse(
                'its barrier ' ~ (state.epoch + 1) ~ ' has begun and is not committed',
                'Run the model again, and then this test',
                mv=relations.mv.identifier
            ) -%}
        {%- endif -%}
        {{ dbt_backfill.get_difference_sql(relations, state) }}
    {%- endif -%}
{% endtest %}


{#- A select of the rows by which the MV differs from its definition, with `difference` in front. -#}
{% macro get_difference_sql(relations, state) -%}
    {%- set columns = [] -%}
    {%- for name, column in dbt_backfill.comparable_columns(dbt_backfill.get_table_columns(relations.mv)).items() -%}
        {%- do columns.append(column ~ ' as ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {%- set columns = columns | join(', ') %}
    with promised as (
        select {{ columns }}
        from (
            {{ dbt_backfill.get_promised_sql(relations, state) }}
        )
    ),
    present as (
        select {{ columns }}
        from {{ relations.mv.render() }}
    )
    select 'missing' as difference, *
    from (select * from promised except all select * from present)
    union all
    select 'unexpected' as difference, *
    from (select * from present except all select * from promised)
{%- endmacro %}


{#- A select of Q(upstream @ S where pk <= current_pos). -#}
{% macro get_promised_sql(relations, state) -%}
    {%- set plan = state.committed -%}
    {%- set keys = dbt_backfill.get_plan_keys(plan) -%}
    {%- set schema, identifier = plan.upstream.rsplit('.', 1) -%}
    {%- set upstream = {'relation': api.Relation.create(schema=schema, identifier=identifier), 'kind': plan.upstream_kind} -%}
    {%- if state.get('upstream_version') is none -%}
        {%- set scan = 'select * from ' ~ plan.upstream ~ ' where false' -%}
    {%- else -%}
        {%- set read = dbt_backfill.get_upstream_read(upstream, state.upstream_version) -%}
        {%- set scan = dbt_backfill.get_prefix_scan_sql(read, state, relations, keys) -%}
    {%- endif -%}
    {{ dbt_backfill.get_query_sql(plan.query, upstream.relation, scan) }}
{%- endmacro %}
