"""What a table of PostgreSQL is, compared with what it was at the last barrier."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def check(macros: Macros) -> Any:
    """Reads and checks the upstream, which is now the table 7, and has landed up to 90."""

    def check(feed: dict[str, Any], since: dict[str, Any] | None, renewed: int | None) -> None:
        place = {"landed": 90, "floor": 1, "renewed": renewed, "breaks": None}
        facts = {
            "system_identifier": "1",
            "database": "db",
            "oid": "7",
            "columns": [],
            "slot": None,
        }
        news = {"any": True, "untold": []}
        macros.stub("run_json", lambda *_: [{"place": place, "news": news, "facts": facts}])
        macros.stub("check_postgres_change_table", lambda _: None)
        macros.stub("get_table_columns", lambda _: [])
        macros.stub("describe_postgres_feed", lambda *_: "{}")
        columns = {"operation": "op", "sequence": ["s"], "position": "at"}
        deletes: dict[str, Any] = {"deletes": ["d"], "before_images": []}
        told = {"relation": macros.relation, "table": "public.t", **columns, **deletes, **feed}
        upstream = {"relation": macros.relation, "kind": "postgres", "feed": told}
        macros.stub("get_catalog", lambda _: "pg")
        observed = macros.call("read_upstream", upstream, since)
        macros.call("check_upstream_feed", upstream, observed)

    return check


DECLARED = {"format": "declared", "xid": None}
BEFORE = {"id": "1/db/6", "version": "50"}


@pytest.mark.parametrize("renewed", [None, 50])
def test_a_table_that_was_made_anew_is_refused_where_nothing_tells_its_events(
    check: Any, refused: Any, renewed: int | None
) -> None:
    with refused("its upstream is another table than at its last barrier"):
        check(DECLARED, BEFORE, renewed)


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
    check: Any, feed: dict[str, Any], since: dict[str, Any] | None, renewed: int | None
) -> None:
    check(feed, since, renewed)
