"""What the live view shows: the MV where it holds what the query gives, and else the query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Live = Callable[..., str]

QUERY = (
    "union all select `k`, `shard` from ( with `up` as ( select * from lake.up version as of 16{}"
    " ) select * from ( select id as k, shard from `up` ) )"
)
ABOVE = (
    " where ((`id` >= 1 and (`id` > 1 or (`id` = 1 and `shard` > 2)))) or "
    "((`id` is null or `shard` is null))"
)
FILLED = "(`k` >= 3 and (`k` > 3 or (`k` = 3 and `shard` > 0)))"


@pytest.fixture
def live(render: Any, relations: Any, make_state: Any) -> Live:
    """The select of the view, of an MV at the version 8."""

    def live(version: str = "8", **state: Any) -> str:
        state = make_state(**state)
        position = None if state["finished"] else state.get("position")
        place = {"vnodes": None, "finished": state["finished"], "position": position}
        return str(render("get_live_sql", relations, state, version, [place]))

    return live


def test_the_mv_is_united_with_the_query_over_what_was_not_reached(live: Live) -> None:
    assert live() == "select `k`, `shard` from lake.mv version as of 8 " + QUERY.format(ABOVE)


def test_before_anything_is_reached_all_of_the_upstream_is_read(live: Live) -> None:
    assert live(position=None) == (
        "select `k`, `shard` from lake.mv version as of 8 " + QUERY.format("")
    )


def test_once_all_is_reached_the_view_is_the_mv_at_its_version(live: Live) -> None:
    assert live(finished=True) == "select `k`, `shard` from lake.mv version as of 8"


def test_an_iceberg_mv_without_a_snapshot_has_no_rows(live: Live) -> None:
    assert live(version="none", position=None) == (
        "select `k`, `shard` from lake.mv where false " + QUERY.format("")
    )


def test_in_a_sweep_only_what_was_reached_is_taken_from_the_mv(live: Live, make_plan: Any) -> None:
    swept = make_plan(kind="advance", sweeps=True)

    assert live(committed=swept, position=["1", "2"]).startswith(
        "select `k`, `shard` from lake.mv version as of 8 where ("
        "(`k` >= 1 and (`k` < 1 or (`k` = 1 and `shard` <= 2)))) union all ".replace(
            "`k` >= 1", "`k` <= 1"
        )
    )
    assert " where (false) union all " in live(committed=swept, position=None)


@pytest.mark.parametrize("finished", [False, True])
def test_columns_that_are_being_filled_are_taken_up_to_the_second_position(
    live: Live, make_plan: Any, finished: bool
) -> None:
    fills = [{"name": "shard", "type": "int"}]
    filled = make_plan(kind="fill", fills=fills, fill_high=["3", "0"])
    unfilled = FILLED.replace("`k`", "`id`")

    sql = live(committed=filled, finished=finished, position=["5", "6"])

    assert (
        " where "
        + FILLED.replace(">= 3", "<= 3")
        .replace("`k` > 3", "`k` < 3")
        .replace("`shard` > 0", "`shard` <= 0")
        + " union all"
        in sql
    )
    assert (f" where {unfilled} )" if finished else f") or {unfilled} )") in sql


def test_before_a_fill_has_begun_nothing_is_taken_from_the_mv(live: Live, make_plan: Any) -> None:
    filled = make_plan(kind="fill", fills=[{"name": "shard", "type": "int"}], fill_high=None)

    assert live(committed=filled, finished=True) == (
        "select `k`, `shard` from lake.mv version as of 8 where false " + QUERY.format("")
    )


def test_where_positions_go_down_columns_are_filled_from_above(
    live: Live, make_plan: Any, descending: Any
) -> None:
    fills = [{"name": "shard", "type": "int"}]
    filled = make_plan(key=descending, kind="fill", fills=fills, fill_high=["3", "0"])

    sql = live(committed=filled, finished=True, position=["5", "6"])

    assert " where (`k` >= 3 and (`k` > 3 or (`k` = 3 and `shard` >= 0))) union all " in sql
    assert "where (`id` <= 3 and (`id` < 3 or (`id` = 3 and `shard` < 0)))" in sql
