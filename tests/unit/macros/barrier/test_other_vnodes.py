"""The commit that gives the progress table another number of vnodes, or another key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

Vnode = tuple[Any, ...]

TYPES = {
    **{"vnode": "int", "epoch": "bigint", "dirty": "boolean", "upstream_version": "string"},
    **{"plan_id": "string", "plan_kind": "string", "plan": "string", "last": "string"},
    **{"unwritten": "array<string>", "backfill_finished": "boolean", "row_count": "bigint"},
    **{"id": "bigint", "shard": "int"},
}
# id, shard, backfill_finished and row_count of each vnode.
VNODES = [(3, 3, False, 10), (5, 1, False, 20), (9, 9, True, 30), (None, None, False, 0)]
OUTCOME = json.dumps({"committed_at": "noon"})


@pytest.fixture
def commit(
    macros: Macros, duck: Duck, backfill: Any, make_state: Any, make_plan: Any
) -> Callable[..., list[Vnode]]:
    """Commit a plan. Return the rows of the progress table, one for each vnode.

    The last two values of a row are its epoch, and true if the row still has a plan.
    """

    def commit(
        vnodes: Sequence[Vnode] = VNODES, stands: Any = None, times: int = 1,
        committed: Any = None, **plan: Any,
    ) -> list[Vnode]:  # fmt: skip
        made, state = make_plan(**plan), make_state(committed=make_plan(**(committed or {})))
        row = {"epoch": 2, "plan_id": made["plan_id"], "plan_kind": made["kind"], **(stands or {})}
        rows = [
            (
                number, row["epoch"], True, "16", row["plan_id"], row["plan_kind"],
                None if number else json.dumps(made), None, None, finished, count, *position,
            )
            for number, (*position, finished, count) in enumerate(vnodes)
        ]  # fmt: skip
        duck.create("lake.mv__progress", TYPES, rows)
        for _ in range(times):
            macros.results = [list(macros.call("progress_columns").items())]
            macros.results[0] += [("id", "bigint"), ("shard", "int")]
            sql = macros.call("get_commit_sql", backfill, state, made)
            numbers = r"(select explode(sequence(0, \1 - 1)) as id)"  # for Spark's table function
            sql = re.sub(r"range\(0, (\d+), 1, 1\)", numbers, sql)
            sql = re.sub(r"add columns \((.*?)\);", r"add column \1;", sql)
            duck.execute(sql, outcome=OUTCOME)
        return duck.rows(
            "select id, shard, backfill_finished, row_count, epoch, plan_id is not null "
            "from lake.mv__progress order by vnode"
        )

    return commit


def committed(*vnodes: Vnode) -> list[Vnode]:
    return [(*vnode, 3, False) for vnode in vnodes]


# -- a rescale ------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
def test_of_more_vnodes_each_takes_over_from_its_parent_and_the_first_has_its_count(
    commit: Any, times: int
) -> None:
    children = [(*position, 0) for *position, _ in VNODES]

    assert commit(kind="rescale", vnode_count=8, times=times) == committed(*VNODES, *children)


def test_of_fewer_vnodes_each_is_as_far_as_the_least_advanced_of_those_before(commit: Any) -> None:
    begun = [(3, 3, False, 10), (5, 1, False, 20), (9, 9, True, 30), (2, 4, False, 5)]

    assert commit(begun, kind="rescale", vnode_count=2) == committed(
        (3, 3, False, 20), (2, 4, False, 10)
    )
    assert commit(begun, kind="rescale", vnode_count=1) == committed((2, 4, False, 20))
    agree = [(3, 3, False, 10), (3, 3, False, 20)] * 2
    assert commit(agree, kind="rescale", vnode_count=1) == committed((3, 3, False, 60))


def test_where_positions_go_down_the_greatest_is_the_least_advanced(
    commit: Any, descending: Any
) -> None:
    down = {"kind": "rescale", "key": descending}
    begun = [(3, 3, False, 10), (5, 1, False, 20), (4, 9, False, 5), (9, 9, True, 30)]

    assert commit(begun, vnode_count=2, **down) == committed((4, 9, False, 10), (5, 1, False, 40))
    assert commit(vnode_count=1, **down) == committed((None, None, False, 0))


# -- a reset --------------------------------------------------------------------------------------

OTHER_KEYS = [
    [{"name": "k", "upstream": "no", "type": "date", "position": "no"}],
    [{"name": "k", "upstream": "id", "type": "string", "position": "pk_id"}],
]
NOT_STARTED = (None, None, False, 0)


@pytest.mark.parametrize("vnode_count", [2, 4, 8])
@pytest.mark.parametrize("key", [None, *OTHER_KEYS])
def test_a_reset_gives_the_progress_table_its_vnodes_and_the_columns_of_its_key(
    commit: Any, duck: Duck, keys: Any, vnode_count: int, key: Any
) -> None:
    """The progress table is not created again: Iceberg would replace it even if another run has
    committed to it.
    """
    plan = {"kind": "reset", "vnode_count": vnode_count, "key": key or keys}

    assert commit(**plan) == committed(*[NOT_STARTED] * vnode_count)
    columns = list(duck.records("select * from lake.mv__progress limit 1")[0])
    assert columns == [*TYPES, *([key[0]["position"]] if key else [])]


def test_after_a_reset_that_was_given_up_the_table_has_the_vnodes_of_the_plan_before_it(
    commit: Any, make_source: Any
) -> None:
    unread = [make_source(version=None)]
    given_up = {"kind": "abandon", "sources": unread, "vnode_count": 8}

    assert commit(kind="reset", vnode_count=8, committed=given_up) == committed(*[NOT_STARTED] * 8)


# -- the guard ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rescale", "reset"])
@pytest.mark.parametrize("vnode_count", [2, 8])
@pytest.mark.parametrize(
    "stands",
    [{"epoch": 1}, {"epoch": 3}, {"plan_id": "p9"}, {"plan_kind": "abandon"}, {"plan_id": None}],
)
def test_nothing_changes_unless_this_very_plan_stands(
    commit: Any, kind: str, vnode_count: int, stands: Any
) -> None:
    before = [
        (*vnode, stands.get("epoch", 2), stands.get("plan_id", "p3") is not None)
        for vnode in VNODES
    ]

    assert commit(kind=kind, vnode_count=vnode_count, stands=stands) == before
