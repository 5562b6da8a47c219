"""The demo's own SQL, outside dbt, which checks what dbt wrote."""

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
class Comparison:
    """The result of a check; ``differences`` counts missing and surplus rows, with duplicates."""

    rows: int
    differences: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.differences:,} rows of difference"


@dataclass(frozen=True)
class Position:
    """The content of ``flights_departed__progress``.

    In this demo all vnodes have the same position.
    """

    upstream_version: str
    values: tuple[Any, ...]
    finished: bool

    def __str__(self) -> str:
        if self.finished:
            return "all of it has been read"
        if self.values[0] is None:
            return "nothing has been read yet"
        hour, carrier, flight = self.values
        return f"current_pos is {hour:%Y-%m-%d %H:%M}, {carrier}, {flight}"

    def side_of(self, day: str) -> str | None:
        """Return ``below`` or ``above``: the side of the position on which a local day is.

        A local day is 09:00 to 05:00 of the next day in UTC. Return None at the beginning and at
        the end of the backfill.
        """
        if self.finished or self.values[0] is None:
            return None
        return "below" if f"{self.values[0]:%Y-%m-%d %H}" >= f"{day} 09" else "above"


class Lake:
    """The tables, read through the Spark session that dbt has started."""

    def __init__(self) -> None:
        self.spark = SparkSession.builder.getOrCreate()

    def position(self) -> Position:
        """Return the recorded position. Before the first `dbt run` it is the beginning."""
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

    def compare_at(self, position: Position, query: str) -> Comparison:
        """Compare ``MV`` with ``query`` on the upstream's recorded version, up to the position.

        ``query`` is the model's compiled SQL.
        """
        self.spark.sql(
            f"select upstream.* from {UPSTREAM} version as of {position.upstream_version} upstream "
            f"cross join (select distinct backfill_finished, {UPSTREAM_KEY} from {MV}__progress) p "
            f"where p.backfill_finished or {key_tuple('upstream')} <= {key_tuple('p')}"
        ).createOrReplaceTempView("flights_at_barrier")
        return self.compare(re.sub(rf"\b{UPSTREAM}\b", "flights_at_barrier", query))

    def compare(self, query: str) -> Comparison:
        """Compare the rows of ``MV`` with those of ``query``, in one pass over both."""
        columns = ", ".join(self.spark.table(MV).columns)
        [row] = self.spark.sql(
            f"""
            with counted as (
                select {columns}, sum(stored) as stored, sum(fresh) as fresh
                from (
                    select {columns}, 1 as stored, 0 as fresh from {MV}
                    union all
                    select {columns}, 0, 1 from ({query})
                )
                group by {columns}
            )
            select coalesce(sum(stored), 0), coalesce(sum(abs(stored - fresh)), 0) from counted
            """
        ).collect()
        return Comparison(*row)

    def barriers(self) -> list[Any]:
        return self.spark.sql(
            "select epoch, upstream_version, range_row_count, changed_row_count, "
            f"deleted_row_count from {MV}__barriers where epoch > 0 order by epoch"
        ).collect()


def key_tuple(alias: str) -> str:
    return "struct(" + ", ".join(f"{alias}.{name}" for name in KEY) + ")"
