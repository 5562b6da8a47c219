"""Each test repeats a situation in which a backfill was wrong once.

A test checks the rows in this situation, and then every version of its MV. All tests with the
fixture `together` check the same barrier, in which each test has its own changed keys. Each test
with the fixture `midway` continues the backfill of a shared MV by one or two barriers. All other
tests have their own MV.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from exactness.follow import Follower, Upstream, row
from exactness.oracle import Key, MvVersion, Position, Query, Row, rows_by_key
from exactness.queries import everything, positive
from exactness.upstream import Commit, Commits, Schema
from support.checks import model, source
from support.profiles import at_home_on_iceberg
from support.project import MakeProject, Proceed, Project

pytestmark = at_home_on_iceberg

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
    """Create an upstream with these rows, and a model that reads three rows in each barrier.

    The model has not been run yet.
    """
    upstream = Upstream.create(project, "people", SCHEMA, rows_by_key(upstream_rows, SCHEMA.key))
    mv = Follower(project, upstream, "mv", query or everything(SCHEMA), vnode_count=4)
    mv.write(**{"backfill_rate_limit": 3, **config})
    return upstream, mv


def ids(mv: Follower) -> list[int]:
    """Return the sorted ids of the MV's rows. The query of the MV must be `everything`."""
    return sorted(number for number, *_ in mv.mv_rows().elements())


def finish(project: Project, mv: Follower) -> None:
    """Complete the backfill, then check every version of the MV."""
    mv.write(barriers_per_run="all")
    project.run()
    hold(mv)


def hold(mv: Follower) -> None:
    """Check that the MV is complete, and that each of its versions is exact."""
    mv.check_complete()
    mv.check()
    mv.upstream.check()


# -- in the middle of a backfill ------------------------------------------------------------------


class Midway:
    """An MV in the middle of its backfill. It reads twelve rows at first, then six in each barrier.

    Several tests share the MV, so its position depends on the previous tests. Each test looks up
    the ids that it changes.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.upstream, self.mv = follow(project, numbered(*range(10, 1500, 10)))
        self.limit(12)
        project.run()
        self.limit(6)
        self.is_exact = True

    def limit(self, rows: int) -> None:
        self.mv.write(backfill_rate_limit=rows)

    @property
    def commits(self) -> Commits:
        return self.upstream.commits

    @property
    def rows(self) -> list[int]:
        return sorted(number for (number,) in self.upstream.rows)

    @property
    def cursor(self) -> int:
        [position] = set(self.mv.progress().positions.values())
        assert position.pk is not None
        return int(position.pk[0])

    @property
    def below(self) -> list[int]:
        """Return the upstream's ids that the backfill has read."""
        cursor = self.cursor
        return [number for number in self.rows if number <= cursor]

    @property
    def above(self) -> list[int]:
        """Return the upstream's ids that the backfill has not read.

        The next range reads the first ones.
        """
        cursor = self.cursor
        return [number for number in self.rows if number > cursor]

    def absent_below(self, count: int) -> list[int]:
        """Return the highest unused ids below the cursor."""
        return [n for n in range(1, self.cursor) if n not in self.rows][-count:]

    def absent_above(self, count: int) -> list[int]:
        """Return the lowest unused ids above the cursor."""
        cursor = self.cursor
        return [n for n in range(cursor + 1, cursor + 50) if n not in self.rows][:count]

    def commit(self, *commits: Commit) -> None:
        for each in commits:
            self.upstream.commit(each)

    def barrier(self) -> list[int]:
        """Run a barrier and return the MV's ids. They must be all ids up to the new cursor."""
        before = self.cursor
        self.project.run()
        shown = ids(self.mv)
        assert shown == self.below
        assert self.cursor > before
        return shown

    def settle(self) -> None:
        self.mv.check()
        self.upstream.check()
        self.is_exact = True


