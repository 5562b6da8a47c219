"""What a first, unlimited run costs beside `create table as select`, over TPC-H lineitem.

Both models run in this process and in one Spark session, after one round that is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time

from lineitem import KEY, load_lineitem, make_project, statements_of_ours
from rich.console import Console
from rich.table import Table

from support.project import Project, RunResult

QUERY = " select * from {{ source('lake', 'lineitem') }}"
MODELS = {
    "plain": "{{ config(materialized='table') }}" + QUERY,
    "mv": f"{{{{ config(materialized='backfilled_mv', unique_key={KEY}) }}}}" + QUERY,
}
STATES = ("mv", "mv__progress", "mv__barriers", "plain")

console = Console()


def timed_run(project: Project, model: str) -> tuple[float, RunResult]:
    started = time.perf_counter()
    result = project.run("--select", model)
    return time.perf_counter() - started, result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    arguments.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    arguments.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up")
    options = arguments.parse_args()
    project = make_project(options.format)
    console.print(f"lineitem: {load_lineitem(project, options.scale):,} rows, {options.format}")
    project.write(MODELS, sources=["lineitem"])
    table = Table("round", "create table as", "first run", "ratio")
    ratios = []
    for number in range(options.rounds + 1):
        for name in STATES:
            project.sql(f"drop table if exists {{schema}}.{name}")
        plain, _ = timed_run(project, "plain")
        first, result = timed_run(project, "mv")
        if number:
            ratios.append(first / plain)
        label = str(number) if number else "warm-up"
        table.add_row(label, f"{plain:.1f} s", f"{first:.1f} s", f"{first / plain:.2f}")
        console.print(f"round {label}: {plain:.1f} s, {first:.1f} s")
    console.print(table)
    console.print(f"median ratio of the first run: {statistics.median(ratios):.2f}")
    console.print("statements of the first run:", statements_of_ours(result))
    idle, result = timed_run(project, "mv")
    console.print(f"nothing to do: {idle:.1f} s", statements_of_ours(result))


if __name__ == "__main__":
    main()
