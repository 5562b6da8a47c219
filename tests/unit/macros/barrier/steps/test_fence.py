"""The fence lets a statement write only while the plan of that statement is the current plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

OF_THE_MV = '{"backfill_id": "b1"}'
PLAN = '{"plan_id": "p3", "backfill_id": "b1"}'
REPAIRED = {"epoch": 2, "committed": {"backfill_id": "b1"}}
# The plan of another run, which has replaced this run's plan.
THEIRS = "advance of invocation run7, planned at noon"


@pytest.fixture
def fence(
    macros: Macros, progress: Any, backfill: Any, make_plan: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the result of the fence of plan p3 (an advance) for these progress columns."""

    def fence(**columns: Any) -> Any:
        progress.fill(**columns)
        return progress.fence(macros.call("get_fence", backfill, make_plan()))

    return fence


def _overtaken(during: str, state: str) -> str:
    return (
        f"backfilled_mv mv: another run changed the state while {during} ({state}). This "
        "statement wrote nothing; run again to continue, and let only one run of the model work "
        "at a time."
    )


def test_a_plan_passes_while_it_is_the_one_of_the_next_epoch(fence: Any, with_plan: Any) -> None:
    assert fence(**with_plan()) is True


@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_a_plan_is_stopped_once_its_epoch_is_not_the_next_one(fence: Any, epoch: int) -> None:
    assert fence(epoch=epoch) == _overtaken(
        "this run executed the barrier 3", f"committed epoch {epoch}"
    )


def test_a_plan_is_stopped_in_another_epoch_also_where_its_id_stands(
    fence: Any, with_plan: Any
) -> None:
    assert fence(epoch=3, **with_plan()) == _overtaken(
        "this run executed the barrier 3", f"committed epoch 3; {THEIRS}"
    )


@pytest.mark.parametrize(("plan_id", "kind"), [("p3", "abandon"), ("p9", "advance")])
def test_a_plan_is_stopped_once_it_was_given_up_or_another_one_stands_in_its_place(
    fence: Any, with_plan: Any, plan_id: str, kind: str
) -> None:
    assert fence(**with_plan(plan_id=plan_id, kind=kind)) == _overtaken(
        "this run executed the barrier 3",
        f"committed epoch 2; {kind} of invocation run7, planned at noon",
    )


def test_a_plan_is_stopped_where_none_stands_in_its_place(fence: Any) -> None:
    assert fence() == _overtaken("this run executed the barrier 3", "committed epoch 2")


def test_a_plan_that_is_stopped_tells_which_run_has_gone_on(fence: Any) -> None:
    assert fence(epoch=3, last='{"invocation_id": "run8"}') == _overtaken(
        "this run executed the barrier 3", "committed epoch 3 of invocation run8"
    )


def test_a_plan_that_has_the_kind_of_another_one_is_stopped(
    macros: Macros, progress: Any, backfill: Any, make_plan: Any, with_plan: Any
) -> None:
    progress.fill(**with_plan())
    fence = macros.call("get_fence", backfill, make_plan(kind="abandon"))

    assert progress.fence(fence).startswith("backfilled_mv mv: another run changed the state")


@pytest.mark.parametrize("of_epoch", [False, True])
def test_nothing_passes_without_a_state(
    macros: Macros, progress: Any, backfill: Any, make_plan: Any, of_epoch: bool
) -> None:
    fence = (
        macros.call("get_fence", backfill, None, REPAIRED)
        if of_epoch
        else macros.call("get_fence", backfill, make_plan())
    )

    assert progress.fence(fence) == (
        "backfilled_mv mv: its state is gone. This statement wrote nothing. Restore it, or drop "
        "the MV with drop_backfill."
    )


def test_a_fence_reads_one_row(
    macros: Macros, progress: Any, backfill: Any, make_plan: Any, with_plan: Any
) -> None:
    """All rows have the same epoch and plan, so the fence only reads the row of vnode 0."""
    progress.fill(with_plan(), {"epoch": 9, "plan_id": "p9", "plan_kind": "reset"})
    fence = macros.call("get_fence", backfill, make_plan())

    assert progress.fence(fence) is True


def test_a_repair_passes_while_no_barrier_has_begun(
    macros: Macros, progress: Any, relations: Any
) -> None:
    progress.fill(last=OF_THE_MV)

    assert progress.fence(macros.call("get_fence", relations, None, REPAIRED)) is True


def test_a_repair_is_stopped_once_another_mv_has_the_name(
    macros: Macros, progress: Any, relations: Any
) -> None:
    """The epochs of the other MV began at 0 again."""
    progress.fill(last='{"backfill_id": "b2"}')

    assert "was repaired" in progress.fence(macros.call("get_fence", relations, None, REPAIRED))


@pytest.mark.parametrize(("epoch", "is_planned"), [(2, True), (3, False), (3, True), (1, False)])
def test_a_repair_is_stopped_once_another_barrier_has_begun(
    macros: Macros,
    progress: Any,
    relations: Any,
    with_plan: Any,
    epoch: int,
    is_planned: bool,
) -> None:
    progress.fill(epoch=epoch, last=OF_THE_MV, **(with_plan() if is_planned else {}))
    error = progress.fence(macros.call("get_fence", relations, None, REPAIRED))

    planned = f"; {THEIRS}" if is_planned else ""
    assert error == _overtaken(
        "the MV was repaired at epoch 2", f"committed epoch {epoch}{planned}"
    )


# -- the statements that change the state -------------------------------------------------------


@pytest.mark.parametrize(("file_format", "yields"), [("delta", True), ("iceberg", False)])
def test_the_second_of_two_updates_at_once_is_no_error_where_a_handler_can_tell(
    macros: Macros, backfill: Any, options: Any, file_format: str, yields: bool
) -> None:
    """The run reads the state afterwards. Iceberg's conflict has no SQLSTATE of its own."""
    options["file_format"] = file_format
    sql = macros.call("get_state_statement", backfill, "update t set a = 1")

    assert ("exit handler for sqlstate '2D521'" in sql) is yields


@pytest.mark.parametrize(
    ("epoch", "plan", "stands"),
    [(2, PLAN, json.loads(PLAN)), (2, None, None), (3, PLAN, None)],
    ids=["it stands", "none does", "another epoch"],
)
@pytest.mark.parametrize("of_mv", ["b1", "b0"])
def test_the_plan_that_stands_is_that_of_the_epoch_and_the_mv_only(
    macros: Macros,
    duck: Duck,
    backfill: Any,
    epoch: int,
    plan: str | None,
    stands: Any,
    of_mv: str,
) -> None:
    columns = {"vnode": "int", "epoch": "bigint", "plan": "string", "last": "string"}
    rows = [(0, epoch, plan, OF_THE_MV), (1, epoch, None, None)]
    duck.create("lake.mv__progress", columns, rows)
    own = {"epoch": 3, "backfill_id": of_mv}
    [(found,)] = duck.rows(macros.call("get_next_plan_sql", backfill, own))

    assert json.loads(found) == {"plan": stands if of_mv == "b1" else None}