_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def kept() -> Iterator[list[Midway]]:
    """Yield a list with the shared `Midway` object, which is empty while a test uses the object.

    After the last test, complete and check the shared MV.
    """
    kept: list[Midway] = []
    yield kept
    for midway in kept:
        finish(midway.project, midway.mv)


@pytest.fixture
def midway(shared_project: MakeProject, kept: list[Midway]) -> Iterator[Midway]:
    """Yield the shared MV. A failed test may leave the MV wrong, so the next test gets a new MV."""
    midway = kept.pop() if kept else Midway(shared_project(f"midway_{next(_numbers)}"))
    midway.is_exact = False
    yield midway
    if midway.is_exact:
        kept.append(midway)


@dataclass(frozen=True)
class Together:
    """The MV after one barrier that has merged many kinds of commits, each on its own keys."""

    inserted: list[int]
    """Inserted ids, some below the cursor and some above it."""
    between: tuple[list[int], list[int]]
    """Ids that are inserted before the barrier. The ids in the first list are deleted again."""
    moves: dict[int, int]
    """The old and the new id of three moved rows.

    The first row moves from below the cursor to far above it. The second row stays below the
    cursor. The third row moves from above the cursor to below it.
    """
    deleted: tuple[int, int]
    """Two deleted ids, the first below the cursor and the second above it."""
    swaps: tuple[dict[int, int], ...]
    """Old and new ids of rows that exchange their ids:

    below, on both sides of, and above the cursor.
    """
    several: list[int]
    """Three ids below the cursor.

    The row of the third id is deleted. The row of the second id is deleted and inserted again. The
    row of the first id is updated, then moved to the third id, and another row is inserted for it.
    """
    labels: dict[int, str]
    """The label of each upstream row before the commits."""
    rows: dict[int, Values]
    versions: list[MvVersion]


@pytest.fixture(scope="module")
def together(shared_project: MakeProject, kept: list[Midway]) -> Together:
    midway = kept.pop() if kept else Midway(shared_project(f"midway_{next(_numbers)}"))
    mv, upstream, commits = midway.mv, midway.upstream, midway.commits
    below, above, newest = midway.below, midway.above, mv.stored.newest_version()
    free_below, free_above = midway.absent_below(7), midway.absent_above(4)
    labels = {number: upstream.rows[(number,)]["label"] for number in midway.rows}

    inserted = [*free_below[:3], *free_above[:2]]
    midway.commit(commits.insert(numbered(*inserted)))

    moves = {below[0]: above[-1] + 5, below[1]: free_below[3], above[8]: free_below[4]}
    midway.commit(commits.rekey(upstream.rows, {(old,): (new,) for old, new in moves.items()}))

    deleted = (below[2], above[1])
    midway.commit(commits.delete(upstream.rows, [(number,) for number in deleted]))

    (a, b, c), (d, e) = below[3:6], (above[0], above[2])
    f, g, h = above[3:6]
    swaps = {a: b, b: a}, {c: d, d: c}, {e: f, f: g, g: h, h: e}
    for swap in swaps:
        keys: dict[Key, Key] = {(one,): (other,) for one, other in swap.items()}
        midway.commit(commits.rekey(upstream.rows, keys))

    one, two, three = several = below[6:9]
    for amount in (7, 8, 9):
        midway.commit(commits.update(upstream.rows, [(one,)], {"amount": amount}))
    midway.commit(commits.delete(upstream.rows, [(two,), (three,)]))
    midway.commit(commits.insert(rows((two, 22, "came back"))))
    midway.commit(commits.update(upstream.rows, [(two,)], {"amount": 23}))
    midway.commit(commits.rekey(upstream.rows, {(one,): (three,)}))
    midway.commit(commits.insert(rows((one, 11, "another"))))

    came, went = [free_below[5], free_above[2]], [free_below[6], free_above[3]]
    midway.commit(commits.insert(numbered(*came, *went)))
    midway.commit(commits.delete(upstream.rows, [(number,) for number in went]))

    midway.barrier()
    found = {row[0]: row for row in mv.mv_rows().elements()}
    versions = [version for version in mv.mv_versions() if version.version > newest]
    midway.settle()
    kept.append(midway)
    return Together(inserted, (went, came), moves, deleted, swaps, several, labels, found, versions)


