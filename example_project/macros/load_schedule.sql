{#-
    dbt run-operation load_schedule

    Creates `flights_actual` from the file that `python -m nyc.flights_2013` wrote, and `flights`, the upstream,
    as the schedule that was published before the year began.
-#}
{% macro load_schedule() %}
    {% do run_query('create schema if not exists ' ~ source('nyc', 'flights').without_identifier()) %}
    {% do run_query(nyc_flights.get_create_flights_actual_sql()) %}
    {% do run_query(nyc_flights.get_create_schedule_sql()) %}

    {% set counts = run_query(nyc_flights.get_schedule_counts_sql()).rows[0] %}
    {% do log(
        source('nyc', 'flights').render() ~ ': ' ~ '{:,}'.format(counts[0]) ~ ' flights scheduled, '
        ~ '{:,}'.format(counts[1] - counts[0]) ~ ' more will be added late', info=true
    ) %}
{% endmacro %}


{% macro get_create_flights_actual_sql() -%}
create or replace table {{ source('nyc', 'flights_actual') }}
using {{ nyc_flights.get_file_format() }}
as
select
    *,
    -- About one flight in a hundred was not in the published schedule. A cancelled one always was.
    dep_time is not null
        and pmod(xxhash64(time_hour, carrier, flight), 100) = 0 as is_added_late
from parquet.`{{ var('flights_file') }}`
{%- endmacro %}


{% macro get_create_schedule_sql() -%}
create or replace table {{ source('nyc', 'flights') }}
using {{ nyc_flights.get_file_format() }}
tblproperties (
    {{ "'format-version' = '3'" if nyc_flights.get_file_format() == 'iceberg' else "'delta.enableChangeDataFeed' = 'true'" }}
)
as
select /*+ repartition_by_range(8, time_hour, carrier, flight) */
    time_hour,
    carrier,
    flight,
    flight_date,
    origin,
    dest,
    tailnum,
    distance,
    sched_dep_time,
    sched_arr_time,
    cast(null as int) as dep_time,
    cast(null as int) as dep_delay,
    cast(null as int) as arr_time,
    cast(null as int) as arr_delay,
    cast(null as int) as air_time
from {{ source('nyc', 'flights_actual') }}
where not is_added_late
{%- endmacro %}


{% macro get_schedule_counts_sql() -%}
select
    (select count(*) from {{ source('nyc', 'flights') }}) as scheduled,
    (select count(*) from {{ source('nyc', 'flights_actual') }}) as flown_or_cancelled
{%- endmacro %}


{#- Delta or Iceberg, as the target's name says. -#}
{% macro get_file_format() %}
    {{ return('iceberg' if target.name.endswith('iceberg') else 'delta') }}
{% endmacro %}
