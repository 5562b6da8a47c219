"""The whole MV is compared with what it has to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def merge(
    macros: Macros,
    backfill: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    work: Any,
) -> Callable[..., str]:
    columns = [{"name": "k", "type": "bigint"}, {"name": "m", "type": "map<int,int>"}]
    macros.stub("get_table_columns", lambda relation: columns)

    def merge(**state: Any) -> str:
        plan = make_plan(kind="reanchor")
        macros.call("run_reanchor", backfill, make_state(**state), plan, work)
        return " ".join(macros.statements[-1].sql.split())

    return merge


def test_every_difference_is_merged_also_above_the_position(merge: Any) -> None:
    sql = merge()

    assert sql.endswith("when not matched then insert * when not matched by source then delete")
    on = sql.split(" as prefix on ")[1].split(" when ")[0]
    assert on == "mv.`k` = prefix.`k` and mv.`shard` = prefix.`shard`"


def test_a_row_is_written_only_if_it_differs(merge: Any) -> None:
    assert (
        "when matched and (not (mv.`k` <=> prefix.`k`) or "
        "not (array_sort(map_entries(mv.`m`)) <=> array_sort(map_entries(prefix.`m`)))) "
        "then update set *"
    ) in merge()


def test_the_prefix_is_read_at_the_plans_version_up_to_the_position(merge: Any) -> None:
    sql = merge(position=["1", "2"])

    assert "select * from lake.up version as of 17 as source where (source.`id` <= 1 and " in sql


def test_a_reanchor_is_fenced_in_the_source_beside_the_prefix(
    merge: Any, render: Any, backfill: Any, make_plan: Any
) -> None:
    """Spark drops a prefix that it sees to be empty, and a fence in it: the MERGE would delete."""
    source = merge().split(" as prefix on ")[0]

    fence = render("get_fence", backfill, make_plan(kind="reanchor"))
    prefix, beside = source.split(" union all ")
    assert fence not in prefix
    assert beside == (
        "select cast(null as bigint) as `k`, cast(null as map<int,int>) as `m` "
        f"from (select {fence} as fenced) where not fenced )"
    )


def test_the_rows_that_were_merged_are_counted(
    macros: Macros,
    merge: Any,
    backfill: Any,
    make_plan: Callable[..., Any],
    make_state: Any,
    work: Any,
) -> None:
    plan = make_plan(kind="reanchor")
    asked: list[Any] = []
    macros.stub("get_reanchor_counts", lambda *given: asked.append(given) or {"changed": 8})
    macros.results = [[["result"]]]

    done = macros.call("run_reanchor", backfill, make_state(), plan, work)
    assert done == {"failed": None, "counts": {"changed": 8}}
    assert asked[0][2]["result"] == [["result"]] and asked[0][:2] == (backfill, plan)


def test_how_many_rows_are_compared_is_said_before(
    macros: Macros, backfill: Any, make_plan: Any, make_state: Any, work: Any
) -> None:
    macros.context["model"] = {"name": "mv"}
    macros.stub("run_reanchor", lambda *_: macros.logged.append("compared"))
    plan = make_plan(kind="reanchor", reason="the upstream was replaced")

    macros.call("reanchor_execute", backfill, make_state(row_count=1040), plan, work)

    assert macros.logged == [
        "mv compares all 1,040 rows read so far with its query, because the upstream was replaced",
        "compared",
    ]


def test_what_given_up_plans_left_above_the_position_is_removed(
    macros: Macros, backfill: Any, make_plan: Any, work: Any
) -> None:
    macros.call("run_removal", backfill, make_plan(kind="reanchor", touched=[["5", "6"]]), work)
    sql = " ".join(macros.statements[0].sql.split())
    window = (
        "((mv.`k` >= 1 and (mv.`k` > 1 or (mv.`k` = 1 and mv.`shard` > 2))) "
        "and (mv.`k` <= 5 and (mv.`k` < 5 or (mv.`k` = 5 and mv.`shard` <= 6))))"
    )

    assert sql.count(window) == 2  # of the table and of the rows to delete
    assert sql.endswith("when matched then delete")


def test_what_is_removed_is_fenced_in_the_source(
    macros: Macros, backfill: Any, make_plan: Any, render: Any, work: Any
) -> None:
    plan = make_plan(kind="reanchor", touched=[["5", "6"]])
    macros.call("run_removal", backfill, plan, work)
    sql = " ".join(macros.statements[0].sql.split())

    assert f" and {render('get_fence', backfill, plan)} ) as touched on " in sql


def test_an_open_range_is_removed_to_its_end(macros: Macros, keys: Any, make_plan: Any) -> None:
    plan = make_plan(touched=[["5", "6"], []])
    windows = macros.call("touched_predicate", keys, plan).split(" or mv.`k` >= 1", 1)

    assert "mv.`k` <= 5" in windows[0]
    assert windows[0].count("<=") + windows[0].count(">=") >= 2
