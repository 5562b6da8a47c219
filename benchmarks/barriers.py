"""What ranges and changes cost beside the plain statements that one would have written.

A narrow MV (6 of lineitem's 16 columns, one filter) in one warm session:

* 4 ranges: four barriers beside four INSERTs of the same windows;
* 1 % of the rows, scattered: one barrier beside one MERGE of the rows that were changed;
* 3,000 rows in one window of keys: the same.

The plain MERGE is told which rows changed and in which window of keys; the barrier finds out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from lineitem import KEY, load_lineitem, make_project
from rich.console import Console
from rich.table import Table

from support.formats import FORMATS, properties_clause
from support.project import Project

COLUMNS = "l_orderkey, l_linenumber, l_partkey, l_quantity, l_extendedprice, l_shipdate"
QUERY = f"select {COLUMNS} from {{relation}} where l_quantity > 2"
RANGES = 4

console = Console()


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def model(rate_limit: int) -> str:
    config = (
        f"materialized='backfilled_mv', unique_key={KEY}, backfill_rate_limit={rate_limit}, "
        f"barriers_per_run={RANGES}"
    )
    return f"{{{{ config({config}) }}}} " + QUERY.format(
        relation="{{ source('lake', 'lineitem') }}"
    )


def insert_windows(project: Project, bounds: list[int]) -> None:
    """Four INSERTs, each of one window of keys, as plain literals."""
    for low, high in zip(bounds, [*bounds[1:], 1 << 62], strict=True):
        project.sql(
            "insert into {schema}.plain "
            + QUERY.format(relation="{schema}.lineitem")
            + f" and l_orderkey > {low} and l_orderkey <= {high}"
        )


def merge_changed(project: Project, where: str) -> None:
    """One MERGE of the rows that the update has changed, with its window of keys in ON."""
    project.sql(
        "merge into {schema}.plain as mv using ("
        + QUERY.format(relation="{schema}.lineitem")
        + f" and {where}) as changed on mv.l_orderkey = changed.l_orderkey "
        "and mv.l_linenumber = changed.l_linenumber "
        f"and {where.replace('l_orderkey', 'mv.l_orderkey')} "
        "when matched then update set * when not matched then insert *"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    arguments.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    arguments.add_argument("--rounds", type=int, default=2, help="rounds; the first is warm-up")
    options = arguments.parse_args()
    project = make_project(options.format)
    rows = load_lineitem(project, options.scale)
    console.print(f"lineitem: {rows:,} rows, {options.format}")
    project.write({"mv": model(-(-rows // RANGES))}, sources=["lineitem"])
    last = project.value("select max(l_orderkey) from {schema}.lineitem")
    bounds = [0, *(last * n // RANGES for n in range(1, RANGES))]
    scattered = "l_orderkey % 100 = 7"
    window = f"l_orderkey between {last // 2} and {last // 2 + 3000}"
    table = Table("round", "step", "plain", "barrier", "ratio")

    for number in range(options.rounds):
        for name in ("mv", "mv__progress", "mv__barriers", "plain"):
            project.sql(f"drop table if exists {{schema}}.{name}")
        project.sql(
            f"create table {{schema}}.plain using {options.format} "
            + plain_properties(options.format)
            + " as "
            + QUERY.format(relation="{schema}.lineitem")
            + " and false"
        )
        steps: list[tuple[str, float, float]] = [
            (
                f"{RANGES} ranges",
                timed(lambda: insert_windows(project, bounds)),
                timed(lambda: project.run()),
            )
        ]
        for name, where in (("1 % scattered", scattered), ("3,000 in a window", window)):
            project.sql(f"update {{schema}}.lineitem set l_quantity = l_quantity + 1 where {where}")
            steps.append(
                (
                    name,
                    timed(partial(merge_changed, project, where)),
                    timed(lambda: project.run()),
                )
            )
        for name, plain, ours in steps:
            table.add_row(
                str(number), name, f"{plain:.1f} s", f"{ours:.1f} s", f"{ours / plain:.2f}"
            )
    console.print(table)
    assert project.last is not None
    console.print("statements of the last barrier:", project.last.steps)


def plain_properties(file_format: str) -> str:
    """The plain table merges cheaply too: deletion vectors, or merge-on-read."""
    properties = FORMATS[file_format].merge_on_read(True)
    if file_format == "iceberg":
        properties["format-version"] = "3"
    return properties_clause(properties)


if __name__ == "__main__":
    main()
