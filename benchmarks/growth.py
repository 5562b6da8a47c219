"""The costs that grow with the age of an MV: small barriers at the beginning and later.

* `runs`: one barrier in each `dbt run`: the first ten against the last ten of `--barriers`. Every
  hundred barriers it also prints the memory of the driver's heap, after a garbage collection, and
  of this Python process;
* `one-run`: the same with as many barriers in one `dbt run`;
* `vnodes`: 256 vnodes against `--vnodes`;
* `versions`: a barrier after 10 versions of the upstream against a barrier after `--versions`
  versions, with the same number of new rows in all;
* `history`: a history of a few rows against a history of `--history` rows;
* `commits`: a new MV and its state against the same two tables after `--commits` commits each. On
  Delta each of these commits has a file that replaces the previous file;
* `idle`: a run with nothing to do, over an upstream with 10 versions against `--idle-versions`.

Each case compares medians of ten measurements, unless an option sets another number. It lists the
statements that make the difference. The load of the machine varies. So a query whose cost never
grows, the yardstick, is timed before each run, and the second ratio compares multiples of its time.
Spark generates no code, so that small statements are faster and their times vary less. At the end
of each case its MVs are compared with their queries.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from clock import Clock, timed
from lineitem import count_differing, make_project
from rich.console import Console
from rich.table import Table

from support.lake import SessionLake
from support.project import Proceed, Project, intercepted

RANGE = 200
CHANGED = 20
COLUMNS = "id, name, amount"
FEW_VERSIONS = 10
FEW_VNODES = 256
YARDSTICK = "select count(*) from (select id % 1000 as n, count(*) from range(300000) group by n)"
BATCH = 5_000
"""The number of versions between two checkpoints; Spark's default is ten."""
CHECKPOINT = 10
"""A setting of Delta: Spark writes a checkpoint with every tenth version."""
LARGEST = 4
"""The number of statements that are named for each case."""
PROGRESS_EVERY = 50
MEMORY_EVERY = 100

SETTINGS = {
    # As in the tests.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "3g",
    # Spark's and Delta's defaults for what they keep in memory; the tests use lower values.
    "spark.databricks.delta.delta.log.cacheSize": "10000",
    "spark.ui.retainedJobs": "1000",
    "spark.ui.retainedStages": "1000",
    "spark.ui.retainedTasks": "100000",
    "spark.sql.ui.retainedExecutions": "1000",
}

console = Console(width=120)


@dataclass(frozen=True)
class Lap:
    """The times of a barrier or of a run."""

    seconds: float
    clock: Clock
    yard: float
    """The seconds of the yardstick before this lap."""


@dataclass
class Sample:
    """Barriers, or runs, of one kind."""

    label: str
    laps: list[Lap] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(lap.seconds for lap in self.laps)

    @property
    def multiple(self) -> float:
        """Return the median of each time as a multiple of the yardstick."""
        return statistics.median(lap.seconds / lap.yard for lap in self.laps)

    def steps(self) -> dict[str, float]:
        """Return the median seconds of each statement. A lap without the statement counts as 0."""
        clocks = [lap.clock.seconds for lap in self.laps]
        return {
            name: statistics.median(sum(clock.get(name, [])) for clock in clocks)
            for name in {name for clock in clocks for name in clock}
        }


def run(project: Project, model: str) -> None:
    """Run without dbt's output, so that the output of the benchmark remains readable."""
    project.run("--quiet", "--select", model)


def timed_run(project: Project, model: str) -> Lap:
    yard, clock = timed(lambda: project.sql(YARDSTICK)), Clock()

    def intercept(sql: str, proceed: Proceed) -> None:
        # This statement has another comment for each MV of a case.
        clock.intercept(re.sub(r": describe \w+ \*/", ": describe a table */", sql), proceed)

    with intercepted(intercept):
        return Lap(timed(lambda: run(project, model)), clock, yard)


