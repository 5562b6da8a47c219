"""A plan that is given up by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def abandon(macros: Macros, verified: Any) -> Callable[..., list[Any]]:
    """Give up what is `planned`; `now` is what stands after it. Returns the steps that it takes."""
    steps: list[Any] = []

    def answer(name: str, returned: Any) -> Callable[..., Any]:
        def step(operated: Any, *given: Any) -> Any:
            plan, *reason = given[1:] if name == "mark" else given
            steps.append((name, plan["epoch"], *reason))
            return returned

        return step

    def abandon(planned: Any, now: Any = None, **arguments: Any) -> list[Any]:
        operated = {**verified, "state": {**verified["state"], "planned": planned}}
        macros.stub("find_backfilled_mv", lambda model, operation: {"name": model})
        macros.stub("observe_operated", lambda node: operated)
        macros.stub("mark_abandoned", answer("mark", now))
        macros.stub("run_abandon", answer("stop", None))
        macros.call("abandon_plan", "mv", **arguments)
        return steps

    return abandon


def test_a_plan_is_given_up_and_what_is_on_its_way_is_stopped(
    macros: Macros, abandon: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    plan = make_plan(planned_at="noon")

    assert abandon(plan, {**plan, "kind": "abandon"}) == [
        ("mark", 3, "abandon_plan"),
        ("stop", 3),
    ]
    assert macros.logged == [
        "mv: the plan of its barrier 3 (advance, planned at noon) is given up. The next dbt run "
        "puts right what it could touch, and goes on"
    ]


def test_a_plan_that_was_committed_meanwhile_is_refused(
    abandon: Callable[..., Any], make_plan: Callable[..., Any], refused: Any
) -> None:
    with refused("another run has committed its barrier 3 meanwhile. There is nothing to give up"):
        abandon(make_plan(), now=None)


@pytest.mark.parametrize(
    ("planned", "why"),
    [
        (None, "its barrier 2 is committed"),
        ({"epoch": 3, "kind": "abandon"}, "that of its barrier 3 is given up already"),
    ],
)
def test_without_a_plan_nothing_is_given_up(
    macros: Macros, abandon: Callable[..., Any], planned: Any, why: str
) -> None:
    assert abandon(planned) == []
    assert macros.logged == [f"mv: there is no plan to give up; {why}"]


def test_an_unknown_argument_is_refused(abandon: Callable[..., Any], refused: Any) -> None:
    with refused("abandon_plan has no argument 'plan'. Its only argument is model"):
        abandon(None, plan=3)
