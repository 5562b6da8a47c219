-- Flights and late flights per carrier and day. A run computes only the days again in which a flight has changed.
{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key=['flight_date', 'carrier'],
    )
}}
{%- set changes = dbt_backfill.changes_of(ref('flights_departed')) %}

with changed as (
    select distinct flight_date, carrier from {{ changes.rows }}
)

select
    changed.flight_date,
    changed.carrier,
    count(flights.flight) as flights,
    coalesce(sum(cast(flights.is_late as int)), 0) as late_flights,
    {{ changes.mark }} as mv_version
from changed
left join {{ changes.table }} as flights
    on flights.flight_date = changed.flight_date and flights.carrier = changed.carrier
group by changed.flight_date, changed.carrier
