"""Compare a first, unlimited run with `create table as select`, over TPC-H lineitem.

Both models run in this process and in one Spark session. A driver that has just started compiles
its own code for minutes. So both models first run several rounds over a small table. The printed
times show when they no longer decrease. One more round is not counted.
"""

from __future__ import annotations

import statistics

from clock import timed
from lineitem import KEY, SMALL, SMALL_ROWS, copy_rows, load_lineitem, make_parser, make_project
from rich.console import Console
from rich.table import Table

from support.project import Project


def models(upstream: str) -> dict[str, str]:
    """Return two models of all rows of a table, as `table` and as `backfilled_mv`."""
    query = f" select * from {{{{ source('lake', '{upstream}') }}}}"
    return {
        f"{upstream}_plain": "{{ config(materialized='table') }}" + query,
        f"{upstream}_mv": f"{{{{ config(materialized='backfilled_mv', unique_key={KEY}) }}}}"
        + query,
    }


console = Console()


def timed_run(project: Project, model: str) -> float:
    return timed(lambda: project.run("--select", model))


def steps(project: Project) -> list[str]:
    """Return the statements of the last run, with their seconds."""
    assert project.last is not None
    return project.last.steps


def timed_round(project: Project, upstream: str) -> tuple[float, float]:
    """Return the seconds of `create table as` and of a first run. Both create their tables."""
    for suffix in ("mv", "mv__progress", "mv__barriers", "plain"):
        project.sql(f"drop table if exists {{schema}}.{upstream}_{suffix}")
    plain = timed_run(project, f"{upstream}_plain")
    return plain, timed_run(project, f"{upstream}_mv")


def main() -> None:
    arguments = make_parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up")
    arguments.add_argument("--warm-up", type=int, default=20, help="rounds over a small table")
    options = arguments.parse_args()
    project = make_project(options.format)
    console.print(f"lineitem: {load_lineitem(project, options.scale):,} rows, {options.format}")
    copy_rows(project, SMALL, SMALL_ROWS)
    project.write(models("lineitem") | models(SMALL), sources=["lineitem", SMALL])
    for number in range(options.warm_up):
        plain, first = timed_round(project, SMALL)
        console.print(f"warm-up {number}: {SMALL_ROWS:,} rows in {plain:.1f} s, {first:.1f} s")
    table = Table("round", "create table as", "first run", "ratio")
    ratios = []
    for number in range(options.rounds + 1):
        plain, first = timed_round(project, "lineitem")
        if number:
            ratios.append(first / plain)
        label = str(number) if number else "warm-up"
        table.add_row(label, f"{plain:.1f} s", f"{first:.1f} s", f"{first / plain:.2f}")
        console.print(f"round {label}: {plain:.1f} s, {first:.1f} s")
    console.print(table)
    console.print(f"median ratio of the first run: {statistics.median(ratios):.2f}")
    console.print("statements of the first run:", steps(project))
    idle = timed_run(project, "lineitem_mv")
    console.print(f"nothing to do: {idle:.1f} s", steps(project))


if __name__ == "__main__":
    main()
