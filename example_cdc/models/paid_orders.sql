-- depends_on: {{ source('lake', 'orders_changes') }}
{{
    config(
        materialized='backfilled_mv',
        unique_key='id',
        backfill_rate_limit=4000,
        change_feed={'relation': "source('lake', 'orders_changes')", 'slot': 'orders_changes'},
    )
}}

select
    id,
    amount * 100 as cents,
    label
from {{ source('pg', 'orders') }}
where amount > 0
