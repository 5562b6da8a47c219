"""What the demo reads with SQL of its own, beside dbt, to check what dbt wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from nyc.flights_2013 import KEY
from nyc.runner import StepError

UPSTREAM = "nyc.flights"
MV = "nyc.flights_departed"
UPSTREAM_KEY = ", ".join(KEY)


@dataclass(frozen=True)
class Position:
    """What ``flights_departed__progress`` records: the same on every vnode in this demo."""

    upstream_version: str
    values: tuple[Any, ...]
    finished: bool

    def describe(self) -> str:
        if self.finished:
            return "the end"
        hour, carrier, flight = self.values
        return f"{hour:%Y-%m-%d %H:%M}, {carrier} {flight}"

    def side_of(self, day: str) -> str:
        """Where a local day of departures lies: its hours in UTC are 09:00 to 05:00 next day."""
        if self.finished:
            return "below"
        if self.values[0] is None:
            return "above"
        return "below" if f"{self.values[0]:%Y-%m-%d %H}" >= f"{day} 09" else "above"


class Lake:
    """The tables, read through the Spark session that dbt has started."""

    def __init__(self) -> None:
        self.spark = SparkSession.builder.getOrCreate()

    def position(self) -> Position:
        """The recorded position; before the first `dbt run`, the beginning."""
        if not self.spark.catalog.tableExists(f"{MV}__progress"):
            return Position("", (None, None, None), False)
        rows = self.spark.sql(
            f"select distinct upstream_version, backfill_finished, {UPSTREAM_KEY} "
            f"from {MV}__progress"
        ).collect()
        if len(rows) != 1:
            raise StepError(f"the vnodes disagree: {len(rows)} positions in {MV}__progress")
        version, finished, *values = rows[0]
        return Position(version, tuple(values), finished)

    def count(self) -> int:
        return int(self.spark.table(MV).count())

    def differences(self, query: str, position: Position) -> int:
        """Rows that ``MV`` has too many or too few, duplicates counted.

        ``query`` is the model's compiled SQL. It is run afresh on the upstream's recorded version,
        as far as the recorded position.
        """
        self.spark.sql(
            f"select upstream.* from {UPSTREAM} version as of {position.upstream_version} upstream "
            f"cross join (select distinct backfill_finished, {UPSTREAM_KEY} from {MV}__progress) p "
            f"where p.backfill_finished or {key_tuple('upstream')} <= {key_tuple('p')}"
        ).createOrReplaceTempView("flights_at_barrier")
        return self.differences_to(re.sub(rf"\b{UPSTREAM}\b", "flights_at_barrier", query))

    def differences_to(self, query: str) -> int:
        fresh, stored = self.spark.sql(query), self.spark.table(MV)
        return fresh.exceptAll(stored).count() + stored.exceptAll(fresh).count()

    def barriers(self) -> list[Any]:
        return self.spark.sql(
            "select epoch, upstream_version, range_row_count, changed_row_count, "
            f"deleted_row_count from {MV}__barriers where epoch > 0 order by epoch"
        ).collect()


def key_tuple(alias: str) -> str:
    return "struct(" + ", ".join(f"{alias}.{name}" for name in KEY) + ")"
