"""Adoption of a large table: equal rows are not written, and different rows are found.

A table of `--rows` rows, made by `create table as`, is adopted twice. The first time it has no
differences. Then its state is dropped, 1,000 rows are changed, deleted or added, and it is adopted
again. The script prints the rows that the MERGEs of the ranges wrote, the number of files that were
not replaced, the seconds of both adoptions, and the seconds of the `create table as`.
"""

from __future__ import annotations

import argparse

from clock import timed
from lineitem import make_project
from rich.console import Console
from rich.table import Table

from support.project import Project

QUERY = "select id, cast(id % 1000 as int) as part, concat('name ', id) as name, amount from"
CONFIG = "materialized='backfilled_mv', unique_key='id', barriers_per_run='all'"
RANGES = 5

console = Console()


def prepare(project: Project, rows: int) -> float:
    """Create the upstream, and the table with the query's rows in files ordered by the key."""
    project.create_table("up", "id bigint, amount decimal(12, 2)")
    project.sql(
        "insert into {schema}.up select id, cast(id / 7 as decimal(12, 2))"
        f" from range(0, {rows}, 1, 24)"
    )
    limit = -(-rows // RANGES)
    config = f"{CONFIG}, backfill_rate_limit={limit}"
    project.write(
        {"mv": f"{{{{ config({config}) }}}}\n{QUERY} {{{{ source('lake', 'up') }}}}"},
        sources=["up"],
    )
    using = f"using {project.file_format}"
    return timed(
        lambda: project.sql(f"create table {{schema}}.mv {using} as {QUERY} {{schema}}.up")
    )


def spoil(project: Project, rows: int) -> None:
    """Change 300 rows, delete 400, and add 300 rows that the query does not return."""
    step = rows // 300
    project.sql(
        f"update {{schema}}.mv set name = 'other' where id % {step} = 1 and id < {300 * step}"
    )
    project.sql(f"delete from {{schema}}.mv where id between {rows // 2} and {rows // 2 + 399}")
    project.sql(
        "insert into {schema}.mv select -id, 0, 'surplus', 0.0"
        " from range(1, 151) union all select id, 0, 'surplus', 0.0"
        f" from range({rows + 1}, {rows + 151})"
    )


def written(project: Project, since: int) -> dict[str, int]:
    """Return the rows that the MERGEs after the first `since` ones wrote."""
    names = ("Inserted", "Updated", "Deleted")
    found: list[dict[str, int]] = []
    if project.file_format == "delta":
        history = project.sql("describe history {schema}.mv")
        for metrics in [row["operationMetrics"] for row in history if row["operation"] == "MERGE"]:
            found.append({name: int(metrics[f"numTargetRows{name}"]) for name in names})
    else:
        prefix = "spark.merge-into.num-target-rows-"
        for [summary] in project.sql(
            "select summary from {schema}.mv.snapshots order by committed_at desc"
        ):
            if f"{prefix}inserted" in summary:
                found.append({name: int(summary[prefix + name.lower()]) for name in names})
    fresh = found[: len(found) - since]
    return {name: sum(merge[name] for merge in fresh) for name in names} | {"merges": len(found)}


def files(project: Project) -> set[str]:
    column = "_file" if project.file_format == "iceberg" else "_metadata.file_path"
    return {row[0] for row in project.sql(f"select distinct {column} from {{schema}}.mv")}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    arguments.add_argument("--rows", type=int, default=10_000_000)
    options = arguments.parse_args()
    project = make_project(options.format)
    made = prepare(project, options.rows)
    shown = Table(title=f"{options.rows:,} rows, {options.format}; create table as: {made:.0f} s")
    for heading in ("adopted", "seconds", "inserted", "updated", "deleted", "files kept"):
        shown.add_column(heading)
    merges = 0
    for what in ("as it is", "with 1,000 rows that differ"):
        if what != "as it is":
            spoil(project, options.rows)
            project.operation("drop_backfill", model="mv", keep_mv=True)
        before = files(project)
        project.operation("adopt_table", model="mv")
        seconds = timed(lambda: project.run("--select", "mv"))
        counts = written(project, merges)
        merges = counts["merges"]
        kept = f"{len(before & files(project))} of {len(before)}"
        numbers = [f"{counts[name]:,}" for name in ("Inserted", "Updated", "Deleted")]
        shown.add_row(what, f"{seconds:.0f}", *numbers, kept)
    console.print(shown)
    project.operation("verify_backfill", model="mv")
    console.print(project.last.output.splitlines()[-1] if project.last else "")


if __name__ == "__main__":
    main()
