"""What a plan does to the MV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

# -- the steps of a plan ----------------------------------------------------------------------


@pytest.fixture
def execute(
    macros: Macros,
    backfill: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    work: Any,
) -> Callable[..., Any]:
    """The steps that a plan takes, and what they counted."""
    steps: list[str] = []
    failing: list[str] = []

    def done(step: str, counts: Any = None) -> dict[str, Any]:
        steps.append(step)
        return {"failed": step if step in failing else None, "counts": counts}

    macros.stub("run_reset", lambda backfill, plan, columns: steps.append("reset"))
    macros.stub(
        "run_reanchor",
        lambda backfill, state, plan, work: done("reanchor", {"changed": 7}),
    )
    macros.stub("run_range", lambda backfill, state, plan, work: done("range")["failed"])
    macros.stub(
        "run_changes",
        lambda backfill, plan, work, staged: done("changes", {"changed": staged["upserts"]}),
    )
    macros.stub(
        "run_changes_and_range",
        lambda backfill, state, plan, work, staged: done("at once", {"changed": 9}),
    )
    macros.stub("run_removal", lambda backfill, plan, work: done("removal")["failed"])
    macros.stub("run_abandon", lambda backfill, plan: steps.append("abandon"))

    def staged_rows(upserts: int, drops: int = 0) -> dict[str, int]:
        return {"count": 6, "upserts": upserts, "drops": drops}

    def execute(
        staged: int | None = None,
        drops: int = 0,
        changed: int = 6,
        plan: Any = None,
        failed: str | None = None,
        **state: Any,
    ) -> Any:
        macros.stub(
            "stage_changes",
            lambda backfill, state, plan, work: {**staged_rows(changed), **done("stage")},
        )
        steps.clear()
        failing[:] = [failed] if failed else []
        made, found = make_plan(**(plan or {})), make_state(**state)
        work["staged"] = staged_rows(staged, drops) if staged is not None else None
        stages = staged is None and macros.call("has_changes", found, made)
        work["changes"] = {"events": "select"} if stages else None
        result = macros.call("execute_plan", backfill, found, made, work)
        assert result["failed"] == failed
        return list(steps), result["counts"]

    return execute


def test_changes_are_merged_before_the_range(execute: Any) -> None:
    assert execute() == (["stage", "changes", "range"], {"changed": 6})


def test_changes_that_were_staged_for_the_plan_are_not_staged_again(execute: Any) -> None:
    assert execute(staged=2) == (["changes", "range"], {"changed": 2})


def test_changes_and_a_range_are_one_step_where_the_plan_says_so(execute: Any) -> None:
    assert execute(plan={"at_once": True}) == (["stage", "at once"], {"changed": 9})


def test_a_range_alone_is_merged_as_one_though_the_plan_says_at_once(execute: Any) -> None:
    """Its changes were none when it was adopted."""
    assert execute(changed=0, plan={"at_once": True})[0] == ["stage", "range"]


def test_a_limited_reanchor_merges_changes_and_removes_what_is_above_the_position(
    execute: Any,
) -> None:
    plan = {"kind": "reanchor", "touched": [["5", "6"]], "range_row_count": None}

    assert execute(plan=plan) == (["stage", "changes", "removal"], {"changed": 6})
    assert execute(plan={**plan, "touched": []})[0][-2:] == ["stage", "changes"]


def test_nothing_is_merged_after_a_step_that_failed(
    execute: Any,
) -> None:
    limited = {"kind": "reanchor", "touched": [["5", "6"]], "range_row_count": None}

    assert execute(failed="stage") == (["stage"], {})
    assert execute(failed="changes")[0] == ["stage", "changes"]
    assert execute(failed="range")[0] == ["stage", "changes", "range"]
    assert execute(failed="at once", plan={"at_once": True})[0] == ["stage", "at once"]
    assert execute(failed="stage", plan=limited) == (["stage"], {})
    assert execute(failed="changes", plan=limited)[0] == ["stage", "changes"]
    assert execute(failed="removal", plan=limited)[0] == ["stage", "changes", "removal"]


def test_an_empty_set_of_changes_is_not_merged(execute: Any) -> None:
    assert execute(changed=0)[0] == ["stage", "range"]


def test_an_unchanged_upstream_has_no_changes(execute: Any, make_plan: Any) -> None:
    assert execute(committed=make_plan(epoch=2))[0] == ["range"]


@pytest.mark.parametrize(
    ("drops", "steps"), [(1, ["changes", "range"]), (0, ["range"])], ids=["some", "none"]
)
def test_keys_that_the_query_drops_are_changes_too(
    execute: Any, drops: int, steps: list[str]
) -> None:
    assert execute(staged=0, drops=drops)[0] == steps


def test_changes_that_a_plan_which_was_given_up_has_read_are_changes_still(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    """By hand, say, where the upstream has not gone on: nobody knows what it has merged."""
    given_up = make_plan(epoch=2, kind="abandon")  # of version 17; the MV is at 16
    state = make_state(dirty=True, upstream_version="16", committed=given_up)
    plan = make_plan(kind="reanchor", touched=[["5", "6"]])

    assert macros.call("has_changes", state, plan)


def test_changes_after_a_plan_was_given_up_are_those_since_the_last_executed_barrier(
    macros: Macros, make_state: Any, make_plan: Any, make_source: Any
) -> None:
    """Nothing is known of them where it is not noted."""
    since = {"epoch": 1, "sources": [make_source(version="16")]}
    given_up = {"kind": "abandon", "given_up": {"since": since, "plans": []}}

    def start(**committed: Any) -> Any:
        state = make_state(dirty=True, committed=make_plan(**committed))
        return macros.call("get_feed_start", state)

    assert start(**given_up) == since
    assert start(kind="abandon") is None


@pytest.mark.parametrize(
    "state",
    [{"position": None}, {"position": None, "upstream_version": None}],
    ids=["not started", "new"],
)
def test_an_mv_that_has_not_started_has_no_changes(execute: Any, state: Any) -> None:
    assert execute(**state)[0] == ["range"]


@pytest.mark.parametrize(
    "state", [{"uniform": False}, {"any_finished": True, "finished": True}], ids=["some", "all"]
)
def test_an_mv_of_which_some_vnodes_have_started_has_changes(execute: Any, state: Any) -> None:
    assert execute(position=None, **state)[0][:2] == ["stage", "changes"]


@pytest.mark.parametrize("row_count", [0, None])
def test_a_range_without_rows_is_not_merged(execute: Any, row_count: int | None) -> None:
    assert "range" not in execute(plan={"range_row_count": row_count})[0]


def test_a_reanchor_is_the_only_step_of_its_barrier(execute: Any) -> None:
    plan = {"kind": "reanchor", "reason": "the upstream was replaced"}
    assert execute(plan=plan) == (["reanchor"], {"changed": 7})


def test_a_reset_is_the_only_step_of_its_barrier(execute: Any) -> None:
    assert execute(plan={"kind": "reset"}) == (["reset"], {})


def test_of_an_abandoned_plan_only_what_is_on_its_way_is_stopped(execute: Any) -> None:
    assert execute(plan={"kind": "abandon"}) == (["abandon"], {})
