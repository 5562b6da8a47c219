"""Show the output of the run-operation `backfill_progress` to people and to programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from dbt.adapters.spark_backfill.cli.project import DbtProject

Row = dict[str, Any]

DONE, OPEN = "█", "░"
FINISHED, READ, NO_ROWS = "█", "▒", "·"

OTHER_COLUMNS = 62
"""The width of a table without the first column."""


def read_rows(project: DbtProject, models: Sequence[str] = (), by: str | None = None) -> list[Row]:
    """Return a row per MV, or per vnode; see docs/progress.md for its columns.

    :raises DbtFailed: if the operation fails
    """
    arguments: dict[str, Any] = {"format": "json"}
    if models:
        arguments["models"] = list(models)
    if by is not None:
        arguments["by"] = by
    return project.read_json("backfill_progress", **arguments)


def make_table(rows: Sequence[Row], width: int) -> Table:
    """Return one line per MV.

    If the terminal has 80 columns or more, only long names of models are shortened.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    name_width = max(8, width - OTHER_COLUMNS)
    table.add_column("model", overflow="ellipsis", no_wrap=True, max_width=name_width)
    table.add_column("backfilled", no_wrap=True, min_width=16)
    for name, width in (("rows", 13), ("rows/s", 7), ("left", 8), ("lag", 7)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    for row in rows:
        table.add_row(
            name_of(row),
            Text.assemble(bar(row["progress"], 8), f" {percent(row)}"),
            number(row.get("row_count") or 0, 1e9),
            "-" if row.get("rows_per_second") is None else number(row["rows_per_second"], 1e6),
            state(row),
            lag(row),
        )
    return table


def name_of(row: Row) -> str:
    return str(row["model"]) + (" (next)" if row.get("generation") else "")


def number(value: float, whole: float) -> str:
    """Return the exact number if it is below `whole`, else the number in millions or billions."""
    if value < whole - 0.5:
        return f"{value:,.0f}"
    return f"{value / 1e6:,.1f} M" if value < 999_949_999 else f"{value / 1e9:,.1f} G"


def share(row: Row) -> float:
    """Return the share that is backfilled, from 0 to 1. It is 1 only if the MV has finished."""
    return 1.0 if row["backfill_finished"] else min(row["progress"] or 0.0, 0.999)


def percent(row: Row) -> str:
    return f"{share(row) * 100:5.1f} %"


def state(row: Row) -> str:
    """Return the time left, or `finished` or `paused`."""
    if row["backfill_finished"]:
        return "finished"
    if row.get("paused"):
        return "paused"
    return duration(row.get("seconds_left"))


def lag(row: Row) -> str:
    """Return the time since the commit of the oldest version that the MV does not show yet."""
    if row.get("behind") is None:
        return "?"
    return "0" if row["behind"] == 0 else duration(row.get("behind_seconds"))


def bar(share: float | None, width: int) -> Text:
    done = int((share or 0.0) * width)
    return Text.assemble((DONE * done, "cyan"), (OPEN * (width - done), "dim"))


def duration(seconds: float | None) -> str:
    """Return seconds in the format of the barriers' lines, or in days from a hundred hours on."""
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 360_000:
        return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:,.0f} d"


def vnode_map(rows: Sequence[Row], width: int = 64, lines: int = 4) -> Text:
    """Return one character per vnode. If the lines are too short, a character stands for several.

    A character for several vnodes shows only what is true of all of them.
    """
    ordered = sorted(rows, key=lambda row: int(row["vnode"]))
    each = -(-len(ordered) // (width * lines)) or 1
    shown = Text()
    for place, first in enumerate(range(0, len(ordered), each)):
        if place and place % width == 0:
            shown.append("\n")
        group = ordered[first : first + each]
        if all(row["backfill_finished"] for row in group):
            shown.append(FINISHED, "cyan")
        elif all(row["backfill_finished"] or row.get("row_count") for row in group):
            shown.append(READ, "cyan")
        else:
            shown.append(NO_ROWS, "dim")
    return shown


def vnode_heading(row: Row, rows: Sequence[Row], width: int = 64, lines: int = 4) -> Text:
    """Return the text above the map of an MV."""
    each = -(-len(rows) // (width * lines)) or 1
    finished = sum(bool(row["backfill_finished"]) for row in rows)
    told = f"  {finished:,} of {len(rows):,} vnodes finished"
    heading = Text.assemble(
        (name_of(row), "bold"), told, f" ({each} per character)" if each > 1 else ""
    )
    heading.no_wrap, heading.overflow = True, "ellipsis"
    return heading


def legend() -> Text:
    return Text(f"{FINISHED} finished  {READ} rows were read  {NO_ROWS} none yet", "dim")
