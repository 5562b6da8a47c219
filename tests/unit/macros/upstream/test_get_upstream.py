"""The relation that an MV follows, and refusals of other relations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros


@pytest.fixture
def get(macros: Macros) -> Any:
    """Return the upstream of a model that depends on `nodes`. The catalog has `relation`."""

    def get(
        nodes: dict[str, dict[str, Any]],
        change_feed: Any = None,
        sql: str = "select 1",
        **relation: Any,
    ) -> dict[str, Any]:
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
        if not any("." in node.get("schema", "") for node in nodes.values()):
            macros.stub("find_table", lambda relation: found)
        return macros.call("get_upstream", sql, change_feed)["upstream"]

    return get


MODEL = {"name": "up", "schema": "lake", "alias": "up", "config": {"materialized": "table"}}
SOURCE = {"name": "up", "schema": "raw", "identifier": "up_v2"}


def test_the_upstream_is_the_one_model_that_is_read(get: Any) -> None:
    others = {"macro.p.x": {}, "function.p.f": {}}
    upstream = get({"model.p.up": {**MODEL, "alias": "up_renamed"}, **others})

    assert (upstream["relation"].render(), upstream["kind"]) == ("lake.up_renamed", "delta")


def test_the_upstream_may_be_a_source_under_its_identifier(get: Any) -> None:
    assert get({"source.p.raw.up": SOURCE})["relation"].render() == "raw.up_v2"


def test_the_name_of_a_source_may_have_to_be_quoted(get: Any) -> None:
    source = {**SOURCE, "identifier": "up-v2", "quoting": {"identifier": True, "schema": None}}

    assert get({"source.p.raw.up": source})["relation"].render() == "raw.`up-v2`"
    source["quoting"] = {"identifier": False, "schema": True}
    source["identifier"] = "up_v2"
    assert get({"source.p.raw.up": source})["relation"].render() == "`raw`.up_v2"


def test_the_upstream_may_be_a_seed_or_snapshot_without_alias(get: Any) -> None:
    node = {"name": "up", "schema": "lake", "config": {}}

    assert get({"snapshot.p.up": node})["relation"].render() == "lake.up"


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ({}, "no model or source"),
        ({"macro.p.m": {}, "operation.p.o": {}}, "no model or source"),
        (
            {
                "model.p.a": {"name": "a", "schema": "lake"},
                "source.p.r.b": {"name": "b", "schema": "lake"},
            },
            "a, b",
        ),
    ],
)
def test_a_query_that_does_not_read_one_upstream_is_refused(
    get: Any, refused: Any, nodes: dict[str, Any], what: str
) -> None:
    with refused(f"its query reads {what}. Read one upstream, by ref() or source()."):
        get(nodes)


def test_what_only_a_hook_refers_to_is_no_upstream(get: Any, refused: Any) -> None:
    """dbt lists a relation that only a hook reads among the dependencies of the model."""
    nodes = {"model.p.audit": {"name": "audit", "schema": "lake"}, "model.p.up": MODEL}

    assert get(nodes, sql="select * from lake.up")["relation"].render() == "lake.up"
    with refused("its query reads audit, up. "):
        get(nodes, sql="select * from lake.up join lake.audit")


PROD = {"database": None, "schema": "prod", "alias": "up", "name": "up"}


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("select * from prod.up", "prod.up"),
        ("select * from lake.up", "lake.up"),
        ("select 'prod.up' from lake.up", "lake.up"),
    ],
)
def test_an_upstream_that_is_deferred_is_the_one_that_the_query_reads(
    get: Any, sql: str, reads: str
) -> None:
    """With `--defer`, ref() may choose the table of another environment."""
    upstream = get({"model.p.up": {**MODEL, "defer_relation": PROD}}, sql=sql)

    assert upstream["relation"].render() == reads


def test_a_change_table_that_is_deferred_is_the_one_that_a_comment_names(macros: Macros) -> None:
    node = {**MODEL, "defer_relation": PROD}
    for name in ("prod.up", "lake.up"):
        sql = f"select 1 -- depends_on: {name}, and of lake.up_to_date"
        assert macros.call("get_read_relation", node, sql).render() == name


def test_the_upstream_of_an_ephemeral_model_is_the_table_that_it_reads(
    get: Any, macros: Macros
) -> None:
    ephemeral = {"name": "stg", "config": {"materialized": "ephemeral"}}
    nodes = {"model.p.stg": {**ephemeral, "depends_on": SimpleNamespace(nodes=["model.p.in"])}}
    inner = {"model.p.in": {**ephemeral, "depends_on": SimpleNamespace(nodes=["source.p.raw.up"])}}
    get({"source.p.raw.up": SOURCE})
    graph = macros.context["graph"]
    graph.nodes = {**nodes, **inner}
    macros.context["model"]["depends_on"] = SimpleNamespace(nodes=["model.p.stg", "macro.p.x"])

    assert macros.call("get_upstream", "")["upstream"]["relation"].render() == "raw.up_v2"


def test_an_upstream_that_does_not_exist_is_refused(get: Any, refused: Any) -> None:
    with refused("its upstream lake.up does not exist. Create the upstream first."):
        get({"model.p.up": MODEL}, **{"is": None})


def test_a_table_without_versions_is_refused(get: Any, refused: Any) -> None:
    with refused("its upstream lake.up is neither a Delta nor an Iceberg table. "):
        get({"model.p.up": MODEL}, is_delta=False, information="Provider: parquet")


def test_an_iceberg_table_can_be_followed(get: Any) -> None:
    upstream = get({"model.p.up": MODEL}, is_delta=False, is_iceberg=True)

    assert (upstream["relation"].render(), upstream["kind"]) == ("lake.up", "iceberg")


def test_the_upstream_may_be_a_table_of_another_catalog(get: Any, macros: Macros) -> None:
    macros.results = [[["lake", "up_v2", False, "Type: MANAGED\nProvider: iceberg\n"]]]
    upstream = get({"source.p.raw.up": {**SOURCE, "schema": "prod.lake"}}, **{"is": None})

    assert (upstream["relation"].render(), upstream["kind"]) == ("prod.lake.up_v2", "iceberg")


CHANGES = {"name": "changes", "schema": "raw", "unique_id": "source.p.raw.changes"}


def test_a_change_table_is_read_beside_the_upstream(get: Any, refused: Any) -> None:
    nodes = {"model.p.up": MODEL, "source.p.raw.changes": CHANGES}

    feed = {"node": CHANGES, "format": "declared", "position": None}
    assert get(nodes, change_feed=feed)["relation"].render() == "lake.up"
    with refused("its change_feed is for a PostgreSQL table, because it sets format landed"):
        get(nodes, change_feed={**feed, "format": "landed"})
    with refused("its change_feed is for a PostgreSQL table, because it sets position, but its"):
        get(nodes, change_feed={**feed, "position": "at"})
    with refused("its query reads up, changes. "):
        get(nodes)