@dataclass(frozen=True)
class Comparison:
    case: str
    few: Sample
    many: Sample

    def table(self) -> Table:
        few, many = self.few, self.many
        columns = ("seconds, medians", few.label, many.label, "ratio", "of multiples")
        table = Table(*columns, title=self.case)
        multiples = f"{many.multiple / few.multiple:.2f}"
        table.add_row("all", *_figures(few.median, many.median), multiples)
        before, after = few.steps(), many.steps()
        differences = {name: after[name] - before.get(name, 0.0) for name in after}
        for name in sorted(differences, key=lambda n: -abs(differences[n]))[:LARGEST]:
            table.add_row(name, *_figures(before.get(name, 0.0), after[name]))
        return table


def _figures(few: float, many: float) -> tuple[str, str, str]:
    return f"{few:.2f}", f"{many:.2f}", f"{many / few:.2f}" if few else ""


@dataclass(frozen=True)
class Memory:
    """The MB of the driver's heap after a garbage collection, and of this Python process."""

    heap: float
    python: float

    @classmethod
    def now(cls, project: Project) -> Memory:
        gc.collect()
        assert isinstance(project.lake, SessionLake)
        jvm = project.lake.spark.sparkContext._jvm
        assert jvm is not None
        for _ in range(3):  # Spark's reference queues release memory late
            jvm.java.lang.System.gc()
            time.sleep(0.5)
        runtime = jvm.java.lang.Runtime.getRuntime()
        [resident] = [
            line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line
        ]
        heap = runtime.totalMemory() - runtime.freeMemory()
        return cls(heap / 2**20, int(resident.split()[1]) / 2**10)


class Series:
    """Barriers of one MV, one after the other. Keeps the times of the first and the last ones."""

    def __init__(self, case: str, project: Project, options: argparse.Namespace) -> None:
        self.case, self.project = case, project
        self.barriers: int = options.barriers
        self.total: int = options.warm_up + options.barriers
        self.rounds: int = options.rounds
        self.first = Sample(f"the first {self.rounds}")
        self.last = Sample(f"the last {self.rounds}")
        self.memory: list[Memory] = []
        self._done = self.barriers - self.total  # the first ones are not counted
        self._look()

    def add(self, lap: Lap) -> None:
        self._done += 1
        if 0 < self._done <= self.rounds:
            self.first.laps.append(lap)
        if self._done > self.barriers - self.rounds:
            self.last.laps.append(lap)
        self._look()

    def _look(self) -> None:
        done = self._done
        if done == 0:
            self._began = time.perf_counter()
        if done >= 0 and (done % MEMORY_EVERY == 0 or done == self.barriers):
            self.memory.append(Memory.now(self.project))
        if done > 0 and done % PROGRESS_EVERY == 0:
            left = (time.perf_counter() - self._began) / done * (self.barriers - done)
            console.print(
                f"{self.case}: {done:,} of {self.barriers:,}, {left / 60:.0f} minutes left; "
                f"heap {self.memory[-1].heap:.0f} MB"
            )

    def comparison(self) -> Comparison:
        console.print(
            f"{self.case}, MB every {MEMORY_EVERY} barriers and at the end: heap "
            + " ".join(f"{memory.heap:.0f}" for memory in self.memory)
            + "; Python "
            + " ".join(f"{memory.python:.0f}" for memory in self.memory)
        )
        return Comparison(self.case, self.first, self.last)


