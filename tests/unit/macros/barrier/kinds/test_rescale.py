"""A rescale gives an MV another number of vnodes.

The new vnodes continue from the positions of the previous vnodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

NODE = {"unique_id": "model.p.mv"}
POSITION = ["1", "2"]


@pytest.fixture
def plan(macros: Macros, backfill: Any, make_state: Any) -> Callable[..., Any]:
    """Return the plan of a rescale for this state."""

    def plan(vnode_count: int, low: Any = POSITION, **state: Any) -> Any:
        planned: list[Any] = []
        macros.stub("read_range_start", lambda *_: {"low": low})
        macros.stub("get_store_plan_statements", lambda _, plan: planned.append(plan))
        macros.stub("run_json", lambda *_: [{"plan": planned[0]}])
        operated = {**backfill, "state": make_state(**state)}
        return macros.call("plan_rescale", operated, NODE, vnode_count)

    return plan


# -- the plan of a rescale ------------------------------------------------------------------------


def test_its_plan_is_what_was_committed_with_another_number_of_vnodes(
    plan: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    """A rescale evaluates no query, so its plan keeps the recorded settings and ignores the
    settings of the session.
    """
    made, before = plan(8), make_plan()

    assert (made["kind"], made["epoch"], made["vnode_count"]) == ("rescale", 3, 8)
    assert made["reason"] == "from 4 to 8 vnodes"
    assert made["plan_id"] not in (None, "p3", "p2")
    for name in ("backfill_id", "query", "query_hash", "query_columns", "key", "backfill_mode"):
        assert made[name] == before[name]
    assert made["sources"][0]["version"] == "16"
    assert made["settings"] == before["settings"]
    assert (made["range_low"], made["range_high"]) == (POSITION, POSITION)
    assert not made["last_range"] and "range_row_count" not in made


def test_settings_that_are_kept_are_stored_as_they_are(
    macros: Macros, duck: Duck, plan: Callable[..., Any]
) -> None:
    [(text,)] = duck.rows(f"select {macros.call('get_plan_json_sql', plan(8))}")
    stored = json.loads(text)

    assert stored["settings"] == {"spark.sql.timestampType": "TIMESTAMP_LTZ"}
    assert stored["vnode_count"] == 8


@pytest.mark.parametrize(
    ("state", "bounds"),
    [
        ({}, ([["7", "8"]], True)),
        ({"uniform": False, "position": None}, ([], False)),
    ],
)
def test_ranges_to_come_are_known_where_the_positions_agree(
    plan: Callable[..., Any], state: Any, bounds: Any
) -> None:
    made = plan(2, **state)

    assert (made["next_bounds"], made["bounds_complete"]) == bounds


def test_those_of_some_vnodes_are_forgotten(
    plan: Callable[..., Any], make_plan: Callable[..., Any]
) -> None:
    made = plan(2, committed=make_plan(vnodes=[1, 2]))

    assert (made["next_bounds"], made["bounds_complete"]) == ([], False)


def test_a_sweep_goes_on(plan: Callable[..., Any], make_plan: Callable[..., Any]) -> None:
    assert plan(8, committed=make_plan(kind="sweep"))["sweeps"]
    assert not plan(8)["sweeps"]


def test_a_fill_goes_on_from_its_second_position(
    macros: Macros, plan: Callable[..., Any], make_plan: Any, make_state: Any
) -> None:
    column = {"name": "v", "type": "int"}
    filling = {"fills": [column], "fill_low": ["0"], "fill_high": ["5"], "filled_row_count": 9}
    before = make_state(committed=make_plan(kind="fill", **filling))
    after = make_state(committed=plan(8, committed=before["committed"]))

    assert macros.call("get_filling", after) == macros.call("get_filling", before)
    assert macros.call("get_filling", before)["position"] == ["5"]
    done = make_plan(kind="fill", **{**filling, "last_fill": True})
    assert macros.call("get_filling", make_state(committed=plan(8, committed=done))) is None


# -- what a rescale writes to the MV --------------------------------------------------------------


@pytest.mark.parametrize(
    ("vnode_count", "uniform", "sweeps", "touched"),
    [(2, False, False, True), (2, True, False, False), (8, False, False, False),
     (2, False, True, False)],
    ids=["positions differ", "positions agree", "children", "sweep"],
)  # fmt: skip
def test_the_mv_is_touched_only_where_vnodes_of_different_positions_come_together(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any,
    vnode_count: int, uniform: bool, sweeps: bool, touched: bool,
) -> None:  # fmt: skip
    plan = make_plan(kind="rescale", vnode_count=vnode_count, sweeps=sweeps)
    state = make_state(uniform=uniform, position=None)
    macros.call("run_steps", backfill, state, None, None, {"plan": plan})

    assert len(macros.statements) == touched


# -- the position, and the number of vnodes afterwards -----------------------------------------


@pytest.fixture
def model(macros: Macros) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")


def test_barriers_go_on_with_the_number_of_the_state_and_a_rebuild_takes_that_of_the_config(
    macros: Macros, model: None, backfill: Any, analysis: Any, make_state: Any, make_plan: Any
) -> None:
    state = make_state(committed=make_plan(vnode_count=16))

    assert macros.call("new_plan", backfill, state, analysis, "advance")["vnode_count"] == 16
    assert macros.call("new_reset_plan", backfill, state, analysis, "-")["vnode_count"] == 4


@pytest.mark.parametrize(
    ("has", "says"),
    [
        (4, []),
        (16, [
            "mv has 16 vnodes; the vnode_count 4 applies only when the MV is rebuilt. To "
            "change the number without a rebuild: dbt run-operation rescale_backfill "
            "--args '{model: mv, vnode_count: 4}'"
        ]),
        (6, ["mv has 6 vnodes; the vnode_count 4 applies only when the MV is rebuilt"]),
    ],
)  # fmt: skip
def test_a_run_says_where_the_config_has_another_number(
    macros: Macros, model: None, backfill: Any, make_state: Any, make_plan: Any, has: int, says: Any
) -> None:
    state = make_state(committed=make_plan(vnode_count=has))
    macros.call("report_kept_shape", backfill, state)
    assert macros.logged == says

    macros.call("report_kept_shape", {**backfill, "generation": "former"}, state)
    macros.call("report_kept_shape", backfill, {**state, "planned": make_plan()})
    assert macros.logged == says


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({}, ["rescaled from 8 to 2 vnodes"]),
        ({"changed": 0}, ["rescaled from 8 to 2 vnodes"]),
        ({"deleted": 1200}, ["rescaled from 8 to 2 vnodes", "1,200 rows are read again"]),
    ],
)
def test_its_line_says_how_many_rows_are_read_again(
    macros: Macros, make_plan: Any, counts: Any, says: list[str]
) -> None:
    plan = make_plan(kind="rescale", reason="from 8 to 2 vnodes")

    assert macros.call("get_report_of_kind", {"plan": plan, "state": {}, "counts": counts}) == says


# -- descending positions -------------------------------------------------------------------------


# -- the order of the config ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finished", "says"),
    [
        (True, []),
        (False, [
            "mv is still backfilled ascending; the backfill_order descending "
            "applies only when the MV is rebuilt"
        ]),
    ],
)  # fmt: skip
def test_a_run_says_that_a_backfill_goes_on_in_its_order(
    macros: Macros, model: None, backfill: Any, options: Any, make_state: Any, finished: bool,
    says: Any,
) -> None:  # fmt: skip
    options["backfill_order"] = "descending"
    macros.call("report_kept_shape", backfill, make_state(finished=finished))

    assert macros.logged == says
