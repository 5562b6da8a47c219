-- The rows in which carrier_days differs from the aggregate of all flights.
with found as (
    select flight_date, carrier, flights, late_flights from {{ ref('carrier_days') }} where flights > 0
),

wanted as (
    select flight_date, carrier, count(*) as flights, sum(cast(is_late as int)) as late_flights
    from {{ ref('flights_departed') }}
    group by flight_date, carrier
)

(select * from found except all select * from wanted)
union all
(select * from wanted except all select * from found)
