{#-
    dbt run-operation replay_day --args '{day: 2013-01-01}'

    One day happens, in one commit of `flights`: departures and arrivals are entered, cancelled
    flights are deleted, and flights that were not in the schedule are inserted.
-#}
{% macro replay_day(day) %}
    {% set day_literal = nyc_flights.get_day_literal(day) %}
    {% set counts = run_query(nyc_flights.get_replay_counts_sql(day_literal)).rows[0] %}
    {% do run_query(nyc_flights.get_replay_day_sql(day_literal)) %}
    {% do log(
        day ~ ': ' ~ '{:,}'.format(counts['departed']) ~ ' departed, '
        ~ counts['cancelled'] ~ ' cancelled, '
        ~ counts['added_late'] ~ ' added late', info=true
    ) %}
{% endmacro %}


{#- Return the counts of what the MERGE will do. Delta's MERGE returns them itself, Iceberg's does not. -#}
{% macro get_replay_counts_sql(day_literal) -%}
select
    count_if(is_scheduled and dep_time is not null) as departed,
    count_if(is_scheduled and dep_time is null) as cancelled,
    count_if(not is_scheduled and dep_time is not null) as added_late
from (
    select actual.dep_time, scheduled.flight is not null as is_scheduled
    from {{ source('nyc', 'flights_actual') }} as actual
    left join {{ source('nyc', 'flights') }} as scheduled
        on scheduled.flight_date = {{ day_literal }}
        and scheduled.time_hour = actual.time_hour
        and scheduled.carrier = actual.carrier
        and scheduled.flight = actual.flight
    where actual.flight_date = {{ day_literal }}
)
{%- endmacro %}


{% macro get_replay_day_sql(day_literal) -%}
merge into {{ source('nyc', 'flights') }} as scheduled
using (
    select * from {{ source('nyc', 'flights_actual') }} where flight_date = {{ day_literal }}
) as actual
on
    scheduled.flight_date = {{ day_literal }}
    and scheduled.time_hour = actual.time_hour
    and scheduled.carrier = actual.carrier
    and scheduled.flight = actual.flight
when matched and actual.dep_time is null then delete
when matched then update set
    tailnum = actual.tailnum,
    dep_time = actual.dep_time,
    dep_delay = actual.dep_delay,
    arr_time = actual.arr_time,
    arr_delay = actual.arr_delay,
    air_time = actual.air_time
when not matched and actual.dep_time is not null then insert *
{%- endmacro %}


{#- The day as a date literal. Raises an error if it is not a day of 2013: all of them have flights. -#}
{% macro get_day_literal(day) -%}
    {%- if not modules.re.fullmatch('2013-[0-9]{2}-[0-9]{2}', day | string) -%}
        {%- do exceptions.raise_compiler_error(
            "'" ~ day ~ "' is not a day of 2013. Write it as 2013-01-01."
        ) -%}
    {%- endif -%}
    date '{{ day }}'
{%- endmacro %}
