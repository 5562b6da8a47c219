"""Backfill a table of a live PostgreSQL while applications write to it, and check every barrier.

Nothing is installed in the database and nothing is locked. The script starts Spark's Thrift server
and `dbt-backfill land`, which lands the changes of a replication slot through this server. Then it
repeats `dbt run`. After each barrier the MV is compared with the expected rows. To compute these
rows, the script reads a second slot that nothing else reads, and replays the slot's events in
memory up to the position that the barrier reports.

PostgreSQL's cluster is in a temporary directory, and everything else in `.lake`. Each start empties
`.lake`. The script exits with 1 if a step fails or a check finds a difference, and with 130 on
Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nyc.object_store import free_port
from nyc.runner import Dbt, StepError
from nyc.screen import Screen, take_over_output
from nyc.thrift_server import HOST, POSTGRESQL, ThriftServer, ThriftServerError
from pyhive import hive
from rich import box
from rich.table import Table

from exactness.oracle import describe_difference
from exactness.postgres_truth import Truth
from support.postgres import Database, binaries, logical_postgresql
from support.writers import Writers, orders

HERE = Path(__file__).resolve().parent
LAKE = Path(".lake")
LOG = Path("logs/demo.log")
SLOT = "orders_changes"
MV = "shop.paid_orders"
KEYS = 30_000
WRITERS = 6
TRANSACTIONS_PER_SECOND = 60
AFTERWARDS = 3
"""The number of barriers that only merge changes, because all rows have been read."""
# The tables are small, so compiling a statement would take longer than executing it.
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
}
SUMMARY_COLUMNS = (
    "barrier",
    "position",
    "backfilled",
    "changed",
    "deleted",
    "rows",
    "wrong",
    "time",
)
INSTALL = "apt-get install --yes --no-install-recommends postgresql postgresql-15-wal2json"
MISSING = f"""No PostgreSQL found. On Debian, as root:

    {INSTALL}

