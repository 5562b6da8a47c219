"""What the run-operation `backfill_progress` tells, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from dbt.adapters.spark_backfill.cli.project import DbtProject

Row = dict[str, Any]

DONE, OPEN = "█", "░"


def read_rows(project: DbtProject, models: Sequence[str] = (), by: str | None = None) -> list[Row]:
    """A row per MV, or per vnode; see docs/operations.md for what is in it.

    :raises DbtFailed: if the operation fails
    """
    lines: list[str] = []
    arguments: dict[str, Any] = {"format": "json"}
    if models:
        arguments["models"] = list(models)
    if by is not None:
        arguments["by"] = by
    replace(project, hear=lines.append).operation("backfill_progress", **arguments)
    return [json.loads(line) for line in lines if line.startswith("{")]


def make_table(rows: Sequence[Row]) -> Table:
    """One line per MV; fits into 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", overflow="ellipsis", no_wrap=True, max_width=17)
    table.add_column("backfilled", no_wrap=True, min_width=16)
    for name, width in (("rows", 15), ("rows/s", 7), ("left", 8), ("lag", 6)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    for row in rows:
        table.add_row(
            row["model"] + (" (next)" if row.get("generation") else ""),
            Text.assemble(bar(row["progress"], 8), f" {percent(row)}"),
            f"{row.get('row_count') or 0:,}",
            "-" if row.get("rows_per_second") is None else f"{row['rows_per_second']:,.0f}",
            state(row),
            lag(row),
        )
    return table


def percent(row: Row) -> str:
    """100.0 % only of one that has finished."""
    shown = 1.0 if row["backfill_finished"] else min(row["progress"] or 0.0, 0.999)
    return f"{shown * 100:5.1f} %"


def state(row: Row) -> str:
    """The time left, or why there is none."""
    if row["backfill_finished"]:
        return "finished"
    if row.get("paused"):
        return "paused"
    return duration(row.get("seconds_left"))


def lag(row: Row) -> str:
    """How long ago the first version was committed that the MV has not come to."""
    if row.get("behind") is None:
        return "?"
    return "0" if row["behind"] == 0 else duration(row.get("behind_seconds"))


def bar(share: float | None, width: int) -> Text:
    done = int((share or 0.0) * width)
    return Text.assemble((DONE * done, "cyan"), (OPEN * (width - done), "dim"))


def duration(seconds: float | None) -> str:
    """As the barriers' lines have it."""
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def vnode_map(rows: Sequence[Row], width: int = 64) -> Text:
    """A character per vnode: finished, begun, or not started."""
    shown = Text()
    for number, row in enumerate(sorted(rows, key=lambda row: int(row["vnode"]))):
        if number and number % width == 0:
            shown.append("\n")
        if row["backfill_finished"]:
            shown.append("█", "cyan")
        elif row.get("row_count"):
            shown.append("▒", "cyan")
        else:
            shown.append("·", "dim")
    return shown
