{#-
    The upper bounds of the next ranges of about `rate_limit` rows each, from one pass over the keys that remain:
    {'bounds': a list of keys as literals' texts, in the order of the backfill, 'complete': whether they reach the end}.

    The keys are sorted as tuples, all of them if few remain, else a sample, in which every k-th one is a bound:
    any orderable type and any skew, and the error of a range's size is about 1/sqrt(k). A bound at the very
    end is left out, because the last range has no end.

    Arguments:
      scan (string): a select of the keys beyond the position.
      total (string): a SQL expression of the upstream's number of rows.
      done (int): snapshot rows read so far.
-#}
{% macro get_bounds_sql(scan, total, done, keys, rate_limit) -%}
    {%- set most = 256 -%}
    {%- set names = dbt_backfill.upstream_columns(keys) -%}
    {%- set columns, turn = names | join(', '), ' desc' if dbt_backfill.is_descending(keys) else '' -%}
    with share as (
        select least(1e0, greatest(1e5, least(1e6, 1e3 * remaining / {{ rate_limit }})) / remaining) as sampled
        from (select greatest(1, {{ total }} - {{ done }}) as remaining)
    ),
    sample as (
        select *
        from ({{ scan }})
        where rand() < (select sampled from share)
    ),
    ranked as (
        select
            {{ columns }},
            row_number() over (order by {{ names | join(turn ~ ', ') ~ turn }}) as __bf_rank,
            count(*) over () as __bf_size,
            (select greatest(1, cast(floor({{ rate_limit }} * sampled) as bigint)) from share) as __bf_step
        from sample
    )
    select to_json(named_struct(
        'bounds', coalesce(transform(array_sort(collect_list(struct(rank, bound))), bound -> bound.bound), array()),
        'complete', coalesce(max(size) <= max(step) * {{ most + 1 }}, true)
    ))
    from (
        select __bf_rank as rank, __bf_size as size, __bf_step as step, {{ dbt_backfill.literals_expression(keys) }} as bound
        from ranked
        where __bf_rank % __bf_step = 0 and __bf_rank < __bf_size and __bf_rank <= __bf_step * {{ most }}
    )
{%- endmacro %}
