"""The SQL that returns the events of every feed format in one shape."""

from __future__ import annotations

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros, Table

FEED = {
    "relation": SparkRelation.create(schema="lake", identifier="changes"),
    "table": "public.orders",
}


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
    """If an event lacks a value, Debezium writes a mark into the column itself."""
    columns = dict.fromkeys(("id", "note", "body"), "string")
    macros.tables["lake.changes"] = Table(columns=columns)
    upstream = {"relation": FEED["relation"], "feed": {"format": format, "query": query}}
    assert macros.call("_get_marked_columns", upstream) == asked
