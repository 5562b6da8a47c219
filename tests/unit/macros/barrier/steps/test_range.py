"""Step 4, and the part of planning that chooses its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

# -- the statement ----------------------------------------------------------------------------


@pytest.fixture
def merge(
    macros: Macros,
    backfill: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    work: Any,
) -> Callable[..., str]:
    def merge(**plan: Any) -> str:
        macros.call("run_range", backfill, make_state(), make_plan(**plan), work)
        return " ".join(macros.statements[-1].sql.split())

    return merge


def test_a_range_is_merged_by_inserting_only(merge: Any) -> None:
    sql = merge()

    assert sql.endswith("when not matched then insert *")
    assert "when matched" not in sql


def test_a_range_of_an_mv_in_iceberg_is_merged_so_that_two_runs_conflict(
    merge: Any, macros: Macros
) -> None:
    macros.config["file_format"] = "iceberg"

    assert merge().endswith("when matched then update set * when not matched then insert *")


def test_a_range_reads_the_plans_query_at_the_plans_version(merge: Any) -> None:
    assert (
        "using ( select __bf_row.* from ( select struct(*) as __bf_row from ( "
        "with `up` as ( select * from lake.up version as of 17 as source where (("
        "source.`id` >= 1 and "
    ) in merge()


def test_the_target_of_a_range_is_bounded_by_literals_in_the_mvs_columns(merge: Any) -> None:
    on = merge().split(" as range on ")[1].split(" when ")[0]

    assert on == (
        "mv.`k` = range.`k` and mv.`shard` = range.`shard` "
        "and (mv.`k` >= 1 and (mv.`k` > 1 or (mv.`k` = 1 and mv.`shard` > 2))) "
        "and (mv.`k` <= 5 and (mv.`k` < 5 or (mv.`k` = 5 and mv.`shard` <= 6)))"
    )


def test_the_last_range_is_open_above_in_the_target_too(merge: Any) -> None:
    assert "mv.`k` <=" not in merge(last_range=True)


def test_a_range_is_fenced_in_the_source(
    merge: Any, render: Any, backfill: Any, make_plan: Any
) -> None:
    source = merge().split(" as range on ")[0]

    assert source.endswith(f"where {render('get_fence', backfill, make_plan())} )")
