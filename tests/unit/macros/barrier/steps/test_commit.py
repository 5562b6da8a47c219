"""Step 5 of a barrier: what a barrier of each kind writes to the progress table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Row = dict[str, Any]

# id, shard, backfill_finished and row_count of each vnode.
VNODES = [(1, 2, False, 10), (None, None, False, 0), (9, 9, True, 30), (1, 2, False, 10)]
NAMES = ["id", "shard", "backfill_finished", "row_count"]
OUTCOME = {"committed_at": "noon", "changed_row_count": 5}


@pytest.fixture
def state(make_state: Callable[..., Any]) -> dict[str, Any]:
    """Return the last committed state, which is at epoch 2."""
    return dict(make_state())


@pytest.fixture
def begun(progress: Any, with_plan: Any, backfill: Any, state: Any) -> Callable[..., None]:
    """Fill the progress table as it is before this plan is committed."""

    def begun(plan: dict[str, Any] | None = None, **columns: Any) -> None:
        vnodes = [dict(zip(NAMES, vnode, strict=True)) for vnode in VNODES]
        last = {"last": json.dumps(state["committed"])}
        progress.fill(*vnodes, **{"dirty": True, **last, **with_plan(**(plan or {})), **columns})

    return begun


@pytest.fixture
def commit(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> Callable[..., list[Row]]:
    """Commit the current plan. Return the rows of the progress table."""

    def commit(**plan: Any) -> list[Row]:
        begun(plan)
        assert (
            progress.move("get_commit_sql", backfill, state, make_plan(**plan), outcome=OUTCOME)
            == 4
        )
        names = [*NAMES, "epoch", "upstream_version", "dirty"]
        return [dict(zip(names, row, strict=True)) for row in progress.read(*names)]

    return commit


def _column(rows: list[Row], *names: str) -> list[Any]:
    return [row[names[0]] if len(names) == 1 else tuple(row[n] for n in names) for row in rows]


def test_an_advance_moves_every_vnode_to_the_end_of_the_range(commit: Callable[..., Any]) -> None:
    rows = commit(vnode_row_counts={"0": 3, "1": 4})

    assert _column(rows, "id", "shard") == [(5, 6)] * 4
    assert _column(rows, "row_count") == [13, 4, 30, 10]
    assert _column(rows, "backfill_finished") == [False, False, True, False]
    assert _column(rows, "upstream_version", "dirty") == [("17", False)] * 4


def test_an_advance_of_selected_vnodes_leaves_the_others(commit: Callable[..., Any]) -> None:
    rows = commit(vnodes=[1, 3], vnode_row_counts={"1": 4})

    assert _column(rows, "id", "shard") == [(1, 2), (5, 6), (9, 9), (5, 6)]
    assert _column(rows, "row_count") == [10, 4, 30, 10]
    assert _column(rows, "upstream_version") == ["17"] * 4


def test_a_vnode_beyond_the_end_of_the_range_stays_where_it_is(commit: Callable[..., Any]) -> None:
    """If positions differ, a range begins at the lowest one and may end below others."""
    rows = commit(vnodes=[0, 1, 2, 3], range_low=None, range_high=["1", "1"])

    assert _column(rows, "id", "shard") == [(1, 2), (1, 1), (9, 9), (1, 2)]


def test_the_last_range_finishes_every_vnode_and_keeps_its_position(
    commit: Callable[..., Any],
) -> None:
    rows = commit(last_range=True, range_high=["1", "2"], vnode_row_counts={"1": 4})

    assert _column(rows, "backfill_finished") == [True] * 4
    assert _column(rows, "id", "shard") == [vnode[:2] for vnode in VNODES]
    assert _column(rows, "row_count") == [10, 4, 30, 10]


def test_the_last_range_of_selected_vnodes_finishes_only_these(commit: Callable[..., Any]) -> None:
    rows = commit(last_range=True, vnodes=[1, 3])

    assert _column(rows, "backfill_finished") == [False, True, True, True]


def test_an_empty_range_moves_too(commit: Callable[..., Any]) -> None:
    rows = commit(range_row_count=0, vnode_row_counts=None)

    assert _column(rows, "id", "shard") == [(5, 6)] * 4
    assert _column(rows, "row_count") == [10, 0, 30, 10]


@pytest.mark.parametrize("kind", ["advance", "reanchor", "fill"])
def test_a_barrier_without_a_range_moves_the_version_only(
    commit: Callable[..., Any], kind: str
) -> None:
    rows = commit(kind=kind, range_row_count=None, vnode_row_counts=None)

    assert [tuple(row.values())[:4] for row in rows] == VNODES
    assert _column(rows, "upstream_version", "dirty") == [("17", False)] * 4


def test_a_reset_begins_anew(commit: Callable[..., Any], make_source: Any) -> None:
    rows = commit(kind="reset", sources=[make_source(version=None)])

    assert [tuple(row.values())[:4] for row in rows] == [(None, None, False, 0)] * 4
    assert _column(rows, "upstream_version", "dirty") == [(None, False)] * 4


def test_the_begin_of_a_sweep_begins_anew_at_the_new_version(commit: Callable[..., Any]) -> None:
    rows = commit(kind="sweep")

    assert [tuple(row.values())[:4] for row in rows] == [(None, None, False, 0)] * 4
    assert _column(rows, "upstream_version", "dirty") == [("17", False)] * 4


def test_an_abandoned_plan_moves_nothing_and_leaves_the_mv_dirty(
    commit: Callable[..., Any],
) -> None:
    rows = commit(kind="abandon", last_range=True)

    assert [tuple(row.values())[:4] for row in rows] == VNODES
    assert _column(rows, "epoch", "upstream_version", "dirty") == [(3, "16", True)] * 4


@pytest.mark.parametrize("kind", ["advance", "reanchor", "reset", "abandon"])
def test_the_epoch_moves_and_nothing_is_planned_any_more(
    commit: Callable[..., Any], progress: Any, kind: str, state: Any
) -> None:
    commit(kind=kind)

    state = progress.read("epoch", "plan_id", "plan_kind", "plan")
    assert state == [(3, None, None, None)] * 4


def test_what_became_of_a_barrier_is_noted_with_its_plan_on_one_row(
    commit: Callable[..., Any], progress: Any, make_plan: Any
) -> None:
    commit()
    last, *others = progress.read("last")

    noted = {"invocation_id": "run7", "planned_at": "noon", **OUTCOME}
    assert json.loads(last) == make_plan(**noted)
    assert others == [None] * 3


def test_a_plan_that_was_given_up_is_noted_with_what_was_given_up(
    commit: Callable[..., Any],
    progress: Any,
    macros: Macros,
    backfill: Any,
    make_plan: Any,
    state: Any,
) -> None:
    commit(kind="abandon")
    last = json.loads(progress.read("last")[0])

    assert last["given_up"] == macros.call("add_given_up", state["committed"], make_plan())
    assert last["given_up"]["since"]["epoch"] == 2
    assert last["committed_at"] == "noon"


def test_a_reset_that_was_given_up_notes_nothing_to_look_at(
    commit: Callable[..., Any], progress: Any, make_source: Any
) -> None:
    commit(kind="abandon", sources=[make_source(version=None)])

    assert "given_up" not in json.loads(progress.read("last")[0])


# -- barriers that the history does not have yet ------------------------------------------------


@pytest.mark.parametrize(
    ("written", "kept"),
    [(None, [0, 1, 2]), (-1, [0, 1, 2]), (0, [1, 2]), (1, [2]), (2, [])],
)
def test_barriers_are_kept_until_the_history_has_them(
    progress: Any,
    begun: Any,
    backfill: Any,
    make_plan: Callable[..., Any],
    written: int | None,
    kept: list[int],
    state: Any,
) -> None:
    begun(unwritten=[json.dumps({"epoch": epoch}) for epoch in [0, 1]])
    state["written"] = written
    progress.move("get_commit_sql", backfill, state, make_plan(), outcome=OUTCOME)

    assert [barrier["epoch"] for barrier in progress.unwritten()] == kept
    assert progress.read("unwritten")[1:] == [None] * 3


def test_the_first_barrier_that_is_kept_needs_no_list_before_it(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    state["written"] = None
    begun()
    progress.move("get_commit_sql", backfill, state, make_plan(), outcome=OUTCOME)

    assert progress.unwritten() == [state["committed"]]


# -- the guard ----------------------------------------------------------------------------------


def test_a_commit_that_is_sent_again_moves_nothing(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    begun()
    plan = make_plan()

    moved = [
        progress.move("get_commit_sql", backfill, state, plan, outcome=OUTCOME) for _ in range(2)
    ]
    assert moved == [4, 0]


@pytest.mark.parametrize("kind", ["advance", "reanchor", "reset", "abandon"])
@pytest.mark.parametrize(
    "stands",
    [
        {"epoch": 1},
        {"epoch": 3},
        {"plan_id": "p9"},
        {"plan_kind": "another"},
        {"plan_id": None, "plan_kind": None},
    ],
    ids=["epoch before", "epoch after", "another plan", "another kind", "nothing planned"],
)
def test_the_progress_moves_only_from_the_epoch_before_and_for_this_very_plan(
    progress: Any,
    begun: Any,
    backfill: Any,
    make_plan: Callable[..., Any],
    kind: str,
    stands: dict[str, Any],
    state: Any,
) -> None:
    begun({"kind": kind}, **stands)

    assert (
        progress.move("get_commit_sql", backfill, state, make_plan(kind=kind), outcome=OUTCOME) == 0
    )


def test_a_plan_that_was_given_up_is_not_committed_as_executed(
    progress: Any, begun: Any, backfill: Any, make_plan: Callable[..., Any], state: Any
) -> None:
    begun({"kind": "abandon"})

    assert progress.move("get_commit_sql", backfill, state, make_plan(), outcome=OUTCOME) == 0


# -- the statement ------------------------------------------------------------------------------


@pytest.fixture
def commit_barrier(macros: Macros, backfill: Any, make_plan: Any, stored: Any, state: Any) -> Any:
    """Call commit_barrier for plan p3 of epoch 3, after which Spark reports this state."""

    def commit_barrier(
        epoch: int, executed: bool = True, plan: Any = None, **arguments: Any
    ) -> Any:
        committed = make_plan(epoch=epoch, plan_id=f"p{epoch}")
        macros.results = [[[stored(epoch=epoch, executed=executed, committed=committed)]]]
        return macros.call(
            "commit_barrier", backfill, state, make_plan(**(plan or {})), **arguments
        )

    return commit_barrier


def test_a_commit_returns_the_state_that_stands_then(commit_barrier: Any) -> None:
    assert commit_barrier(3)["epoch"] == 3


def test_a_run_that_others_overtook_with_its_own_plan_goes_on(commit_barrier: Any) -> None:
    assert commit_barrier(4)["epoch"] == 4


def test_a_commit_that_lost_to_no_run_is_sent_again(
    macros: Macros, backfill: Any, make_plan: Any, stored: Any, state: Any
) -> None:
    """For example, an OPTIMIZE of the progress table may have caused the conflict."""
    plan, before = make_plan(), make_plan(epoch=2)
    macros.results = [
        [[stored(epoch=2, committed=before, planned=plan)]],
        [[stored(epoch=3, executed=True, committed=plan)]],
    ]

    assert macros.call("commit_barrier", backfill, state, plan)["epoch"] == 3
    assert len(macros.statements) == 2


@pytest.mark.parametrize("epoch", [2, 3, 4])
def test_a_run_whose_plan_was_not_committed_as_what_it_is_stops(
    commit_barrier: Any, refused: Any, epoch: int
) -> None:
    with refused(
        "another run changed the state while this run executed the barrier 3. Nothing is lost; "
        "run again to continue, and let only one run of the model work at a time."
    ):
        commit_barrier(epoch, executed=False)


def test_a_plan_that_is_given_up_is_committed_as_such(commit_barrier: Any) -> None:
    assert commit_barrier(3, plan={"kind": "abandon"})["epoch"] == 3


def test_every_stage_of_the_barrier_is_dropped_with_the_commit(
    macros: Macros, commit_barrier: Any
) -> None:
    """Views of plans that were not committed are dropped too. Otherwise their rows would stay in
    the cache of a shared session.
    """
    commit_barrier(3, views=["`first`", "`second`"])
    [script] = macros.statements

    assert re.findall(r"drop view (\S+);", script.sql) == ["`first`", "`second`"]


def test_where_positions_go_down_a_vnode_below_the_end_of_the_range_stays_where_it_is(
    commit: Callable[..., Any], descending: Any
) -> None:
    plan = {"key": descending, "vnodes": [0, 1, 2, 3]}
    rows = commit(range_low=None, range_high=["1", "3"], **plan)

    assert _column(rows, "id", "shard") == [(1, 2), (1, 3), (1, 3), (1, 2)]
