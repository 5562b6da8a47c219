{#-
    dbt run-operation withdraw_day --args '{day: 2013-01-01}'

    A correction of a replayed day, in one commit of `flights`. Flights that took off but never
    arrived as planned are taken back: those that never landed are deleted, and those that were
    diverted lose their departure. Both leave `flights_departed`, the second by an update.
-#}
{% macro withdraw_day(day) %}
    {% set day_literal = nyc_flights.get_day_literal(day) %}
    {% set counts = run_query(nyc_flights.get_withdraw_counts_sql(day_literal)).rows[0] %}
    {% do run_query(nyc_flights.get_withdraw_day_sql(day_literal)) %}
    {% do log(
        day ~ ' corrected: ' ~ counts['never_landed'] ~ ' never landed, '
        ~ counts['diverted'] ~ ' diverted', info=true
    ) %}
{% endmacro %}


{% macro get_withdraw_counts_sql(day_literal) -%}
select
    count_if(actual.arr_time is null) as never_landed,
    count_if(actual.arr_time is not null) as diverted
from {{ source('nyc', 'flights_actual') }} as actual
join {{ source('nyc', 'flights') }} as flown
    on flown.flight_date = {{ day_literal }}
    and flown.time_hour = actual.time_hour
    and flown.carrier = actual.carrier
    and flown.flight = actual.flight
where
    actual.flight_date = {{ day_literal }}
    and actual.dep_time is not null
    and actual.arr_delay is null
{%- endmacro %}


{% macro get_withdraw_day_sql(day_literal) -%}
merge into {{ source('nyc', 'flights') }} as flown
using (
    select *
    from {{ source('nyc', 'flights_actual') }}
    where
        flight_date = {{ day_literal }}
        and dep_time is not null
        and arr_delay is null
) as actual
on
    flown.flight_date = {{ day_literal }}
    and flown.time_hour = actual.time_hour
    and flown.carrier = actual.carrier
    and flown.flight = actual.flight
when matched and actual.arr_time is null then delete
when matched then update set
    dep_time = null,
    dep_delay = null,
    arr_time = null
{%- endmacro %}
