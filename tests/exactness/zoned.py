"""Random queries whose rows depend on the session's time zone. Only Spark can evaluate them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from exactness.oracle import MvRow, Query, Row
from exactness.queries import UPSTREAM
from exactness.upstream import Schema

EXPRESSIONS = (
    "t.ts > timestamp'2024-06-01 12:00:00'",
    "hour(t.ts)",
    "extract(hour from t.ts)",
    "date_part('day', t.ts)",
    "dayofweek(t.ts)",
    "date_trunc('day', t.ts)",
    "date_trunc('month', t.ts)",
    "trunc(t.ts, 'year')",
    "cast(t.ts as string)",
    "cast(t.ts as date)",
    "cast(t.ts as timestamp_ntz)",
    "date_format(t.ts, 'yyyy-MM-dd HH:mm:ss.SSSSSS XXX')",
    "from_utc_timestamp(t.ts, 'Asia/Tokyo')",
    "to_utc_timestamp(t.ts, 'Europe/Berlin')",
    "t.ts + interval 1 month",
    "t.ts + interval 1 day",
    "t.ts - timestamp'2024-06-01 12:00:00' > interval 5 hours",
    "date_add(t.ts, 1)",
    "timestampdiff(hour, timestamp'2024-03-09 12:00:00', t.ts)",
    "timestampadd(day, 1, t.ts)",
    "months_between(t.ts, timestamp'2024-03-10 00:00:00')",
    "unix_timestamp('2024-06-01 12:00:00') - unix_timestamp(t.ts)",
    "to_timestamp(concat('2024-03-10 0', t.amount, ':30:00'))",
    "cast(date'2024-03-10' as timestamp) < t.ts",
    "to_json(struct(t.ts))",
    "cast(array(t.ts) as array<string>)",
    "convert_timezone('Europe/Berlin', 'Asia/Tokyo', cast(t.ts as timestamp_ntz))",
    "make_timestamp(2024, 3, 10, hour(t.ts), 30, 0)",
)

FILTERS = (
    "t.amount > 0",
    "t.label is null or t.label <> 'hide'",
    "t.ts > timestamp'2024-03-10 02:30:00'",
    "hour(t.ts) < 12",
    "cast(t.ts as date) >= date'2011-12-30' or t.amount is null",
    "date_trunc('day', t.ts) <> timestamp'2024-06-01 00:00:00'",
)


def draw_query(rng: random.Random, schema: Schema, payloads: Sequence[str]) -> Query:
    """Return a random query with columns, expressions, a filter, and possibly renamed keys."""
    renamed = rng.random() < 0.5
    keys = {name: f"{chr(ord('z') - n)}_key" if renamed else name for n, name in _numbered(schema)}
    selected = [f"t.{name} as {alias}" for name, alias in keys.items()]
    columns = list(keys.values())
    for name in ("amount", "label", "at", "ts", *payloads):
        if rng.random() < (0.4 if name in ("amount", "label", "at", "ts") else 0.8):
            selected.append(f"t.{name}")
            columns.append(name)
    for number, expression in enumerate(rng.sample(EXPRESSIONS, rng.randint(1, 3))):
        selected.append(f"{expression} as zoned_{number}")
        columns.append(f"zoned_{number}")
    order = rng.sample(range(len(columns)), len(columns))
    condition = rng.choice((*FILTERS, None, None))
    where = "" if condition is None else f"\nwhere {condition}"
    return Query(
        sql=f"select {', '.join(selected[n] for n in order)}\nfrom {UPSTREAM} as t{where}",
        columns=tuple(columns[n] for n in order),
        key_columns=tuple(keys[name] for name in schema.key),
        evaluate=_only_in_spark,
    )


def _numbered(schema: Schema) -> list[tuple[int, str]]:
    return list(enumerate(schema.key))


def _only_in_spark(row: Row) -> MvRow | None:
    raise NotImplementedError("Python does not know what Spark makes of a time zone")
