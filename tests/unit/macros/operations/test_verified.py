"""Which models can be verified, and when."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros


def node(name: str, package: str = "ours", **config: Any) -> dict[str, Any]:
    return {
        "unique_id": f"model.{package}.{name}",
        "resource_type": "model",
        "package_name": package,
        "name": name,
        "alias": name,
        "schema": "lake",
        "config": {"materialized": "backfilled_mv", **config},
    }


@pytest.fixture
def graph(macros: Macros) -> Callable[..., None]:
    def graph(*nodes: dict[str, Any]) -> None:
        found = {each["unique_id"]: each for each in nodes}
        macros.context["graph"] = SimpleNamespace(nodes=found)

    return graph


def refusal(macros: Macros, macro: str, *arguments: Any) -> str:
    with pytest.raises(CompilationError) as raised:
        macros.call(macro, *arguments)
    return str(raised.value.msg)


@pytest.mark.parametrize("name", ["mv", "ours.mv"])
def test_a_model_is_found_by_its_name_with_or_without_its_package(
    macros: Macros, graph: Callable[..., None], name: str
) -> None:
    graph(node("other"), node("mv"), node("mv2"))

    assert (
        macros.call("find_backfilled_mv", name, "verify_backfill")["unique_id"] == "model.ours.mv"
    )


def test_a_model_with_versions_is_found_by_the_name_of_one(
    macros: Macros, graph: Callable[..., None]
) -> None:
    versions = [
        {**node("mv"), "version": version, "unique_id": f"model.ours.mv.v{version}"}
        for version in (1, "2b")
    ]
    graph(*versions)

    for name in ("mv.v2b", "ours.mv.v2b"):
        assert macros.call("find_backfilled_mv", name, "verify_backfill")["version"] == "2b"
    assert refusal(macros, "find_backfilled_mv", "mv", "verify_backfill") == (
        "backfilled_mv mv: there are 2 models of this name. Name one of ours.mv.v1, ours.mv.v2b."
    )


def test_a_name_that_two_packages_have_is_refused(
    macros: Macros, graph: Callable[..., None]
) -> None:
    graph(node("mv"), node("mv", "theirs"))

    assert refusal(macros, "find_backfilled_mv", "mv", "verify_backfill") == (
        "backfilled_mv mv: there are 2 models of this name. Name one of ours.mv, theirs.mv."
    )


@pytest.mark.parametrize("name", [None, "", ["mv"]])
def test_a_name_has_to_be_given(macros: Macros, name: Any) -> None:
    assert refusal(macros, "find_backfilled_mv", name, "verify_backfill") == (
        "backfilled_mv verify_backfill: the argument model is missing. Name the model:"
        " --args '{model: my_mv}'."
    )


def test_a_model_of_another_materialization_is_refused(
    macros: Macros, graph: Callable[..., None]
) -> None:
    graph(node("mv", materialized="table"))

    assert refusal(macros, "find_backfilled_mv", "mv", "verify_backfill").startswith(
        "backfilled_mv mv: its materialization is 'table', so it is no backfilled_mv. "
    )


@pytest.fixture
def observe(macros: Macros, stored: Callable[..., str]) -> Callable[..., Any]:
    """Observe an MV whose state is this; `missing` are those of its tables that do not exist."""
    macros.stub("load_table", lambda r: None if r.identifier in missing else r)
    found = {"id": "b1", "snapshot_id": None, "reset_id": ""}
    macros.stub("read_mv", lambda backfill, existing: found)
    macros.stub("read_table_properties", lambda relation: {"dbt_backfill.id": "b1"})
    macros.stub("get_table_format", lambda relation, name: "delta")
    macros.stub("read_upstream", lambda upstream, since: {"version": 17})
    macros.stub("is_upstream_readable", lambda *given: True)
    macros.stub("get_table_columns", lambda relation: [])
    missing: list[str] = []

    def observe(*names: str, **state: Any) -> Any:
        missing.extend(names)
        macros.results = [[[stored(**state)]]]
        return macros.call("observe_verified", node("mv"))

    return observe


def test_the_columns_of_the_key_are_those_of_the_mv(observe: Callable[..., Any]) -> None:
    assert [key["upstream"] for key in observe()["key"]] == ["k", "shard"]


@pytest.mark.parametrize("state", [{"planned": {"epoch": 3, "kind": "advance"}}, {"dirty": True}])
def test_a_barrier_in_the_middle_has_to_be_ended_first(
    observe: Callable[..., Any], refused: Any, state: Any
) -> None:
    with refused("its barrier 3 has begun and is not committed. Run the model first (dbt run "):
        observe(**state)


@pytest.mark.parametrize(
    ("missing", "fact"),
    [
        (["mv", "mv__progress", "mv__barriers"], "lake.mv does not exist yet. Run the model first"),
        (["mv", "mv__progress"], "lake.mv does not exist yet. Run the model first"),
        (["mv", "mv__barriers"], "lake.mv does not exist, but its state does"),
        (["mv"], "lake.mv does not exist, but its state does"),
        (["mv__progress"], "its state is missing: lake.mv__progress does not exist"),
        (["up"], "version 16 of its upstream lake.up, which it shows, can no longer be read"),
    ],
)
def test_what_does_not_exist_is_refused_by_its_name(
    macros: Macros, observe: Callable[..., Any], refused: Any, missing: list[str], fact: str
) -> None:
    macros.context["model"] = {"name": "verify_backfill"}
    with refused(fact):
        observe(*missing)


def test_the_history_may_be_missing(observe: Callable[..., Any]) -> None:
    """Nothing that is promised stands there."""
    verified = observe("mv__barriers")

    assert (verified["state"]["epoch"], verified["state"]["written"]) == (2, None)


def test_the_version_that_has_to_be_readable_is_that_of_the_committed_plan(
    macros: Macros, observe: Callable[..., Any], make_source: Callable[..., Any]
) -> None:
    asked: list[Any] = []
    macros.stub("read_upstream", lambda *given: asked.append(given) or {"version": 17})
    macros.stub("is_upstream_readable", lambda *given: asked.append(given) or True)
    observe()

    source = make_source(version="16")
    (upstream, since), readable = asked
    assert (upstream["kind"], since) == ("delta", source)
    assert readable == (upstream, {"version": 17}, source)


@pytest.mark.parametrize(
    ("macro", "answer"), [("get_table_format", "iceberg"), ("is_upstream_readable", False)]
)
def test_a_version_that_cannot_be_read_is_refused(
    macros: Macros, observe: Callable[..., Any], refused: Any, macro: str, answer: Any
) -> None:
    macros.stub(macro, lambda *given: answer)

    with refused("version 16 of its upstream lake.up, which it shows, can no longer be read. Run "):
        observe()


def test_a_session_in_another_time_zone_is_refused_where_the_query_depends_on_it(
    observe: Callable[..., Any], make_plan: Callable[..., Any], refused: Any
) -> None:
    with refused("the session's time zone, on which its query depends, is UTC, and was Asia/Tokyo"):
        observe(committed=make_plan(epoch=2, settings={"spark.sql.session.timeZone": "Asia/Tokyo"}))


def test_a_session_in_another_ansi_mode_is_refused_where_the_query_depends_on_it(
    observe: Callable[..., Any], make_plan: Callable[..., Any], refused: Any
) -> None:
    with refused("spark.sql.ansi.enabled, on which its query depends, is false, and was true at "):
        observe(committed=make_plan(epoch=2, settings={"spark.sql.ansi.enabled": "true"}))


def test_an_mv_that_has_read_nothing_needs_no_version(
    macros: Macros, observe: Callable[..., Any]
) -> None:
    macros.stub("is_upstream_readable", lambda *given: False)

    assert observe(upstream_version=None)["name"] == "mv"
