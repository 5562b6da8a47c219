"""Find the keys whose rows in the MV differ from the result of the query."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

SUMMARY = {"rows": 9, "differing": 2, "null_keys": 0, "low": ["1L", "0"], "high": ["5L", "3"]}
SUMMARY |= {"begun": False}


def compare(macros: Macros, verified: Any, repaired: bool = False, **summary: Any) -> Any:
    macros.results = [[[json.dumps(SUMMARY | summary)]]]
    return macros.call("run_comparison", verified, {}, repaired=repaired)


def test_a_comparison_during_a_barrier_says_nothing(
    macros: Macros, verified: Any, refused: Any
) -> None:
    with refused("another run began or committed a barrier while the MV was compared with its"):
        compare(macros, verified, begun=True)
    with refused(
        "another run began or committed a barrier while the MV was repaired, so the repair may have"
    ):
        compare(macros, verified, repaired=True, begun=True)


@pytest.fixture
def compared(
    macros: Macros, duck: Duck, verified: Any, make_state: Any, make_plan: Any
) -> Callable[..., dict[str, Any]]:
    """Compare an upstream and an MV with these rows (k, shard, m). Return the result."""
    query = "select id as k, shard, m from `up`"
    verified["state"] = make_state(committed=make_plan(epoch=2, query=query))

    def compared(
        upstream: Sequence[Any] = (),
        mv: Sequence[Any] = (),
        epoch: int = 2,
        plan_id: str | None = None,
    ) -> dict[str, Any]:
        types = {"shard": "int", "m": "map<string, int>"}
        duck.create("lake.up@16", {"id": "bigint", **types}, upstream)
        duck.create("lake.mv", {"k": "bigint", **types}, mv)
        progress = {"epoch": "bigint", "plan_id": "string"}
        duck.create("lake.mv__progress", progress, [(epoch, plan_id)] * 4)
        compare(macros, verified)
        return dict(json.loads(duck.rows(macros.statements[-1].sql)[0][0]))

    return compared


@pytest.mark.parametrize(
    ("epoch", "plan_id", "begun"),
    [(2, None, False), (2, "p3", True), (3, None, True), (3, "p4", True)],
)
def test_a_barrier_has_begun_once_it_is_planned(
    compared: Any, epoch: int, plan_id: str | None, begun: bool
) -> None:
    """Epoch 2 was committed when the comparison began. A later barrier may be planned or already
    committed.
    """
    assert compared(epoch=epoch, plan_id=plan_id)["begun"] is begun


def test_keys_differ_that_have_other_rows_or_as_many_more_or_less(compared: Any) -> None:
    """Only keys up to the position (1, 2) are compared. The order of a map's entries does not
    count.
    """
    same = [(-1, 1, {"a": 1, "b": 2}), (1, 1, None)]
    upstream = [*same, (0, 1, {"a": 1}), (0, 2, None), (1, 2, None), (1, 3, None)]
    mv = [(-1, 1, {"b": 2, "a": 1}), (1, 1, None), (0, 1, {"a": 2}), (0, 2, None), (0, 2, None)]

    assert compared(upstream, mv) == {
        "rows": 5, "differing": 3, "null_keys": 0, "begun": False,
        "low": ["0L", "1"], "high": ["1L", "2"],
    }  # fmt: skip