def test_rows_inserted_below_the_cursor_appear_at_the_next_barrier(together: Together) -> None:
    assert set(together.inserted) <= set(together.rows)


def test_an_update_moves_rows_across_the_cursor(together: Together) -> None:
    (gone, far), (moved, one), (_, two) = together.moves.items()
    assert {one, two} <= set(together.rows)
    assert not {far, gone, moved} & set(together.rows)


def test_a_key_that_is_deleted_before_it_is_reached_never_appears(together: Together) -> None:
    shown, gone = together.deleted
    assert shown not in together.rows
    assert together.versions
    assert not any(number == gone for version in together.versions for number, *_ in version.rows)


@pytest.mark.every_profile
def test_keys_swapped_by_one_update(together: Together) -> None:
    below, across, above = together.swaps
    assert {*below, *across, next(iter(above))} <= set(together.rows)
    for swap in together.swaps:
        for one, other in swap.items():
            if other in together.rows:
                assert together.rows[other][2] == together.labels[one]


@pytest.mark.every_profile
def test_several_changes_of_one_key_in_one_barrier(together: Together) -> None:
    one, two, three = together.several
    assert [together.rows[number] for number in together.several] == [
        (one, 11, "another"),
        (two, 23, "came back"),
        (three, 9, together.labels[one]),
    ]


def test_inserted_and_deleted_between_two_barriers(together: Together) -> None:
    went, came = together.between
    assert set(came) <= set(together.rows)
    assert not set(went) & set(together.rows)


@pytest.mark.every_profile
def test_deleted_and_inserted_by_one_commit(midway: Midway) -> None:
    """If an overwrite deletes and inserts a key in one version, the insert wins."""
    gone = {midway.below[0], midway.above[0]}
    new = [*midway.absent_below(1), *midway.absent_above(1)]
    left = [number for number in midway.rows if number not in gone]
    midway.commit(midway.commits.overwrite(midway.upstream.rows, numbered(*left, *new, amount=9)))
    shown = set(midway.barrier())
    assert set(new) <= shown
    assert not gone & shown
    assert {amount for _, amount, _ in midway.mv.mv_rows()} == {9}
    midway.settle()


def test_a_plan_that_another_run_gives_up_is_not_committed_by_its_own(midway: Midway) -> None:
    """Another run abandons the plan after its range was merged.

    The next barrier removes this range.
    """
    project, mv, cursor, before = midway.project, midway.mv, midway.cursor, midway.mv.progress()
    gone = [(midway.below[1],), (midway.above[1],)]
    midway.commit(midway.commits.delete(midway.upstream.rows, gone))
    below, above = midway.below, midway.above
    given_up = """replace(plan, '"kind": "advance"', '"kind": "abandon", "reason": "a test"')"""

    def give_up(sql: str, proceed: Proceed) -> None:
        if ": commit the barrier " in sql:
            project.sql(
                f"update {mv.table}__progress set plan_kind = 'abandon', plan = {given_up}"
                f" where epoch = {before.epoch} and plan_id is not null"
            )
        proceed()

    assert "another run changed the state while this run" in project.fail(intercept=give_up).error
    assert (mv.progress().epoch, mv.progress().dirty) == (before.epoch, False)
    merged = ids(mv)
    assert len(merged) > len(below)
    assert merged == [*below, *above][: len(merged)]

    assert "plan given up: a test" in project.run().output
    assert midway.cursor == cursor
    assert ids(mv) == below
    midway.settle()


