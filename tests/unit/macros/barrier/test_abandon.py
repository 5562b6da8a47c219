"""A plan that can no longer be executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def abandon(macros: Macros, backfill: Any, make_plan: Callable[..., Any]) -> str:
    macros.results = [[[json.dumps({"plan_id": "p3", "kind": "abandon"})]]]
    assert macros.call("mark_abandoned", backfill, make_plan(), "it's gone")["kind"] == "abandon"
    return " ".join(macros.statements[0].sql.split())


def test_a_plan_is_marked_as_abandoned_and_never_overwritten(abandon: str) -> None:
    assert (
        "on barriers.epoch = abandoned.epoch and barriers.epoch = 3 and barriers.plan_id = 'p3' "
        "when matched and barriers.kind != 'abandon' then update set kind = 'abandon', "
        "reason = 'it\\'s gone'"
    ) in abandon
    assert "insert" not in abandon and "delete" not in abandon


def test_a_plan_that_another_run_has_committed_is_not_marked(abandon: str) -> None:
    assert "where committed = 2 ) as abandoned on" in abandon


@pytest.mark.parametrize(("file_format", "statements"), [("delta", 1), ("iceberg", 0)])
def test_what_is_on_its_way_is_stopped_where_the_format_can(
    macros: Macros, backfill: Any, make_plan: Any, file_format: str, statements: int
) -> None:
    backfill["options"]["file_format"] = file_format
    macros.call("run_abandon", backfill, make_plan(kind="abandon"))

    assert len(macros.statements) == statements


# -- what it could touch ------------------------------------------------------------------------


@pytest.fixture
def given_up(macros: Macros, backfill: Any, make_state: Any, make_plan: Any) -> Any:
    """What is found in the table of barriers, by kind, newest first."""

    def given_up(*kinds: str, **plan: Any) -> Any:
        rows = [make_plan(kind=kind, **plan) for kind in kinds]
        macros.results = [[[json.dumps(row)] for row in rows]]
        return macros.call("read_given_up", backfill, make_state(dirty=True))

    return given_up


def test_the_plans_since_the_last_executed_one_were_given_up(given_up: Any) -> None:
    found = given_up("abandon", "abandon", "reanchor", "abandon", "advance")

    assert found["since"]["kind"] == "reanchor"
    assert len(found["plans"]) == 2


def test_a_reset_that_was_given_up_is_followed_by_another(given_up: Any) -> None:
    assert given_up("abandon", "advance", upstream_version=None) is None


def test_nothing_is_asked_unless_a_plan_was_given_up(
    macros: Macros, backfill: Any, make_state: Any
) -> None:
    assert macros.call("read_given_up", backfill, make_state()) is None
    assert macros.statements == []


@pytest.fixture
def touched(macros: Macros, backfill: Any, make_state: Any, make_plan: Any) -> Any:
    """The ends of the ranges that these plans could write to."""

    def touched(
        *plans: dict[str, Any], gap: str | None = None, continues: bool = True, **state: Any
    ) -> Any:
        macros.stub("find_feed_gap", lambda *_: gap)
        macros.stub("continues_upstream", lambda *_: continues)
        backfill["given_up"] = {
            "since": make_plan(upstream_version="16"),
            "plans": [make_plan(kind="abandon", **plan) for plan in plans],
        }
        return macros.call("find_touched", backfill, make_state(dirty=True, **state), {})

    return touched


def test_a_plan_could_touch_its_range(touched: Any) -> None:
    assert touched({}) == [["5", "6"]]
    assert touched({"range_high": ["1", "2"]}) == []  # it had none
    assert touched({"last_range": True}) == [[]]  # open above
    assert touched({}, {"range_high": ["8", "8"]}, {}) == [["5", "6"], ["8", "8"]]
    assert touched({}, {"last_range": True}) == [[]]


def test_a_limited_reanchor_that_was_given_up_could_touch_what_the_plans_before_it_could(
    touched: Any,
) -> None:
    assert touched({"range_high": ["1", "2"], "touched": [["9", "9"]]}) == [["9", "9"]]


def test_all_may_be_touched_where_the_feed_does_not_tell(touched: Any, backfill: Any) -> None:
    assert touched({}, gap="vacuumed") is None
    assert touched({}, continues=False) is None
    assert touched({}, uniform=False) is None
    assert touched({}, upstream_version="15") is None
    backfill["feed"] = {"kind": "delta"}
    assert touched({}) is None