class Growth:
    """The cases. Each of them has its own tables."""

    def __init__(self, project: Project, options: argparse.Namespace) -> None:
        self.project, self.options = project, options
        self.turn = 0

    def prepare(self, upstream: str, rows: int, **models: str) -> None:
        """Create an upstream, and models on it with the given configurations."""
        self.project.create_table(upstream, "id bigint, name string, amount double")
        self.project.sql(
            f"insert into {{schema}}.{upstream} select id, concat('event ', id), id / 7 "
            f"from range(0, {rows}, 1, 2)"
        )
        source = f"{{{{ source('lake', '{upstream}') }}}}"
        for name, config in models.items():
            given = f"materialized='backfilled_mv', unique_key='id', {config}"
            text = f"{{{{ config({given}) }}}} select {COLUMNS} from {source} where amount >= 0"
            self.project.write({name: text}, sources=[upstream])

    def run(self, model: str, number: int, sample: Sample) -> None:
        """Run the model. Runs after the warm-up are added to the sample."""
        lap = timed_run(self.project, model)
        if number >= self.options.warm_up:
            sample.laps.append(lap)

    def change(self, upstream: str) -> None:
        """Change a few keys, all of which the first barrier has read."""
        self.turn += 1
        self.project.sql(
            f"update {{schema}}.{upstream} set amount = amount + 1 "
            f"where id < {RANGE} and id % {RANGE // CHANGED} = {self.turn % (RANGE // CHANGED)}"
        )

    def check(self, mv: str, upstream: str) -> None:
        """Run once more; then the MV must equal its query, up to its position."""
        run(self.project, mv)
        select = f"select {COLUMNS} from {{schema}}.{{table}}"
        read = f" where id <= (select max(id) from {{schema}}.{mv})"
        one, other = (
            select.replace("{table}", table) + limit
            for table, limit in ((mv, ""), (upstream, read))
        )
        different = count_differing(self.project, one, other)
        assert different == 0, f"{different} rows of {mv} differ from its query"

    # -- the cases ----------------------------------------------------------------------------

    def runs(self) -> Comparison:
        series = Series("a barrier a run", self.project, self.options)
        self.prepare("runs_of", (series.total + 4) * RANGE, runs=f"backfill_rate_limit={RANGE}")
        for _ in range(series.total):
            series.add(timed_run(self.project, "runs"))
            self.change("runs_of")
        tables = ("runs", "runs__progress", "runs__barriers")
        counts = ", ".join(f"{table} {self.project.files(table)}" for table in tables)
        console.print(f"files after {series.total:,} runs: {counts}")
        self.check("runs", "runs_of")
        return series.comparison()

    def one_run(self) -> Comparison:
        series = Series("barriers of one run", self.project, self.options)
        config = f"backfill_rate_limit={RANGE}, barriers_per_run={series.total}"
        self.prepare("one_run_of", (series.total + 4) * RANGE, one_run=config)

        def change() -> float:
            self.change("one_run_of")
            return timed(lambda: self.project.sql(YARDSTICK))

        with intercepted(_Laps(series, change).intercept):
            run(self.project, "one_run")
        self.check("one_run", "one_run_of")
        return series.comparison()

    def vnodes(self) -> Comparison:
        """Measure ranges in which nearly all vnodes have rows.

        A plan counts the rows of each vnode.
        """
        barriers = self.options.warm_up + self.options.rounds
        limit = 2 * self.options.vnodes
        configs = {
            name: f"backfill_rate_limit={limit}, vnode_count={count}"
            for name, count in (("few_vnodes", FEW_VNODES), ("many_vnodes", self.options.vnodes))
        }
        self.prepare("vnodes_of", (barriers + 4) * limit, **configs)
        few, many = Sample(f"{FEW_VNODES}"), Sample(f"{self.options.vnodes:,}")
        for number in range(barriers):
            for name, sample in zip(configs, (few, many), strict=True):
                self.run(name, number, sample)
            self.change("vnodes_of")
        for name in configs:
            self.check(name, "vnodes_of")
        return Comparison("vnodes", few, many)

    def versions(self) -> Comparison:
        """Measure an MV that has read all rows, so that each new row is a change."""
        self.prepare("versions_of", RANGE, versions="")
        run(self.project, "versions")
        many = self.options.versions
        samples = {count: Sample(f"{count:,}") for count in (FEW_VERSIONS, many)}
        for _ in range(self.options.warm_up):
            self._follow(FEW_VERSIONS)
        for _ in range(self.options.rounds_of_versions):
            for count, sample in samples.items():
                sample.laps.append(self._follow(count))
        self.check("versions", "versions_of")
        return Comparison("versions to follow", *samples.values())

    def _follow(self, versions: int) -> Lap:
        """Execute a barrier after many versions, which have `--versions` new rows in all.

        The last version is an UPDATE in Spark, whose commit writes a checkpoint. A barrier that is
        not measured first reads all older versions.
        """
        self.align("versions_of", versions)
        self.change("versions_of")
        run(self.project, "versions")
        self.append("versions_of", versions - 1, self.options.versions)
        self.change("versions_of")
        return timed_run(self.project, "versions")

    def history(self) -> Comparison:
        rounds = self.options.rounds
        barriers = self.options.warm_up + 2 * rounds
        self.prepare("history_of", (barriers + 4) * RANGE, history=f"backfill_rate_limit={RANGE}")
        few, many = Sample("a few"), Sample(f"{self.options.history:,}")
        for number in range(barriers):
            if number == self.options.warm_up + rounds:
                self._lengthen_history()
            sample = many if number >= self.options.warm_up + rounds else few
            self.run("history", number, sample)
            self.change("history_of")
        self.check("history", "history_of")
        return Comparison("rows of the history", few, many)

    def commits(self) -> Comparison:
        rounds, warm_up = self.options.rounds, self.options.warm_up
        config = f"backfill_rate_limit={RANGE}"
        self.prepare("commits_of", (warm_up + 2 * rounds + 4) * RANGE, commits=config)
        few, many = Sample("a few"), Sample(f"{self.options.commits:,}")
        for number in range(warm_up + 2 * rounds):
            if number == warm_up + rounds:
                for table in ("commits", "commits__progress"):
                    self.align(table, self.options.commits)
                    self._replace_files(table, self.options.commits)
            sample = many if number >= warm_up + rounds else few
            self.run("commits", number, sample)
            self.change("commits_of")
        self.check("commits", "commits_of")
        return Comparison("commits of the MV and of its state", few, many)

    def _lengthen_history(self) -> None:
        """Add the rows of earlier barriers to the history.

        On Delta they are compacted into one file, like every 50th barrier does.
        """
        assert isinstance(self.project.lake, SessionLake)
        table = "{schema}.history__barriers"
        columns = self.project.lake.columns(table.replace("{schema}", self.project.schema))
        shown = ", ".join("epoch - n" if name == "epoch" else name for name in columns)
        newest = f"(select * from {table} order by epoch desc limit 1)"
        numbers = f"(select explode(sequence(1000, 999 + {self.options.history})) as n)"
        self.project.sql(f"insert into {table} select {shown} from {newest}, {numbers}")
        if self.project.file_format == "delta":
            seconds = timed(lambda: self.project.sql(f"optimize {table}"))
            console.print(
                f"compacting a history of {self.options.history:,} rows, which every 50th barrier "
                f"does: {seconds:.2f} s"
            )

    def idle(self) -> Comparison:
        samples = []
        for name, count in (("few", FEW_VERSIONS), ("many", self.options.idle_versions)):
            self.prepare(f"idle_{name}_of", RANGE, **{f"idle_{name}": ""})
            self.age(f"idle_{name}_of", count)
            run(self.project, f"idle_{name}")
            samples.append(Sample(f"{count:,}"))
        counts: dict[str, list[float]] = {"few": [], "many": []}
        for number in range(self.options.warm_up + self.options.rounds):
            for name, sample in zip(("few", "many"), samples, strict=True):
                self.run(f"idle_{name}", number, sample)
                count = f"select count(*) from {{schema}}.idle_{name}_of"
                seconds = timed(partial(self.project.sql, count))
                if number >= self.options.warm_up:
                    counts[name].append(seconds)
        few, many = map(statistics.median, counts.values())
        console.print(f"select count(*) of the two upstreams: {few:.2f} and {many:.2f} s")
        for name in ("few", "many"):
            self.check(f"idle_{name}", f"idle_{name}_of")
        return Comparison("nothing to do, versions", *samples)

    # -- versions -----------------------------------------------------------------------------

    def append(self, table: str, versions: int, rows: int) -> None:
        """Make several commits, with `rows` new rows in all."""
        began, key = time.perf_counter(), self._next_key(table) if rows else 0
        bounds = [rows * number // versions for number in range(versions + 1)] if versions else []
        counts = [end - start for start, end in pairwise(bounds)]
        if self.project.file_format == "delta":
            place = self.project.lake.location(self.project.schema, table)
            DeltaLog(place, self._newest(table), key).append(counts)
        elif rows:
            for start, end in pairwise(bounds):
                self.project.sql(
                    f"insert into {{schema}}.{table} select id, 'new', 1D "
                    f"from range({key + start}, {key + end}, 1, 1)"
                )
        else:
            self._append_nothing(table, versions)
        if (seconds := time.perf_counter() - began) > 1:
            console.print(f"{versions:,} versions of {table} in {seconds:.0f} s")

    def _replace_files(self, table: str, versions: int) -> None:
        """Make several commits without rows.

        On Delta, each has a file that replaces the previous file.

        A barrier replaces the file of the state, and Delta keeps the names of old files for a week.
        """
        if self.project.file_format != "delta":
            self.append(table, versions, 0)
            return
        place = self.project.lake.location(self.project.schema, table)
        DeltaLog(place, self._newest(table), 0).replace_files(versions)

    def age(self, table: str, versions: int) -> None:
        """Give the table this number of versions in all. Most of them change nothing."""
        made = 1
        if self.project.file_format == "delta":
            self.align(table, 0)
            self.change(table)  # a commit of Spark, which writes a checkpoint
            made = self._newest(table)
            place = self.project.lake.location(self.project.schema, table)
            while made + BATCH < versions:
                self.append(table, BATCH, 0)
                made += BATCH
                DeltaLog(place, made, 0).repeat_checkpoint()
        self.append(table, max(versions - made - 1, 0), 0)
        self.change(table)

    def align(self, table: str, versions: int) -> None:
        """Make empty commits so that, after `versions` more, the next one writes a checkpoint."""
        if self.project.file_format == "delta":
            self.append(table, -(self._newest(table) + versions + 1) % CHECKPOINT, 0)

    def _newest(self, table: str) -> int:
        return int(self.project.current_version(table) or 0)

    def _append_nothing(self, table: str, versions: int) -> None:
        """Make empty commits by Iceberg's own interface, which needs no Spark job."""
        assert isinstance(self.project.lake, SessionLake)
        spark = self.project.lake.spark
        iceberg = spark.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
        name = f"lake.{self.project.schema}.{table}"
        opened = iceberg.loadIcebergTable(spark._jsparkSession, name)
        for _ in range(versions):
            opened.newFastAppend().commit()

    def _next_key(self, table: str) -> int:
        return int(self.project.value(f"select max(id) + 1 from {{schema}}.{table}"))


class _Laps:
    """Measure the time from one commit of a run to the next, without the time of the yardstick.

    :param between: returns the time of the yardstick
    """

    def __init__(self, series: Series, between: Callable[[], float]) -> None:
        self.series, self.between = series, between
        self._begin(between())

    def _begin(self, yard: float) -> None:
        self._yard, self._clock, self._began = yard, Clock(), time.perf_counter()

    def intercept(self, sql: str, proceed: Proceed) -> None:
        self._clock.intercept(sql, proceed)
        if ": commit the barrier" in sql:
            self.series.add(Lap(time.perf_counter() - self._began, self._clock, self._yard))
            self._begin(self.between())


@dataclass
class DeltaLog:
    """Writes commits directly as files into a table's log, some thousands in a second."""

    place: Path
    version: int
    """The newest version."""
    key: int
    """The number of the next row."""

    def append(self, counts: Sequence[int]) -> None:
        """Make a commit for each count. It adds a file with this number of rows; 0 adds nothing."""
        for version, rows in enumerate(counts, start=self.version + 1):
            actions: list[dict[str, object]] = [{"add": self._add(version, rows)}] if rows else []
            self._write(version, *actions)

    def replace_files(self, commits: int) -> None:
        """Make commits that each add a file and remove the previous file.

        The last commit adds no file.
        """
        last, name = self.version + commits, "replaced-{}.parquet"
        for version in range(self.version + 1, last + 1):
            told = {"partitionValues": {}, "size": 10_000, "dataChange": True}
            now = int(time.time() * 1000)
            added = {"path": name.format(version), "modificationTime": now, **told}
            removed = {"path": name.format(version - 1), "deletionTimestamp": now, **told}
            actions: list[dict[str, object]] = []
            if version > self.version + 1:
                actions.append({"remove": removed | {"extendedFileMetadata": True}})
            if version < last:
                actions.append({"add": added | {"stats": json.dumps({"numRecords": 1})}})
            self._write(version, *actions)

    def _write(self, version: int, *actions: dict[str, object]) -> None:
        entry = {
            "timestamp": int(time.time() * 1000),
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
        }
        name = self.place / "_delta_log" / f"{version:020}.json"
        name.write_text("\n".join(map(json.dumps, [{"commitInfo": entry}, *actions])))

    def repeat_checkpoint(self) -> None:
        """Copy the last checkpoint as the checkpoint of the newest version.

        This is only right if no later version changes rows. Spark would need minutes to write a
        checkpoint of some thousand commits.
        """
        log = self.place / "_delta_log"
        last = json.loads((log / "_last_checkpoint").read_text())
        name = "{:020}.checkpoint.parquet"
        shutil.copy(log / name.format(last["version"]), log / name.format(self.version))
        last.pop("checksum", None)
        (log / "_last_checkpoint").write_text(json.dumps(last | {"version": self.version}))

    def _add(self, version: int, rows: int) -> dict[str, object]:
        keys = range(self.key, self.key + rows)
        self.key += rows
        columns = {"id": pa.array(keys, pa.int64()), "name": ["new"] * rows, "amount": [1.0] * rows}
        file = self.place / f"appended-{version}.parquet"
        pq.write_table(pa.table(columns), file)
        return {
            "path": file.name,
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows}),
        }


