"""The next slice of a fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

COLUMNS = [{"name": "x", "type": "int"}]


@pytest.fixture
def fill(
    macros: Macros, backfill: Any, options: Any, make_state: Callable[..., Any], make_plan: Any
) -> Callable[..., Any]:
    """Return the next plan of an MV whose fill has reached `position`."""

    def fill(
        position: list[str] | None = None,
        rate: int | None = 10,
        committed: dict[str, Any] | None = None,
        **state: Any,
    ) -> Any:
        options["backfill_rate_limit"] = rate
        filling = macros.call("new_filling", COLUMNS, position, 12)
        last = make_plan(**{"kind": "fill", "epoch": 2, **(committed or {})})
        made = make_state(committed=last, position=["5", "6"], **state)
        plan = make_plan(kind="fill", range_low=["5", "6"], range_high=["5", "6"])
        return macros.call("get_plan_with_fill", backfill, made, plan, filling)

    return fill


def _slice(plan: Any) -> Any:
    return plan["fill_low"], plan["fill_high"], plan["last_fill"]


def test_without_a_limit_all_rows_are_one_slice(fill: Any) -> None:
    assert _slice(fill(rate=None)["plan"]) == (None, ["5", "6"], True)
    assert _slice(fill(rate=None, finished=True)["plan"]) == (None, None, True)


def test_a_limit_of_zero_pauses_it(fill: Any) -> None:
    plan = fill(["1", "1"], rate=0)["plan"]

    assert _slice(plan) == (["1", "1"], ["1", "1"], False)
    assert (plan["next_bounds"], plan["bounds_complete"]) == ([], False)


def test_the_first_slice_is_found_among_the_keys_up_to_the_position(
    fill: Any, macros: Macros
) -> None:
    macros.results = [[['{"bounds": [["1", "9"], ["3", "1"]], "complete": true}']]]
    plan = fill()["plan"]

    assert _slice(plan) == (None, ["1", "9"], False)
    assert (plan["next_bounds"], plan["bounds_complete"]) == ([["3", "1"]], True)
    assert (plan["range_low"], plan["range_high"]) == (["5", "6"], ["5", "6"])


def test_the_bounds_of_the_last_fill_are_taken_at_the_same_rate(fill: Any) -> None:
    found = fill(["1", "1"])

    assert _slice(found["plan"]) == (["1", "1"], ["7", "8"], False)
    assert found["plan"]["next_bounds"] == []
    assert found["most_rows"] == 12


@pytest.mark.parametrize(
    ("position", "committed"),
    [(["1", "1"], {"kind": "advance"}), (["1", "1"], {"backfill_rate_limit": 9}), (None, {})],
    ids=["of the snapshot", "at another rate", "of a definition of before"],
)
def test_other_bounds_are_not(fill: Any, macros: Macros, position: Any, committed: Any) -> None:
    macros.results = [[['{"bounds": [["4", "4"]], "complete": true}']]]

    assert fill(position, committed=committed)["plan"]["fill_high"] == ["4", "4"]


@pytest.mark.parametrize(("finished", "end"), [(False, ["5", "6"]), (True, None)])
def test_the_last_slice_ends_where_the_mv_does(fill: Any, finished: bool, end: Any) -> None:
    """The plan must have no bounds, because a range of the backfill could use them by mistake."""
    plan = fill(["1", "1"], committed={"next_bounds": []}, finished=finished)["plan"]

    assert _slice(plan) == (["1", "1"], end, True)
    assert (plan["next_bounds"], plan["bounds_complete"]) == ([], False)
