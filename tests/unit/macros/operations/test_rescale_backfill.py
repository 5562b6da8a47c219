"""A user gives an MV another number of vnodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def rescale(macros: Macros, verified: Any, make_plan: Any) -> Callable[..., list[Any]]:
    """Return the plans that the operation executes, as (vnode_count, whether the plan is new).

    The MV has 4 vnodes.
    """

    def rescale(vnode_count: Any, foreign: Any = None, more: Any = None, **state: Any) -> Any:
        executed: list[Any] = []
        operated = {**verified, "state": {**verified["state"], **state}}
        macros.stub("observe_mv", lambda operated, state: {**state, "foreign_write": foreign})

        def run(operated: Any, plan: Any) -> Any:
            executed.append((plan["vnode_count"], plan["plan_id"] == "new"))
            last = {**operated["state"], "planned": None, "dirty": False, "committed": plan}
            return {**operated, "state": last}

        node = {
            "unique_id": "model.p.mv", "resource_type": "model", "package_name": "p", "name": "mv",
            "config": {"materialized": "backfilled_mv"},
        }  # fmt: skip
        macros.context["graph"] = SimpleNamespace(nodes={"model.p.mv": node})
        macros.stub("observe_operated", lambda node: operated)
        macros.stub("run_rescale", run)
        macros.stub(
            "plan_rescale",
            lambda operated, node, count: make_plan(vnode_count=count, plan_id="new"),
        )
        macros.call("rescale_backfill", "mv", vnode_count, **(more or {}))
        return executed

    return rescale


@pytest.mark.parametrize("vnode_count", [8, 1024, 2, 1])
def test_it_is_planned_and_executed(rescale: Any, vnode_count: int) -> None:
    assert rescale(vnode_count) == [(vnode_count, True)]


def test_an_mv_that_has_them_is_left_alone(macros: Macros, rescale: Any) -> None:
    assert rescale(4) == []
    assert macros.logged == ["mv: it has 4 vnodes"]


def test_a_plan_that_was_left_is_executed_first(rescale: Any, make_plan: Any) -> None:
    planned = make_plan(kind="rescale", vnode_count=8)

    assert rescale(8, planned=planned) == [(8, False)]
    assert rescale(16, planned=planned) == [(8, False), (16, True)]


@pytest.mark.parametrize(
    ("state", "fact"),
    [
        ({"planned": {"kind": "advance"}}, "its barrier 3 has begun but is not committed"),
        ({"dirty": True}, "its barrier 3 has begun but is not committed"),
        ({"upstream_version": None}, "the MV cannot be rescaled before its next run, because noth"),
        ({"foreign": {"text": "UPDATE"}}, "the MV cannot be rescaled before its next run, be"),
    ],
)
def test_what_the_next_run_has_to_do_comes_first(
    rescale: Any, refused: Any, state: Any, fact: str
) -> None:
    with refused(fact):
        rescale(8, **state)


@pytest.mark.parametrize("vnode_count", [3, 6, 5])
def test_only_a_multiple_and_a_divisor_are_another_number(
    rescale: Any, refused: Any, vnode_count: int
) -> None:
    with refused(f"the argument vnode_count is {vnode_count}, which is neither a multiple nor"):
        rescale(vnode_count)


@pytest.mark.parametrize("vnode_count", [None, 0, 32769, "8", 2.5])
def test_an_argument_of_another_kind_is_refused(
    rescale: Any, refused: Any, vnode_count: Any
) -> None:
    with refused("vnode_count is "):
        rescale(vnode_count)


def test_an_unknown_argument_is_refused(rescale: Any, refused: Any) -> None:
    with refused("rescale_backfill has no argument 'vnodes'. Correct or remove it. The arguments "):
        rescale(8, more={"vnodes": 8})


@pytest.mark.parametrize("stands", [None, {"plan_id": "p9", "kind": "advance"}])
def test_another_run_that_has_begun_goes_first(
    macros: Macros, verified: Any, refused: Any, stands: Any
) -> None:
    macros.results = [[[json.dumps({"plan": stands})]]]
    with refused("another run began the barrier 3 during this operation. Nothing was changed"):
        macros.call("plan_rescale", verified, {"unique_id": "m"}, 8)
