"""A fill writes the new columns of the query for the existing rows."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

FILLS = [{"name": "x", "type": "int"}, {"name": "y z", "type": "string"}]


@pytest.fixture
def filling(make_state: Callable[..., Any], make_plan: Callable[..., Any]) -> Callable[..., Any]:
    """Return a state in the middle of a fill. The keyword arguments change the committed plan."""

    def filling(dirty: bool = False, state: dict[str, Any] | None = None, **plan: Any) -> Any:
        given = {"fills": FILLS, "fill_low": ["1", "1"], "fill_high": ["2", "3"]} | plan
        committed = make_plan(epoch=2, kind="fill", filled_row_count=12, **given)
        return make_state(committed=committed, dirty=dirty, **(state or {}))

    return filling


# -- how far the fill is --------------------------------------------------------------------------


def test_the_second_position_is_the_end_of_the_last_slice(macros: Macros, filling: Any) -> None:
    assert macros.call("get_filling", filling()) == {
        "columns": FILLS, "position": ["2", "3"], "row_count": 12, "drops": [],
    }  # fmt: skip


def test_a_slice_that_was_given_up_moves_nothing(macros: Macros, filling: Any) -> None:
    assert macros.call("get_filling", filling(dirty=True))["position"] == ["1", "1"]
    first = filling(dirty=True, fill_low=None, fill_high=None, last_fill=True)
    assert macros.call("get_filling", first)["position"] is None


def test_nothing_is_filled_after_the_last_slice_or_without_new_columns(
    macros: Macros, filling: Any, make_state: Any
) -> None:
    assert macros.call("get_filling", filling(last_fill=True)) is None
    assert macros.call("get_filling", make_state()) is None


def test_what_compares_all_rows_ends_it(
    macros: Macros, backfill: Any, observed: Any, analysis: Any, filling: Any
) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    state = filling()

    def reanchor(now: Any) -> Any:
        given = (backfill, state, observed, analysis, "-", True)
        return macros.call("choose_recovery", *given, whole=True, filling=now)

    ended = {
        "fills": FILLS, "fill_low": ["2", "3"], "fill_high": None, "last_fill": True,
        "next_bounds": [], "bounds_complete": False, "drops": [],
    }  # fmt: skip
    plan = reanchor(macros.call("get_filling", state))
    assert plan["kind"] == "reanchor" and plan == {**plan, **ended}
    assert not {"fills", "last_fill", "drops"} & set(reanchor(None))


# -- the lines about a fill -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ({}, "fills x, y z · 12 of 40 rows · +4 read for it · 2 changed, 1 deleted · version 17"),
        ({"last_fill": True}, "filled x, y z · +4 read for it · 2 changed, 1 deleted · version 17"),
    ],
)
def test_its_line_says_what_is_filled(
    macros: Macros, filling: Any, make_plan: Any, plan: Any, text: str
) -> None:
    made = make_plan(kind="fill", fills=FILLS, filled_row_count=12, **plan)
    counts = {"changed": 2, "deleted": 1}
    barrier = {"plan": made, "state": filling(**plan), "counts": counts}

    assert " · ".join(macros.call("get_report_of_kind", barrier)) == text
