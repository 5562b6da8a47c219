"""The package reads the events of a PostgreSQL table into the same columns from every format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.feeds import UPSTREAM, Feeds
from support.profiles import any_connection, at_home_on_iceberg
from support.project import MakeProject

pytestmark = [at_home_on_iceberg, any_connection]

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def feeds(shared_project: MakeProject) -> Feeds:
    feeds = Feeds(shared_project("feed_rows"))
    columns = "id bigint, name string"
    feeds.make(
        "landed",
        f"{columns}, _op string, _lsn bigint, _seq bigint, _xid bigint, _committed_at timestamp,"
        " _unchanged array<string>, _timeline int, _note string",
        "values (null, null, 'w', 5, 0, null, now(), null, 1, 'one'),"
        " (1, 'a', 'i', 9, 1, 700, now(), null, 1, null),"
        " (1, null, 'u', 9, 2, 700, now(), array('name'), 1, null),"
        " (null, null, 't', 12, 1, 701, now(), null, 1, null),"
        " (null, null, 'g', 15, 0, null, now(), null, 1, 'two'),"
        " (null, null, 'w', 20, 0, null, now(), null, 1, 'two')",
    )
    feeds.make(
        "declared",
        f"verb string, place int, step int, transaction bigint, {columns}",
        "values ('INSERT', 5, 1, 4294967297, 1, 'a'), ('ub', 7, 1, 2, 1, 'a'),"
        " ('U', 7, 1, 2, 2, 'a'), (null, 8, 1, null, 2, 'b'), ('Delete', 9, 1, 3, 2, null),"
        " ('truncate', 10, 1, 4, null, null), ('watermark', 12, 0, null, null, null)",
    )
    return feeds


DECLARED: dict[str, Any] = {
    "operation": "verb",
    "sequence": ["step"],
    "deletes": ["d", "delete"],
    "before_images": ["ub"],
    "position": "place",
    "xid": "transaction",
}


def told(feeds: Feeds, feed: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = feeds.project.sql(
        "select __bf_op, __bf_position, __bf_xid, id, name, __bf_unchanged"
        f" from ({feeds.rows_sql(feed, 'id', 'name')}) order by __bf_position, __bf_sequence"
    )
    return [tuple(row) for row in rows]


@pytest.mark.every_profile
def test_landed_events_stand_as_they_are(feeds: Feeds) -> None:
    feed = feeds.check(feeds.feed("landed", "landed"), {"id": "bigint", "name": "string"})

    assert told(feeds, feed) == [
        ("w", 5, None, None, None, None),
        ("i", 9, 700, 1, "a", None),
        ("u", 9, 700, 1, None, ["name"]),
        ("t", 12, 701, None, None, None),
        ("g", 15, None, None, None, None),
        ("w", 20, None, None, None, None),
    ]
    assert feeds.landed(feed) == 20
    place = {"landed": 20, "floor": 5, "renewed": 15}
    none = {"note": None, "notes": []}
    assert feeds.place(feed, None) == {**place, **none, "breaks": None, "notes": None}
    assert feeds.place(feed, "9") == {**place, **none, "breaks": [12, 15]}
    assert feeds.place(feed, "12")["breaks"] == [15]
    assert feeds.place(feed, "15")["breaks"] is None

    noted = {**feed, "notes": True}
    assert [feeds.place(noted, since)["note"] for since in (None, "20")] == ["two", "two"]
    assert sorted(feeds.place(noted, "4")["notes"]) == ["one", "two"]
    assert feeds.place(noted, "5")["notes"] == ["two"]
    assert feeds.place(noted, "20")["notes"] == []


def test_declared_events_are_told_by_the_columns_that_the_model_names(feeds: Feeds) -> None:
    """If both images of an update have the same sequence number, the after-image counts.

    This is also true if the after-image has a null.
    """
    feed = feeds.feed("declared", "declared", **DECLARED)
    feed = feeds.check(feed, {"id": "bigint", "name": "string"})

    assert told(feeds, feed) == [
        ("u", 5, 1, 1, "a", None),
        ("d", 7, 2, 1, "a", None),
        ("u", 7, 2, 2, "a", None),
        ("w", 8, None, 2, "b", None),
        ("d", 9, 3, 2, None, None),
        ("t", 10, 4, None, None, None),
        ("w", 12, None, None, None, None),
    ]
    assert feeds.landed(feed) == 12
    assert feeds.place(feed, "5") == {
        "landed": 12,
        "floor": 5,
        "renewed": None,
        "breaks": [10],
        "note": None,
        "notes": [],
    }


@pytest.mark.every_profile
@pytest.mark.parametrize(
    ("table", "options", "columns"),
    [("landed", {}, ["_lsn", "_xid"]), ("declared", DECLARED, ["place"])],
)
def test_conditions_reach_the_scan(
    feeds: Feeds, table: str, options: dict[str, Any], columns: list[str]
) -> None:
    """Spark pushes conditions on the position, the key and the transaction into the scan.

    Then the scan can skip files.
    """
    feed = feeds.feed(table, table, **options)
    plan = feeds.explain(
        feed, "__bf_position > 5 and __bf_position <= 9 and id <= 3 and __bf_xid >= 700"
    )

    [pushed] = re.findall(r"(?:PushedFilters: |filters=)(.+)", plan)
    for column in [*columns, "id"]:
        assert re.search(rf"\W{column} |[(]{column},", f" {pushed}"), plan


def test_an_empty_feed_has_landed_nothing(feeds: Feeds) -> None:
    feeds.make(
        "empty",
        "id bigint, _op string, _lsn bigint, _seq bigint, _xid bigint, _unchanged array<string>",
        "select id, '', 0, 0, 0, array('') from range(0)",
    )
    feed = feeds.feed("empty", "landed")

    assert feeds.landed(feed) is None
    assert feeds.place(feed, "7") == {
        "landed": None,
        "floor": None,
        "renewed": None,
        "breaks": None,
        "note": None,
        "notes": [],
    }


# -- Debezium -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(feeds: Feeds) -> dict[str, Any]:
    feeds.make_events("events", [DATA / "debezium.jsonl"])
    return feeds.check(feeds.feed("events", "debezium"), UPSTREAM)


def test_real_events_of_debezium_tell_every_state_of_the_table(
    feeds: Feeds, recorded: dict[str, Any]
) -> None:
    """The rows derived from the events equal the rows that PostgreSQL reported at each commit."""
    truths = [json.loads(line) for line in (DATA / "debezium_truth.jsonl").read_text().splitlines()]
    assert feeds.differing(recorded, truths) == []
    assert feeds.landed(recorded) > truths[-1]["position"]


def test_a_snapshot_of_debezium_is_a_gap_and_a_truncation_a_break(
    feeds: Feeds, recorded: dict[str, Any]
) -> None:
    """An event of Debezium contains the commit position of the previous transaction."""
    place = feeds.place(recorded, "1")
    [snapshot, truncation] = place["breaks"]
    rows = feeds.rows_sql(recorded, "id")

    ops = feeds.project.sql(f"select __bf_op from ({rows}) where __bf_position = {snapshot}")
    assert [row["__bf_op"] for row in ops] == ["g", "g"]
    assert place["floor"] == 1 and place["landed"] == feeds.landed(recorded)
    assert feeds.place(recorded, str(snapshot))["breaks"] == [truncation]
    assert feeds.place(recorded, str(truncation))["breaks"] is None


def test_values_that_an_update_left_apart_are_named(feeds: Feeds, recorded: dict[str, Any]) -> None:
    rows = feeds.rows_sql(recorded, *UPSTREAM)
    found = feeds.project.sql(
        f"select __bf_op, id, note, body, __bf_unchanged from ({rows})"
        " where __bf_unchanged is not null order by __bf_position"
    )
    assert [tuple(row) for row in found] == [
        ("u", 3, None, None, ["note", "body"]),
        ("i", 30, None, None, ["note", "body"]),
    ]


def test_a_value_of_another_type_than_it_is_told_fails(feeds: Feeds) -> None:
    columns = {"id": "bigint", "amount": "string"}
    event = (
        "select 'c', null, named_struct('id', 1L, 'amount', 'NAN'),"
        " named_struct('lsn', 9L, 'txId', 7L, 'schema', 'public', 'table', 'orders',"
        " 'snapshot', 'false', 'sequence', '[\"7\",\"9\"]')"
    )
    struct = "struct<id: bigint, amount: string>"
    source = (
        "struct<lsn: bigint, txId: bigint, `schema`: string, `table`: string, snapshot: string,"
        " sequence: string>"
    )
    feeds.make("odd", f"op string, before {struct}, after {struct}, source {source}", event)
    feed = feeds.check(feeds.feed("odd", "debezium"), columns | {"amount": "decimal(10,2)"})

    with pytest.raises(Exception, match=r"a value of the change feed is no decimal\(10,2\): NAN"):
        feeds.project.sql(feeds.rows_sql(feed, "id", "amount"))


def test_an_event_without_a_sequence_fails(feeds: Feeds) -> None:
    feeds.project.sql(
        "create or replace table {schema}.unordered using "
        + feeds.project.file_format
        + " as select op, before, after, named_struct('lsn', source.lsn, 'txId', source.txId,"
        " 'schema', source.`schema`, 'table', source.`table`, 'snapshot', source.snapshot,"
        " 'sequence', cast(null as string)) as source from {schema}.events where op = 'u'"
    )
    feed = feeds.check(feeds.feed("unordered", "debezium"), UPSTREAM)

    with pytest.raises(Exception, match=r"an event of the change feed has no source\.sequence"):
        feeds.landed(feed)
