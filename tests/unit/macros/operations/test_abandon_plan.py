"""A user gives up a plan by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def abandon(macros: Macros, verified: Any) -> Callable[..., None]:
    """Give up the plan `planned`. Spark then reports `now` as the current plan."""
    node = {
        "unique_id": "model.p.mv", "resource_type": "model", "package_name": "p", "name": "mv",
        "config": {"materialized": "backfilled_mv"},
    }  # fmt: skip
    macros.context["graph"] = SimpleNamespace(nodes={"model.p.mv": node})

    def abandon(planned: Any, now: Any = None, **arguments: Any) -> None:
        operated = {**verified, "state": {**verified["state"], "planned": planned}}
        macros.stub("observe_operated", lambda node: operated)
        macros.results = [[[json.dumps({"plan": now} if now else {})]]]
        macros.call("abandon_plan", "mv", **arguments)

    return abandon


def test_a_plan_is_given_up_and_what_is_on_its_way_is_stopped(
    macros: Macros, abandon: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    plan = make_plan(planned_at="noon")
    abandon(plan, {**plan, "kind": "abandon"})

    assert len(macros.statements) == 2
    assert macros.logged == [
        "mv: the plan of its barrier 3 (advance, planned at noon) is given up. The next dbt run "
        "repairs the rows that this plan may have written, and continues"
    ]


def test_a_plan_that_was_committed_meanwhile_is_refused(
    abandon: Callable[..., Any], make_plan: Callable[..., Any], refused: Any
) -> None:
    with refused("another run has committed the barrier 3 of this plan. Run the model as usual"):
        abandon(make_plan(), now=None)


@pytest.mark.parametrize(
    ("planned", "why"),
    [
        (None, "its barrier 2 is committed"),
        ({"epoch": 3, "kind": "abandon"}, "the plan of its barrier 3 is already given up"),
    ],
)
def test_without_a_plan_nothing_is_given_up(
    macros: Macros, abandon: Callable[..., Any], planned: Any, why: str
) -> None:
    abandon(planned)
    assert macros.statements == []
    assert macros.logged == [f"mv: there is no plan to give up; {why}"]


def test_an_unknown_argument_is_refused(abandon: Callable[..., Any], refused: Any) -> None:
    with refused(
        "abandon_plan has no argument 'plan'. Correct or remove it. The only argument is model"
    ):
        abandon(None, plan=3)
