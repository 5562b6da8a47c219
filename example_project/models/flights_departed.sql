{{
    config(
        materialized='backfilled_mv',
        unique_key=['departure_hour', 'carrier', 'flight'],
        backfill_rate_limit=50000,
        tblproperties={} if target.name.endswith('iceberg') else {'delta.enableChangeDataFeed': 'true'},
    )
}}

select
    time_hour as departure_hour,
    carrier,
    flight,
    flight_date,
    origin,
    dest,
    tailnum,
    distance,
    dep_time,
    dep_delay,
    arr_time,
    arr_delay,
    coalesce(arr_delay, dep_delay) > 15 as is_late
from {{ source('nyc', 'flights') }}
where dep_time is not null
