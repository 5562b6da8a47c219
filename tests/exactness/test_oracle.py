"""Tests of the checks in oracle.py: a correct MV passes, and every kind of error is found."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from exactness.keys import KEY_TYPES, literal
from exactness.oracle import (
    Change,
    Definition,
    Inexact,
    Key,
    MvVersion,
    Position,
    Positions,
    Progress,
    ProgressVersion,
    Row,
    Rows,
    check_every_version,
    check_progress,
    comparable,
)
from exactness.queries import QUERIES, with_more
from exactness.risingwave import Op, RisingWave, chunk_of, normalize_unmatched_updates
from exactness.upstream import (
    COMMIT_KINDS,
    Commits,
    KeySpace,
    Schema,
    draw_commit,
    draw_rows,
)

pytestmark = pytest.mark.core("session-delta")

VNODES = 4


def vnode_of(key: Key) -> int:
    return zlib.crc32(repr(key).encode()) % VNODES


@dataclass
class Simulation:
    """A backfill in Python, without a fault or with one fault. It creates the input of the checks.

    Its barriers follow section 4 of DESIGN.md: changes up to the old positions, then the range at
    the new version, then the commit. The result of each barrier is the same as in RisingWave.
    """

    seed: int
    fault: str = "none"
    clock: int = 0
    mv: dict[Key, Row] = field(default_factory=dict)
    mv_versions: list[MvVersion] = field(default_factory=list)
    progress: list[ProgressVersion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        space = KeySpace(tuple(self.rng.sample(list(KEY_TYPES), self.rng.randint(1, 3))))
        self.schema = space.schema()
        self.query = QUERIES[self.rng.choice(list(QUERIES))](self.schema)
        self.space, self.commits = space, Commits("t", self.schema, "optimize t", "overwrite t")
        self.versions: list[Rows] = [draw_rows(self.rng, space, self.schema, 30)]
        self.changes: list[tuple[Change, ...]] = [()]
        self.definition = Definition(self.query, self.versions.__getitem__, vnode_of)
        self.descending = self.rng.random() < 0.5
        nowhere = {vnode: Position(descending=self.descending) for vnode in range(VNODES)}
        self.state = Progress(0, None, nowhere, dict.fromkeys(range(VNODES), 0))
        self._commit_progress(self.state)
        self._commit_mv()

    def commit_upstream(self) -> None:
        rows = self.versions[-1]
        kind = self.rng.choice(COMMIT_KINDS)
        commit = draw_commit(self.rng, kind, self.rng.randint(1, 5), self.space, self.commits, rows)
        self.versions.append(commit.apply(rows, self.schema.key_of))
        self.changes.append(commit.changes)

    def barrier(self) -> None:
        old, version = self.state, len(self.versions) - 1
        rows = self.versions[version]
        positions = self._next_positions(rows, old.positions)
        read_at = version
        if self.fault == "range at the old version" and old.version is not None:
            read_at = old.version
        if self.fault == "progress first":
            self._commit(version, positions)
        filter_by = old.positions
        if self.fault == "finished vnodes hide changes":
            filter_by = {
                n: replace(p, finished=False) if positions[n].finished else p
                for n, p in filter_by.items()
            }
        if self.fault == "one vnode decides for all":
            filter_by = dict.fromkeys(filter_by, filter_by[0])
        for key in sorted(self._changed(old.version, version), key=comparable):
            if filter_by[vnode_of(key)].covers(key):
                row = rows.get(key)
                if row is not None:
                    self.mv[key] = row
                elif self.fault != "deletes are lost":
                    self.mv.pop(key, None)
                if self.fault == "a version in the middle":
                    self._commit_mv()
        self._commit_mv()
        if self.fault == "range twice":
            self._commit_mv()
        for key, row in self.versions[read_at].items():
            vnode = vnode_of(key)
            if positions[vnode].covers(key) and not old.positions[vnode].covers(key):
                if self.fault == "last row of the range lost" and key == positions[vnode].pk:
                    continue
                self.mv[key] = row
        self._commit_mv(twice=self.fault == "range twice")
        if self.fault != "progress first":
            self._commit(version, positions)

    def _changed(self, old: int | None, new: int) -> set[Key]:
        if old is None:
            return set()
        changed = set()
        for version in range(old + 1, new + 1):
            for change in self.changes[version]:
                sides = [change.old, change.new]
                if self.fault == "old keys of updates are lost" and change.new is not None:
                    sides = [change.new]
                changed |= {self.schema.key_of(row) for row in sides if row is not None}
        return changed

    def _next_positions(self, rows: Rows, old: Positions) -> Positions:
        limit = self.rng.choice([0, 1, 3, 10, None])
        remaining = [key for key in rows if not old[vnode_of(key)].covers(key)]
        remaining.sort(key=comparable, reverse=self.descending)
        chosen = self.rng.sample(range(VNODES), self.rng.choice([1, VNODES, VNODES]))
        if limit == 0:
            return old
        if limit is None or limit >= len(remaining):
            return {n: replace(p, finished=n in chosen or p.finished) for n, p in old.items()}
        end = Position(remaining[limit - 1], descending=self.descending)
        return {n: end if n in chosen and p.is_behind(end) else p for n, p in old.items()}

    def _commit(self, version: int, positions: Positions) -> None:
        read = self.definition.scanned(version, self.state.positions, positions)
        counts = {n: count + read[n] for n, count in self.state.row_counts.items()}
        if self.fault == "row counts wrong" and read:
            counts[min(read)] += 1
        self.state = Progress(self.state.epoch + 1, version, positions, counts)
        self._commit_progress(self.state)

    def _commit_progress(self, state: Progress) -> None:
        self.clock += 1
        self.progress.append(ProgressVersion(self.clock, state))

    def _commit_mv(self, twice: bool = False) -> None:
        self.clock += 1
        shown = [self.query.evaluate(row) for row in self.mv.values()]
        rows = Counter(row for row in shown if row is not None)
        if twice:
            rows = rows + Counter(list(rows)[:1])
        self.mv_versions.append(MvVersion(len(self.mv_versions), self.clock, rows))

    def check(self) -> None:
        check_every_version(self.definition, self.mv_versions, self.progress)
        check_progress(self.definition, [version.progress for version in self.progress])


def play(seed: int, fault: str = "none") -> Simulation:
    simulation = Simulation(seed, fault)
    for _ in range(30):
        if simulation.rng.random() < 0.6:
            simulation.commit_upstream()
        else:
            simulation.barrier()
    return simulation


def test_a_right_mv_passes() -> None:
    for seed in range(150):
        play(seed).check()


FAULTS = (
    "range at the old version",
    "progress first",
    "finished vnodes hide changes",
    "one vnode decides for all",
    "deletes are lost",
    "a version in the middle",
    "range twice",
    "last row of the range lost",
    "old keys of updates are lost",
    "row counts wrong",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_mv_is_caught(fault: str) -> None:
    with pytest.raises(Inexact):
        for seed in range(60):
            play(seed, fault).check()


def test_a_lost_barrier_is_caught() -> None:
    simulation = play(3)
    states = [version.progress for version in simulation.progress]
    with pytest.raises(Inexact, match="epochs are not consecutive"):
        check_progress(simulation.definition, states[:2] + states[3:])


def replay_risingwave(
    simulation: Simulation, change_form: Callable[[RisingWave], None] = lambda form: None
) -> None:
    """Apply RisingWave's algorithm to the barriers of the simulation.

    Raise `Inexact` if the rows differ from the definition.
    """
    definition = simulation.definition
    form = RisingWave(simulation.query, simulation.schema.key_of, vnode_of)
    change_form(form)
    for old, new in zip(simulation.progress, simulation.progress[1:], strict=False):
        before, after = old.progress, new.progress
        assert after.version is not None
        since = max(0, after.version - 2) if before.version is None else before.version
        chunks = [
            chunk_of(simulation.changes[version], simulation.schema.key_of)
            for version in range(since + 1, after.version + 1)
        ]
        found = form.barrier(definition.upstream(since), chunks, before.positions, after.positions)
        if found != definition.prefix(after.version, after.positions):
            raise Inexact(f"RisingWave's form differs at epoch {after.epoch}")


def test_risingwaves_form_agrees_with_the_definition() -> None:
    for seed in range(150):
        replay_risingwave(play(seed))


def test_an_update_with_one_hidden_half_becomes_a_delete_or_an_insert() -> None:
    old, new = {"k": 1}, {"k": 9}
    chunk = [(Op.UPDATE_DELETE, old), (Op.UPDATE_INSERT, new)]
    assert normalize_unmatched_updates(chunk, [True, False]) == [(Op.DELETE, old)]
    assert normalize_unmatched_updates(chunk, [False, True]) == [(Op.INSERT, new)]
    assert normalize_unmatched_updates(chunk, [True, True]) == chunk
    assert normalize_unmatched_updates(chunk, [False, False]) == []


def test_marking_with_the_old_positions_is_caught() -> None:
    def mark_with_old_positions(form: RisingWave) -> None:
        barrier = form.barrier

        def wrong(snapshot, chunks, old, new):  # type: ignore[no-untyped-def]
            barrier(snapshot, [], old, new)
            return barrier({}, chunks, old, old)

        form.barrier = wrong  # type: ignore[method-assign]

    with pytest.raises((Inexact, ValueError)):
        for seed in range(20):
            replay_risingwave(play(seed), mark_with_old_positions)


def test_keys_compare_as_spark_compares_them() -> None:
    assert comparable(("z",)) < comparable(("é",)) < comparable(("\uffee",))
    assert comparable(("\uffee",)) < comparable(("\U0001f600",))
    assert comparable((1, "b")) < comparable((2, "a"))
    assert comparable((b"\x7f",)) < comparable((b"\x80",))
    assert comparable((False, 5)) < comparable((True, 1))


def test_a_position_covers_up_to_and_including_its_key() -> None:
    assert not Position().covers((1,))
    assert Position((3,)).covers((3,))
    assert not Position((3,)).covers((4,))
    assert Position((3,), finished=True).covers((4,))
    assert Position().is_behind(Position((1,)))
    assert not Position((2,)).is_behind(Position((1,)))
    assert not Position((2,), finished=True).is_behind(Position((2,)))


def test_a_descending_position_covers_from_the_last_key_down_to_its_own() -> None:
    at = Position((3, "b"), descending=True)
    assert at.covers((3, "b")) and at.covers((3, "c")) and at.covers((4, "a"))
    assert not at.covers((3, "a"))
    assert not Position(descending=True).covers((9, "z"))
    assert Position(descending=True).is_behind(at)
    assert at.is_behind(Position((2, "z"), descending=True))
    assert not at.is_behind(Position((4, "a"), descending=True))


def test_literals_survive_quotes_and_backslashes() -> None:
    assert literal("it's", "string") == "cast(X'69742773' as string)"
    assert literal(None, "int") == "cast(null as int)"
    assert literal(True, "boolean") == "true"


# -- columns that are being filled ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ([[2, None, None], [2, 4, None], [2, 4, 6]], False),
        ([[2, None, 6], [2, 4, 0], [2, 4, 6]], False),  # no check above the position
        ([[None, None, None], [2, 4, None], [2, 4, 6]], True),
        ([[2, None, None], [2, 0, None], [2, 4, 6]], True),
        ([[2, None, None], [2, 4, None], [2, 4, None]], True),
    ],
    ids=["right", "above it", "nothing filled", "a wrong value", "not filled at the end"],
)
def test_all_columns_are_looked_at_up_to_the_second_position(
    more: list[list[int | None]], wrong: bool
) -> None:
    """The MV has three rows.

    The second position is first at the first row, then at the second row, then at the end.
    """
    schema = KeySpace(("int",)).schema()
    (key,) = schema.key
    row = dict.fromkeys(schema.columns) | {"label": "x"}
    rows = {(n,): row | {key: n, "amount": 2 * n - 1} for n in (1, 2, 3)}
    query = with_more(QUERIES["positive"](schema))
    definition = Definition(query, lambda version: rows, lambda key: 0)
    end = {0: Position(finished=True)}
    states = [
        ProgressVersion(2 * n, Progress(n, 1, end, {0: 3}, filled=filled).of_all_columns)
        for n, filled in enumerate([Position((1,)), Position((2,)), None])
    ]
    narrow = [QUERIES["positive"](schema).evaluate(row) for row in rows.values()]
    versions = [
        MvVersion(
            n,
            max(0, 2 * n - 1),
            Counter((*(old or ()), new) for old, new in zip(narrow, shown, strict=True)),
        )
        for n, shown in enumerate(more)
    ]

    if not wrong:
        check_every_version(definition, versions, states, definition.covered)
        return
    with pytest.raises(Inexact, match="prefix"):
        check_every_version(definition, versions, states, definition.covered)


def test_a_rescale_moves_positions_and_counts_as_the_definition_says() -> None:
    query = QUERIES["everything"](Schema({"id": "int", "amount": "int"}, key=("id",)))
    definition = Definition(query, lambda version: {}, hash)

    def check(before: Sequence[Position], after: Sequence[Position], *counts: int) -> None:
        old, new = (
            Progress(epoch, 7, dict(enumerate(positions)), dict.fromkeys(range(len(positions)), 2))
            for epoch, positions in ((3, before), (4, after))
        )
        rescaled = replace(new, rescaled=True, row_counts=dict(enumerate(counts)))
        check_progress(definition, [old, rescaled])

    at, ahead, end = Position((4,)), Position((9,)), Position((9,), finished=True)
    check([at, ahead], [at, ahead, at, ahead], 2, 2, 0, 0)
    check([at, ahead, at, end], [at, ahead], 4, 3)
    check([at, end, ahead, Position()], [at, Position()], 4, 0)
    for before, after, counts in [
        ([at, ahead], [at, ahead, ahead, at], (2, 2, 0, 0)),
        ([at, at], [at, at, at, at], (2, 2, 1, 0)),
        ([at, ahead, at, end], [at, end], (4, 3)),
        ([at, ahead], [ahead], (4,)),
        ([at, at], [at, at, at], (2, 2, 0)),
        ([at, at], [at], (3,)),
    ]:
        with pytest.raises(Inexact):
            check(before, after, *counts)