or let this do it: make demo-cdc INSTALL=1"""


@dataclass(frozen=True)
class Comparison:
    """The MV after a barrier; `differences` counts missing and surplus rows."""

    rows: int
    differences: int
    described: str

    def __str__(self) -> str:
        wrong = f"{self.differences:,} wrong"
        return f"{self.rows:,} rows, {wrong}{f': {self.described}' if self.differences else ''}"


class Demo:
    """The demo, from an empty database to the summary."""

    def __init__(self, programs: Path, screen: Screen, resources: contextlib.ExitStack) -> None:
        self.programs = programs
        self.screen = screen
        self.resources = resources
        self.begun = time.monotonic()
        self.dbt = Dbt()
        self.table = orders(KEYS)
        self.comparisons: dict[int, Comparison] = {}
        """For each barrier."""
        self.seconds: Counter[int] = Counter()
        """For each barrier, even if its run has not committed it yet."""

    def run(self) -> bool:
        """Play the demo; return True if no check found a difference."""
        self.start_database()
        self.start_spark()
        self.start_landing()
        self.screen.heading(f"{WRITERS} applications write; dbt run --select paid_orders")
        with Writers(self.dsn, self.table, WRITERS, TRANSACTIONS_PER_SECOND, "demo") as writers:
            while not self.finished():
                self.run_barrier()
            self.screen.heading("All has been read; from now on only changes are")
            for _ in range(AFTERWARDS):
                self.run_barrier()
        self.screen.line(
            f"{writers.committed:,} transactions were committed meanwhile, "
            f"{sum(writers.rolled_back.values()):,} rolled back"
        )
        return self.summarize()

    def start_database(self) -> None:
        self.screen.heading("A PostgreSQL of its own, with a table of orders")
        with self.screen.step("starting PostgreSQL") as step:
            self.database: Database = self.resources.enter_context(
                logical_postgresql(self.programs)
            )
            self.truth = Truth.begin(self.dsn)
            with self.database.connect() as connection:
                connection.execute(self.table.create)
                self.table.fill(connection, KEYS)
            [(rows,)] = self.database.sql("select count(*) from orders")
            [(version,)] = self.database.sql("show server_version")
            step.append(f"PostgreSQL {version.split()[0]} started; orders has {rows:,} rows")

    def start_spark(self) -> None:
        with self.screen.step("starting Spark's Thrift server; fetches jars first") as step:
            port = free_port()
            self.resources.enter_context(
                ThriftServer(
                    LAKE,
                    port,
                    settings=SMALL | self.database.catalog_settings("pg"),
                    packages=[POSTGRESQL],
                )
            )
            os.environ["SHOP_PORT"] = str(port)
            lake = self.resources.enter_context(contextlib.closing(hive.connect(HOST, port=port)))
            self.cursor = self.resources.enter_context(contextlib.closing(lake.cursor()))
            self.sql("create schema if not exists shop")
            step.append("Spark's Thrift server started; pg.public.orders is its table too")
        with self.screen.step("parsing the project"):
            self.dbt.invoke("deps")
            self.dbt.reuse_manifest()

    def start_landing(self) -> None:
        with self.screen.step("starting dbt-backfill land --every 1s") as step:
            command = [
                str(Path(sys.executable).with_name("dbt-backfill")),
                *("land", "--every", "1s"),
            ]
            with (LOG.parent / "land.log").open("w") as log:
                landing = subprocess.Popen(
                    command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
            self.resources.callback(stop, landing)
            while not self.lands():
                if landing.poll() is not None:
                    raise StepError((LOG.parent / "land.log").read_text())
                time.sleep(0.5)
            step.append(f"the slot {SLOT} lands in shop.orders_changes")

    def lands(self) -> bool:
        return self.has("orders_changes") and bool(
            self.sql("select 1 from shop.orders_changes limit 1")
        )

    def has(self, table: str) -> bool:
        return any(name == table for _, name, *_ in self.sql("show tables in shop"))

    def run_barrier(self) -> None:
        begun = time.monotonic()
        with self.screen.step("running the barrier") as step:
            self.dbt.invoke("run", "--select", "paid_orders")
            step.extend(self.dbt.lines)
        seconds = time.monotonic() - begun
        if not self.has("paid_orders__progress"):  # changes have not landed yet
            return
        with self.screen.step("comparing with the truth") as step:
            [(epoch, *position)] = self.sql(f"select * from {POSITION}")
            if position[0] is None:
                return
            self.seconds[epoch] += round(seconds)
            self.comparisons[epoch] = self.compare(*position)
            step.append(f"compared with the truth: {self.comparisons[epoch]}")

    def finished(self) -> bool:
        if not self.comparisons:
            return False
        return all(finished for (finished,) in self.sql(f"select finished from {POSITION}"))

    def compare(self, version: str, finished: bool, last: int | None) -> Comparison:
        """Compare the MV, up to its position, with its query over the expected rows."""
        truth = self.truth.at("orders", int(version))
        wanted = Counter(
            (row["id"], row["amount"] * 100, row["label"])
            for row in truth.values()
            if (row["amount"] or 0) > 0 and (finished or row["id"] <= last)
        )
        found = Counter(self.sql(f"select id, cents, label from {MV}"))
        differences = sum(((found - wanted) + (wanted - found)).values())
        return Comparison(
            sum(found.values()), differences, describe_difference(found, wanted, limit=2)
        )

    def summarize(self) -> bool:
        self.screen.heading("Summary")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False)
        for title in SUMMARY_COLUMNS:
            table.add_column(title, justify="right", no_wrap=True)
        barriers = self.sql(
            "select epoch, upstream_version, range_row_count, changed_row_count, "
            f"deleted_row_count from {MV}__barriers where epoch > 0 order by epoch"
        )
        for epoch, version, *counts in barriers:
            comparison = self.comparisons[epoch]
            counts += [comparison.rows, comparison.differences]
            position = f"{int(version) >> 32:X}/{int(version) & 0xFFFFFFFF:X}"
            table.add_row(
                str(epoch), position, *(f"{n or 0:,}" for n in counts), f"{self.seconds[epoch]} s"
            )
        self.screen.console.print(table)
        self.screen.console.print()
        differences = sum(each.differences for each in self.comparisons.values())
        last = self.comparisons[max(self.comparisons)]
        self.screen.line(
            f"{len(self.comparisons)} barriers, {last.rows:,} rows, "
            f"{differences:,} rows wrong, {time.monotonic() - self.begun:.0f} s in all",
            style="bold red" if differences else "bold green",
        )
        return differences == 0

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(statement)
        return [tuple(row) for row in self.cursor.fetchall()] if self.cursor.description else []

    @property
    def dsn(self) -> str:
        return self.database.url.removeprefix("jdbc:")


POSITION = (
    "(select distinct epoch, upstream_version, backfill_finished as finished, id from "
    f"{MV}__progress) as position"
)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def find_programs() -> Path | None:
    """Return the directory of PostgreSQL's programs; print a message and return None if missing."""
    if binaries() is None and os.environ.get("INSTALL") and os.geteuid() == 0:
        subprocess.run(INSTALL.split(), check=True)
    if binaries() is None:
        print(MISSING, file=sys.stderr)
        return None
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        print("No Java found. Install Java 17, or set JAVA_HOME.", file=sys.stderr)
        return None
    return binaries()


def main() -> int:
    os.chdir(HERE)
    programs = find_programs()
    if programs is None:
        return 1
    shutil.rmtree(LAKE, ignore_errors=True)
    console = take_over_output(LOG)
    with contextlib.ExitStack() as resources:
        demo = Demo(programs, Screen(console), resources)
        try:
            return 0 if demo.run() else 1
        except KeyboardInterrupt:
            console.print("\nStopped. The next start begins again with an empty lake.")
            return 130
        except Exception as error:
            if not isinstance(error, (StepError, ThriftServerError)):
                traceback.print_exc()
            console.print(f"\n{error}", style="red", markup=False)
            console.print(f"More is in example_cdc/{LOG} and example_cdc/logs/.")
            return 1


if __name__ == "__main__":
    sys.exit(main())
