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
    assert macros.call("abandon_plan", backfill, make_plan(), "it's gone")["kind"] == "abandon"
    return " ".join(macros.statements[0].sql.split())


def test_a_plan_is_marked_as_abandoned_and_never_overwritten(abandon: str) -> None:
    assert (
        "on barriers.epoch = abandoned.epoch and barriers.epoch = 3 and barriers.plan_id = 'p3' "
        "when matched and barriers.kind != 'abandon' then update set kind = 'abandon', "
        "reason = 'it\\'s gone'"
    ) in abandon
    assert "insert" not in abandon and "delete" not in abandon


@pytest.mark.xfail(strict=True, reason="the range of an abandoned plan is taken for the position")
def test_an_abandoned_plan_keeps_no_range_that_would_be_taken_for_the_position(
    abandon: str, render: Callable[..., str], relations: Any
) -> None:
    """The position of a uniform state is the range_high of its plan."""
    position = render("get_state_sql", relations).split(" as position")[0].rsplit(", if(", 1)[1]

    assert "range_high = " in abandon or "range_low" in position
