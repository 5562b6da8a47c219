"""The conditions under which an MV can be verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros, Table

NODE = {
    "unique_id": "model.ours.mv",
    "resource_type": "model",
    "package_name": "ours",
    "name": "mv",
    "alias": "mv",
    "schema": "lake",
    "config": {"materialized": "backfilled_mv"},
}


@pytest.fixture
def observe(macros: Macros, stored: Callable[..., str], no_questions: None) -> Callable[..., Any]:
    """Return what verify_backfill observes of an MV. The named tables are missing."""
    properties = macros.call("mv_table_properties", ["k"], "b1")
    columns = {"k": "bigint", "shard": "int"}
    for name in ("mv", "mv__progress", "mv__barriers", "up"):
        macros.tables[f"lake.{name}"] = Table(properties=properties, columns=columns)
    macros.answer("read_upstream", lambda upstream, since: {"version": 17})
    macros.answer("upstream_readable", lambda *given: True)

    def observe(*missing: str, **state: Any) -> Any:
        for name in missing:
            del macros.tables[f"lake.{name}"]
        macros.results = [[[stored(**state)]]]
        return macros.call("observe_verified", NODE)

    return observe


@pytest.mark.parametrize("state", [{"planned": {"epoch": 3, "kind": "advance"}}, {"dirty": True}])
def test_a_barrier_in_the_middle_has_to_be_ended_first(
    observe: Callable[..., Any], refused: Any, state: Any
) -> None:
    with refused("its barrier 3 has begun but is not committed. Run the model first (dbt run "):
        observe(**state)


@pytest.mark.parametrize(
    ("missing", "fact"),
    [
        (["mv", "mv__progress", "mv__barriers"], "lake.mv does not exist yet. Run the model first"),
        (["mv", "mv__progress"], "lake.mv does not exist yet. Run the model first"),
        (["mv", "mv__barriers"], "lake.mv does not exist, but its state does"),
        (["mv"], "lake.mv does not exist, but its state does"),
        (["mv__progress"], "its state is missing: lake.mv__progress does not exist"),
        (["up"], "the MV shows version 16 of its upstream lake.up, but this version can no longer"),
    ],
)
def test_what_does_not_exist_is_refused_by_its_name(
    macros: Macros, observe: Callable[..., Any], refused: Any, missing: list[str], fact: str
) -> None:
    macros.context["model"] = {"name": "verify_backfill"}
    with refused(fact):
        observe(*missing)


def test_the_history_may_be_missing(observe: Callable[..., Any]) -> None:
    """The history does not decide what an MV must contain."""
    verified = observe("mv__barriers")

    assert (verified["state"]["epoch"], verified["state"]["written"]) == (2, None)


@pytest.mark.parametrize(("file_format", "readable"), [("iceberg", True), ("delta", False)])
def test_a_version_that_cannot_be_read_is_refused(
    macros: Macros, observe: Callable[..., Any], refused: Any, file_format: str, readable: bool
) -> None:
    macros.tables["lake.up"].file_format = file_format
    macros.answer("upstream_readable", lambda *given: readable)

    with refused("the MV shows version 16 of its upstream lake.up, but this version can no longer"):
        observe()


def test_a_session_in_another_time_zone_is_refused_where_the_query_depends_on_it(
    observe: Callable[..., Any], make_plan: Callable[..., Any], refused: Any
) -> None:
    with refused("the session's time zone, on which its query depends, is UTC, but was Asia/Tokyo"):
        observe(committed=make_plan(epoch=2, settings={"spark.sql.session.timeZone": "Asia/Tokyo"}))


def test_a_session_in_another_ansi_mode_is_refused_where_the_query_depends_on_it(
    observe: Callable[..., Any], make_plan: Callable[..., Any], refused: Any
) -> None:
    with refused("spark.sql.ansi.enabled, on which its query depends, is false, but was true at "):
        observe(committed=make_plan(epoch=2, settings={"spark.sql.ansi.enabled": "true"}))


def test_an_mv_that_has_read_nothing_needs_no_version(
    macros: Macros, observe: Callable[..., Any]
) -> None:
    macros.answer("upstream_readable", lambda *given: False)

    assert observe(upstream_version=None)["name"] == "mv"
