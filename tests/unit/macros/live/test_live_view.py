"""When the live view is made, refused and dropped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

OURS = {"dbt_backfill.live": "b1", "dbt_backfill.epoch": "2", "dbt_backfill.version": "8"}


@pytest.fixture
def backfill(backfill: dict[str, Any], macros: Macros) -> dict[str, Any]:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.context["apply_grants"] = lambda relation, grants, should_revoke: None
    return {**backfill, "options": {**backfill["options"], "live_view": True}}


@pytest.fixture
def found(macros: Macros) -> dict[str, Any]:
    """What stands under the view's name: its properties; nothing if they are None."""
    found: dict[str, Any] = {"properties": None}
    macros.stub(
        "load_table", lambda relation: relation if found["properties"] is not None else None
    )
    macros.stub("read_table_properties", lambda relation: found["properties"])
    return found


# -- before a run -----------------------------------------------------------------------------


def test_a_view_of_ours_is_found_by_its_properties(
    macros: Macros, backfill: Any, found: Any
) -> None:
    found["properties"] = OURS
    assert macros.call("check_live_view", backfill) == OURS


def test_something_else_of_its_name_is_refused(
    macros: Macros, backfill: Any, found: Any, refused: Any
) -> None:
    found["properties"] = {}
    with refused(
        "lake.mv__live exists, and is no live view of ours. "
        "Drop or rename it, or set live_view to false."
    ):
        macros.call("check_live_view", backfill)


def test_a_schema_in_which_spark_makes_no_view_is_refused(
    macros: Macros, backfill: Any, found: Any, refused: Any
) -> None:
    macros.results = [[['{"failed": false}']], [['{"failed": true}']]]
    assert macros.call("check_live_view", backfill) is None
    with refused(
        "live_view needs a catalog with views, and Spark could not make one beside lake.mv. "
        "Set live_view to false, or keep the MV in a catalog that has views."
    ):
        macros.call("check_live_view", backfill)


def test_without_the_option_nothing_is_asked(macros: Macros, backfill: Any) -> None:
    backfill["options"]["live_view"] = False
    macros.stub("load_table", lambda relation: pytest.fail("asked"))
    assert macros.call("check_live_view", backfill) is None


# -- after a barrier --------------------------------------------------------------------------


@pytest.fixture
def made(macros: Macros) -> list[str]:
    """The texts of the views that are made."""
    made: list[str] = []
    macros.stub("read_version", lambda backfill, table: "8")
    macros.stub("get_live_sql", lambda backfill, state, version, places: f"the rows at {version}")
    macros.stub("run_table", lambda step, sql, mv=None: made.append(" ".join(sql.split())))
    return made


def test_the_view_is_made_only_if_the_state_still_stands(
    macros: Macros, backfill: Any, make_state: Any, made: list[str]
) -> None:
    macros.call("run_live_view", backfill, make_state())

    assert made == [
        "begin if ( select count(*) from lake.mv__progress where vnode = 0 and epoch = 2 and "
        "plan_id is null and get_json_object(last, '$.backfill_id') = 'b1' ) = 1 then "
        "create or replace view lake.mv__live comment 'The whole of lake.mv after its barrier 2, "
        "at the version 16 of lake.up' tblproperties ( 'dbt_backfill.live' = 'b1', "
        "'dbt_backfill.epoch' = '2', 'dbt_backfill.version' = '8' ) as the rows at 8; end if; end"
    ]


@pytest.mark.parametrize(
    "state",
    [
        {"dirty": True},
        {"upstream_version": None},
        {"committed": {"begun_anew": True}},
    ],
)
def test_the_view_of_before_stays_where_the_state_is_of_no_version(
    macros: Macros, backfill: Any, make_state: Any, made: list[str], state: dict[str, Any]
) -> None:
    macros.call("run_live_view", backfill, make_state(**state))
    assert made == []


def test_the_generation_that_is_filled_beside_the_mv_has_none(
    macros: Macros, backfill: Any, make_state: Any, made: list[str]
) -> None:
    macros.call("run_live_view", {**backfill, "generation": "next"}, make_state())
    assert made == []
    macros.call("run_live_view", {**backfill, "generation": "former"}, make_state())
    assert len(made) == 1


def test_the_view_gets_the_grants_of_the_mv_that_a_view_can_have(
    macros: Macros, backfill: Any, make_state: Any, made: list[str]
) -> None:
    granted: list[Any] = []
    macros.config["grants"] = {"select": ["ada"], "modify": ["bob"]}
    macros.context["apply_grants"] = lambda relation, grants, should_revoke: granted.append(
        (relation.render(), grants)
    )
    macros.call("run_live_view", backfill, make_state())
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
    made: list[int] = []
    macros.stub("run_live_view", lambda backfill, state: made.append(state["epoch"]))
    macros.stub("read_version", lambda backfill, table: "8")
    result = {"state": make_state(), "barriers": barriers, "filling": filling}

    macros.call("settle_live_view", backfill, result, found)

    assert made == ([2] if makes else [])


@pytest.mark.parametrize(("properties", "drops"), [(OURS, True), ({}, False), (None, False)])
def test_a_view_of_ours_is_dropped_where_it_is_not_asked_for_any_more(
    macros: Macros, backfill: Any, found: Any, made: list[str], properties: Any, drops: bool
) -> None:
    found["properties"] = properties
    backfill["options"]["live_view"] = False

    macros.call("settle_live_view", backfill, {}, None)

    assert made == (["begin drop view if exists lake.mv__live; end"] if drops else [])
