"""Compare ranges of a live PostgreSQL with a plain Spark JDBC read of the same rows.

The same intervals of keys are written twice into tables of the same format. First, `insert into ...
select` writes them from the JDBC catalog, which is not exact. Then the barriers of a
`backfilled_mv` write them in one dbt run. While the run waits for the feed, the feed is landed;
this time is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from itertools import pairwise

from clock import timed
from lineitem import make_project
from rich.console import Console
from rich.table import Table

from exactness.runners import Runner, stepping
from support.postgres import Database, binaries, logical_postgresql
from support.project import Project

TABLE = "measured"
MV = "measured_mv"
CHANGES = "measured_changes"
WAIT = "wait for the feed"
COLUMNS = "id, customer, amount, status, note, placed_at"
SOURCES = """
version: 2
sources:
  - name: pg
    schema: pg.public
    tables: [{name: measured}]
"""

console = Console(highlight=False)


def fill(server: Database, rows: int) -> None:
    for statement in (
        f"create table {TABLE} (id bigint primary key, customer bigint,"
        " amount numeric(12, 2) not null, status text, note text, placed_at timestamp)",
        f"insert into {TABLE} select n, n % 9973, (n % 100000) / 7.0,"
        " (array['new', 'paid', 'sent', 'back'])[n % 4 + 1], 'note ' || md5(n::text),"
        f" timestamp '2026-01-01' + n * interval '1 second' from generate_series(1, {rows}) as n",
        f"analyze {TABLE}",
        "checkpoint",
    ):
        server.sql(statement)


def model(rows: int, partitions: int, ranges: int) -> str:
    feed = {"relation": f"source('lake', '{CHANGES}')", "slot": CHANGES}
    return (
        f"-- depends_on: {{{{ source('lake', '{CHANGES}') }}}}\n"
        "{{ config(materialized='backfilled_mv', unique_key='id', "
        f"backfill_rate_limit={-(-rows // ranges)}, barriers_per_run={ranges}, "
        f"backfill_partitions={partitions}, "
        f"change_feed={feed}) }}}}\n"
        f"select {COLUMNS} from {{{{ source('pg', '{TABLE}') }}}}"
    )


def options(low: int, high: int, partitions: int) -> str:
    """Return the options by which Spark itself divides a read among several connections."""
    if partitions == 1:
        return ""
    return (
        f"with ('partitionColumn' = 'id', 'lowerBound' = '{low}', 'upperBound' = '{high}',"
        f" 'numPartitions' = '{partitions}')"
    )


class Case:
    def __init__(self, project: Project, rows: int, partitions: int, ranges: int) -> None:
        self.project, self.rows = project, rows
        self.partitions, self.ranges = partitions, ranges

    def land(self) -> None:
        self.project.operation("land_changes", model=MV)

    def plain(self, partitions: int) -> float:
        """Return seconds of the INSERTs."""
        self.project.sql("drop table if exists {schema}.plain")
        self.project.sql(
            f"create table {{schema}}.plain using {self.project.file_format} as"
            f" select {COLUMNS} from pg.public.{TABLE} where false"
        )
        bounds = [self.rows * n // self.ranges for n in range(self.ranges + 1)]
        return sum(
            timed(
                lambda low=low, high=high: self.project.sql(  # type: ignore[misc]
                    f"insert into {{schema}}.plain select {COLUMNS} from pg.public.{TABLE}"
                    f" {options(low, high, partitions)} where id > {low} and id <= {high}"
                )
            )
            for low, high in pairwise(bounds)
        )

    def barriers(self) -> dict[str, float]:
        """Return the seconds of each statement of a dbt run that reads all rows.

        Landings do not count.
        """
        for suffix in ("", "__progress", "__barriers", "__staged"):
            self.project.sql(f"drop table if exists {{schema}}.{MV}{suffix}")
        seconds: dict[str, float] = defaultdict(float)
        begun = time.perf_counter()
        with stepping():
            runner = Runner(self.project, MV, TABLE)
            seconds["dbt, to the first statement"] = time.perf_counter() - begun
            while not runner.ended:
                step = runner.next_step
                if step == WAIT:
                    self.land()
                seconds[step] += timed(runner.advance)
            result = runner.finish()
        assert result.success, result.error
        found = self.project.value(f"select count(*) from {{schema}}.{MV}")
        assert found == self.rows, f"{found:,} rows of {self.rows:,}"
        return seconds


def report(case: Case, rounds: int) -> None:
    peers = {1: "plain, 1 connection"}
    if case.partitions > 1:
        peers[case.partitions] = f"plain, {case.partitions} connections"
    plain: dict[int, list[float]] = {partitions: [] for partitions in peers}
    barriers = []
    for number in range(rounds + 1):
        for partitions, measured in plain.items():
            measured.append(case.plain(partitions))
        barriers.append(case.barriers())
        took = ", ".join(f"{peers[n]} {measured[-1]:.1f} s" for n, measured in plain.items())
        console.print(
            f"round {number or 'warm-up'}: {took}, a dbt run of {case.ranges} ranges by"
            f" {case.partitions} {sum(barriers[-1].values()):.1f} s"
        )
    unit = statistics.median(plain[1][1:])
    table = Table("statement of the run", "seconds", "of the plain read")
    for step in sorted(barriers[-1], key=lambda step: -barriers[-1][step]):
        seconds = statistics.median(each.get(step, 0.0) for each in barriers[1:])
        table.add_row(step, f"{seconds:.2f}", f"{seconds / unit:.2f}")
    console.print(table)
    total = statistics.median(sum(each.values()) for each in barriers[1:])
    for partitions, name in peers.items():
        seconds = statistics.median(plain[partitions][1:])
        console.print(
            f"{name} {case.rows / seconds:,.0f} rows/s, backfilled_mv {case.rows / total:,.0f}"
            f" rows/s: {seconds / total:.2f}"
        )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    arguments.add_argument("--rows", type=int, default=6_000_000)
    arguments.add_argument("--ranges", type=int, default=2)
    arguments.add_argument(
        "--partitions", type=int, default=1, help="connections that read a range"
    )
    arguments.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up")
    options = arguments.parse_args()
    programs = binaries()
    assert programs is not None, "no PostgreSQL found"
    with logical_postgresql(programs) as server:
        fill(server, options.rows)
        project = make_project(options.format)
        project.configure(server.catalog_settings("pg"))
        project.write(
            {MV: model(options.rows, options.partitions, options.ranges)},
            sources=(CHANGES,),
            files={"models/_pg.yml": SOURCES},
        )
        case = Case(project, options.rows, options.partitions, options.ranges)
        case.land()
        report(case, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
