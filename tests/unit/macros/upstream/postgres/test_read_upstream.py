"""The current state of a PostgreSQL table, compared with its state at the last barrier."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.macros import Macros, Table


@pytest.fixture
def read(macros: Macros) -> Any:
    """Return the observed upstream after its checks. The table has the id 7, and its feed has
    landed up to 90.
    """

    def read(feed: dict[str, Any], since: dict[str, Any] | None, **told: Any) -> dict[str, Any]:
        place = {"landed": 90, "floor": 1, "renewed": None, "breaks": None, **told}
        facts = {
            "system_identifier": "1",
            "database": "db",
            "oid": "7",
            **{"kind": "r", "has_children": False, "persistence": "p"},
            **{"keys": [{"columns": ["id"], "deferrable": False}], "identity_columns": ["id"]},
            **{"columns": [], "slot": None},
        }
        news = {"any": place.pop("any", True), "untold": []}
        macros.results = [[[json.dumps({"place": place, "news": news, "facts": facts})]]]
        macros.stub("check_postgres_change_table", lambda *_: None)
        macros.tables["lake.mv"] = Table(columns=dict.fromkeys(("id", "note", "body"), "string"))
        columns = {"operation": "op", "sequence": ["s"], "position": "at"}
        deletes: dict[str, Any] = {"deletes": ["d"], "before_images": []}
        named = {"relation": macros.relation, "table": "public.t", **columns, **deletes, **feed}
        upstream = {"relation": macros.relation, "kind": "postgres", "feed": named}
        macros.stub("get_catalog", lambda _: "pg")
        observed: dict[str, Any] = macros.call("postgres_read_upstream", upstream, since)
        macros.call("postgres_check_feed", observed)
        return observed

    return read


DECLARED = {"format": "declared", "xid": None}
BEFORE = {"id": "1/db/6", "version": "50"}


@pytest.mark.parametrize("renewed", [None, 50])
def test_a_table_that_was_made_anew_is_refused_where_nothing_tells_its_events(
    read: Any, refused: Any, renewed: int | None
) -> None:
    with refused("its upstream was replaced by another table since the last barrier"):
        read(DECLARED, BEFORE, renewed=renewed)


@pytest.mark.parametrize(
    ("feed", "since", "renewed"),
    [
        (DECLARED, BEFORE, 51),
        (DECLARED, None, None),
        (DECLARED, {**BEFORE, "id": "1/db/7"}, None),
        ({**DECLARED, "xid": "tx"}, BEFORE, None),
        ({"format": "landed"}, BEFORE, None),
    ],
)
def test_it_is_not_where_a_gap_the_transaction_or_the_format_does(
    read: Any, feed: dict[str, Any], since: dict[str, Any] | None, renewed: int | None
) -> None:
    read(feed, since, renewed=renewed)


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"any": True}, "90"),
        ({"any": False}, "50"),
        ({"any": False, "floor": 50}, "50"),
        ({"any": False, "floor": 51}, "90"),
    ],
)
def test_the_version_of_an_idle_table_stays_as_long_as_its_feed_reaches_back_to_it(
    read: Any, told: dict[str, Any], version: str
) -> None:
    since = {"id": "1/db/7", "version": "50"}
    assert read({"format": "landed"}, since, **told)["version"] == version


NOTE, WITHOUT_KEY = (
    json.dumps({"begun": "b", "doubtful": [], "keys": keys}) for keys in ([["id"]], [])
)


@pytest.mark.parametrize(
    ("note", "notes", "version"),
    [
        (NOTE, [], "50"),
        (NOTE, [NOTE], "50"),
        (NOTE, [WITHOUT_KEY, NOTE], "90"),
        # The table has a key again, but nothing has landed since.
        (WITHOUT_KEY, [WITHOUT_KEY], "90"),
    ],
)
def test_the_version_does_not_stay_before_a_landing_whose_events_lack_something(
    read: Any, note: str, notes: list[str], version: str
) -> None:
    """A sweep begins at the version. It would find the same note at each barrier."""
    since = {"id": "1/db/7", "version": "50"}
    observed = read({"format": "landed"}, since, any=False, note=note, notes=notes)
    assert observed["version"] == version


@pytest.mark.parametrize(
    ("format", "query", "asked"),
    [
        ("debezium", "select id, note from orders", ["id", "note"]),
        ("debezium", None, ["id", "note", "body"]),
        ("landed", "select id, note from orders", []),
    ],
)
def test_columns_that_the_query_reads_are_asked_whether_the_events_tell_them(
    macros: Macros, read: Any, format: str, query: str | None, asked: list[str]
) -> None:
    """If an event lacks a value, Debezium writes a mark into the column itself."""
    rows_of: list[list[str]] = []

    def get_rows(_: Any, columns: list[str]) -> str:
        rows_of.append(columns)
        return "select 1"

    macros.stub("get_feed_rows_sql", get_rows)
    read({"format": format, "query": query}, {"id": "1/db/7", "version": "50"})

    assert rows_of == [[], asked]
