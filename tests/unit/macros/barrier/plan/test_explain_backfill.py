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
        "columns": "k: bigint", "unique_key": ["k"], "upstream_columns": [],
        "analyzed": plan, "optimized": [],
    }  # fmt: skip
    asked: list[str] = []
    macros.stub("explain_query", lambda query, key, upstream: asked.append("explain") or explained)
    macros.stub("check_query", lambda explained, query, upstream: asked.append("check"))
    macros.stub("key_lineage", lambda explained, unique_key, upstream_key: LINEAGE)
    macros.context["get_assert_columns_equivalent"] = lambda sql: asked.append(f"contract {sql}")

    def explain(
        enforced: bool = False, explained: bool = False, committed: Any = None
    ) -> list[str]:
        macros.config["contract"] = SimpleNamespace(enforced=enforced)
        backfill["explained"] = explained
        macros.call("explain_backfill", backfill, committed and {"committed": committed})
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
    explain(committed=make_plan(key=[{**keys[0], "position": "pk_id"}, keys[1]]))

    places = [{"position": "pk_id"}, {"position": "shard"}]
    assert backfill["key"] == [LINEAGE[i] | places[i] for i in range(2)]


def test_a_column_that_is_new_to_a_key_has_one_that_is_free_for_its_position(
    explain: Any, backfill: Any, make_plan: Any, keys: Any
) -> None:
    explain(committed=make_plan(key=keys[:1]))

    assert [column["position"] for column in backfill["key"]] == ["id", "shard"]


def test_a_key_of_an_mv_that_is_about_to_be_created_has_free_columns_for_its_position(
    explain: Any, backfill: Any
) -> None:
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
