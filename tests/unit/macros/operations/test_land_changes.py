"""The slots and change tables that a landing uses, and the marks that it writes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from support.duck import Duck
from support.macros import Macros


def source(schema: str, name: str) -> dict[str, Any]:
    return {
        "unique_id": f"source.ours.{schema[:2]}.{name}",
        "resource_type": "source",
        "source_name": "pg" if schema.startswith("pg") else "lake",
        "name": name,
        "identifier": name,
        "schema": schema,
    }


def model(name: str, source: str, /, **feed: Any) -> dict[str, Any]:
    relation = f"source('lake', '{source}_changes')"
    return {
        "unique_id": f"model.ours.{name}",
        "resource_type": "model",
        "package_name": "ours",
        "name": name,
        "alias": name,
        "schema": "lake",
        "config": {
            "materialized": "backfilled_mv",
            "unique_key": "id",
            "change_feed": {"relation": relation, **feed},
        },
        "depends_on": {"nodes": [f"source.ours.la.{source}_changes", f"source.ours.pg.{source}"]},
    }


@pytest.fixture
def landings(macros: Macros) -> Any:
    def find(*models: dict[str, Any], **given: Any) -> Any:
        tables = ("orders", "lines")
        sources = [source("pg.public", table) for table in tables]
        sources += [source("lake", f"{table}_changes") for table in tables]
        nodes = [
            {**each, "depends_on": SimpleNamespace(**each["depends_on"])}
            | {"config": SimpleNamespaceDict(each["config"])}
            for each in models
        ]
        macros.context["graph"] = SimpleNamespace(
            nodes={each["unique_id"]: each for each in nodes},
            sources={each["unique_id"]: each for each in sources},
        )
        found: list[Any] = []
        macros.stub("run_landing", lambda landing, given: found.append(landing))
        macros.call("land_changes", **given)
        return found

    return find


class SimpleNamespaceDict(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return self[name]


def test_all_change_tables_of_a_slot_are_landed_together(landings: Any) -> None:
    models = [model("one", "orders", slot="s"), model("two", "lines", slot="s")]
    models += [model("three", "lines", slot="other"), model("four", "orders", format="debezium")]
    declared = {"operation": "op", "sequence": "seq", "position": "lsn"}
    models += [model("five", "orders", slot="s of another tool", **declared)]

    [found] = landings(*models, model="one")
    assert (found["slot"], found["catalog"]) == ("s", "pg")
    assert sorted(table["table"] for table in found["tables"]) == ["public.lines", "public.orders"]
    assert [landing["slot"] for landing in landings(*models)] == ["s", "other"]
    assert [landing["slot"] for landing in landings(*models, slot="other")] == ["other"]


@pytest.mark.parametrize("when", ["pre-hook", "post-hook"])
def test_a_table_that_only_a_hook_reads_is_not_the_upstream(landings: Any, when: str) -> None:
    hooked = model("one", "orders", slot="s")
    hooked["depends_on"]["nodes"].append("source.ours.pg.lines")
    with pytest.raises(CompilationError, match="depends on several PostgreSQL tables or on none"):
        landings(hooked)
    hooked["config"][when] = [{"sql": "select 1 from {{ source( 'pg', 'lines') }}"}]
    [landing] = landings(hooked)
    assert [table["table"] for table in landing["tables"]] == ["public.orders"]

    hooked["config"][when] = [{"sql": "select 1 from {{ source('pg', 'orders') }}"}]
    hooked["depends_on"]["nodes"] = hooked["depends_on"]["nodes"][:2]
    [landing] = landings(hooked)
    assert [table["table"] for table in landing["tables"]] == ["public.orders"]


def test_a_hook_may_read_a_table_of_the_lake(landings: Any) -> None:
    hooked = model("one", "orders", slot="s")
    hooked["depends_on"]["nodes"].append("source.ours.la.lines_changes")
    [landing] = landings(hooked)
    assert [table["table"] for table in landing["tables"]] == ["public.orders"]


def test_models_may_share_a_change_table(landings: Any) -> None:
    [found] = landings(model("one", "orders", slot="s"), model("two", "orders", slot="s"))

    [table] = found["tables"]
    assert table["relation"].render() == "lake.orders_changes"


@pytest.mark.parametrize(
    ("models", "given", "says"),
    [
        ([], {}, "land_changes: no model sets 'slot' in its change_feed. Set"),
        ([model("one", "orders")], {"model": "one"}, "one: its change_feed does not set 'slot'"),
        (
            [model("one", "orders", slot="s")],
            {"slot": "t"},
            "land_changes: no model sets 'slot' to t in its change_feed. Set 'slot'",
        ),
        (
            [
                model("one", "orders", slot="s"),
                model("two", "orders", slot="s", table="public.x"),
            ],
            {},
            "two: its change_feed has the same change table lake.orders_changes as the model one",
        ),
    ],
)
def test_what_cannot_be_landed_is_refused(
    landings: Any, models: Any, given: Any, says: str
) -> None:
    with pytest.raises(CompilationError) as error:
        landings(*models, **given)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"model": "a", "slot": "s"}, "more than one of the arguments model, models and sl"),
        ({"batch_rows": 0}, "batch_rows is 0. Set it to a whole number of 1 or more"),
        ({"models": {"a": 1}}, 'models is {"a": 1}. Set it to a list of names of models'),
        ({"slot": 5}, "slot is 5. Set it to the name of a replication slot"),
        ({"every": 5}, "land_changes has no argument 'every'"),
    ],
)
def test_arguments_are_checked(macros: Macros, arguments: Any, says: str) -> None:
    with pytest.raises(CompilationError) as error:
        macros.call("land_changes", **arguments)
    assert says in str(error.value)


FACTS = {
    "in_recovery": False,
    "wal_level": "logical",
    "user": "lander",
    "replication": True,
    "output_plugins": "pgoutput, wal2json",
    "found": 1,
    "conforming_strings": "on",
    "isolation": "read committed",
    "database": "shop",
    "slot": {"database": "shop", "plugin": "wal2json"},
}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"in_recovery": True}, "its database is a standby"),
        ({"wal_level": "replica"}, "the wal_level of its database is replica"),
        ({"replication": False}, "the user lander of PostgreSQL may not read a replication slot"),
        (
            {"output_plugins": "pgoutput, test_decoding"},
            "PostgreSQL does not allow the output plugin wal2json. Add wal2json to"
            " output_plugin_libraries in PostgreSQL, which has pgoutput, test_decoding",
        ),
        ({"output_plugins": ""}, "in PostgreSQL, which has none"),
        ({"found": 0}, "PostgreSQL has no table public.orders"),
        ({"conforming_strings": "off"}, "its PostgreSQL has standard_conforming_strings = off"),
        ({"slot": {"database": "hr", "plugin": "wal2json"}}, "the slot s belongs to the database"),
        ({"slot": {"database": "shop", "plugin": "pgoutput"}}, "the output plugin pgoutput, but"),
    ],
)
def test_a_database_of_which_nothing_can_be_landed_is_refused(
    macros: Macros, facts: dict[str, Any], says: str
) -> None:
    landing, table = {"slot": "s", "catalog": "pg"}, {"name": "mv", "table": "public.orders"}
    for taken in (FACTS, FACTS | {"output_plugins": None}, FACTS | {"slot": None}):
        macros.call("check_landed_facts", landing, table, taken)

    with pytest.raises(CompilationError) as error:
        macros.call("check_landed_facts", landing, table, FACTS | facts)
    assert says in str(error.value)


LANDING = {"slot": "s", "catalog": "pg", "temporary_slot": "make_a_slot()"}


@pytest.mark.parametrize(
    ("place", "tells_otherwise", "mark"),
    [
        ({}, None, [("w", 100)]),
        ({"landed": 100, "timeline": 1}, None, []),
        ({"landed": 150, "timeline": 1}, False, []),
        ({"landed": 150, "timeline": 1}, True, [("g", 151)]),
        ({"landed": 90, "timeline": 1}, None, [("g", 100)]),
        ({"landed": 150, "timeline": 2}, None, [("g", 151)]),
    ],
)
def test_a_gap_is_marked_where_the_slot_does_not_go_on(
    macros: Macros, duck: Duck, place: Any, tells_otherwise: bool | None, mark: Any
) -> None:
    """The changes of a slot are compared only if the slot is behind the change table."""
    asked = []

    def tells(landing: Any, table: Any) -> bool:
        asked.append(table["landed"])
        return bool(tells_otherwise)

    macros.stub("tells_otherwise", tells)
    answer = [[json.dumps({"places": [{"events": 0, **place}]})]]
    macros.results = [answer, [], [], answer]
    columns = {each["name"]: each["type"] for each in macros.call("landed_columns")}
    duck.create("lake.mv", columns)
    landing = {**LANDING, "confirmed": 100, "tables": [table_of(macros)]}
    macros.call("begin_change_tables", landing)

    for statement in macros.statements:
        if "merge into" in statement.sql:
            duck.execute(statement.sql)
    assert duck.rows("select _op, _lsn from lake.mv") == mark
    assert asked == ([] if tells_otherwise is None else [150])


def table_of(macros: Macros, **changes: Any) -> dict[str, Any]:
    told = {"position": 200, "timeline": 1, "columns": [], "keys": [], "kind": "r"}
    facts = {**told, "has_children": False, "persistence": "p", "identity_columns": []}
    named = {"relation": macros.relation, "name": "mv", "table": "public.orders", "columns": []}
    return {**named, "facts": facts, **changes}


def places(*landed: int | None) -> list[Any]:
    """Return Spark's answer about the landed positions. Null values are absent."""
    told = [{"landed": each, "events": 0} if each else {"events": 0} for each in landed]
    return [[json.dumps({"places": told})]]


