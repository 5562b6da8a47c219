{#-
    A swap, the end of a full refresh beside the MV in use: the MV is replaced, at once, by the rows of the next generation, whose
    vnodes have all finished, and the state by its state. See run_beside.
-#}
{% macro swap_traits() %}
    {{ return({'follows': true, 'reads_range': false, 'replaces_mv': true, 'gives_up': false, 'rescales': false}) }}
{% endmacro %}


{#- The next generation's keys were checked as it was filled. -#}
{% macro swap_scan(backfill, state, plan) %}
    {{ return(none) }}
{% endmacro %}


{% macro swap_follows_feed(plan) %}
    {{ return(false) }}
{% endmacro %}


{% macro swap_execute(backfill, state, plan, work) %}
    {{ return({'failed': none, 'counts': {}, 'left_at': dbt_backfill.run_swap(backfill, plan)}) }}
{% endmacro %}


{#- Every vnode has finished, and has the rows that the next generation's had. -#}
{% macro swap_columns(state, plan) %}
    {{ return(dict(
        dbt_backfill.get_not_started_columns(plan),
        backfill_finished='true',
        row_count=dbt_backfill.get_vnode_row_count_sql(plan),
    )) }}
{% endmacro %}


{% macro swap_report(barrier) %}
    {{ return([
        '{:,} rows'.format(barrier.state.row_count), 'next generation put in place: ' ~ barrier.plan.reason,
        'version ' ~ dbt_backfill.get_source(barrier.plan).version,
    ]) }}
{% endmacro %}


{#-
    Its step. The rows are those that the next generation had when the plan was made, whatever it has now. Grants belong to the
    table, which stays; the comments on columns come with the rows, and everything else stands in the statement. Returns what
    run_replacement does.
-#}
{% macro run_swap(backfill, plan) %}
    {%- set next = dbt_backfill.parse_relation(plan.generation.relation) -%}
    {%- set columns = dbt_backfill.get_table_columns(next) -%}
    {#- Which is partitioned as the config says by now. -#}
    {%- set kept = dbt_backfill.and_kept(dict(backfill, partitions=none), plan) -%}
    {%- set sql = dbt_backfill.get_swap_sql(backfill.mv, next, columns, plan, dbt_backfill.get_fence(backfill, plan), kept) -%}
    {{ return(dbt_backfill.run_replacement(backfill, plan, 'put the next generation in place', sql)) }}
{% endmacro %}


{#- Of a next generation without a version nothing was ever written. The fence is evaluated also where there is no row. -#}
{% macro get_swap_sql(mv, next, columns, plan, fence, kept='') -%}
    {%- set version = plan.generation.get('version') -%}
    create or replace table {{ mv.render() }}
    {{ dbt_backfill.mv_clauses(mv, columns, plan.backfill_id, dbt_backfill.get_reset_id(plan)) }}
    {%- if config.persist_relation_docs() %}
    comment {{ dbt_backfill.string_literal(model.description) }}
    {%- endif %}
    as
    select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }}
    from {{ next.render() }}
    {%- if version is not none %} version as of {{ version }} {%- endif %}
    where {{ fence }} {{- ' ' ~ kept if kept }} {%- if version is none %} and false {%- endif %}
    union all
    {{ dbt_backfill.get_no_row_sql(columns, fence) }}
{%- endmacro %}


{#- Why a planned swap cannot be executed any more; none if it can. -#}
{% macro find_lost_generation(plan) %}
    {%- set relation = dbt_backfill.parse_relation(plan.generation.relation) -%}
    {%- if not dbt_backfill.stands_with_id(relation, plan.generation.id) -%}
        {{ return(plan.generation.relation ~ ', which it puts in place, is gone') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}
