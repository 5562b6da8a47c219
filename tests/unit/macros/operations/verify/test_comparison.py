"""The keys by which an MV differs from its definition, and how they are merged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

SUMMARY = {"rows": 9, "differing": 2, "null_keys": 0, "low": ["1L", "0"], "high": ["5L", "3"]}
SUMMARY |= {"begun": False}
WINDOW = {"vnodes": [1], "vnode_count": 4, "low": ["1L", "0"], "high": ["5L", "3"]}


@pytest.fixture
def found(macros: Macros, verified: Any) -> dict[str, Any]:
    return SUMMARY | {"stage": macros.call("get_difference_stage_name", verified)}


def compare(macros: Macros, verified: Any, repaired: bool = False, **summary: Any) -> Any:
    macros.results = [[[json.dumps(SUMMARY | summary)]]]
    return macros.call("run_comparison", verified, {}, repaired=repaired)


def test_rows_are_compared_in_one_pass_and_counted(
    render: Callable[..., str], verified: Any
) -> None:
    columns = "`k` as `k`, `shard` as `shard`, array_sort(map_entries(`m`)) as `m`"
    sql = render("get_differing_keys_sql", verified, {})

    assert sql.startswith("select `k` as __bf_key_1, `shard` as __bf_key_2 from ( select `k`, ")
    assert f"select {columns}, 1 as __bf_count from ( with `up` as (" in sql
    assert sql.endswith(
        f"union all select {columns}, -1 as __bf_count from lake.mv where true )"
        " group by `k`, `shard`, `m` having sum(__bf_count) != 0 ) group by `k`, `shard`"
    )


def test_both_sides_are_read_by_the_selection(render: Callable[..., str], verified: Any) -> None:
    sql = render("get_differing_keys_sql", verified, {"low": ["3"]})

    assert "(select * from lake.up version as of 16 where `id` >= 3) as source" in sql
    assert "from lake.mv where `k` >= 3 )" in sql


def test_the_comparison_is_one_script(macros: Macros, verified: Any, found: Any) -> None:
    assert compare(macros, verified) == found
    [statement] = macros.statements
    sql = " ".join(statement.sql.split())
    stage = "`lake__mv__differing__2__00000000000000000000000000000000`"
    assert sql.startswith(
        f"/* lake.mv: compare with the definition */ begin create or replace temporary view {stage}"
    )
    assert f"; cache table {stage}; select to_json(" in sql


def test_a_comparison_during_a_barrier_says_nothing(
    macros: Macros, verified: Any, refused: Any
) -> None:
    with refused("another run went on while it was compared. Verify it while no barrier runs"):
        compare(macros, verified, begun=True)
    with refused(
        "another run went on while it was repaired, so that rows may have been written as"
    ):
        compare(macros, verified, repaired=True, begun=True)


@pytest.mark.parametrize(
    ("epoch", "plan_id", "begun"), [(2, None, 0), (2, "p3", 1), (3, None, 1), (3, "p4", 1)]
)
def test_a_barrier_has_begun_once_it_is_planned(
    macros: Macros, verified: Any, sqlite: Any, epoch: int, plan_id: str | None, begun: int
) -> None:
    """Or committed: the epoch 2 was, when the comparison began."""
    compare(macros, verified)
    sql = " ".join(macros.statements[0].sql.split())
    expression = sql.split("'begun', ")[1].split(" )) from ( select ")[0]
    sqlite.execute("create table lake.mv__progress (epoch, plan_id)")
    sqlite.executemany("insert into lake.mv__progress values (?, ?)", [(epoch, plan_id)] * 4)

    assert sqlite.execute(f"select {expression}").fetchone() == (begun,)


def test_only_the_range_of_the_keys_that_differ_is_read_again(macros: Macros, found: Any) -> None:
    selection = {"vnodes": [1], "vnode_count": 4}

    assert macros.call("narrow_selection", selection, found) == WINDOW
    assert macros.call("narrow_selection", selection, found | {"null_keys": 1}) == selection


def test_all_rows_of_a_key_that_differs_are_compared_again(
    render: Callable[..., str], verified: Any, found: Any
) -> None:
    sql = render("get_differences_sql", verified, WINDOW, found)
    row = "struct(row.`k`, row.`shard`, array_sort(map_entries(row.`m`)))"

    assert (
        f"left semi join {found['stage']} as stage on sides.__bf_key_1 <=> stage.__bf_key_1"
        " and sides.__bf_key_2 <=> stage.__bf_key_2"
    ) in sql
    assert sql.endswith(
        f"where array_sort(transform(promised, row -> {row}))"
        f" != array_sort(transform(present, row -> {row}))"
    )


@pytest.fixture
def repair(macros: Macros, verified: Any, found: Any) -> Callable[..., str]:
    def repair(selection: Any = WINDOW) -> str:
        macros.call("run_repair", verified, selection, found)
        return " ".join(macros.statements[-1].sql.split())

    return repair


def test_a_repair_is_one_merge_of_rows_by_their_action(repair: Callable[..., str]) -> None:
    sql = repair()

    assert sql.startswith("/* lake.mv: repair the MV */ merge into lake.mv as mv using (")
    assert sql.endswith(
        "when matched and repair.__bf_action = 'delete' then delete"
        " when matched then update set *"
        " when not matched and repair.__bf_action != 'delete' then insert *"
    )


def test_a_repair_is_fenced_in_the_source(
    repair: Callable[..., str], render: Callable[..., str], verified: Any
) -> None:
    source = repair().split(" as repair on ")[0]

    assert source.endswith(f"where {render('get_fence_of_epoch', verified, 2)} )")


def test_the_mv_is_pruned_to_the_range_of_the_keys_that_differ(repair: Callable[..., str]) -> None:
    on = "repair.__bf_action != 'insert' and mv.`k` <=> repair.__bf_key_1 and mv.`shard` <=> "
    on += "repair.__bf_key_2"

    assert repair().split(" as repair on ")[1].split(" when ")[0] == (
        f"{on} and (mv.`k` >= 1L and (mv.`k` > 1L or (mv.`k` = 1L and mv.`shard` >= 0)))"
        " and (mv.`k` <= 5L and (mv.`k` < 5L or (mv.`k` = 5L and mv.`shard` <= 3)))"
    )
    assert repair({"vnodes": None}).split(" as repair on ")[1].split(" when ")[0] == on
