"""Computes the rows that the MV must have, only from the definition.

    MV = Q(upstream @ S where pk <= current_pos), per vnode, for one upstream version S

If the backfill is descending, the condition is pk >= current_pos. Q is the model's query. The rows
of an upstream version S and positions P are called the prefix (S, P).

The definition holds at every version of the MV. Let k be the committed epoch, P_k its positions and
S_k its upstream version. Then the MV moves through three prefixes in this order:

    (S_k, P_k), (S_k+1, P_k), (S_k+1, P_k+1)

When epoch k+1 is committed, the MV is at the last prefix. This module does not know how a barrier
is executed: rows are Python dicts, Q is a Python function, and positions are read from the progress
table.

In a sweep the definition holds for the rows up to the positions. Above the positions the MV has
rows of an older version. While a new column is being filled, the definition holds for the previous
columns in all rows, and for all columns in the rows up to the second position. The check of all
columns treats the fill like a sweep, see `Progress.of_all_columns`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

Key = tuple[Any, ...]
Row = Mapping[str, Any]
Rows = Mapping[Key, Row]
MvRow = tuple[Any, ...]
MvRows = Counter[MvRow]


@dataclass(frozen=True)
class Change:
    """A change of one row of the upstream.

    `old` is None if the row is inserted, and `new` is None if it is deleted.
    """

    old: Row | None
    new: Row | None


class Inexact(AssertionError):
    """The MV had rows that the definition does not allow."""


def comparable(key: Key) -> Key:
    """Return the key in a form that Python sorts like Spark, which sorts strings by UTF-8 bytes."""
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


@dataclass(frozen=True)
class Position:
    """The position of a vnode: the backfill has read all keys up to and including `pk`.

    If `finished` is true, the backfill has read all keys of the vnode. A descending backfill has
    read the keys from the last key down to and including `pk`.
    """

    pk: Key | None = None
    finished: bool = False
    descending: bool = False

    def covers(self, key: Key) -> bool:
        if self.finished:
            return True
        return self.pk is not None and self._is_in_order(key, self.pk)

    def _is_in_order(self, key: Key, other: Key) -> bool:
        """Return true if the backfill reads `key` before `other`, or if both are equal."""
        first, second = (other, key) if self.descending else (key, other)
        return comparable(first) <= comparable(second)

    def is_behind(self, other: Position) -> bool:
        """Return true if the backfill reaches `self` before `other`, or if both are equal."""
        if other.finished or self == other:
            return True
        if self.finished or other.pk is None:
            return False
        return self.pk is None or self._is_in_order(self.pk, other.pk)


Positions = Mapping[int, Position]
"""The positions of all vnodes, numbered from 0.

