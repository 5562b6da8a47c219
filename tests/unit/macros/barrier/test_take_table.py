"""A run takes over a table that has the MV's name but is not an MV yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import md5
from types import SimpleNamespace
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

MARKED = {"dbt_backfill.adopt": md5(b"model.p.mv").hexdigest()}


@pytest.fixture(autouse=True)
def run(macros: Macros) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.context["should_full_refresh"] = lambda: macros.context.get("refreshes", False)


@pytest.fixture
def existing(relations: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """Return the existing relations: the MV as a table or a view, and the named state tables."""

    def existing(*others: str, type: str = "table") -> dict[str, Any]:
        mv = relations["mv"].incorporate(type=type)
        return {
            "mv": mv,
            **{
                name: relations[name] if name in others else None
                for name in ("progress", "barriers")
            },
        }

    return existing


@pytest.fixture
def taking(macros: Macros, backfill: Any, options: Any, existing: Any) -> Callable[..., Any]:
    def taking(
        *others: str, refreshes: bool = False, replace_existing: bool = False, **properties: str
    ) -> Any:
        macros.context["refreshes"] = refreshes
        options["replace_existing"] = replace_existing
        return macros.call("find_takeover", backfill, existing(*others), properties)

    return taking


OTHER = {"dbt_backfill.adopt": md5(b"model.p.other").hexdigest()}
OURS, THEIRS = {"dbt_backfill.id": "b1"}, {"dbt_backfill.id": "b2"}
REPLACE = {"refreshes": True, "replace_existing": True}


@pytest.mark.parametrize(
    ("others", "flags", "properties", "how"),
    [
        ([], {}, MARKED, "adopt"),
        (["progress"], {}, MARKED, "adopt"),
        (["progress"], {}, MARKED | THEIRS, "adopt"),
        # `adopt_table` may run twice, and a run may take over the table in between.
        (["progress"], {}, MARKED | OURS, None),
        ([], {}, OTHER, None),
        ([], {}, {"dbt_backfill.adopt": ""}, None),
        ([], {}, {}, None),
        # A full refresh replaces an existing table only if the model allows it.
        ([], REPLACE, {}, "replace"),
        ([], {"refreshes": True}, {}, None),
        ([], {"replace_existing": True}, {}, None),
        # A full refresh of an existing MV does not replace another table.
        (["progress"], REPLACE, OURS, None),
        # A run that died has created the state, but the table does not have the id of that state
        # yet.
        (["progress"], REPLACE, THEIRS, "replace"),
        (["progress"], REPLACE, {}, "replace"),
    ],
)
def test_a_table_is_taken_that_is_marked_or_to_be_replaced(
    macros: Macros, taking: Any, others: list[str], flags: Any, properties: Any, how: str | None
) -> None:
    macros.stub("read_table_properties", lambda relation: OURS)

    assert taking(*others, **flags, **properties) == how


def test_what_is_to_be_adopted_is_not_emptied_by_a_full_refresh(taking: Any, refused: Any) -> None:
    with refused("lake.mv is to be adopted, but a full refresh would empty it. Run without"):
        taking(refreshes=True, **MARKED)
    assert taking(refreshes=True, replace_existing=True, **MARKED) == "replace"


@pytest.mark.parametrize(
    ("left", "replaces"),
    [
        ({"kind": "adopt"}, None),
        ({"kind": "create"}, "b1"),
        ({"kind": "replace"}, "b1"),
        ({"kind": "adopt", "query_hash": "h2", "query": "select 2 as k"}, "b1"),
    ],
)
def test_a_run_that_died_is_completed_or_gives_way(
    macros: Macros, left_with: Any, make_plan: Any, left: Any, replaces: str | None
) -> None:
    creation = left_with(epoch=0, committed=make_plan(epoch=0, **left))

    assert (creation["kind"], creation["replaces"]) == ("adopt", replaces)


def test_the_version_of_an_adopted_table_is_known_from_the_start(
    macros: Macros, duck: Duck, left_with: Any, make_plan: Any
) -> None:
    """The first barrier can then find a write that came after the adoption."""
    left = {"epoch": 0, "committed": make_plan(epoch=0, kind="adopt")}
    creation = left_with(**left)

    assert creation["mv_version"] == "7"
    [(stored,)] = duck.rows(f"select {macros.call('get_plan_json_sql', creation)}")
    assert json.loads(stored)["mv_version"] == "7"


@pytest.mark.parametrize("left", [{"epoch": 3}, {"epoch": 0, "committed": None}])
def test_the_state_of_another_table_is_refused(left_with: Any, refused: Any, left: Any) -> None:
    with refused(
        "lake.mv__progress exists, but is the state of an earlier table with the name lake.mv. "
        "Drop the state and the history: dbt run-operation drop_backfill --args '{model: mv, "
    ):
        left_with(**left)


@pytest.fixture
def left_with(
    macros: Macros, backfill: Any, analysis: Any, existing: Any, make_state: Any
) -> Callable[..., Any]:
    """Return the plan of epoch 0 with which the table is adopted, over this state.

    The table has the version 7.
    """

    def left_with(**state: Any) -> Any:
        created: list[Any] = []
        missing = {"analysis": analysis, "state": make_state()}
        for name, answer in {
            "check_leftovers_are_ours": None, "read_left_state": make_state(**state),
            "prepare_creation": [], "get_set_properties_sql": "alter", "adopted_properties": {},
            "read_table_properties": {}, "observe_missing": missing, "observe_existing": {},
            "check_adopted": {"row_count": 1, "version": "7", "partitions": []},
        }.items():  # fmt: skip
            macros.stub(name, lambda *_, answer=answer: answer)
        macros.stub("create_backfill", lambda _, state, *__: created.append(state))
        found = {"existing": existing("progress"), "properties": MARKED, "takeover": "adopt"}
        macros.call("take_over_table", backfill, {**found, "settings": {}})
        return created[0]["committed"]

    return left_with


def test_a_full_refresh_replaces_a_table_of_its_format_and_a_view(
    macros: Macros, backfill: Any, existing: Any, make_state: Any, refused: Any
) -> None:
    formats = iter(["parquet", "delta"])
    observed = {"state": make_state(), "analysis": None}
    for name, answer in {
        "check_leftovers_are_ours": None, "read_left_state": None, "prepare_creation": [],
        "create_backfill": None, "get_set_properties_sql": "alter", "own_mv_properties": {},
        "get_create_mv_sql": "create", "read_table_properties": {}, "observe_missing": observed,
        "observe_existing": observed,
    }.items():  # fmt: skip
        macros.stub(name, lambda *_, answer=answer: answer)
    macros.stub("get_table_format", lambda existing, mv: next(formats))

    def replace(type: str) -> None:
        found = {"existing": existing(type=type), "properties": {}, "takeover": "replace"}
        macros.call("take_over_table", backfill, {**found, "settings": {}})

    with refused("lake.mv is a table of the format parquet, but delta tables cannot repla"):
        replace("table")
    replace("table")
    replace("view")


@pytest.mark.parametrize(("count", "rows"), [(1234, "1,234 rows are"), (1, "1 row is")])
def test_it_is_said_what_an_adoption_is_about_to_do(
    macros: Macros, backfill: Any, existing: Any, make_state: Any, count: int, rows: str
) -> None:
    observed = {"state": make_state(), "mv": None, "analysis": None}
    for name, answer in {
        "check_leftovers_are_ours": None, "read_left_state": None, "prepare_creation": [],
        "create_backfill": None, "get_set_properties_sql": "alter", "adopted_properties": {},
        "read_table_properties": {}, "observe_missing": observed, "observe_existing": observed,
        "check_adopted": {"row_count": count, "version": "7", "partitions": []},
    }.items():  # fmt: skip
        macros.stub(name, lambda *_, answer=answer: answer)
    found = {"existing": existing(), "properties": MARKED, "takeover": "adopt", "settings": {}}
    macros.call("take_over_table", backfill, found)

    assert macros.logged == [
        f"mv adopts lake.mv: its {rows} compared with its query, up to 10 rows of the "
        "upstream per barrier, and only what differs is written"
    ]
