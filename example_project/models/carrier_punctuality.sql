-- The MV is an ordinary table: another model reads it with ref().
{{ config(materialized='table') }}

select
    carrier,
    count(*) as flights,
    sum(cast(is_late as int)) as late_flights,
    round(avg(dep_delay), 1) as mean_departure_delay_minutes
from {{ ref('flights_departed') }}
group by carrier
