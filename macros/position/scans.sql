{#-
    The part of the upstream that is already in the MV: the rows of `source` with pk <= current_pos of their
    vnode, in the order of the backfill. While all vnodes agree this is a comparison with literals; otherwise each row is
    compared with its own vnode's row of the progress table.

    Arguments:
      source (string): a relation expression or a select in parentheses, with the upstream's columns.
      state (dict): as read_state returned it.
      with_null_keys (boolean): also rows whose key is null, which no comparison finds.
-#}
{% macro get_prefix_scan_sql(source, state, relations, keys, with_null_keys=false) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys, 'source.') -%}
    {%- set nulls = ' or ' ~ dbt_backfill.null_key_predicate(columns) if with_null_keys else '' -%}
    {%- if not state.uniform -%}
        select source.*
        from {{ source }} as source
        join {{ relations.progress.render() }} as progress
            on progress.vnode = {{ dbt_backfill.vnode_expression(keys, state.committed.vnode_count, 'source.') }}
        where progress.backfill_finished
            or {{ dbt_backfill.ordered_predicate(keys, columns, '<=', dbt_backfill.position_columns(keys, 'progress.')) ~ nulls }}
    {%- elif state.finished -%}
        select * from {{ source }} as source
    {%- elif state.get('position') is none -%}
        select * from {{ source }} as source where false{{ nulls }}
    {%- else -%}
        select * from {{ source }} as source
        where {{ dbt_backfill.ordered_predicate(keys, columns, '<=', state.position) ~ nulls }}
    {%- endif -%}
{%- endmacro %}


{#-
    The range of a plan: the rows of `source` above the position of their vnode and up to the plan's range_high, in the
    order of the backfill.

    `plan.vnodes` none means all vnodes; otherwise only these vnodes' rows are read. Where the positions differ,
    each row is compared with its own vnode's row of the progress table, and range_low is the lowest of them.
-#}
{% macro get_range_scan_sql(source, plan, state, relations, keys, with_null_keys=false) -%}
    {%- set columns = dbt_backfill.upstream_columns(keys, 'source.') -%}
    {%- set window = dbt_backfill.window_predicate(keys, columns, plan) -%}
    {%- set nulls = ' or ' ~ dbt_backfill.null_key_predicate(columns) if with_null_keys else '' -%}
    {%- set vnode = dbt_backfill.vnode_expression(keys, plan.vnode_count, 'source.') -%}
    {%- if plan.get('vnodes') is none -%}
        select * from {{ source }} as source
        where ({{ window }}){{ nulls }}
    {%- elif state.uniform -%}
        select * from {{ source }} as source
        where {{ vnode }} in ({{ plan.vnodes | join(', ') }}) and (({{ window }}){{ nulls }})
    {%- else -%}
        {%- set positions = dbt_backfill.position_columns(keys, 'progress.') -%}
        select source.*
        from {{ source }} as source
        join {{ relations.progress.render() }} as progress on progress.vnode = {{ vnode }}
        where progress.vnode in ({{ plan.vnodes | join(', ') }})
            and (({{ window }} and ({{ positions[0] }} is null
                or {{ dbt_backfill.ordered_predicate(keys, columns, '>', positions) }})){{ nulls }})
    {%- endif -%}
{%- endmacro %}


{#- range_low < columns <= range_high, with literals, in the order of the backfill; the last range has no end. -#}
{% macro window_predicate(keys, columns, plan) -%}
    {%- set parts = [] -%}
    {%- if plan.get('range_low') is not none -%}
        {%- do parts.append(dbt_backfill.ordered_predicate(keys, columns, '>', plan.range_low)) -%}
    {%- endif -%}
    {%- if not plan.get('last_range') -%}
        {%- do parts.append(dbt_backfill.ordered_predicate(keys, columns, '<=', plan.range_high)) -%}
    {%- endif -%}
    {{ return(parts | join(' and ') or 'true') }}
{%- endmacro %}
