"""The state of an MV before its first barrier."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

# The settings of a session can only be read in Spark.
SETTINGS = {"spark.sql.ansi.enabled": "false"}


@pytest.fixture
def creation(make_plan: Callable[..., Any], make_source: Callable[..., Any]) -> dict[str, Any]:
    """Return the plan of epoch 0 that the run with the id b1 makes."""
    source = make_source(id=None, version=None, committed_at=None)
    return dict(
        make_plan(
            epoch=0, plan_id="p0", kind="create", sources=[source], upstream_row_count=None,
            range_low=None, range_high=None, vnode_row_counts=None, range_row_count=None,
            next_bounds=None, bounds_complete=None, settings=SETTINGS,
        )
    )  # fmt: skip


@pytest.fixture
def first(make_plan: Callable[..., Any]) -> dict[str, Any]:
    counted = {"vnode_row_counts": "map(0, 4L)"}
    return dict(make_plan(epoch=1, plan_id="p1", counted=counted, settings=SETTINGS))


# -- the rows of the progress table -----------------------------------------------------------


@pytest.fixture
def rows(macros: Macros, duck: Duck, creation: Any) -> Callable[..., list[dict[str, Any]]]:
    """Return the rows of a new progress table. Each plan is replaced by its epoch."""

    def rows(plan: Any = None) -> list[dict[str, Any]]:
        rows = duck.records(macros.call("get_not_started_sql", creation, plan))
        for row in rows:
            for name in ("last", "plan"):
                row[name] = row[name] and json.loads(row[name])["epoch"]
        return rows

    return rows


def test_every_vnode_has_not_started(rows: Callable[..., Any]) -> None:
    assert [row["vnode"] for row in rows()] == [0, 1, 2, 3]
    for row in rows():
        started = {name: row[name] for name in ["epoch", "backfill_finished", "row_count", "dirty"]}
        assert started == {
            "epoch": 0, "backfill_finished": False, "row_count": 0, "dirty": False
        }  # fmt: skip
        assert [row[name] for name in ["upstream_version", "id", "shard"]] == [None] * 3


def test_the_barrier_that_was_committed_last_is_the_creation(rows: Callable[..., Any]) -> None:
    assert [row["last"] for row in rows()] == [0, None, None, None]
    assert {row["unwritten"] for row in rows()} == {None}


def test_nothing_is_planned_unless_there_is_a_first_barrier(rows: Callable[..., Any]) -> None:
    for row in rows():
        assert [row[name] for name in ["plan_id", "plan_kind", "plan"]] == [None] * 3


def test_the_plan_of_the_first_barrier_is_created_with_the_table(
    rows: Callable[..., Any], first: Any
) -> None:
    """If two first runs start at the same time, only one of them plans the first barrier."""
    created = rows(first)

    assert [row["last"] for row in created] == [0, None, None, None]
    assert [row["plan"] for row in created] == [1, None, None, None]
    assert {(row["plan_id"], row["plan_kind"]) for row in created} == {("p1", "advance")}