CASES: dict[str, Callable[[Growth], Comparison]] = {
    "runs": Growth.runs,
    "one-run": Growth.one_run,
    "vnodes": Growth.vnodes,
    "versions": Growth.versions,
    "history": Growth.history,
    "commits": Growth.commits,
    "idle": Growth.idle,
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    arguments.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    arguments.add_argument("--barriers", type=int, default=100)
    arguments.add_argument("--vnodes", type=int, default=32_768)
    arguments.add_argument("--versions", type=int, help="default 10,000, on Iceberg 300")
    arguments.add_argument("--history", type=int, default=100_000)
    arguments.add_argument("--commits", type=int, default=2_000)
    arguments.add_argument("--idle-versions", type=int, help="default 100,000, on Iceberg 300")
    arguments.add_argument("--rounds", type=int, default=10, help="measurements of each median")
    arguments.add_argument("--rounds-of-versions", type=int, default=3)
    arguments.add_argument("--warm-up", type=int, default=10, help="barriers that are not counted")
    options = arguments.parse_args()
    on_delta = options.format == "delta"
    options.versions = options.versions or (10_000 if on_delta else 300)
    options.idle_versions = options.idle_versions or (100_000 if on_delta else 300)
    project = make_project(options.format, SETTINGS)
    project.keeps_statements = False
    growth = Growth(project, options)
    for case in options.cases:
        console.print(CASES[case](growth).table())


if __name__ == "__main__":
    main()
