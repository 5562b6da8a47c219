"""The creation, the refusal and the removal of the live view."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros, Table

OURS = {"dbt_backfill.live": "b1", "dbt_backfill.epoch": "2", "dbt_backfill.version": "8"}


@pytest.fixture
def backfill(backfill: dict[str, Any], macros: Macros) -> dict[str, Any]:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.context["apply_grants"] = lambda relation, grants, should_revoke: None
    return {**backfill, "options": {**backfill["options"], "live_view": True}}


# -- before a run -----------------------------------------------------------------------------


def test_a_view_of_ours_is_found_by_its_properties(macros: Macros, backfill: Any) -> None:
    macros.tables["lake.mv__live"] = Table(type="view", properties=OURS)
    assert macros.call("check_live_view", backfill) == OURS


def test_something_else_of_its_name_is_refused(macros: Macros, backfill: Any, refused: Any) -> None:
    macros.tables["lake.mv__live"] = Table()
    with refused(
        "lake.mv__live exists, but is not a live view of this package. "
        "Drop or rename that relation, or set live_view to false."
    ):
        macros.call("check_live_view", backfill)


def test_a_schema_in_which_spark_makes_no_view_is_refused(
    macros: Macros, backfill: Any, refused: Any
) -> None:
    macros.results = [[['{"failed": false}']], [['{"failed": true}']]]
    assert macros.call("check_live_view", backfill) is None
    with refused(
        "live_view needs a catalog with views, but Spark could not create a view beside lake.mv. "
        "Set live_view to false, or keep the MV in a catalog that has views."
    ):
        macros.call("check_live_view", backfill)


# -- after a barrier --------------------------------------------------------------------------


@pytest.fixture
def made(macros: Macros, backfill: Any) -> Callable[..., int]:
    """Return the number of views that are created after a barrier.

    The version of the MV is then 8.
    """

    def made(state: dict[str, Any], **changes: Any) -> int:
        macros.statements.clear()
        macros.results = [[{"version": 8}]]
        macros.call("run_live_view", {**backfill, **changes}, state)
        return sum("create or replace view" in each.sql for each in macros.statements)

    return made


@pytest.mark.parametrize(
    "state",
    [
        {"dirty": True},
        {"upstream_version": None},
        {"committed": {"foreign_write": {"text": "UPDATE"}}},
    ],
)
def test_the_view_of_before_stays_where_the_state_is_of_no_version(
    made: Callable[..., int], make_state: Any, state: dict[str, Any]
) -> None:
    assert made(make_state()) == 1
    assert made(make_state(**state)) == 0


def test_the_view_is_made_only_if_the_state_still_stands(
    macros: Macros, made: Callable[..., int], make_state: Any
) -> None:
    """Another run may have committed after the state was read."""
    assert made(make_state()) == 1
    guard, _ = " ".join(macros.statements[-1].sql.split()).split("create or replace view")
    assert "if ( select count(*) from lake.mv__progress where" in guard
    assert "epoch = 2 and plan_id is null" in guard and "= 'b1' ) = 1 then" in guard


def test_the_generation_that_is_filled_beside_the_mv_has_none(
    made: Callable[..., int], make_state: Any
) -> None:
    assert made(make_state(), generation="next") == 0
    assert made(make_state(), generation="former") == 1


def test_the_view_gets_the_grants_of_the_mv_that_a_view_can_have(
    macros: Macros, made: Callable[..., int], make_state: Any
) -> None:
    granted: list[Any] = []
    macros.config["grants"] = {"select": ["ada"], "modify": ["bob"]}
    macros.context["apply_grants"] = lambda relation, grants, should_revoke: granted.append(
        (relation.render(), grants)
    )
    made(make_state())
    assert granted == [("lake.mv__live", {"select": ["ada"]})]


# -- at the end of a run ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "barriers", "filling", "makes"),
    [
        (OURS, 0, False, False),
        (OURS, 2, False, False),
        (None, 0, False, True),
        (None, 2, False, False),
        ({**OURS, "dbt_backfill.epoch": "1"}, 0, False, True),
        ({**OURS, "dbt_backfill.live": "b0"}, 0, False, True),
        ({**OURS, "dbt_backfill.version": "7"}, 0, False, True),
        (None, 0, True, False),
    ],
)
def test_a_run_makes_the_view_that_no_barrier_of_it_has_made(
    macros: Macros,
    backfill: Any,
    make_state: Any,
    found: Any,
    barriers: int,
    filling: bool,
    makes: bool,
) -> None:
    macros.results = [[{"version": 8}]] * 2
    result = {"state": make_state(), "barriers": barriers, "filling": filling}

    macros.call("make_or_drop_live_view", backfill, result, found)

    made = ["create or replace view" in each.sql for each in macros.statements]
    assert any(made) is makes


@pytest.mark.parametrize(("properties", "drops"), [(OURS, True), ({}, False)])
def test_a_view_of_ours_is_dropped_where_it_is_not_asked_for_any_more(
    macros: Macros, backfill: Any, properties: Any, drops: bool
) -> None:
    macros.tables["lake.mv__live"] = Table(type="view", properties=properties)
    backfill["options"]["live_view"] = False

    macros.call("make_or_drop_live_view", backfill, {}, None)

    dropped = ["drop view if exists lake.mv__live" in each.sql for each in macros.statements]
    assert dropped == ([True] if drops else [])


# -- what the view shows ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "reached"),
    [
        ({"position": None}, []),
        ({"position": ["3", "2"]}, [(1, 1), (2, 1), (3, 1), (3, 2)]),
        ({"position": None, "finished": True, "any_finished": True}, None),
        ({"position": None, "uniform": False}, [(1, 1), (5, 1)]),
    ],
    ids=["not started", "under way", "finished", "different positions"],
)
def test_it_is_the_whole_query_wherever_the_vnodes_are(
    macros: Macros, duck: Duck, backfill: Any, make_state: Any, make_plan: Any, state: Any,
    reached: Any,
) -> None:  # fmt: skip
    """The live view also has rows with a null key, which no range reads. The MV has only rows that
    the backfill has reached.
    """
    keys = [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (5, 1)]
    nulls = [(None, 1), (4, None)] if not state.get("finished") else []
    duck.create("lake.up@17", {"id": "bigint", "shard": "int"}, keys + nulls)
    found = keys if reached is None else reached
    duck.create("lake.mv@8", {"k": "bigint", "shard": "int"}, found)
    plan = make_plan(query="select id as k, shard from `up`", query_columns="k: bigint, shard: int")
    made = make_state(upstream_version="17", committed=plan, **state)

    rows = duck.rows(macros.call("get_live_sql", backfill, made, "8"))

    assert sorted(rows, key=str) == sorted(keys + nulls, key=str)
