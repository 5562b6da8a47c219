"""The existing tables of an MV, and their creators."""

from __future__ import annotations

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
        **state: Any,
    ) -> dict[str, Any]:
        macros.tables = {
            relations[name].render(): Table(properties=found) for name, found in tables.items()
        }
        macros.results = [[[stored(**state)]]]
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


SNAPSHOT = {"current-snapshot-id": "12"}
WRITE = {"text": "append in snapshot 12", "replaced": True}


@pytest.fixture
def find_iceberg(find: Find, macros: Macros) -> Find:
    """Return what is found for an Iceberg MV at snapshot 12, after this foreign write."""

    def find_iceberg(write: Any, **given: Any) -> dict[str, Any]:
        macros.stub("observe_mv", lambda relations, state: {**state, "foreign_write": write})
        return find({**WHOLE, "mv": OURS | SNAPSHOT}, **given)

    return find_iceberg


def test_an_iceberg_table_that_was_replaced_is_not_although_it_has_them(find_iceberg: Find) -> None:
    """For example, a `table` model replaced the MV and was removed later."""
    found = find_iceberg(WRITE)

    assert found["ours"] == ["progress", "barriers"]
    assert found["foreign"] == {
        "mv": "was replaced or rolled back by something else since the barrier 2"
    }


@pytest.mark.parametrize(
    ("write", "owners"),
    [
        (None, {}),
        ({**WRITE, "replaced": False}, {}),
        ({**WRITE, "plan": "p1"}, {}),
        (WRITE, {"lake.mv": owner("mv", "backfilled_mv")}),
    ],
    ids=["as it was left", "written on", "a late reset", "a model's"],
)
def test_an_iceberg_mv_that_may_be_what_a_barrier_left_is(
    find_iceberg: Find, write: Any, owners: Any
) -> None:
    found = find_iceberg(write, owners=owners)

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