The vnode of a key is the hash of the key modulo the number of vnodes.
"""
Covered = Callable[[MvRows, Positions], MvRows]


@dataclass(frozen=True)
class Progress:
    """One committed state of the progress table."""

    epoch: int
    version: int | None
    positions: Positions
    row_counts: Mapping[int, int]
    dirty: bool = False
    sweeping: bool = False
    """Whether the MV may have rows of an older version above the positions."""
    swept_anew: bool = False
    """Whether the last committed barrier has begun a sweep."""
    swapped: bool = False
    """Whether the last barrier has replaced the MV by a next generation.

    The row counts of a next generation begin at zero.
    """
    rescaled: bool = False
    """Whether the last barrier has changed the number of vnodes."""
    filled: Position | None = None
    """The second position: new columns are filled up to it. None if no column is being filled."""

    @property
    def of_all_columns(self) -> Progress:
        """Return the state for a check of all columns: a sweep up to the second position."""
        if self.filled is None:
            return self
        return replace(self, positions=dict.fromkeys(self.positions, self.filled), sweeping=True)

    @property
    def finished(self) -> bool:
        return all(position.finished for position in self.positions.values())

    @property
    def started(self) -> bool:
        return any(p.finished or p.pk is not None for p in self.positions.values())


@dataclass(frozen=True)
class ProgressVersion:
    """A version of the progress table. `at` uses the same clock as `MvVersion.at`."""

    at: Any
    progress: Progress


@dataclass(frozen=True)
class MvVersion:
    """A version of the MV: its number, its commit time and its rows."""

    version: int
    at: Any
    rows: MvRows


@dataclass(frozen=True)
class Query:
    """The query Q as SQL and as a Python function.

    The function returns None for a row that the filter drops.
    """

    sql: str
    columns: tuple[str, ...]
    key_columns: tuple[str, ...]
    evaluate: Callable[[Row], MvRow | None]


class Prefixes(Protocol):
    """Returns the rows that the MV must have for an upstream version and positions."""

    def prefix(self, version: int | None, positions: Positions) -> MvRows: ...


@dataclass(frozen=True)
class Definition:
    """Computes `Q(upstream @ S where pk <= current_pos)` for each vnode, in Python."""

    query: Query
    upstream: Callable[[int], Rows]
    hash_of: Callable[[Key], int]

    def vnode_of(self, key: Key, positions: Positions) -> int:
        return self.hash_of(key) % len(positions)

    def prefix(self, version: int | None, positions: Positions) -> MvRows:
        if version is None:
            return Counter()
        return Counter(
            shown
            for key, row in self.upstream(version).items()
            if positions[self.vnode_of(key, positions)].covers(key)
            and (shown := self.query.evaluate(row)) is not None
        )

    def covered(self, rows: MvRows, positions: Positions) -> MvRows:
        """Return the rows of an MV that the backfill has read at these positions."""
        places = [self.query.columns.index(name) for name in self.query.key_columns]
        keys = {row: tuple(row[place] for place in places) for row in rows}
        return Counter(
            {
                row: count
                for row, count in rows.items()
                if positions[self.vnode_of(keys[row], positions)].covers(keys[row])
            }
        )

    def scanned(self, version: int, before: Positions, after: Positions) -> Counter[int]:
        """Count, for each vnode, the upstream rows that a range from `before` to `after` reads."""
        vnodes = ((key, self.vnode_of(key, before)) for key in self.upstream(version))
        return Counter(
            vnode
            for key, vnode in vnodes
            if after[vnode].covers(key) and not before[vnode].covers(key)
        )


@dataclass(frozen=True)
class Checked:
    """The numbers of MV versions and barriers that a check has read.

    A test can assert that they are not zero.
    """

    mv_versions: int
    barriers: int


def describe_difference(found: MvRows, wanted: MvRows, limit: int = 5) -> str:
    missing, surplus = wanted - found, found - wanted
    parts = [
        f"{sum(rows.values())} {name} {[row for row, _ in rows.most_common(limit)]}"
        for name, rows in (("missing", missing), ("surplus", surplus))
        if rows
    ]
    return ", ".join(parts) or "nothing"


def check_every_version(
    definition: Prefixes,
    mv: Sequence[MvVersion],
    progress: Sequence[ProgressVersion],
    covered: Covered = lambda rows, _: rows,
) -> Checked:
    """Raise `Inexact` unless every version of the MV is an allowed prefix, in the right order.

    `progress` contains the committed states in order; the first state was written when the MV was
    created. Between two commits of the progress table, the MV moves through the three prefixes that
    the module's docstring describes. At the second commit the MV is at the last prefix. The MV's
    versions directly before and after the commit of a dirty state are not checked.

    :param covered: returns the rows of an MV up to positions; needed if there may be sweeps
    """
    if not mv or not progress:
        raise Inexact(f"nothing to check: {len(mv)} MV versions, {len(progress)} progress states")
    for number, current in enumerate(progress):
        following = progress[number + 1] if number + 1 < len(progress) else None
        _check_one_epoch(definition, mv, current, following, covered)
    checked = sum(version.at >= progress[0].at for version in mv)
    if checked != len(mv):
        raise Inexact(f"{len(mv) - checked} MV versions are older than the first progress state")
    return Checked(mv_versions=checked, barriers=len(progress) - 1)


@dataclass(frozen=True)
class Stage:
    """A prefix (upstream version and positions) through which a barrier moves the MV."""

    name: str
    version: int | None
    positions: Positions
    is_swept: bool
    """Whether the MV may have rows of another version above the positions, because of a sweep."""


def _check_one_epoch(
    definition: Prefixes,
    mv: Sequence[MvVersion],
    current: ProgressVersion,
    following: ProgressVersion | None,
    covered: Covered,
) -> None:
    state = current.progress
    until = following.at if following is not None else None
    here = [v for v in mv if v.at >= current.at and (until is None or v.at < until)]
    before = [v for v in mv if v.at < current.at]
    stages = [Stage("S_k, P_k", state.version, state.positions, state.sweeping)]
    if following is not None:
        new = following.progress
        if not new.swept_anew:
            stages.append(Stage("S_k+1, P_k", new.version, state.positions, state.sweeping))
        stages.append(Stage("S_k+1, P_k+1", new.version, new.positions, new.sweeping))
    if state.dirty or (following is not None and following.progress.dirty):
        return
    wanted = [(stage, definition.prefix(stage.version, stage.positions)) for stage in stages]

    def differs(at: int, rows: MvRows) -> str | None:
        stage, promised = wanted[at]
        shown = covered(rows, stage.positions) if stage.is_swept else rows
        return None if shown == promised else describe_difference(shown, promised)

    if before and (difference := differs(0, before[-1].rows)):
        raise Inexact(
            f"epoch {state.epoch} was committed while the MV (version {before[-1].version}) was "
            f"not at its prefix: {difference}"
        )
    stage = 0
    for version in here:
        differences = {n: differs(n, version.rows) for n in range(stage, len(wanted))}
        later = [n for n, difference in differences.items() if difference is None]
        if not later:
            raise Inexact(
                f"MV version {version.version} (after epoch {state.epoch}) "
                f"is not an allowed prefix from ({wanted[stage][0].name}) on; against ("
                + "; against (".join(
                    f"{wanted[n][0].name}): {difference}" for n, difference in differences.items()
                )
            )
        stage = later[0]
    if following is not None:
        last = (before + here)[-1:]
        found = last[0].rows if last else Counter()
        if difference := differs(-1, found):
            raise Inexact(
                f"epoch {following.progress.epoch} was committed before the MV was at its prefix: "
                f"{difference}"
            )


def check_progress(definition: Definition, progress: Sequence[Progress]) -> None:
    """Raise `Inexact` unless epochs, positions and counts change as the definition says.

    Epochs are consecutive and never restart. A barrier does one of three things:

    * It resets the state: no vnode has a position. Only a sweep then has an upstream version.
    * It rescales: it changes the number of vnodes.
    * It moves no position and no upstream version back, and counts exactly the upstream rows of the
      range that it has read.
    """
    for old, new in itertools.pairwise(progress):
        where = f"from epoch {old.epoch} to {new.epoch}"
        if new.epoch != old.epoch + 1:
            raise Inexact(f"epochs are not consecutive {where}")
        if new.version is None or new.swept_anew:
            if new.started or any(new.row_counts.values()):
                raise Inexact(f"a state after a reset has positions or counts {where}")
            continue
        if new.dirty or old.dirty:
            continue
        if old.version is not None and new.version < old.version:
            raise Inexact(f"upstream version {old.version} went back to {new.version} {where}")
        if new.rescaled:
            _check_rescaled(old, new, where)
            continue
        for vnode, position in old.positions.items():
            if not position.is_behind(new.positions[vnode]):
                raise Inexact(f"vnode {vnode}: {position} went back {where}")
        if new.swapped and not new.finished:
            raise Inexact(f"the MV was replaced by an unfinished next generation {where}")
        if new.swapped:
            continue
        read = definition.scanned(new.version, old.positions, new.positions)
        for vnode, count in old.row_counts.items():
            if new.row_counts[vnode] != count + read[vnode]:
                raise Inexact(
                    f"vnode {vnode}: row_count {count} became {new.row_counts[vnode]} "
                    f"where {read[vnode]} rows were read {where}"
                )


def _check_rescaled(old: Progress, new: Progress, where: str) -> None:
    """Check the state after a rescale. A rescale reads no rows.

    A new vnode has the lowest position of the previous vnodes whose keys it contains. If these
    vnodes had the same position, the sum of their row counts stays the same. Otherwise the sum may
    decrease.
    """
    if new.version != old.version:
        raise Inexact(f"a rescale read version {new.version} {where}")
    shared, larger = sorted((len(old.positions), len(new.positions)))
    if larger % shared:
        raise Inexact(f"{len(old.positions)} vnodes became {len(new.positions)} {where}")
    for group in range(shared):
        before = [p for vnode, p in old.positions.items() if vnode % shared == group]
        lowest = [p for p in before if all(p.is_behind(other) for other in before)]
        after = [p for vnode, p in new.positions.items() if vnode % shared == group]
        if not all(p.is_behind(lowest[0]) and lowest[0].is_behind(p) for p in after):
            raise Inexact(f"vnodes at {before} were rescaled to {after} {where}")
        counted, counts = (
            sum(count for vnode, count in progress.row_counts.items() if vnode % shared == group)
            for progress in (old, new)
        )
        if counts != counted if len(lowest) == len(before) else not 0 <= counts <= counted:
            raise Inexact(f"row_count {counted} became {counts} by a rescale {where}")


def rows_by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[Key, Row]:
    """Return a dict of the rows by key. Raise `ValueError` if a key appears twice."""
    found: dict[Key, Row] = {}
    for row in rows:
        at = tuple(row[name] for name in key)
        if at in found:
            raise ValueError(f"key {at} appears twice")
        found[at] = row
    return found