@pytest.mark.parametrize(("position", "refuses"), [(200, True), (300, False)])
def test_a_database_is_behind_its_change_table_only_if_it_still_is(
    macros: Macros, position: int, refuses: bool
) -> None:
    """Another landing may have landed more after this landing asked for the position of the WAL."""
    macros.stub("read_wal", lambda _: {"position": position})
    macros.results = [places(201)]
    expected = pytest.raises(CompilationError, match="the WAL of its database ends at 200, but")
    with expected if refuses else nullcontext():
        macros.call("read_landed_places", {"slot": "s", "tables": [table_of(macros)]})


def test_what_a_change_table_began_with_stays(macros: Macros) -> None:
    """Each landing creates its own id `begun`. A landing that reads the change table again keeps
    its id, even if the table has none.
    """
    macros.results = [places(None), places(None), places(100), places(100)]
    landing = {"slot": "s", "tables": [table_of(macros)]}
    first, other, older = (macros.call("read_landed_places", landing) for _ in range(3))

    begun = [each["tables"][0]["begun"] for each in (first, other, older)]
    assert len(set(begun)) == 3
    assert json.loads(first["tables"][0]["note"])["begun"] == begun[0]
    later = macros.call("read_landed_places", first | {"tables": first["tables"]})
    assert later["tables"][0]["begun"] == begun[0]


