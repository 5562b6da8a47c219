"""Which relation an MV follows, and what is refused as an upstream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros


@pytest.fixture
def get(macros: Macros) -> Any:
    """The upstream of a model that depends on `nodes`; `relation` is what the catalog has."""

    def get(nodes: dict[str, dict[str, Any]], **relation: Any) -> dict[str, Any]:
        macros.context["model"] = {
            "name": "mv",
            "depends_on": SimpleNamespace(nodes=list(nodes)),
        }
        macros.context["graph"] = SimpleNamespace(
            nodes={id: node for id, node in nodes.items() if not id.startswith("source.")},
            sources={id: node for id, node in nodes.items() if id.startswith("source.")},
        )
        known = {"schema": "lake", "identifier": "up", "type": "table", "is_delta": True}
        found = SparkRelation.create(**{**known, **relation}) if relation != {"is": None} else None
        macros.context["adapter"].get_relation = lambda database, schema, identifier: found
        return macros.call("get_upstream")

    return get


MODEL = {"name": "up", "schema": "lake", "alias": "up", "config": {"materialized": "table"}}
SOURCE = {"name": "up", "schema": "raw", "identifier": "up_v2"}


def test_the_upstream_is_the_one_model_that_is_read(get: Any) -> None:
    upstream = get({"model.p.up": {**MODEL, "alias": "up_renamed"}, "macro.p.x": {}})

    assert (upstream["relation"].render(), upstream["kind"]) == ("lake.up_renamed", "delta")


def test_the_upstream_may_be_a_source_under_its_identifier(get: Any) -> None:
    assert get({"source.p.raw.up": SOURCE})["relation"].render() == "raw.up_v2"


def test_the_upstream_may_be_a_seed_or_snapshot_without_alias(get: Any) -> None:
    node = {"name": "up", "schema": "lake", "config": {}}

    assert get({"snapshot.p.up": node})["relation"].render() == "lake.up"


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ({}, "no model or source"),
        ({"macro.p.m": {}, "operation.p.o": {}}, "no model or source"),
        ({"model.p.a": {"name": "a"}, "source.p.r.b": {"name": "b"}}, "a, b"),
    ],
)
def test_a_query_that_does_not_read_one_upstream_is_refused(
    get: Any, refused: Any, nodes: dict[str, Any], what: str
) -> None:
    with refused(f"its query reads {what}. Read one upstream, by ref() or source()."):
        get(nodes)


def test_an_ephemeral_upstream_is_refused(get: Any, refused: Any) -> None:
    with refused(
        "its upstream up is an ephemeral model, which has no versions. Materialize up as a Delta "
        "table."
    ):
        get({"model.p.up": {**MODEL, "config": {"materialized": "ephemeral"}}})


def test_an_upstream_that_does_not_exist_is_refused(get: Any, refused: Any) -> None:
    with refused("its upstream lake.up does not exist. Create it first."):
        get({"model.p.up": MODEL}, **{"is": None})


def test_a_view_is_refused(get: Any, refused: Any) -> None:
    with refused("its upstream lake.up is a view, which has no versions. Read the table under "):
        get({"model.p.up": MODEL}, type="view", is_delta=False)


def test_a_table_without_versions_is_refused(get: Any, refused: Any) -> None:
    with refused("its upstream lake.up is not a Delta table. "):
        get({"model.p.up": MODEL}, is_delta=False)


def test_what_the_protocol_asks_is_answered_by_the_upstreams_kind(macros: Macros, up: Any) -> None:
    upstream = {"relation": up, "kind": "delta"}

    assert macros.call("get_upstream_read", upstream, "7") == "lake.up version as of 7"
    assert "table_changes('lake.up', 8, 9)" in macros.call("get_upstream_changes", upstream, "7", 9)


@pytest.mark.parametrize(
    ("known", "provider", "is_delta"),
    [
        ({"is_delta": True, "information": "Provider: delta"}, None, True),
        ({"is_delta": True}, None, True),
        ({"is_delta": False, "information": "Provider: parquet"}, None, False),
        ({}, "delta", True),
        ({}, "parquet", False),
    ],
)
def test_spark_is_asked_for_the_format_of_a_table_that_was_built_in_the_same_invocation(
    macros: Macros, known: dict[str, Any], provider: str | None, is_delta: bool
) -> None:
    """dbt's cache has it as its materialization returned it, without what Spark says of it."""
    relation = SparkRelation.create(schema="lake", identifier="up", type="table", **known)
    macros.results = [[["id", "bigint", None], ["Provider", provider, ""], ["Owner", "me", ""]]]

    assert macros.call("is_delta", relation) is is_delta
    assert len(macros.statements) == (provider is not None)


def test_a_table_that_spark_tells_no_format_of_is_not_a_delta_table(macros: Macros) -> None:
    relation = SparkRelation.create(schema="lake", identifier="up", type="table")
    macros.results = [[["id", "bigint", None]]]

    assert macros.call("is_delta", relation) is False
