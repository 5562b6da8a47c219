"""What a run knows before it asks anything of Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.base.relation import EventTimeFilter
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros


def _up(**sampled: Any) -> str:
    """The upstream as dbt renders it."""
    relation = SparkRelation.create(schema="lake", identifier="up", **sampled)
    return str(relation)


EVENT_TIME = EventTimeFilter(
    field_name="th", start=datetime(2024, 5, 1, tzinfo=UTC), end=datetime(2024, 5, 2, tzinfo=UTC)
)
TIME_ZONE = "spark.sql.session.timeZone"
SAMPLED = {
    "--empty": {"limit": 0},
    "--sample": {"event_time_filter": EVENT_TIME},
    "--sample from a day": {"event_time_filter": EventTimeFilter("th", start=EVENT_TIME.start)},
    "--empty without alias": {"limit": 0, "require_alias": False},
}


@pytest.mark.parametrize("sampled", SAMPLED.values(), ids=SAMPLED)
def test_the_upstream_of_a_sampled_run_gets_its_plain_name_back(
    macros: Macros, sampled: dict[str, Any]
) -> None:
    rendered = _up(**sampled)
    assert rendered.startswith("(select * from lake.up where ")

    sql = f"select up.a from {rendered} where (b > 1)"
    sql = macros.call("get_unsampled_sql", sql, "limit" in sampled, "limit" not in sampled)

    assert sql == "select up.a from lake.up where (b > 1)"


def test_an_upstream_that_is_sampled_and_emptied_gets_its_plain_name_back(macros: Macros) -> None:
    sql = f"select up.a from {_up(limit=0, event_time_filter=EVENT_TIME)}"

    assert macros.call("get_unsampled_sql", sql, True, True) == "select up.a from lake.up"


@pytest.mark.parametrize(
    "sql",
    [
        "select a from lake.up where b in (1, 2)",
        "select a from (select * from lake.up) as s",
        "select a from (select a from lake.up where b) as s",
        "with u as (select * from lake.up where id > 3) select * from u",
        "select a from (select * from lake.up where id > 3)",
        "select a from (select * from lake.up where false)",
        "select a from (select * from lake.up where th >= '2024-05-01')",
    ],
)
def test_a_subquery_of_the_users_own_is_left_as_it_is(macros: Macros, sql: str) -> None:
    assert macros.call("get_unsampled_sql", sql, True, True) == sql


def test_a_filter_of_the_users_own_stays_around_what_dbt_renders(macros: Macros) -> None:
    """Also one of the form that dbt has for --sample."""
    for condition in ("id > 3", "th >= '2024-05-01 00:00:00+00:00'"):
        mine = f"select a from (select * from {{}} where {condition})"
        for sampled in SAMPLED.values():
            empty = "limit" in sampled
            sql = macros.call("get_unsampled_sql", mine.format(_up(**sampled)), empty, not empty)
            assert sql == mine.format("lake.up")
        sql = mine.format(_up(limit=0, event_time_filter=EVENT_TIME))
        assert macros.call("get_unsampled_sql", sql, True, True) == mine.format("lake.up")


def test_the_query_of_an_ordinary_run_is_left_as_it_is(macros: Macros) -> None:
    sql = f"select a from {_up(limit=0, event_time_filter=EVENT_TIME)}"

    assert macros.call("get_unsampled_sql", sql, False, False) == sql


def test_a_backfill_reads_the_query_with_the_upstream_substituted(
    macros: Macros, up: Any, options: Any
) -> None:
    macros.stub("read_config", lambda: options)
    macros.stub("get_upstream", lambda sql, change_feed: {"relation": up, "kind": "delta"})
    backfill = macros.call("get_backfill", macros.relation, "select a from lake.up;")

    assert backfill["query"] == "select a from `up`"
    assert backfill["query_hash"] == macros.call("query_hash", "select a from `up`")
    assert backfill["sql"] == "select a from lake.up;"
    assert backfill["progress"].render() == "lake.mv__progress"
    assert backfill["options"] == options
    assert (backfill["explained"], backfill["used_settings"]) == (False, [])
    assert backfill["feed"] is None
    assert backfill["stages"] == []
    assert (backfill["written"], backfill["begun_anew"]) == (None, None)


def test_a_backfill_may_follow_a_change_table_beside_its_upstream(
    macros: Macros, up: Any, options: Any
) -> None:
    change_feed = {"node": "changes"}
    macros.stub("read_config", lambda: {**options, "change_feed": change_feed})
    macros.stub("get_upstream", lambda sql, feed: {"relation": up, "kind": "delta", "but": feed})
    macros.stub("get_change_table", lambda feed, upstream: (feed, upstream))
    backfill = macros.call("get_backfill", macros.relation, "select a from lake.up")

    assert backfill["upstream"]["but"] == change_feed
    assert backfill["feed"] == (change_feed, up)


LINEAGE = [
    {"name": "k", "upstream": "id", "type": "bigint"},
    {"name": "shard", "upstream": "shard", "type": "int"},
]


@pytest.fixture
def explain(macros: Macros, backfill: Any) -> Any:
    """Explains a backfill; what is asked of the query is recorded."""
    plan = ["Project [x#1]", "+- Project [hour(th#2, Some(UTC)) AS x#1]"]
    explained = {
        "columns": "k: bigint", "unique_key": ["k"], "upstream_columns": [],
        "analyzed": plan, "optimized": [],
    }  # fmt: skip
    asked: list[str] = []
    macros.stub("explain_query", lambda query, key, upstream: asked.append("explain") or explained)
    macros.stub("check_query", lambda explained, query, upstream: asked.append("check"))
    macros.stub("key_lineage", lambda explained, unique_key, upstream_key: LINEAGE)
    macros.context["get_assert_columns_equivalent"] = lambda sql: asked.append(f"contract {sql}")

    def explain(enforced: bool = False, explained: bool = False) -> list[str]:
        macros.config["contract"] = SimpleNamespace(enforced=enforced)
        backfill["explained"] = explained
        macros.call("explain_backfill", backfill)
        return asked

    return explain


def test_a_query_is_explained_and_checked_before_anything_is_planned(
    explain: Any, backfill: Any
) -> None:
    assert explain() == ["explain", "check"]
    assert backfill["query_columns"] == "k: bigint"
    assert (backfill["explained"], backfill["used_settings"]) == (True, [TIME_ZONE])


def test_a_key_has_the_columns_that_the_progress_table_has_for_its_position(
    explain: Any, backfill: Any, make_plan: Any, keys: Any
) -> None:
    backfill["committed"] = make_plan(key=[{**keys[0], "position": "pk_id"}, keys[1]])
    explain()

    places = [{"position": "pk_id"}, {"position": "shard"}]
    assert backfill["key"] == [LINEAGE[i] | places[i] for i in range(2)]


def test_a_column_that_is_new_to_a_key_has_one_that_is_free_for_its_position(
    explain: Any, backfill: Any, make_plan: Any, keys: Any
) -> None:
    backfill["committed"] = make_plan(key=keys[:1])
    explain()

    assert [column["position"] for column in backfill["key"]] == ["id", "shard"]


def test_a_key_of_an_mv_that_is_about_to_be_created_has_free_columns_for_its_position(
    explain: Any, backfill: Any
) -> None:
    backfill["committed"] = None
    explain()

    assert [column["position"] for column in backfill["key"]] == ["id", "shard"]


def test_a_query_is_explained_once_in_a_run(explain: Any) -> None:
    assert explain(explained=True) == []


def test_a_contract_is_checked_where_it_is_enforced(explain: Any, backfill: Any) -> None:
    assert explain(enforced=True)[-1] == f"contract {backfill['sql']}"


# -- check_query_at -----------------------------------------------------------------------------


@pytest.fixture
def check_at(macros: Macros, backfill: Any) -> Any:
    """Checks the query on version 17; `columns` is what Spark makes of it there."""
    asked: list[str] = []

    def check_at(columns: str | None, altered: bool = True) -> list[str]:
        macros.stub("explain_columns", lambda query, unique_key: asked.append(query) or columns)
        macros.call("check_query_at", backfill, {"altered": altered}, 17)
        return asked

    return check_at


def test_a_query_is_tried_on_a_version_that_may_lack_columns(check_at: Any, backfill: Any) -> None:
    (query,) = check_at(f"k: bigint, shard: int, {backfill['query_columns']}")

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
