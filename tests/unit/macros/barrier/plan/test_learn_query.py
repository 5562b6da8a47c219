"""What is found out about the query before anything is planned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

TIME_ZONE = "spark.sql.session.timeZone"


LINEAGE = [
    {"name": "k", "upstream": "id", "type": "bigint"},
    {"name": "shard", "upstream": "shard", "type": "int"},
]


@pytest.fixture
def explain(macros: Macros, backfill: Any) -> Any:
    """Explains a backfill; what is asked of the query is recorded."""
    plan = ["Project [x#1]", "+- Project [hour(th#2, Some(UTC)) AS x#1]"]
    explained = {
        "columns": "k: bigint", "unique_key": ["k"],
        "upstream_columns": [{"name": "id", "type": "bigint", "id": "1"}],
        "analyzed": plan, "optimized": [],
    }  # fmt: skip
    asked: list[str] = []
    macros.stub(
        "explain_query", lambda query, key, read: asked.append(f"explain {read}") or explained
    )
    macros.stub("check_query", lambda explained, query, upstream: asked.append("check"))
    macros.stub("key_lineage", lambda explained, unique_key, upstream_key: LINEAGE)
    macros.context["get_assert_columns_equivalent"] = lambda sql: asked.append(f"contract {sql}")

    def explain(enforced: bool = False, explained: bool = False) -> Any:
        """What was asked, and what is known then."""
        macros.config["contract"] = SimpleNamespace(enforced=enforced)
        known = {**macros.call("new_learned"), "explained": explained}
        return asked, macros.call("learn_query", backfill, known)

    return explain


def test_a_query_is_explained_and_checked_before_anything_is_planned(explain: Any) -> None:
    asked, learned = explain()

    assert asked == ["explain lake.up", "check"]
    assert learned == {
        "explained": True,
        "key": LINEAGE,
        "columns": "k: bigint",
        "used_settings": [TIME_ZONE],
        "moments": [],
        "drops_rows": False,
        "read_columns": None,
        "alias_columns": [],
        "has_inner_star": False,
        "version": None,
        "upstream_columns": None,
        "feed_columns": None,
        "key_order_checked": False,
        "replica_id": None,
    }


def test_a_query_is_explained_once_in_a_run(explain: Any, macros: Macros) -> None:
    assert explain(explained=True) == ([], {**macros.call("new_learned"), "explained": True})


def test_the_columns_of_a_change_table_are_looked_up_once_in_a_run(
    explain: Any, macros: Macros, backfill: Any, feed: Any
) -> None:
    asked: list[Any] = []
    backfill["feed"] = feed
    macros.stub("get_feed_columns", lambda feed: asked.append(feed) or ["id"])
    _, learned = explain()

    assert learned["feed_columns"] == ["id"]
    assert macros.call("learn_feed_columns", backfill, learned) == learned
    assert len(asked) == 1


def test_a_contract_is_checked_where_it_is_enforced(explain: Any, backfill: Any) -> None:
    assert explain(enforced=True)[0][-1] == f"contract {backfill['sql']}"


# -- learn_zone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", ["['at']", '["Year","AT"]', "[]", "['atom', 'hat']"])
@pytest.mark.parametrize(
    ("anew", "version", "query_hash", "noted", "asked"),
    [
        (False, None, "q1", False, True),  # before anything is read
        (True, "16", "q1", False, True),  # after a gap: another table may stand there
        (False, "16", "q0", False, True),  # of another query
        (False, "16", "q1", False, False),
        (False, "16", "q1", True, False),
    ],
)
def test_a_moment_that_partitions_the_upstream_depends_on_the_zone(
    macros: Macros, backfill: Any, learned: Any, make_state: Any, make_plan: Any,
    partitions: str, anew: bool, version: str | None, query_hash: str, noted: bool, asked: bool,
) -> None:  # fmt: skip
    """That costs no statement where the last plan tells it."""
    settings = {TIME_ZONE: "UTC"} if noted else {}
    committed = make_plan(query_hash=query_hash, settings=settings)
    state = make_state(upstream_version=version, committed=committed)
    backfill["query_hash"] = "q1"
    macros.results = [[{"id": "u1", "properties": {}, "partitionColumns": partitions}]]
    known = {**learned, "used_settings": ["other"], "moments": ["until", "at"]}
    observed = {"relation": backfill["upstream"]["relation"], "version": "17"}

    known = macros.call("learn_zone", backfill, state, observed, known, anew)
    depends = partitions in ("['at']", '["Year","AT"]') if asked else noted
    assert known["used_settings"] == ["other", *([TIME_ZONE] if depends else [])]
    assert len(macros.statements) == asked
    assert macros.call("learn_zone", backfill, state, observed, known, anew) == known


def test_the_zone_is_not_asked_for_where_it_is_known_or_no_moment_is_read(
    macros: Macros, backfill: Any, learned: Any, make_state: Any
) -> None:
    state = make_state(upstream_version=None)
    observed = {"partitions": "['at']"}
    for settings, moments in (([TIME_ZONE], ["at"]), ([], []), ([], None)):
        known = {**learned, "used_settings": settings, "moments": moments}
        assert macros.call("learn_zone", backfill, state, observed, known, True) == known
    known = {**learned, "used_settings": [], "moments": ["at"]}
    known = macros.call("learn_zone", backfill, state, observed, known, False)
    assert known["used_settings"] == [TIME_ZONE]  # what was read of the upstream tells it
    assert macros.statements == []


# -- learn_query_at -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("aliased", "star", "anew", "asked_again"),
    [
        (None, None, False, False),
        ([], None, False, True),
        (None, "id,name", False, True),
        (None, None, True, True),
    ],
)
def test_a_query_is_asked_anew_at_another_version_where_it_may_mean_something_else(
    explain: Any,
    macros: Macros,
    backfill: Any,
    kind: str,
    aliased: Any,
    star: str | None,
    anew: bool,
    asked_again: bool,
) -> None:
    """The columns of the upstream are those of that version, and not of today."""
    backfill["upstream"]["kind"] = kind
    is_delta = kind == "delta"
    asked, learned = explain(explained=True)
    macros.stub("find_alias_columns", lambda explained: aliased)
    macros.stub("columns_of_inner_star", lambda explained, query: star)
    learned = {**learned, "explained": False}
    again = asked_again and (is_delta or anew)
    for version, times in (("16", 1), ("16", 1), ("17", 1 + again)):
        learned = macros.call("learn_query_at", backfill, learned, version, anew=anew)
        assert learned["version"] == ("17" if times == 2 else "16")
        assert learned["upstream_columns"] == (["id"] if is_delta else None)
        read = f"lake.up version as of {learned['version']}" if is_delta else "lake.up"
        explains = [each for each in asked if each.startswith("explain")]
        assert (len(explains), explains[-1]) == (times, f"explain {read}")


def test_what_is_asked_anew_is_asked_of_the_change_table_too(
    explain: Any, macros: Macros, backfill: Any, feed: Any
) -> None:
    _, learned = explain(explained=True)
    backfill["feed"] = feed
    macros.stub("get_feed_columns", lambda feed: ["id", "more"])
    known = {**learned, "has_inner_star": True, "version": "16", "feed_columns": ["id"]}

    assert macros.call("learn_query_at", backfill, known, "16")["feed_columns"] == ["id"]
    assert macros.call("learn_query_at", backfill, known, "17")["feed_columns"] == ["id", "more"]


# -- check_query_at -----------------------------------------------------------------------------


@pytest.fixture
def check_at(macros: Macros, backfill: Any, learned: Any) -> Any:
    """Checks the query on version 17; `columns` is what Spark makes of it there."""
    asked: list[str] = []

    def check_at(columns: str | None, altered: bool = True) -> list[str]:
        macros.stub("explain_columns", lambda query, unique_key: asked.append(query) or columns)
        macros.call("check_query_at", backfill, {"altered": altered}, learned, 17)
        return asked

    return check_at


def test_a_query_is_tried_on_a_version_that_may_lack_columns(
    check_at: Any, backfill: Any, learned: Any
) -> None:
    (query,) = check_at(f"k: bigint, shard: int, {learned['columns']}")

    assert "select * from lake.up version as of 17" in query
    assert backfill["query"] in query


def test_a_query_is_not_tried_where_the_version_has_the_tables_columns(check_at: Any) -> None:
    assert check_at(None, altered=False) == []


@pytest.mark.parametrize("columns", [None, "k: bigint, shard: int, k: bigint"])
def test_a_version_that_lacks_columns_of_the_query_is_refused(
    check_at: Any, refused: Any, columns: str | None
) -> None:
    with refused("the columns of lake.up were changed, and its snapshot 17 does not have those "):
        check_at(columns)
