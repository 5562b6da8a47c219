"""A run with `--sample` or `--empty` still has the same query."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from dbt.adapters.base.relation import EventTimeFilter
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros


def _up(**sampled: Any) -> str:
    """Return the upstream as dbt renders it."""
    relation = SparkRelation.create(schema="lake", identifier="up", **sampled)
    return str(relation)


EVENT_TIME = EventTimeFilter(
    field_name="th", start=datetime(2024, 5, 1, tzinfo=UTC), end=datetime(2024, 5, 2, tzinfo=UTC)
)
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


def test_what_dbt_2_renders_for_a_sample_gets_its_plain_name_back(macros: Macros) -> None:
    """dbt 2 writes times with a `T`, and no alias."""
    condition = "th >= '2024-05-01T00:00:00+00:00' and th < '2024-05-02T00:00:00+00:00'"
    up = f"(select * from `lake`.`up` where {condition})"

    assert macros.call("get_unsampled_sql", f"select 1 from {up}", False, True) == (
        "select 1 from `lake`.`up`"
    )


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
    """The filter may even have the form that dbt uses for --sample."""
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
