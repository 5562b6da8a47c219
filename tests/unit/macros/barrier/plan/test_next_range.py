"""The choice of the next range of a backfill."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros


@pytest.fixture
def windows(
    macros: Macros, backfill: Any, options: Any, make_state: Callable[..., Any]
) -> Callable[..., Any]:
    def windows(selected: list[int] | None = None, answer: Any = None, **state: Any) -> Any:
        options["backfill_vnodes"] = selected
        macros.results = [[[json.dumps(answer)]]]
        return macros.call("read_range_start", backfill, make_state(**state))

    return windows


def test_all_vnodes_move_from_their_one_position(macros: Macros, windows: Any) -> None:
    assert windows(position=["1", "2"]) == {"moving": None, "low": ["1", "2"]}
    assert macros.statements == []


def test_all_vnodes_move_from_the_start(windows: Any) -> None:
    assert windows(position=None) == {"moving": None, "low": None}


def test_selected_vnodes_move_from_the_one_position(macros: Macros, windows: Any) -> None:
    assert windows([3, 5], position=["1", "2"]) == {"moving": [3, 5], "low": ["1", "2"]}
    assert macros.statements == []


@pytest.mark.parametrize("selected", [None, [0]])
def test_no_vnode_moves_once_all_have_finished(windows: Any, selected: Any) -> None:
    assert windows(selected, finished=True)["moving"] == []


# id, shard and backfill_finished of each vnode.
APART = [(5, 1, False), (1, 9, True), (2, 8, False), (2, 9, False)]


@pytest.mark.parametrize(
    ("selected", "down", "moving", "low"),
    [
        (None, False, [0, 2, 3], ["2L", "8"]),
        (None, True, [0, 2, 3], ["5L", "1"]),
        ([0, 1, 3], False, [0, 3], ["2L", "9"]),
        ([2, 3], True, [2, 3], ["2L", "9"]),
        ([1], False, [], None),
        ([0, 4], False, [0, 4], None),  # one vnode has not started
        ([2, 4], True, [2, 4], None),
    ],
)
def test_vnodes_that_differ_move_from_the_least_advanced_of_their_positions(
    macros: Macros, duck: Duck, windows: Any, make_plan: Any, descending: Any,
    selected: list[int] | None, down: bool, moving: list[int], low: list[str] | None,
) -> None:  # fmt: skip
    columns = {"vnode": "int", "id": "bigint", "shard": "int", "backfill_finished": "boolean"}
    vnodes = APART + ([(None, None, False)] if 4 in (selected or []) else [])
    duck.create("lake.mv__progress", columns, [(n, *vnode) for n, vnode in enumerate(vnodes)])
    send = macros._run

    def run(name: str, sql: str) -> Any:
        macros.results = [duck.rows(sql.partition("*/")[2])]
        return send(name, sql)

    macros._run = run  # type: ignore[method-assign]
    committed = make_plan(**({"key": descending} if down else {}))

    found = windows(selected, uniform=False, position=None, committed=committed)
    assert found == {"moving": moving, "low": low}


# -- bounds that an earlier pass found --------------------------------------------------------


@pytest.fixture
def take(
    macros: Macros, backfill: Any, make_state: Callable[..., Any], make_plan: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the plan whose range ends at a stored bound of the committed plan.

    Return None if the run looks for new bounds.
    """

    def take(vnodes: list[int] | None = None, **committed: Any) -> Any:
        state = make_state(committed=make_plan(**committed))
        plan = {**make_plan(range_low=["1", "2"]), **macros.call("get_bounds_ahead", state)}
        macros.results = [[[json.dumps({"bounds": [["3", "3"]], "complete": False, "rows": 1})]]]
        windows = {"moving": vnodes, "low": ["1", "2"]}
        ranged = macros.call("get_plan_with_range", backfill, state, plan, windows)
        return None if macros.statements else ranged["plan"]

    return take


def test_the_next_range_ends_at_the_next_bound(take: Any) -> None:
    plan = take(next_bounds=[["7", "8"], ["9", "9"]], bounds_complete=False)

    assert (plan["range_high"], plan["last_range"]) == (["7", "8"], False)
    assert (plan["next_bounds"], plan["bounds_complete"]) == ([["9", "9"]], False)