@pytest.mark.parametrize("slot", [None, {"wal_status": "lost"}])
def test_no_slot_is_made_of_a_database_that_was_put_back(macros: Macros, slot: Any) -> None:
    macros.stub("read_wal", lambda _: {"position": 200, "slot": {"confirmed": 210}})
    macros.stub("check_landed_facts", lambda *_: None)
    macros.stub("prepare_change_table", lambda table: table)
    landing = {**LANDING, "tables": [table_of(macros), table_of(macros)]}
    facts = [[json.dumps({**table["facts"], "slot": slot})] for table in landing["tables"]]
    wal2json = [['{"error": null}']]
    macros.results = [[facts[0]], [facts[1]], wal2json, places(None, 201)]
    with pytest.raises(CompilationError, match="the WAL of its database ends at 200, but"):
        macros.call("prepare_landing", landing)
    assert len(macros.statements) == 4

    macros.results = [[facts[0]], [facts[1]], wal2json, places(None, 200)]
    assert macros.call("prepare_landing", landing)["confirmed"] == 210


@pytest.mark.parametrize(
    ("position", "lsn"), [(23, "0/17"), (2**32, "1/0"), (26843545600, "6/40000000")]
)
def test_a_position_is_a_number_of_bytes(macros: Macros, position: int, lsn: str) -> None:
    assert macros.call("get_postgres_lsn", position) == f"'{lsn}'::pg_lsn"
