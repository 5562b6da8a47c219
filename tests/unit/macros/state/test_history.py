"""`<mv>__barriers`, the history of an MV for people."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

SHOWN = [
    "epoch", "plan_id", "backfill_id", "kind", "reason", "upstream_row_count", "range_low",
    "range_high", "last_range", "vnodes", "range_row_count", "sweeps", "at_once",
    "changed_row_count", "deleted_row_count", "touched", "query", "query_hash", "settings",
    "vnode_count", "backfill_mode", "backfill_rate_limit", "invocation_id", "planned_at",
    "committed_at", "sources", "upstream", "upstream_id", "upstream_version",
    "upstream_committed_at", "feed", "feed_id", "feed_version", "feed_committed_at",
    "mv_snapshot_id", "unique_key", "upstream_key", "key_types", "vnode_row_counts",
]  # fmt: skip


def test_a_row_has_these_columns(macros: Macros) -> None:
    """The history of an earlier release has the same columns, and people read them by name."""
    columns = macros.call("history_columns")

    assert [*columns["recorded"], *columns["derived"]] == SHOWN


@pytest.mark.parametrize(
    ("written", "epoch", "compacted"),
    [
        (None, 9, False),
        (None, 60, True),
        (-1, 49, False),
        (48, 49, False),
        (49, 50, True),
        (50, 51, False),
        (50, 99, False),
        (30, 170, True),
    ],
)
def test_its_files_are_made_one_when_a_multiple_of_50_is_passed(
    macros: Macros, relations: Any, written: int | None, epoch: int, compacted: bool
) -> None:
    sql = macros.call("get_history_statements", relations, written, epoch)

    assert ("optimize lake.mv__barriers" in sql) is compacted


@pytest.mark.parametrize(("written", "sent"), [(None, 1), (-1, 1), (1, 1), (2, 0), (3, 0)])
def test_a_run_writes_what_the_history_does_not_have(
    macros: Macros, backfill: Any, make_state: Any, written: int | None, sent: int
) -> None:
    """The committed epoch is 2. `written` is -1 if the history has no barrier of this MV, and None
    if the history is missing.
    """
    state = macros.call("write_history", backfill, make_state() | {"written": written})

    assert len(macros.statements) == sent
    assert state["written"] == max(written or 0, 2)
