"""Compare a small barrier with one plain MERGE of the same rows, in one warm session.

Each barrier reads a range of 5,000 rows and merges 50 changed keys. The plain MERGE knows these
rows and merges them into a copy of the MV. Both are repeated until the driver has compiled its own
code. Then they are measured alternately. The figures are medians and ratios of medians.
"""

from __future__ import annotations

import argparse
import statistics

from clock import Clock, timed
from lineitem import count_differing, make_project, plain_properties
from rich.console import Console
from rich.table import Table

from support.project import Project, intercepted

RANGE = 5_000
CHANGED = 50
COLUMNS = "id, name, amount, at"
COPY = "plain"
IDLE = ("--vars", "{limit: 0}", "--target-path", "target/idle")  # dbt parses only once

console = Console()


def create_tables(project: Project, barriers: int) -> None:
    rows = (barriers + 4) * RANGE
    project.create_table("events", "id bigint, name string, amount double, at timestamp")
    project.sql(
        "insert into {schema}.events select id, concat('event ', id), id / 7, "
        f"timestamp_seconds(id * 60) from range({rows})"
    )
    project.sql(
        f"create table {{schema}}.{COPY} using {project.file_format} "
        f"{plain_properties(project.file_format)} "
        f"as select {COLUMNS} from {{schema}}.events where false"
    )
    config = (
        f"materialized='backfilled_mv', unique_key='id', backfill_rate_limit=var('limit', {RANGE})"
    )
    query = f"select {COLUMNS} from {{{{ source('lake', 'events') }}}} where amount >= 0"
    project.write({"mv": f"{{{{ config({config}) }}}} {query}"}, sources=["events"])


def change(project: Project, number: int) -> str:
    """Change 50 keys of the rows that were read; return a predicate of these keys."""
    step = max(1, number * RANGE // CHANGED)
    changed = f"id < {number * RANGE} and id % {step} = {number % step}"
    project.sql(f"update {{schema}}.events set amount = amount + 1 where {changed}")
    return changed


def merge(project: Project, number: int, changed: str) -> None:
    """Send one MERGE of the changed rows and the range, with literals in its conditions."""
    low, high = number * RANGE, (number + 1) * RANGE
    project.sql(
        f"merge into {{schema}}.{COPY} as mv using ("
        f"select {COLUMNS} from {{schema}}.events where amount >= 0 "
        f"and (({changed}) or id >= {low} and id < {high})) as changed "
        f"on mv.id = changed.id and mv.id < {high} "
        "when matched then update set * when not matched then insert *"
    )


def commits(project: Project) -> int:
    tables = ("mv", "mv__progress", "mv__barriers")
    if project.file_format == "delta":
        versions = [len(project.sql(f"describe history {{schema}}.{table}")) for table in tables]
    else:
        versions = [project.value(f"select count(*) from {{schema}}.{t}.snapshots") for t in tables]
    return sum(versions)


def assert_same(project: Project) -> None:
    """Assert that the MV equals the result of the plain MERGEs, up to the lower of both last keys.

    A range has only about 5,000 rows, so the two end at different keys.
    """
    both = (
        "select {columns} from {{schema}}.{table} where id <= least("
        f"(select max(id) from {{{{schema}}}}.mv), (select max(id) from {{{{schema}}}}.{COPY}))"
    )
    mv, copy = (both.format(columns=COLUMNS, table=table) for table in ("mv", COPY))
    different = count_differing(project, mv, copy)
    assert different == 0, f"{different} rows differ from the result of the plain MERGEs"


class Rounds:
    """Medians of measurements that alternate."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.plain: list[float] = []
        self.barrier: list[float] = []
        self.idle: list[float] = []
        self.commits: list[int] = []
        self.clock = Clock()

    def play(self, number: int) -> None:
        project = self.project
        changed = change(project, number)
        before = commits(project)
        self.plain.append(timed(lambda: merge(project, number, changed)))
        with intercepted(self.clock.intercept):
            self.barrier.append(timed(project.run))
        self.commits.append(commits(project) - before)
        self.idle.append(timed(lambda: project.run(*IDLE)))
        console.print(
            f"{number}: MERGE {self.plain[-1]:.2f} s, barrier {self.barrier[-1]:.2f} s, "
            f"idle {self.idle[-1]:.2f} s"
        )

    def tables(self) -> list[Table]:
        base = statistics.median(self.plain)
        figures = Table("figure", "seconds", "plain MERGEs", title=self.project.file_format)
        figures.add_row("plain MERGE", f"{base:.2f}", "1")
        for name, seconds in (("small barrier", self.barrier), ("nothing to do", self.idle)):
            median = statistics.median(seconds)
            figures.add_row(f"dbt run, {name}", f"{median:.2f}", f"{median / base:.2f}")
        figures.add_row("commits per barrier", f"{statistics.median(self.commits):.0f}", "")
        steps = self.clock.table(
            len(self.plain), statistics.fmean(self.barrier), base, "plain MERGEs"
        )
        return [figures, steps]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--warm-up", type=int, default=20)
    options = arguments.parse_args()
    project = make_project(options.format)
    create_tables(project, options.warm_up + options.rounds)
    project.run()
    merge(project, 0, "false")
    cold, warm = Rounds(project), Rounds(project)
    for number in range(1, options.warm_up + options.rounds + 1):
        (warm if number > options.warm_up else cold).play(number)
    for table in warm.tables():
        console.print(table)
    assert_same(project)


if __name__ == "__main__":
    main()
