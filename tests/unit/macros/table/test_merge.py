"""The numbers of rows that a MERGE has written."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros


class _Counts(list[dict[str, Any]]):
    """The result of a MERGE into a Delta table."""

    def __init__(self, **columns: Any) -> None:
        super().__init__([columns])
        self.column_names = tuple(columns)


WRITTEN = {"num_updated_rows": 5, "num_deleted_rows": 2, "num_inserted_rows": 3}

# Results without counts.
RESULTS = pytest.mark.parametrize(
    "result", [[], None, SimpleNamespace(column_names=("a",))], ids=["no rows", "none", "others"]
)


@pytest.fixture
def merged(macros: Macros, backfill: Any) -> Callable[..., Any]:
    """Return the counts of a MERGE of changes.

    Eight keys have a row in the query, and `drops` keys do not.
    """

    def merged(result: Any, drops: int = 4, guarded: bool = False) -> Any:
        staged = {"upserts": 8, "drops": drops}
        merged = {"may_give_up": guarded, "result": result}
        return macros.call("get_merge_counts", backfill, "changes", merged, staged, 1)

    return merged


def test_changed_rows_are_those_that_the_query_returns(merged: Any) -> None:
    """Only the MERGE knows how many of the dropped keys were in the MV."""
    assert merged(_Counts(**WRITTEN)) == {"changed": 8, "deleted": 2}


def test_nothing_is_asked_where_no_key_is_dropped(merged: Any) -> None:
    assert merged(_Counts(**WRITTEN), drops=0) == {"changed": 8, "deleted": 0}


@RESULTS
def test_delta_deletes_nothing_where_it_returned_nothing(merged: Any, result: Any) -> None:
    """A Delta table has no snapshots from which the counts could be read."""
    assert merged(result) == {"changed": 8, "deleted": 0}


def test_delta_tells_no_counts_in_a_script(merged: Any, backfill: Any) -> None:
    assert merged(None, guarded=True) == {"changed": 8, "deleted": "cast(null as bigint)"}
    assert merged(None, guarded=True, drops=0) == {"changed": 8, "deleted": 0}


def test_of_a_reanchor_only_the_merge_knows(macros: Macros, backfill: Any) -> None:
    merged = {"may_give_up": False, "result": _Counts(**WRITTEN)}
    counts = macros.call("get_merge_counts", backfill, "all", merged, None, 1)
    assert counts == {"changed": "5 + 3", "deleted": 2}


COUNTED = "spark.merge-into.num-target-rows-"
# Each snapshot of the MV: committed_at, and the summary with the updated, inserted and deleted
# rows.
SNAPSHOTS = [
    (1, {"updated": 90, "inserted": 90, "deleted": 90}),
    (2, {"updated": 5, "inserted": 3, "deleted": 2}),  # the changes
    (3, {"updated": 0, "inserted": 40, "deleted": 0}),  # the range
    (4, {}),  # for example, a compaction
]


@pytest.fixture
def count(
    macros: Macros,
    backfill: Any,
    staged: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    duck: Duck,
) -> Callable[..., Any]:
    """Return the counts that the commit of a plan finds for its MERGEs into an Iceberg table."""
    macros.config["file_format"] = "iceberg"
    macros.context["model"] = SimpleNamespace(name="mv")

    def count(reanchor: bool = False, **plan: Any) -> dict[str, int]:
        backfill["options"]["file_format"] = "iceberg"
        made = make_plan(kind="reanchor" if reanchor else "advance", reason="so", **plan)
        planned = {"plan": made, "staged": {**staged, "upserts": 8, "drops": 4}}
        macros.results = [[["k", "bigint"], ["shard", "int"]]]
        counts = macros.call("run_steps", backfill, make_state(), None, None, planned)["counts"]
        duck.create(
            "lake.mv.snapshots",
            {"committed_at": "int", "summary": "map<string, string>"},
            [
                (committed_at, {COUNTED + name: str(rows) for name, rows in summary.items()})
                for committed_at, summary in SNAPSHOTS
            ],
        )
        return {
            name: duck.rows(f"select {expression}")[0][0] for name, expression in counts.items()
        }

    return count


def test_iceberg_notes_them_in_the_snapshot_before_that_of_the_range(count: Any) -> None:
    assert count(range_row_count=40) == {"changed": 8, "deleted": 2}


@pytest.mark.parametrize("plan", [{"range_row_count": 0}, {"range_row_count": None}])
def test_iceberg_notes_them_in_the_newest_snapshot_where_no_range_was_merged(
    count: Any, plan: Any
) -> None:
    assert count(**plan) == {"changed": 8, "deleted": 0}


def test_iceberg_notes_them_in_the_newest_snapshot_where_the_range_was_merged_with_them(
    count: Any,
) -> None:
    assert count(range_row_count=40, at_once=True) == {"changed": 8, "deleted": 0}


def test_iceberg_notes_a_reanchor_in_the_newest_snapshot(count: Any) -> None:
    assert count(reanchor=True) == {"changed": 40, "deleted": 0}


def test_iceberg_notes_a_limited_reanchor_in_the_snapshot_before_that_of_its_removal(
    count: Any,
) -> None:
    assert count(reanchor=True, touched=[["5", "6"]]) == {"changed": 8, "deleted": 2}
