"""The facts that a run has before it sends any statement to Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture(autouse=True)
def nodes(macros: Macros) -> dict[str, Any]:
    """Return the nodes of the project, which create other tables."""
    nodes: dict[str, Any] = {}
    macros.context["graph"] = SimpleNamespace(nodes=nodes)
    return nodes


TABLE = {"materialized": "table"}
OTHER = {"resource_type": "model", "name": "other", "schema": "lake", "config": TABLE}


BESIDE = {"full_refresh_mode": "beside", "live_view": True}
IN_PLACE = {"full_refresh_mode": "in_place", "live_view": False}


@pytest.mark.parametrize(
    ("alias", "stands"),
    [
        ("mv__progress", "its state"),
        ("MV__Barriers", "its state"),
        ("mv__live", "its live view"),
        ("mv__next", "its next generation"),
        ("mv__next__progress", "its next generation"),
    ],
)
def test_a_table_of_the_project_that_has_the_name_of_a_state_is_refused(
    macros: Macros, relations: Any, nodes: dict[str, Any], refused: Any, alias: str, stands: str
) -> None:
    nodes["model.p.other"] = {**OTHER, "alias": alias}

    with refused(
        f"{{name}} is the name of {stands}, but the model other creates a table of the ".format(
            name=f"lake.{alias}".replace("MV__B", "mv__b")
        )
    ):
        macros.call("get_checked_relations", relations["mv"], BESIDE)


@pytest.mark.parametrize("alias", ["mv__next", "mv__live"])
def test_a_next_generation_and_a_live_view_are_only_where_there_are_to_be(
    macros: Macros, relations: Any, nodes: dict[str, Any], alias: str
) -> None:
    nodes["model.p.other"] = {**OTHER, "alias": alias}
    macros.call("get_checked_relations", relations["mv"], IN_PLACE)


@pytest.mark.parametrize(
    "node",
    [
        {"alias": "other__progress"},
        {"alias": "mv__progress", "schema": "elsewhere"},
        {"alias": "mv__progress", "config": {"materialized": "ephemeral"}},
        {"alias": "mv__progress", "resource_type": "test"},
        {"name": "mv"},
    ],
)
def test_other_names_are_let_pass(
    macros: Macros, relations: Any, nodes: dict[str, Any], node: dict[str, Any]
) -> None:
    nodes["model.p.other"] = {**OTHER, **node}
    macros.call("get_checked_relations", relations["mv"], BESIDE)


def test_partitions_are_for_a_live_database_only(
    macros: Macros, up: Any, options: Any, refused: Any
) -> None:
    options["backfill_partitions"] = 4
    with refused(
        "backfill_partitions is 4, but lake.up is not a table of a live database. Remove "
        "backfill_partitions; it sets how many connections read a range of a "
        "live database"
    ):
        macros.call("check_options_of_upstream", {"relation": up, "kind": "delta"}, None, options)
    live = {"relation": up, "kind": "postgres"}
    macros.call("check_options_of_upstream", live, None, options)