def test_changes_go_on_while_the_backfill_is_paused(midway: Midway) -> None:
    mv, commits, upstream = midway.mv, midway.commits, midway.upstream
    below, above = midway.below, midway.above
    [low], [high], at = midway.absent_below(1), midway.absent_above(1), mv.progress().positions
    midway.limit(0)
    midway.commit(commits.update(upstream.rows, [(below[1],), (above[0],)], {"amount": 70}))
    midway.commit(commits.insert(numbered(low, high)))
    midway.project.run()
    assert ids(mv) == sorted([*below, low])
    assert [number for number, amount, _ in mv.mv_rows() if amount == 70] == [below[1]]
    assert mv.progress().positions == at
    midway.commit(commits.delete_all(upstream.rows))
    midway.project.run()
    assert mv.mv_rows() == Counter()
    assert mv.progress().positions == at
    assert "PAUSED" in midway.project.run().message("mv")
    midway.commit(commits.insert(numbered(*below, *above)))
    midway.limit(6)
    midway.barrier()
    midway.settle()


def test_a_full_refresh_in_the_middle_of_a_backfill(midway: Midway) -> None:
    mv, before, cursor = midway.mv, midway.mv.progress(), midway.cursor
    gone = [(midway.below[1],), (midway.above[1],)]
    midway.commit(midway.commits.delete(midway.upstream.rows, gone))
    midway.project.run("--full-refresh")
    states = [version.progress for version in mv.progress_versions()]
    assert [s.epoch for s in states] == list(range(len(states)))
    assert any(s.version is None and s.epoch == before.epoch + 1 for s in states)
    assert ids(mv) == midway.below
    assert midway.cursor < cursor
    midway.settle()


def test_an_upstream_that_is_emptied_midway(midway: Midway) -> None:
    """This is the last test with `midway`, because it completes the shared MV."""
    mv, commits, upstream = midway.mv, midway.commits, midway.upstream
    low, high = midway.below[1], midway.above[3]
    midway.commit(commits.delete_all(upstream.rows))
    midway.project.run()
    assert mv.mv_rows() == Counter()
    midway.commit(commits.insert(numbered(low, high)))
    mv.write(backfill_rate_limit=None)
    midway.project.run()
    assert ids(mv) == [low, high]
    hold(mv)


# -- at its beginning and its end -----------------------------------------------------------------


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
    hold(mv)


def test_changes_that_arrive_in_the_barrier_that_finishes_are_shown_and_then_nothing_is_written(
    project: Project,
) -> None:
    upstream, mv = follow(project, numbered(1, 2, 3, 4, 5, 8, 9))
    project.run()
    commits = upstream.commits
    upstream.commit(commits.insert(numbered(6, 7)))
    upstream.commit(commits.update(upstream.rows, [(2,), (5,)], {"amount": 50}))
    upstream.commit(commits.delete(upstream.rows, [(4,)]))
    upstream.commit(commits.rekey(upstream.rows, {(1,): (10,), (9,): (0,)}))
    mv.write(backfill_rate_limit=10)
    project.run()
    assert mv.progress().finished
    wanted = [(0, 1, "r9"), (2, 50, "r2"), (3, 1, "r3"), (5, 50, "r5"), (6, 1, "r6"), (7, 1, "r7")]
    assert sorted(mv.mv_rows().elements()) == [*wanted, (8, 1, "r8"), (10, 1, "r1")]

    before = mv.mv_versions(), mv.progress_versions()
    assert project.run().message("mv") == "CAUGHT UP"
    assert (mv.mv_versions(), mv.progress_versions()) == before
    hold(mv)


# -- vnodes, and MVs of MVs -----------------------------------------------------------------------


