"""The events of a feed in one shape: what the SQL says of each format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

FEED = {
    "relation": SparkRelation.create(schema="lake", identifier="changes"),
    "table": "public.orders",
}
DECLARED = {
    **FEED,
    "format": "declared",
    "operation": "op",
    "sequence": ["file", "row"],
    "deletes": ["d"],
    "before_images": ["ub"],
    "position": "at",
    "xid": None,
}


def test_landed_columns_stand_as_they_are(render: Callable[..., str]) -> None:
    rows = render("get_feed_rows_sql", {**FEED, "format": "landed"}, ["id", "a`b"])

    assert rows == (
        "select `id`, `a``b`, _op as __bf_op, _lsn as __bf_position, _seq as __bf_sequence,"
        " _xid as __bf_xid, _unchanged as __bf_unchanged,"
        " cast(null as string) as __bf_note from lake.changes"
    )
    noted = render("get_feed_rows_sql", {**FEED, "format": "landed", "notes": True}, [])
    assert "_note as __bf_note" in noted


def test_declared_columns_are_read_by_their_names(render: Callable[..., str]) -> None:
    rows = render("get_feed_rows_sql", DECLARED, ["id"])

    assert "when lower(cast(`op` as string)) in ('d', 'ub') then 'd'" in rows
    assert "cast(`at` as bigint) as __bf_position" in rows
    assert "struct(`file`, `row`, case when" in rows
    assert "cast(null as bigint) as __bf_xid" in rows
    assert "cast(`tx` as bigint) % 4294967296 as __bf_xid" in render(
        "get_feed_rows_sql", {**DECLARED, "xid": "tx"}, []
    )


def test_an_operation_that_deletes_is_one_whatever_else_it_may_be(
    render: Callable[..., str],
) -> None:
    rows = render("get_feed_rows_sql", {**DECLARED, "deletes": ["t"], "before_images": []}, [])

    assert rows.index("in ('t') then 'd'") < rows.index("in ('t', 'truncate') then 't'")


def test_debeziums_values_are_read_from_what_the_event_has(render: Callable[..., str]) -> None:
    feed = {**FEED, "format": "debezium", "conversions": {"born": "days"}}
    rows = render("get_feed_rows_sql", feed, ["id", "Born"])

    assert "if(op = 'd', before.`id`, after.`id`) as `id`" in rows
    assert "date_from_unix_date(cast(`Born` as int))" in rows
    assert "= 'public.orders', false)" in rows
    assert rows.count("lake.changes") == 1
    # Of a feed that was not checked, all types are those of the upstream.
    assert "try_cast" not in render("get_feed_rows_sql", {**FEED, "format": "debezium"}, ["id"])


def test_the_mark_of_debezium_is_known_as_bytes_too(macros: Macros) -> None:
    codes = ", ".join(str(code) for code in b"__debezium_unavailable_value")

    assert f"'[{codes}]'" in macros.call("_is_untold", "a")


@pytest.mark.parametrize("format", ["landed", "declared", "debezium"])
def test_a_place_is_told_by_one_pass(render: Callable[..., str], format: str) -> None:
    feed: dict[str, Any] = {**DECLARED, "format": format}
    place = render("get_feed_place_sql", feed, "7")

    assert place.count("lake.changes") == 1
    assert "__bf_position > 7" in place
    assert "cast(null as array<bigint>)" in render("get_feed_place_sql", feed, None)
    assert render("get_feed_landed_sql", feed).count("lake.changes") == 1


@pytest.mark.parametrize(
    ("format", "query", "asked"),
    [
        ("debezium", "select id, note from orders", ["id", "note"]),
        ("debezium", None, ["id", "note", "body"]),
        ("landed", "select id, note from orders", []),
    ],
)
def test_columns_that_the_query_reads_are_asked_whether_the_events_tell_them(
    macros: Macros, format: str, query: str | None, asked: list[str]
) -> None:
    """Debezium says so in the column itself, and in no other place."""
    columns = [{"name": name} for name in ("id", "note", "body")]
    macros.stub("get_table_columns", lambda relation: columns)
    upstream = {"relation": FEED["relation"], "feed": {"format": format, "query": query}}
    assert macros.call("_get_marked_columns", upstream) == asked
