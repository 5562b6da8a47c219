"""The columns that a change table for a PostgreSQL table must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

LANDED = {
    "_op": "string",
    "_lsn": "bigint",
    "_seq": "bigint",
    "_xid": "bigint",
    "_unchanged": "array<string>",
}
DECLARED = {
    "format": "declared",
    "operation": "op",
    "sequence": ["step"],
    "deletes": ["d"],
    "before_images": [],
    "position": "Place",
    "xid": "tx",
}
EVENTS = {
    "op": "string",
    "before": "struct<id:bigint>",
    "after": "struct<id:bigint>",
    "source": "struct<lsn:bigint>",
}
SOURCE = {
    "lsn": "bigint",
    "sequence": "string",
    "txId": "bigint",
    "schema": "string",
    "table": "string",
    "snapshot": "string",
}


@pytest.fixture
def check(macros: Macros) -> Callable[..., Any]:
    """Check a change table with these columns against an upstream."""

    def check(
        feed: dict[str, Any],
        has: dict[str, str],
        upstream: dict[str, str],
        after: dict[str, str] | None = None,
        before: dict[str, str] | None = None,
        source: dict[str, str] = SOURCE,
    ) -> Any:
        relation = SparkRelation.create(schema="lake", identifier="changes")
        after = after or {}
        macros.results = [
            list(has.items()),
            [
                *after.items(),
                ("__bf_before", "int"),
                *(before or after).items(),
                ("__bf_source", "int"),
                *source.items(),
            ],
        ]
        read = [{"name": name, "type": type} for name, type in upstream.items()]
        feed = {"relation": relation, "table": "public.orders", **feed}
        return macros.call("check_feed_table", feed, read)

    return check


def test_a_landed_table_has_its_own_columns_and_those_of_the_upstream(check: Any) -> None:
    feed = {"format": "landed"}
    upstream = {"id": "bigint", "Name": "varchar(10)", "code": "char(2)"}
    has = LANDED | {"ID": "bigint", "name": "string", "code": "string"}

    assert check(feed, has, upstream)["format"] == "landed"
    # Columns that the query does not read may be missing or have other types.
    assert "conversions" not in check(feed, has | {"other": "binary"}, {"id": "bigint"})


@pytest.mark.parametrize(
    ("has", "fact"),
    [
        (
            {"_lsn": "string"},
            "has _lsn as string, but its format landed needs it as bigint. Add that column",
        ),
        ({"_seq": None}, "has no _seq, but its format landed needs it as bigint. "),
        ({"_unchanged": "array<int>"}, "has _unchanged as array<int>, but its format landed needs"),
        ({"id": None}, "has no column id, but its upstream public.orders has it as bigint. "),
        ({"id": "int"}, "has id as int, but its upstream public.orders has it as bigint. "),
    ],
)
def test_what_a_landed_table_lacks_is_refused(
    check: Any, refused: Any, has: dict[str, str | None], fact: str
) -> None:
    columns = {name: type for name, type in (LANDED | {"id": "bigint"} | has).items() if type}

    with refused(f"its change_feed lake.changes {fact}"):
        check({"format": "landed"}, columns, {"id": "bigint"})


@pytest.mark.parametrize(
    ("has", "fact"),
    [
        ({}, None),
        ({"place": "int", "op": "boolean", "step": "timestamp"}, None),
        ({"place": "string"}, "has Place as string, but its format declared needs it as bigint or"),
        ({"place": "decimal(20,0)"}, "has Place as decimal(20,0), but its format declared needs"),
        ({"op": None}, "has no op, but its format declared needs it. "),
        ({"step": None}, "has no step, but its format declared needs it. "),
        ({"tx": "string"}, "has tx as string, but its format declared needs it as bigint or int"),
    ],
)
def test_the_position_of_a_declared_table_is_a_number(
    check: Any, refused: Any, has: dict[str, str | None], fact: str | None
) -> None:
    known = {"op": "string", "step": "int", "place": "bigint", "tx": "bigint", "id": "bigint"}
    columns = {name: type for name, type in (known | has).items() if type}

    if fact is None:
        assert check(DECLARED, columns, {"id": "bigint"})["position"] == "Place"
        return
    with refused(f"its change_feed lake.changes {fact}"):
        check(DECLARED, columns, {"id": "bigint"})


DEBEZIUM = {"format": "debezium"}


@pytest.mark.parametrize(
    ("type", "told", "conversion"),
    [
        ("bigint", "bigint", None),
        ("smallint", "int", "smallint"),
        ("int", "bigint", "int"),
        ("bigint", "string", "bigint"),
        ("decimal(10,2)", "string", "decimal(10,2)"),
        ("decimal(10,2)", "decimal(10,2)", None),
        ("float", "double", "float"),
        ("double", "string", "double"),
        ("date", "int", "days"),
        ("date", "bigint", "days"),
        ("date", "string", "date"),
        ("timestamp", "string", "timestamp"),
        ("timestamp", "timestamp", None),
        ("varchar(20)", "string", None),
        ("binary", "binary", None),
    ],
)
def test_what_debezium_tells_in_one_way_only_is_converted(
    check: Any, type: str, told: str, conversion: str | None
) -> None:
    feed = check(DEBEZIUM, EVENTS, {"ID": type}, {"id": told})

    assert feed["conversions"] == ({"id": conversion} if conversion else {})


@pytest.mark.parametrize(
    ("type", "told"),
    [
        ("timestamp", "bigint"),
        ("timestamp_ntz", "string"),
        ("decimal(10,2)", "double"),
        ("decimal(10,2)", "binary"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("binary", "string"),
        ("boolean", "string"),
        ("string", "bigint"),
        ("double", "float"),
        ("array<int>", "string"),
    ],
)
def test_what_may_be_taken_in_two_ways_is_refused(
    check: Any, refused: Any, type: str, told: str
) -> None:
    """Such a value may be in milliseconds or microseconds, have one of several encodings, or be
    rounded.
    """
    upstream = f"its upstream public.orders has it as {type}. "
    with refused(f"its change_feed lake.changes has id as {told}, but {upstream}"):
        check(DEBEZIUM, EVENTS, {"id": type}, {"id": told})


def test_a_column_that_the_events_do_not_tell_is_refused(check: Any, refused: Any) -> None:
    with refused("its change_feed lake.changes has no column b, but its upstream public.orders"):
        check(DEBEZIUM, EVENTS, {"a": "int", "b": "int"}, {"a": "int"})
    with refused("its change_feed lake.changes has no column b, but its upstream public.orders"):
        check(DEBEZIUM, EVENTS, {"b": "int"}, {"a": "int", "b": "int"}, {"a": "int"})
    with refused("its change_feed lake.changes has b as bigint, but its upstream public.orders"):
        check(DEBEZIUM, EVENTS, {"b": "date"}, {"b": "date"}, {"b": "bigint"})
    with refused("its change_feed lake.changes has b as bigint, but its upstream public.orders"):
        check(DEBEZIUM, EVENTS, {"b": "date"}, {"b": "bigint"}, {"b": "date"})


@pytest.mark.parametrize(
    ("has", "source", "fact"),
    [
        ({"after": "string"}, {}, "has after as string, but its format debezium needs it as str"),
        ({"source": None}, {}, "has no source, but its format debezium needs it as struct. "),
        ({}, {"sequence": None}, "has no sequence, but its format debezium needs it as string. "),
        ({}, {"lsn": "string"}, "has lsn as string, but its format debezium needs it as bigint. "),
    ],
)
def test_events_without_their_order_are_refused(
    check: Any, refused: Any, has: dict[str, str | None], source: Any, fact: str
) -> None:
    columns = {name: type for name, type in (EVENTS | has).items() if type}
    told = {name: type for name, type in (SOURCE | source).items() if type}

    with refused(f"its change_feed lake.changes {fact}"):
        check(DEBEZIUM, columns, {"id": "int"}, {"id": "int"}, source=told)


def test_a_change_table_of_own_columns_needs_a_position(macros: Macros, refused: Any) -> None:
    upstream = {"relation": SparkRelation.create(schema="pg.public", identifier="orders")}

    with refused("its change_feed does not set 'position', so a run cannot find out"):
        macros.call(
            "postgres_needed_feed", upstream, {**DECLARED, "position": None}, "select 1", ""
        )
