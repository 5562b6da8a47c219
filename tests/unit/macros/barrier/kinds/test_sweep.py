"""A sweep repairs the MV in slices. The MV keeps its rows until they are repaired."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def swept(make_state: Callable[..., Any], make_plan: Callable[..., Any]) -> Callable[..., Any]:
    """Return a state in the middle of a sweep."""

    def swept(kind: str = "advance", **state: Any) -> Any:
        committed = make_plan(epoch=2, kind=kind, sweeps=kind != "sweep")
        return make_state(committed=committed, **state)

    return swept


# -- when an MV is being swept --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sweep", "advance", "abandon", "reanchor"])
def test_a_sweep_lasts_until_all_vnodes_have_finished(
    macros: Macros, swept: Callable[..., Any], make_state: Any, kind: str
) -> None:
    assert macros.call("is_sweeping", swept(kind))
    assert not macros.call("is_sweeping", swept(kind, finished=True))
    assert not macros.call("is_sweeping", make_state())


def test_a_sweep_that_was_given_up_has_not_begun(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    given_up = make_plan(epoch=2, kind="abandon", sweeps=False)

    assert not macros.call("is_sweeping", make_state(committed=given_up, dirty=True))


def test_its_plan_notes_the_old_position_and_has_no_range(
    macros: Macros, backfill: Any, analysis: Any, options: Any, make_state: Any
) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    options["on_gap"] = "sweep"
    observed = {"version": "18", "id": "u1", "log": [], "complete": True}
    plan = macros.call(
        "choose_recovery", backfill, make_state(), observed, analysis, "a gap", started=True
    )

    assert (plan["kind"], plan["reason"], plan["sources"][0]["version"]) == ("sweep", "a gap", "18")
    assert (plan["range_low"], plan["range_high"]) == (["1", "2"], None)
    assert (plan["next_bounds"], plan["bounds_complete"]) == ([], False)
    assert not plan["sweeps"]


def test_plans_of_a_sweep_say_so_until_a_reset(
    macros: Macros, backfill: Any, analysis: Any, swept: Callable[..., Any]
) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")

    assert macros.call("new_plan", backfill, swept(), analysis, "advance")["sweeps"]
    assert macros.call("new_plan", backfill, swept("sweep"), analysis, "advance")["sweeps"]
    assert not macros.call("new_reset_plan", backfill, swept(), analysis, "why")["sweeps"]
    finished = swept(finished=True)
    assert not macros.call("new_plan", backfill, finished, analysis, "advance")["sweeps"]


# -- the lines about a sweep ----------------------------------------------------------------------


def test_its_line_says_why(macros: Macros, make_plan: Any) -> None:
    plan = make_plan(kind="sweep", reason="the upstream was replaced")

    assert macros.call("get_report_of_kind", {"plan": plan, "state": {}, "counts": {}}) == [
        "sweeps from the start: the upstream was replaced",
        "version 17",
    ]


@pytest.mark.parametrize(
    ("kind", "limit"), [("sweep", 500000), ("sweep", None), ("reanchor", 500000)]
)
def test_how_many_rows_are_compared_with_the_query_is_said_before(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, kind: str,
    limit: int | None,
) -> None:  # fmt: skip
    macros.context["model"] = SimpleNamespace(name="mv")
    macros.results = [[["k", "bigint"]]]
    plan = make_plan(kind=kind, reason="it was replaced", backfill_rate_limit=limit)
    state = make_state(row_count=1234567)
    macros.call("run_steps", backfill, state, None, None, {"plan": plan})

    slices = "up to 500,000 rows of the upstream per barrier, "
    slices = slices if kind == "sweep" and limit else ""
    assert macros.logged == [
        "mv compares its query with all 1,234,567 rows read so far, "
        f"{slices}because it was replaced"
    ]
