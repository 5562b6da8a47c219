"""The fence lets a statement write only while its plan is the one to execute."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def evaluate(macros: Macros, sqlite: sqlite3.Connection) -> Callable[..., Any]:
    """What a fence gives: 1, or the error that it raises."""
    errors: list[str | None] = []

    def raise_error(message: str | None) -> None:
        errors.append(message)
        raise ValueError

    sqlite.create_function("raise_error", 1, raise_error)
    sqlite.execute("create table lake.mv__progress (vnode, epoch)")
    sqlite.execute(
        "create table lake.mv__barriers (epoch, plan_id, kind, invocation_id, planned_at)"
    )

    def evaluate(fence: str, epochs: list[int], *plans: tuple[int, str, str]) -> Any:
        sqlite.executemany("insert into lake.mv__progress values (?, ?)", enumerate(epochs))
        sqlite.executemany("insert into lake.mv__barriers values (?, ?, ?, 'run7', 'noon')", plans)
        try:
            return sqlite.execute(f"select {fence}").fetchone()[0]
        except sqlite3.OperationalError:
            return errors[-1]

    return evaluate


@pytest.fixture
def fence(
    macros: Macros, evaluate: Any, backfill: Any, make_plan: Callable[..., Any]
) -> Callable[..., Any]:
    """What the fence of plan p3, kind advance, gives."""
    return lambda *state: evaluate(macros.call("get_fence", backfill, make_plan()), *state)


OLDER = (2, "p2", "advance")


def test_a_plan_passes_while_it_is_the_next_one(fence: Callable[..., Any]) -> None:
    assert fence([2, 2], OLDER, (3, "p3", "advance")) == 1


@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_a_plan_is_stopped_once_its_epoch_is_not_the_next_one(
    fence: Callable[..., Any], epoch: int
) -> None:
    error = fence([epoch, epoch], OLDER, (3, "p3", "advance"), (4, "p4", "advance"))

    assert error == (
        "backfilled_mv mv: another run went on while this one executed the barrier 3 (advance of "
        f"invocation run7, planned at noon; committed epoch {epoch}). Nothing was written by this "
        "run; run again to continue."
    )


@pytest.mark.parametrize(("plan_id", "kind"), [("p3", "abandon"), ("p9", "advance")])
def test_a_plan_is_stopped_once_another_one_or_none_stands_in_its_place(
    fence: Callable[..., Any], plan_id: str, kind: str
) -> None:
    assert fence([2, 2], OLDER, (3, plan_id, kind)).startswith("backfilled_mv mv: another run")


def test_a_plan_that_is_gone_is_stopped(fence: Callable[..., Any]) -> None:
    assert fence([2, 2], OLDER) != 1


def test_a_repair_passes_while_its_epoch_is_the_newest(
    macros: Macros, evaluate: Any, relations: Any
) -> None:
    assert evaluate(macros.call("get_fence_of_epoch", relations, 2), [2, 2], OLDER) == 1


@pytest.mark.parametrize(
    ("epoch", "plans"), [(2, [(3, "p3", "advance")]), (3, [(3, "p3", "advance")]), (1, [])]
)
def test_a_repair_is_stopped_once_another_barrier_has_begun(
    macros: Macros, evaluate: Any, relations: Any, epoch: int, plans: Any
) -> None:
    error = evaluate(macros.call("get_fence_of_epoch", relations, 2), [epoch] * 2, OLDER, *plans)

    assert error == (
        "backfilled_mv mv: another run went on while its epoch 2 was repaired (committed epoch "
        f"{epoch}). Nothing was written; verify it again."
    )


@pytest.mark.parametrize(
    ("file_format", "clause"), [("delta", ""), ("iceberg", "when matched then update set *")]
)
def test_a_merge_that_only_inserts_has_a_matched_clause_where_conflicts_need_one(
    macros: Macros, render: Callable[..., str], file_format: str, clause: str
) -> None:
    macros.config["file_format"] = file_format

    assert render("get_matched_clause", "update set *") == clause