def test_vnodes_that_have_finished_are_followed_and_one_that_is_ahead_of_a_range_stays_where_it_is(
    project: Project,
) -> None:
    upstream, mv = follow(project, numbered(*range(1, 41)))
    mv.write(backfill_rate_limit=None, backfill_vnodes=[0, 2])
    project.run()
    positions = mv.progress().positions
    assert [positions[vnode].finished for vnode in range(4)] == [True, False, True, False]
    first = {
        number for number in range(1, 41) if mv.definition.vnode_of((number,), positions) in (0, 2)
    }
    assert 0 < len(first) < 40
    assert ids(mv) == sorted(first)

    commits = upstream.commits
    upstream.commit(commits.insert(numbered(*range(50, 70))))
    upstream.commit(commits.update(upstream.rows, [(n,) for n in range(1, 9)], {"amount": 7}))
    upstream.commit(commits.delete(upstream.rows, [(n,) for n in range(9, 14)]))
    mv.write(backfill_rate_limit=4, backfill_vnodes=[1])
    project.run()
    shown = set(ids(mv))
    assert {n for n in range(50, 70) if mv.definition.vnode_of((n,), positions) in (0, 2)} <= shown
    read = mv.progress().row_counts
    assert (read[0] + read[2], read[3]) == (len(first), 0)
    assert 0 < read[1] <= 4
    ahead = mv.progress().positions[1]

    shown_of_it = [
        (number,) for number in sorted(shown) if mv.definition.vnode_of((number,), positions) == 1
    ]
    upstream.commit(commits.delete(upstream.rows, shown_of_it[:1]))
    upstream.commit(commits.update(upstream.rows, shown_of_it[1:], {"amount": 8}))
    mv.write(backfill_rate_limit=2)
    project.run()
    positions = mv.progress().positions
    assert positions[1] == ahead
    assert positions[3].pk is not None
    assert positions[3].is_behind(ahead)
    finish(project, mv)


def test_an_mv_whose_filter_updates_enter_and_leave_and_an_mv_of_that_mv_are_exact(
    project: Project,
) -> None:
    """The second MV reads the first MV. It must be exact for every version of the first MV."""
    filtered = rows((1, 5, "r1"), (2, 0, "r2"), (3, None, "r3"), (4, 1, "r4"), (5, -1, "r5"))
    upstream, first = follow(project, [*filtered, *numbered(6, 7, 8, 9)], positive(SCHEMA))
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
    assert sorted(first.mv_rows()) == [(10, 1, "r1")]
    upstream.commit(commits.update(upstream.rows, [(1,)], {"amount": None}))
    upstream.commit(commits.update(upstream.rows, [(2,), (3,), (5,)], {"amount": 2}))
    upstream.commit(commits.update(upstream.rows, [(4,)], {"amount": 0}))
    upstream.commit(commits.rekey(upstream.rows, {(2,): (8,), (8,): (2,)}))
    project.run()
    assert sorted(first.mv_rows()) == [(2, 2, "r8"), (2, 6, "r6"), (4, 3, "r3"), (4, 5, "r5")]
    upstream.commit(commits.update(upstream.rows, [(1,), (4,), (5,)], {"amount": 3}))
    upstream.commit(commits.delete(upstream.rows, [(3,), (9,)]))
    second.write(barriers_per_run="all")
    finish(project, first)
    between.learn()
    second.check_complete()
    second.check()


@pytest.mark.profiles("session-delta", reason="Iceberg's changelog has no old rows")
@pytest.mark.parametrize("gap", [None, "reanchor", "sweep"])
def test_a_variant_of_another_type_is_another_value(project: Project, gap: str | None) -> None:
    """The two values have the same JSON, but different types."""
    project.create_table("up", "id int, v variant, b string")
    project.sql("insert into {schema}.up select id, parse_json('1'), 'b' from range(0, 4, 1, 1)")
    config = {"on_gap": gap or "reanchor", "barriers_per_run": "all"}
    project.write({"mv": model(f"select id, v from {source('up')}", **config)}, sources=["up"])
    project.run()
    if gap:
        before = project.current_version("up")
        project.sql("update {schema}.up set b = 'c'")
        project.restore("up", before)
    project.sql("update {schema}.up set v = parse_json('1.0') where id = 1")
    project.run()

    shown = "select id, schema_of_variant(v), to_json(v) from {schema}."
    assert project.rows(f"{shown}mv") == project.rows(f"{shown}up")
