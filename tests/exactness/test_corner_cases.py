"""Single situations that a backfill has been known to get wrong, each by name.

Every test ends in `check`, which holds every version of the MV against both oracles, and looks at
the moment that its name speaks of by itself.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from exactness.follow import Follower, Upstream, row
from exactness.oracle import Key, Position, Query, Row, rows_by_key
from exactness.queries import everything, positive
from exactness.upstream import Schema
from support.project import Proceed, Project

SCHEMA = Schema({"id": "int", "amount": "int", "label": "string"}, key=("id",))
Values = tuple[Any, ...]


def rows(*values: Values) -> list[Row]:
    return [row(SCHEMA, *each) for each in values]


def numbered(*ids: int, amount: int = 1) -> list[Row]:
    return rows(*((number, amount, f"r{number}") for number in ids))


def follow(
    project: Project,
    upstream_rows: list[Row],
    query: Query | None = None,
    **config: Any,
) -> tuple[Upstream, Follower]:
    """An upstream with these rows and an MV that takes three rows a barrier, not yet run."""
    upstream = Upstream.create(project, "people", SCHEMA, rows_by_key(upstream_rows, SCHEMA.key))
    mv = Follower(project, upstream, "mv", query or everything(SCHEMA), vnode_count=4)
    mv.write(**{"backfill_rate_limit": 3, **config})
    return upstream, mv


def ids(mv: Follower) -> list[int]:
    """The ids that the MV holds, sorted; its query must be `everything`."""
    return sorted(number for number, *_ in mv.mv_rows().elements())


def finish(project: Project, mv: Follower) -> None:
    """Runs to the end of the backfill, and holds all that the MV has been against the oracles."""
    mv.write(barriers_per_run="all")
    project.run()
    mv.check_complete()
    mv.check()
    mv.upstream.check()


def test_rows_inserted_below_the_cursor_appear_at_the_next_barrier(project: Project) -> None:
    upstream, mv = follow(project, numbered(10, 20, 30, 40, 50, 60))
    project.run()
    assert ids(mv) == [10, 20, 30]
    upstream.commit(upstream.commits.insert(numbered(5, 15, 25, 35, 45)))
    project.run()
    assert ids(mv) == [5, 10, 15, 20, 25, 30, 35, 40, 45]
    finish(project, mv)


@pytest.mark.parametrize("last", [False, True], ids=["next range", "last range"])
def test_an_update_moves_rows_across_the_cursor(project: Project, last: bool) -> None:
    upstream, mv = follow(project, numbered(10, 20, 30, 40, 50, 60, 70, 80))
    project.run()
    moves = {(10,): (75,), (60,): (15,), (20,): (25,)}
    upstream.commit(upstream.commits.rekey(upstream.rows, moves))
    if last:
        mv.write(backfill_rate_limit=100)
    project.run()
    below = [15, 25, 30]
    assert ids(mv) == [*below, 40, 50, 70, 75, 80] if last else [*below, 40, 50, 70]
    finish(project, mv)


def test_a_key_that_is_deleted_before_it_is_reached_never_appears(project: Project) -> None:
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 6, 7))
    project.run()
    upstream.commit(upstream.commits.delete(upstream.rows, [(5,), (2,)]))
    project.run()
    finish(project, mv)
    shown = {number for version in mv.mv_versions() for number, *_ in version.rows}
    assert shown == {1, 2, 3, 4, 6, 7}


def test_an_empty_upstream_is_finished_at_once_and_followed_from_then_on(project: Project) -> None:
    upstream, mv = follow(project, [])
    project.run()
    state = mv.progress()
    assert set(state.positions.values()) == {Position(pk=None, finished=True)}
    assert set(state.row_counts.values()) == {0}
    assert mv.mv_rows() == Counter()
    upstream.commit(upstream.commits.insert(numbered(1, 2, 3, 4, 5)))
    project.run()
    assert ids(mv) == [1, 2, 3, 4, 5]
    assert set(mv.progress().row_counts.values()) == {0}
    finish(project, mv)


@pytest.mark.every_profile
def test_keys_swapped_by_one_update(project: Project) -> None:
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 6, 7, 8, 9))
    project.run()
    below, across, rotated = {1: 2, 2: 1}, {3: 4, 4: 3}, {6: 7, 7: 8, 8: 6}
    for swap in (below, across, rotated):
        keys: dict[Key, Key] = {(old,): (new,) for old, new in swap.items()}
        upstream.commit(upstream.commits.rekey(upstream.rows, keys))
    project.run()
    labels = {number: label for number, _, label in mv.mv_rows().elements()}
    assert labels == {1: "r2", 2: "r1", 3: "r4", 4: "r3", 5: "r5", 6: "r8"}
    finish(project, mv)


@pytest.mark.every_profile
def test_several_changes_of_one_key_in_one_barrier(project: Project) -> None:
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 6))
    project.run()
    commits = upstream.commits
    for amount in (7, 8, 9):
        upstream.commit(commits.update(upstream.rows, [(1,)], {"amount": amount}))
    upstream.commit(commits.delete(upstream.rows, [(2,), (3,)]))
    upstream.commit(commits.insert(rows((2, 22, "came back"))))
    upstream.commit(commits.update(upstream.rows, [(2,)], {"amount": 23}))
    upstream.commit(commits.rekey(upstream.rows, {(1,): (3,)}))
    upstream.commit(commits.insert(rows((1, 11, "another"))))
    project.run()
    assert [r for r in sorted(mv.mv_rows().elements()) if r[0] <= 3] == [
        (1, 11, "another"),
        (2, 23, "came back"),
        (3, 9, "r1"),
    ]
    finish(project, mv)


@pytest.mark.every_profile
def test_deleted_and_inserted_by_one_commit(project: Project) -> None:
    """An overwrite deletes and inserts a key in one version: the insert wins."""
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 6))
    project.run()
    upstream.commit(upstream.commits.overwrite(upstream.rows, numbered(2, 3, 5, 7, amount=9)))
    project.run()
    assert ids(mv) == [2, 3, 5, 7]
    assert {amount for _, amount, _ in mv.mv_rows()} == {9}
    finish(project, mv)


def test_updates_move_rows_into_and_out_of_the_filter(project: Project) -> None:
    upstream, mv = follow(
        project,
        rows((1, 5, "in"), (2, 0, "out"), (3, None, "out"), (4, 1, "in"), (5, -1, "out")),
        positive(SCHEMA),
    )
    project.run()
    assert sorted(mv.mv_rows()) == [(10, 1, "in")]
    commits = upstream.commits
    upstream.commit(commits.update(upstream.rows, [(1,)], {"amount": None}))
    upstream.commit(commits.update(upstream.rows, [(2,), (3,), (5,)], {"amount": 2}))
    upstream.commit(commits.update(upstream.rows, [(4,)], {"amount": 0}))
    project.run()
    assert sorted(mv.mv_rows()) == [(4, 2, "out"), (4, 3, "out"), (4, 5, "out")]
    finish(project, mv)


@pytest.mark.every_profile
def test_an_upstream_that_is_emptied_midway(project: Project) -> None:
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 6, 7))
    project.run()
    upstream.commit(upstream.commits.delete_all(upstream.rows))
    project.run()
    assert mv.mv_rows() == Counter()
    upstream.commit(upstream.commits.insert(numbered(2, 6)))
    mv.write(backfill_rate_limit=None)
    project.run()
    assert ids(mv) == [2, 6]
    finish(project, mv)


def test_changes_that_arrive_in_the_barrier_that_finishes_are_shown(project: Project) -> None:
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5))
    project.run()
    commits = upstream.commits
    upstream.commit(commits.insert(numbered(6, 7)))
    upstream.commit(commits.update(upstream.rows, [(2,), (5,)], {"amount": 50}))
    upstream.commit(commits.delete(upstream.rows, [(4,)]))
    mv.write(backfill_rate_limit=10)
    project.run()
    assert mv.progress().finished
    assert sorted(mv.mv_rows().elements()) == sorted(
        [(1, 1, "r1"), (2, 50, "r2"), (3, 1, "r3"), (5, 50, "r5"), (6, 1, "r6"), (7, 1, "r7")]
    )
    upstream.commit(commits.insert(numbered(100)))
    project.run()
    assert ids(mv)[-1] == 100
    finish(project, mv)


def test_one_vnode_has_finished_and_another_has_not(project: Project) -> None:
    upstream, mv = follow(project, numbered(*range(1, 25)), backfill_vnodes=[0, 2])
    mv.write(backfill_rate_limit=None, backfill_vnodes=[0, 2])
    project.run()
    positions = mv.progress().positions
    assert [positions[vnode].finished for vnode in range(4)] == [True, False, True, False]
    vnode_of = mv.definition.vnode_of
    first = {number for number in range(1, 25) if vnode_of((number,)) in (0, 2)}
    assert 0 < len(first) < 24
    assert ids(mv) == sorted(first)

    commits = upstream.commits
    upstream.commit(commits.insert(numbered(*range(30, 50))))
    upstream.commit(commits.update(upstream.rows, [(n,) for n in range(1, 9)], {"amount": 7}))
    upstream.commit(commits.delete(upstream.rows, [(n,) for n in range(9, 14)]))
    mv.write(backfill_rate_limit=4)
    project.run()
    shown = set(ids(mv))
    assert {n for n in range(30, 50) if vnode_of((n,)) in (0, 2)} <= shown
    read = mv.progress().row_counts
    assert read[0] + read[2] == len(first)
    assert 0 < read[1] + read[3] <= 4
    finish(project, mv)


def test_a_vnode_that_is_ahead_of_a_range_stays_where_it_is(project: Project) -> None:
    upstream, mv = follow(
        project, numbered(*range(1, 25)), backfill_rate_limit=3, backfill_vnodes=[0]
    )
    project.run()
    ahead = mv.progress().positions[0]
    assert ahead.pk is not None
    assert ahead.pk > (3,)
    mv.write(backfill_rate_limit=3)
    project.run()
    assert mv.progress().positions[0] == ahead
    first = [(number,) for number in ids(mv) if mv.definition.vnode_of((number,)) == 0]
    upstream.commit(upstream.commits.delete(upstream.rows, first[:1]))
    upstream.commit(upstream.commits.update(upstream.rows, first[1:], {"amount": 7}))
    project.run()
    finish(project, mv)


def test_inserted_and_deleted_between_two_barriers(project: Project) -> None:
    upstream, mv = follow(project, numbered(1, 3, 5, 7, 9))
    project.run()
    commits = upstream.commits
    upstream.commit(commits.insert(numbered(2, 4, 6, 8)))
    upstream.commit(commits.delete(upstream.rows, [(2,), (8,)]))
    project.run()
    assert ids(mv) == [1, 3, 4, 5, 6, 7, 9]
    finish(project, mv)


@pytest.mark.every_profile
def test_an_mv_of_an_mv_is_exact_for_every_version_of_the_first(project: Project) -> None:
    upstream, first = follow(project, numbered(*range(1, 10)), positive(SCHEMA))
    between = Upstream(
        project,
        "mv",
        Schema({"doubled": "int", "id_of_row": "int", "label": "string"}, key=("id_of_row",)),
        project.file_format,
    )
    second = Follower(
        project,
        between,
        "mv_of_mv",
        Query(
            sql="select id_of_row as id, doubled + 1 as odd from __upstream__ where label <> 'r4'",
            columns=("id", "odd"),
            key_columns=("id",),
            evaluate=lambda r: (
                None if r["label"] in (None, "r4") else (r["id_of_row"], r["doubled"] + 1)
            ),
        ),
        vnode_count=4,
        relation="{{ ref('mv') }}",
    )
    second.write(backfill_rate_limit=2)
    commits = upstream.commits
    project.run()
    upstream.commit(commits.update(upstream.rows, [(1,), (4,)], {"amount": 0}))
    upstream.commit(commits.rekey(upstream.rows, {(2,): (8,), (8,): (2,)}))
    project.run()
    upstream.commit(commits.update(upstream.rows, [(1,), (4,), (5,)], {"amount": 3}))
    upstream.commit(commits.delete(upstream.rows, [(3,), (9,)]))
    project.run()
    second.write(barriers_per_run="all")
    finish(project, first)
    between.learn()
    second.check_complete()
    second.check()


@pytest.mark.every_profile
def test_a_full_refresh_in_the_middle_of_a_backfill(project: Project) -> None:
    upstream, mv = follow(project, numbered(*range(1, 10)))
    project.run()
    project.run()
    before = mv.progress()
    upstream.commit(upstream.commits.delete(upstream.rows, [(1,), (8,)]))
    project.run("--full-refresh")
    states = [version.progress for version in mv.progress_versions()]
    assert [s.epoch for s in states] == list(range(len(states)))
    assert any(s.version is None and s.epoch == before.epoch + 1 for s in states)
    project.run()
    assert max(ids(mv)) < 9
    finish(project, mv)


def test_changes_go_on_while_the_backfill_is_paused(project: Project) -> None:
    upstream, mv = follow(project, numbered(*range(1, 9)))
    project.run()
    at = mv.progress().positions
    mv.write(backfill_rate_limit=0)
    upstream.commit(upstream.commits.update(upstream.rows, [(2,), (7,)], {"amount": 70}))
    upstream.commit(upstream.commits.insert(numbered(0, 9)))
    project.run()
    assert sorted(mv.mv_rows()) == [(0, 1, "r0"), (1, 1, "r1"), (2, 70, "r2"), (3, 1, "r3")]
    assert mv.progress().positions == at
    upstream.commit(upstream.commits.delete_all(upstream.rows))
    project.run()
    assert mv.mv_rows() == Counter()
    assert mv.progress().positions == at
    assert "PAUSED" in project.run().message("mv")
    upstream.commit(upstream.commits.insert(numbered(2, 8)))
    finish(project, mv)


def test_nothing_is_written_when_there_is_nothing_to_do(project: Project) -> None:
    _, mv = follow(project, numbered(1, 2, 3), backfill_rate_limit=None)
    project.run()
    before = mv.mv_versions(), mv.progress_versions()
    assert project.run().message("mv") == "CAUGHT UP"
    assert (mv.mv_versions(), mv.progress_versions()) == before
    mv.check()


@pytest.mark.every_profile
def test_a_plan_that_another_run_gives_up_is_not_committed_by_its_own(project: Project) -> None:
    """Its range is merged then: what was given up is put right by the barrier after it."""
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 6, 7, 8, 9))
    project.run()
    upstream.commit(upstream.commits.delete(upstream.rows, [(2,), (5,)]))
    given_up = """replace(plan, '"kind":"advance"', '"kind":"abandon","reason":"a test"')"""

    def give_up(sql: str, proceed: Proceed) -> None:
        if ": commit the barrier " in sql:
            project.sql(
                f"update {mv.table}__progress set plan_kind = 'abandon', plan = {given_up}"
                " where epoch = 1 and plan_id is not null"
            )
        proceed()

    assert "another run went on while this one" in project.fail(intercept=give_up).error
    assert (mv.progress().epoch, mv.progress().dirty) == (1, False)
    assert ids(mv) == [1, 3, 4, 6]

    assert "plan given up: a test" in project.run().output
    assert set(mv.progress().positions.values()) == {Position(pk=(3,))}
    assert ids(mv) == [1, 3]
    finish(project, mv)
