"""How many rows a MERGE wrote, as each format tells it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


class _Counts(list[dict[str, Any]]):
    """The result of a MERGE into a Delta table."""

    def __init__(self, **columns: Any) -> None:
        super().__init__([columns])
        self.column_names = tuple(columns)


def test_delta_returns_the_rows_that_a_merge_wrote(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any]
) -> None:
    result = _Counts(
        num_affected_rows=10, num_updated_rows=5, num_deleted_rows=2, num_inserted_rows=3
    )
    counts = macros.call("get_merge_counts", backfill, make_plan(), result)

    assert counts == {"changed": 8, "deleted": 2}


# Results that tell no counts.
RESULTS = pytest.mark.parametrize(
    "result", [[], None, SimpleNamespace(column_names=("a",))], ids=["no rows", "none", "others"]
)


@RESULTS
def test_delta_counts_nothing_where_it_returned_nothing(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any], result: Any
) -> None:
    """A Delta table has no snapshots to ask."""
    counts = macros.call("get_merge_counts", backfill, make_plan(), result)

    assert counts == {"changed": 0, "deleted": 0}


# Of each snapshot of the MV: committed_at and its summary: updated, inserted, deleted.
SNAPSHOTS = [
    (1, {"updated": 90, "inserted": 90, "deleted": 90}),
    (2, {"updated": 5, "inserted": 3, "deleted": 2}),  # the changes
    (3, {"updated": 0, "inserted": 40, "deleted": 0}),  # the range
    (4, None),  # compaction, say
]


@pytest.fixture
def count(
    macros: Macros,
    backfill: Any,
    make_plan: Callable[..., Any],
    sqlite: sqlite3.Connection,
) -> Callable[..., Any]:
    """What the commit of a plan counts of a MERGE into an Iceberg table."""
    macros.config["file_format"] = "iceberg"

    def count(result: Any = None, **plan: Any) -> dict[str, int]:
        counts = macros.call("get_merge_counts", backfill, make_plan(**plan), result)
        columns = [f"summary_{name}" for name in ("updated", "inserted", "deleted")]
        sqlite.execute(f"create table snapshots (committed_at, summary, {', '.join(columns)})")
        for committed_at, summary in SNAPSHOTS:
            values = list(summary.values()) if summary else [None] * 3
            sqlite.execute("insert into snapshots values (?, '', ?, ?, ?)", [committed_at, *values])
        key = r"summary\['spark\.merge-into\.num-target-rows-(\w+)'\]"
        return {
            name: sqlite.execute(
                "select "
                + re.sub(key, r"summary_\1", expression)
                .replace("select summary,", "select *,")
                .replace("lake.mv.snapshots", "snapshots")
            ).fetchone()[0]
            for name, expression in counts.items()
        }

    return count


@RESULTS
def test_iceberg_notes_them_in_the_snapshot_before_that_of_the_range(
    count: Callable[..., Any], result: Any
) -> None:
    assert count(result, range_row_count=40) == {"changed": 8, "deleted": 2}


@pytest.mark.parametrize("row_count", [0, None])
def test_iceberg_notes_them_in_the_newest_snapshot_where_no_range_was_merged(
    count: Callable[..., Any], row_count: int | None
) -> None:
    assert count(range_row_count=row_count) == {"changed": 40, "deleted": 0}
