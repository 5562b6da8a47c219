"""backfill_orphans lists tables that removed models have left, and commands to drop them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.macros import Macros

OURS = {"dbt_backfill.id": "b1", "dbt_backfill.format": "2"}
HISTORY = {"dbt_backfill.format": "2"}
COMMAND = "dbt run-operation drop_backfill --args"
HEADING = "which no model of this project and target makes"

Listed = Callable[..., list[str]]


def node(
    name: str, materialized: str = "backfilled_mv", schema: str = "lake", of: str = "model"
) -> dict[str, Any]:
    return {
        "unique_id": f"{of}.ours.{name}",
        "resource_type": of,
        "name": name,
        "alias": name,
        "schema": schema,
        "config": {"materialized": materialized},
    }


@pytest.fixture
def described() -> list[str]:
    """Return the list of tables whose properties were read."""
    return []


@pytest.fixture
def listed(macros: Macros, described: list[str]) -> Listed:
    """Return the printed lines, if the schemas have these tables with these properties."""

    def listed(
        schemas: dict[str, dict[str, dict[str, str]]],
        *nodes: dict[str, Any],
        sources: tuple[str, ...] = (),
        **arguments: Any,
    ) -> list[str]:
        made = {
            each: {"name": each, "identifier": each, "schema": "lake"} for each in sources
        }  # fmt: skip
        macros.context["graph"] = SimpleNamespace(
            nodes={each["unique_id"]: each for each in nodes}, sources=made
        )

        def answer(step: str, sql: str, mv: Any = None) -> list[tuple[Any, ...]]:
            if sql == "select current_catalog()":
                return [("spark_catalog",)]
            if sql == "show schemas":
                return [(name,) for name in schemas]
            schema = sql.removeprefix("show tables in ")
            return [("", "x__progress", True), *((schema, t, False) for t in schemas[schema])]

        def properties(relation: Any) -> dict[str, str]:
            described.append(relation.render())
            return schemas[relation.schema][relation.identifier]

        macros.stub("run_table", answer)
        macros.stub("read_table_properties", properties)
        macros.stub("read_state", lambda relations: {"committed": {}})
        macros.call("backfill_orphans", **arguments)
        return macros.logged

    return listed


def tables(mv: str) -> dict[str, dict[str, str]]:
    return {mv: OURS, f"{mv}__progress": OURS, f"{mv}__barriers": HISTORY}


def test_each_mv_that_no_model_makes_is_a_line(listed: Listed) -> None:
    lake = {
        **tables("gone"),
        **tables("kept"),
        "crashed__progress": OURS,
        "past__barriers": HISTORY,
        "renamed__live": {"dbt_backfill.live": "7"},
        "anybodys__live": {},
    }

    assert listed({"lake": lake}, node("kept")) == [
        f"4 orphans in lake, {HEADING}",
        f"  lake.crashed: state; {COMMAND} '{{mv: lake.crashed}}'",
        f"  lake.gone: MV, state and history; {COMMAND} '{{mv: lake.gone}}'",
        f"  lake.past: history; {COMMAND} '{{mv: lake.past}}'",
        f"  lake.renamed: live view; {COMMAND} '{{mv: lake.renamed}}'",
    ]


def test_a_schema_may_be_named_with_its_catalog(listed: Listed) -> None:
    found = listed(
        {"lake": {**tables("kept"), **tables("theirs"), **tables("gone")}},
        node("kept"),
        sources=("theirs",),
        schema="`Spark_Catalog`.lake",
    )

    assert found[1:] == [
        f"  lake.gone: MV, state and history; {COMMAND} '{{mv: lake.gone}}'",
    ]


@pytest.mark.parametrize("materialized", ["table", "incremental"])
def test_a_model_of_another_materialization_keeps_its_table(
    listed: Listed, materialized: str
) -> None:
    assert listed({"lake": tables("left")}, node("left", materialized)) == [
        f"1 orphan in lake, {HEADING}",
        f"  lake.left: state and history; {COMMAND} '{{mv: lake.left, keep_mv: true}}'",
    ]


def test_a_table_that_was_put_in_place_of_the_mv_is_kept(listed: Listed) -> None:
    assert listed({"lake": {**tables("gone"), "gone": {}}})[1:] == [
        f"  lake.gone: state and history; {COMMAND} '{{mv: lake.gone, keep_mv: true}}'"
    ]


def test_only_what_has_the_name_of_a_state_or_a_history_is_described(
    listed: Listed, described: list[str]
) -> None:
    lake = {"plain": {}, "plain__progress": {}, "lonely": OURS, **tables("kept"), **tables("read")}

    assert listed({"lake": lake}, node("kept"), sources=("read",)) == ["no orphans in lake"]
    assert described == ["lake.plain", "lake.plain__progress"]


def test_a_name_that_sql_needs_in_quotes_is_quoted(listed: Listed) -> None:
    assert listed({"lake": tables("an mv")})[1] == (
        f"  lake.`an mv`: MV, state and history; {COMMAND} '{{mv: lake.`an mv`}}'"
    )


def test_the_schemas_of_all_models_are_searched_if_they_exist(listed: Listed) -> None:
    schemas = {"lake": {}, "marts": tables("gone"), "other": tables("gone")}
    nodes = node("a", "table", "marts"), node("b", "view", "unmade"), node("c", schema="marts")

    assert listed(schemas, *nodes)[0] == f"1 orphan in lake, marts, {HEADING}"


def test_a_schema_may_be_named(listed: Listed) -> None:
    schemas = {"lake": tables("a"), "other": tables("gone"), "ice.other": {}}

    assert listed(schemas, schema="other")[0] == f"1 orphan in other, {HEADING}"
    assert listed(schemas, schema="ice.other")[-1] == "no orphans in ice.other"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schema": "abscent"}, "there is no schema abscent. Name a schema that exists"),
        ({"schema": ["lake"]}, 'schema is ["lake"]. Set it to the name of a schema'),
        (
            {"drop": True},
            "backfill_orphans has no argument 'drop'. Correct or remove it. The only argument is",
        ),
    ],
)
def test_arguments_that_name_no_schema_are_refused(
    listed: Listed, given: Any, message: str
) -> None:
    with pytest.raises(CompilationError) as raised:
        listed({"lake": {}}, **given)
    assert str(raised.value.msg).startswith(f"backfilled_mv backfill_orphans: {message}")