def test_the_range_after_the_last_of_all_bounds_is_the_last(take: Any) -> None:
    plan = take(next_bounds=[], bounds_complete=True)

    assert (plan["range_high"], plan["last_range"]) == (["1", "2"], True)


@pytest.mark.parametrize(
    "committed",
    [
        {"next_bounds": [], "bounds_complete": False},  # the bounds did not reach the end
        {"backfill_rate_limit": 20},
        {"backfill_rate_limit": None},
        {"fills": [{"name": "x", "type": "int"}]},  # these bounds end the slices of the fill
        {"vnodes": [0, 1]},  # these bounds belong to the keys of some vnodes
    ],
)
def test_bounds_that_do_not_fit_are_not_taken(take: Any, committed: dict[str, Any]) -> None:
    assert take(**committed) is None


def test_bounds_of_all_vnodes_are_not_taken_for_some(take: Any) -> None:
    assert take(vnodes=[0]) is None


# -- the range of a plan ----------------------------------------------------------------------


@pytest.fixture
def add_range(
    macros: Macros,
    backfill: Any,
    options: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
) -> Callable[..., Any]:
    """Return a plan with a range. `bounds` are the result of a pass over the keys."""

    def add_range(
        bounds: list[Any] | None = None,
        rate_limit: int | None = 10,
        windows: Any = None,
        **committed: Any,
    ) -> Any:
        options["backfill_rate_limit"] = rate_limit
        found = {"bounds": bounds or [], "complete": True, "rows": 1}
        macros.results = [[[json.dumps(found)]]] if bounds is not None else []
        state = make_state(committed=make_plan(**committed))
        plan = make_plan(
            range_high=["1", "2"], range_row_count=None, vnode_row_counts=None,
            **macros.call("get_bounds_ahead", state),
        )  # fmt: skip
        as_it_was = dict(plan)
        ranged = macros.call(
            "get_plan_with_range",
            backfill,
            state,
            plan,
            windows or {"moving": None, "low": ["1", "2"]},
        )
        assert plan == as_it_was
        macros.context["most_rows"] = ranged.get("most_rows")
        return ranged["plan"]

    return add_range


def test_without_a_rate_limit_the_range_is_all_that_remains(add_range: Any, macros: Macros) -> None:
    plan = add_range(rate_limit=None, windows={"moving": [0], "low": ["0", "3"]})

    assert plan["last_range"]
    assert plan["range_low"] == plan["range_high"] == ["0", "3"]
    assert macros.statements == []


def test_a_stored_bound_saves_the_pass_over_the_keys(add_range: Any, macros: Macros) -> None:
    plan = add_range(next_bounds=[["7", "8"]])

    assert plan["range_high"] == ["7", "8"]
    assert macros.statements == []


def test_bounds_are_found_where_none_is_stored(add_range: Any, macros: Macros) -> None:
    plan = add_range(bounds=[["3", "3"], ["4", "4"]], next_bounds=[], bounds_complete=False)

    assert (plan["range_high"], plan["next_bounds"]) == (["3", "3"], [["4", "4"]])
    assert len(macros.statements) == 1


@pytest.mark.parametrize(("rate_limit", "most_rows"), [(10, 12), (1, 1), (1000, 1250)])
def test_a_stored_bound_holds_up_to_a_quarter_above_the_rate_limit(
    macros: Macros, add_range: Any, rate_limit: int, most_rows: int
) -> None:
    """Rows may have been added to the range since its bound was found."""
    add_range(rate_limit=rate_limit, next_bounds=[["7", "8"]], backfill_rate_limit=rate_limit)

    assert macros.context["most_rows"] == most_rows


def test_bounds_that_were_just_found_hold_whatever_they_give(
    macros: Macros, add_range: Any
) -> None:
    """If a sample has given inaccurate bounds, another sample would not be better."""
    add_range(bounds=[["3", "3"]], next_bounds=[], bounds_complete=False)

    assert macros.context["most_rows"] is None


def test_selected_vnodes_move_alone(add_range: Any, macros: Macros) -> None:
    plan = add_range(bounds=[["3", "3"]], windows={"moving": [0, 2], "low": ["0", "0"]})

    assert (plan["vnodes"], plan["range_low"]) == ([0, 2], ["0", "0"])
