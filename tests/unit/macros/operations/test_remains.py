"""The existing tables of an MV, and their creators."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros, Table

OURS = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}
HISTORY = {"dbt_backfill.format": "2"}
WHOLE = {"mv": OURS, "progress": OURS, "barriers": HISTORY}
FOREIGN = "was not made by this materialization"

Find = Callable[..., dict[str, Any]]


def owner(name: str, materialized: str, resource_type: str = "model") -> dict[str, Any]:
    config = {"materialized": materialized}
    return {"name": name, "resource_type": resource_type, "config": config}


@pytest.fixture
def find(macros: Macros, relations: dict[str, Any], stored: Callable[..., str]) -> Find:
    """Return what is found if the tables have these properties.

    Tables that are not listed do not exist.
    """

    def find(
        tables: dict[str, dict[str, str]],
        owners: dict[str, Any] | None = None,
        history: Any = None,
        **state: Any,
    ) -> dict[str, Any]:
        macros.tables = {
            relations[name].render(): Table(properties=found) for name, found in tables.items()
        }
        macros.results = [[[stored(**state)]], *([[[json.dumps(history)]]] if history else [])]
        existing = {name: r if name in tables else None for name, r in relations.items()}
        found: dict[str, Any] = macros.call("find_remains", relations, existing, owners or {})
        return found

    return find


def test_three_tables_are_ours_by_their_properties(find: Find) -> None:
    found = find(WHOLE)

    assert (found["ours"], found["foreign"]) == (["mv", "progress", "barriers"], {})
    assert found["state"]["committed"]["backfill_id"] == "b1"


@pytest.mark.parametrize(
    ("properties", "ours"),
    [({"dbt_backfill.live": "b1"}, ["progress", "live"]), ({}, ["progress"])],
)
def test_a_live_view_is_told_only_if_it_is_ours(
    find: Find, properties: dict[str, str], ours: list[str]
) -> None:
    found = find({"progress": OURS, "live": properties})

    assert (found["ours"], found["foreign"]) == (ours, {})


@pytest.mark.parametrize("table", WHOLE)
def test_what_is_left_of_them_is_ours_too(find: Find, table: str) -> None:
    found = find({table: WHOLE[table]})

    assert (found["ours"], found["foreign"]) == ([table], {})
    assert (found["state"] is None) == (table != "progress")


@pytest.mark.parametrize(
    ("table", "properties"),
    [
        ("mv", {}),
        ("mv", HISTORY),
        ("progress", {"delta.minReaderVersion": "1"}),
        ("barriers", {}),
        ("barriers", OURS),
    ],
    ids=["a table", "a history", "no state", "no history", "an MV of such a name"],
)
def test_a_table_without_them_is_not(find: Find, table: str, properties: Any) -> None:
    found = find({**WHOLE, table: properties})

    assert found["ours"] == [name for name in WHOLE if name != table]
    assert found["foreign"] == {table: FOREIGN}


def test_a_view_is_not_and_is_not_asked(macros: Macros, relations: dict[str, Any]) -> None:
    view = relations["mv"].incorporate(type="view")
    existing = {"mv": view, "progress": None, "barriers": None}

    assert macros.call("find_remains", relations, existing, {})["foreign"] == {"mv": FOREIGN}
    assert macros.statements == []


def test_tables_of_another_format_are_ours_but_nothing_is_read(macros: Macros, find: Find) -> None:
    old = {"dbt_backfill.format": "1"}
    found = find({"mv": OURS | old, "progress": OURS | old, "barriers": old})

    assert found == {"ours": ["mv", "progress", "barriers"], "foreign": {}, "state": None}
    assert macros.statements == []


def test_a_table_that_another_node_makes_is_not_whatever_its_properties_say(find: Find) -> None:
    """Iceberg keeps the properties when a table is replaced, and the materialization `incremental`
    does not even replace the table.
    """
    found = find(WHOLE, {"lake.mv": owner("mv", "incremental")})
    assert found["foreign"] == {"mv": "is built by the model mv"}
    assert found["ours"] == ["progress", "barriers"]

    found = find(WHOLE, {"lake.mv__progress": owner("other", "seed", "seed")})
    assert found["foreign"] == {"progress": "is built by the seed other"}

    found = find(WHOLE, {"lake.mv__progress": owner("mv__progress", "backfilled_mv")})
    assert found["foreign"] == {"progress": "is built by the model mv__progress"}


RESET = {"dbt_backfill.reset": "p1 of another run"}
REPLACED = {"entries": 1, "ancestors": 0, "begun": 1, "rows": 7}
SNAPSHOT = {"current-snapshot-id": "12"}


@pytest.fixture
def find_iceberg(find: Find, make_plan: Callable[..., Any]) -> Find:
    """Return what is found for an Iceberg MV at snapshot 12.

    The last barrier left it at 11, or at `known`.
    """
    at = "2024-05-01T10:00:00Z"

    def find_iceberg(history: Any = None, known: str = "11", **given: Any) -> dict[str, Any]:
        mv = OURS | SNAPSHOT | given.pop("properties", {})
        committed = make_plan(epoch=2, mv_snapshot_id=known, committed_at=at)
        return find({**WHOLE, "mv": mv}, history=history, **({"committed": committed} | given))

    return find_iceberg


@pytest.mark.parametrize(
    "given",
    [{}, {"properties": RESET}, {"planned": {"kind": "reset"}}],
    ids=["", "after a reset", "before a reset"],
)
def test_an_iceberg_table_that_was_replaced_is_not_although_it_has_them(
    find_iceberg: Find, given: Any
) -> None:
    """For example, a `table` model replaced the MV and was removed later."""
    found = find_iceberg(REPLACED, **given)

    assert found["ours"] == ["progress", "barriers"]
    assert found["foreign"] == {
        "mv": "was replaced or rolled back by something else since the barrier 2"
    }


@pytest.mark.parametrize(
    "given",
    [
        {"known": "12"},
        {"history": {**REPLACED, "ancestors": 1}},
        {"history": {**REPLACED, "rows": 0}},
        {"history": {**REPLACED, "entries": 0, "begun": 0}},
        {"properties": RESET, "history": {**REPLACED, "rows": 0}},
        {"planned": {"kind": "reset"}, "history": {**REPLACED, "rows": 0}},
        {"owners": {"lake.mv": owner("mv", "backfilled_mv")}},
    ],
    ids=["as it was left", "written on", "empty", "expired", "reset", "being reset", "a model's"],
)
def test_an_iceberg_mv_that_may_be_what_a_barrier_left_is(find_iceberg: Find, given: Any) -> None:
    found = find_iceberg(**given)

    assert (found["ours"], found["foreign"]) == (["mv", "progress", "barriers"], {})


@pytest.mark.parametrize(
    ("ours", "text"),
    [
        (["mv", "progress", "barriers"], "MV, state and history"),
        (["barriers", "progress"], "state and history"),
        (["barriers"], "history"),
    ],
)
def test_what_there_is_is_told(macros: Macros, ours: list[str], text: str) -> None:
    assert macros.call("get_remains_text", {"ours": ours}) == text


def test_a_table_is_made_by_the_model_seed_or_snapshot_of_its_name(macros: Macros) -> None:
    """Spark ignores the case of names. An ephemeral model creates no table."""

    def node(name: str, of: str, materialized: str, alias: str = "") -> dict[str, Any]:
        made = {**owner(name, materialized, of), "schema": "Lake", "alias": alias or name}
        return {f"{of}.{name}": made}

    nodes = {
        **node("a", "model", "view", alias="A_View"),
        **node("b", "seed", "seed"),
        **node("c", "snapshot", "snapshot"),
        **node("d", "model", "ephemeral"),
        **node("e", "test", "test"),
    }
    macros.context["graph"] = SimpleNamespace(nodes=nodes)

    owners = macros.call("get_owners", "spark_catalog")

    names = {table: node["name"] for table, node in owners.items()}
    assert names == {"lake.a_view": "a", "lake.b": "b", "lake.c": "c"}
