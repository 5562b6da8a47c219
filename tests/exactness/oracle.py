"""What the MV must hold, written from the definition and from nothing else.

    MV = Q(upstream @ S where pk <= current_pos), per vnode, for one upstream version S

at every version of the MV. With k the committed epoch, P_k its positions and S_k its upstream
version, the MV goes through the prefixes (S_k, P_k), (S_k+1, P_k), (S_k+1, P_k+1), in this order,
and is at the last of them when epoch k+1 is committed. Nothing here knows how a barrier is carried
out: rows are Python dicts, Q is a Python function, positions are what the progress table says.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Key = tuple[Any, ...]
Row = Mapping[str, Any]
Rows = Mapping[Key, Row]
MvRow = tuple[Any, ...]
MvRows = Counter[MvRow]


@dataclass(frozen=True)
class Change:
    """One row of the upstream that a commit changed: old row, new row, None where there is none."""

    old: Row | None
    new: Row | None


class Inexact(AssertionError):
    """The MV held something else than the definition allows."""


def comparable(key: Key) -> Key:
    """The key in a form that Python orders as Spark does: strings by their UTF-8 bytes."""
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


@dataclass(frozen=True)
class Position:
    """How far one vnode has been scanned: up to and including `pk`, or to the end."""

    pk: Key | None = None
    finished: bool = False

    def covers(self, key: Key) -> bool:
        if self.finished:
            return True
        return self.pk is not None and comparable(key) <= comparable(self.pk)

    def is_behind(self, other: Position) -> bool:
        """Whether `other` is further on, or the same."""
        if other.finished or self == other:
            return True
        if self.finished or other.pk is None:
            return False
        return self.pk is None or comparable(self.pk) <= comparable(other.pk)


Positions = Mapping[int, Position]


@dataclass(frozen=True)
class Progress:
    """One committed state of the progress table."""

    epoch: int
    version: int | None
    positions: Positions
    row_counts: Mapping[int, int]
    dirty: bool = False

    @property
    def finished(self) -> bool:
        return all(position.finished for position in self.positions.values())

    @property
    def started(self) -> bool:
        return any(p.finished or p.pk is not None for p in self.positions.values())


@dataclass(frozen=True)
class ProgressVersion:
    """A version of the progress table, `at` in any clock that the MV's versions share."""

    at: Any
    progress: Progress


@dataclass(frozen=True)
class MvVersion:
    """A version of the MV: its number, when it was committed, what `version as of` returns."""

    version: int
    at: Any
    rows: MvRows


@dataclass(frozen=True)
class Query:
    """Q as the model's SQL and as a Python function: None is a row that the filter drops."""

    sql: str
    columns: tuple[str, ...]
    key_columns: tuple[str, ...]
    evaluate: Callable[[Row], MvRow | None]


class Prefixes(Protocol):
    """What the MV must hold for an upstream version and positions."""

    def prefix(self, version: int | None, positions: Positions) -> MvRows: ...


@dataclass(frozen=True)
class Definition:
    """`Q(upstream @ S where pk <= current_pos)`, per vnode."""

    query: Query
    upstream: Callable[[int], Rows]
    vnode_of: Callable[[Key], int]

    def prefix(self, version: int | None, positions: Positions) -> MvRows:
        if version is None:
            return Counter()
        return Counter(
            shown
            for key, row in self.upstream(version).items()
            if positions[self.vnode_of(key)].covers(key)
            and (shown := self.query.evaluate(row)) is not None
        )

    def scanned(self, version: int, before: Positions, after: Positions) -> Counter[int]:
        """Upstream rows per vnode that a range from `before` to `after` reads at `version`."""
        vnodes = ((key, self.vnode_of(key)) for key in self.upstream(version))
        return Counter(
            vnode
            for key, vnode in vnodes
            if after[vnode].covers(key) and not before[vnode].covers(key)
        )


@dataclass(frozen=True)
class Checked:
    """What a check has looked at: so that a test can tell that it looked at something."""

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
) -> Checked:
    """Raises `Inexact` unless every version of the MV is an allowed prefix, in order, on time.

    `progress` holds the committed states in order, the first of them the one the MV was created
    with. Between two commits of the progress the MV moves through the three prefixes of the
    barrier that the second one commits, never back; when it is committed the MV is at the last.
    A dirty state promises nothing until the barrier after it is committed.
    """
    if not mv or not progress:
        raise Inexact(f"nothing to check: {len(mv)} MV versions, {len(progress)} progress states")
    for number, current in enumerate(progress):
        following = progress[number + 1] if number + 1 < len(progress) else None
        _check_one_epoch(definition, mv, current, following)
    checked = sum(version.at >= progress[0].at for version in mv)
    if checked != len(mv):
        raise Inexact(f"{len(mv) - checked} MV versions are older than the first progress state")
    return Checked(mv_versions=checked, barriers=len(progress) - 1)


def _check_one_epoch(
    definition: Prefixes,
    mv: Sequence[MvVersion],
    current: ProgressVersion,
    following: ProgressVersion | None,
) -> None:
    state = current.progress
    until = following.at if following is not None else None
    here = [v for v in mv if v.at >= current.at and (until is None or v.at < until)]
    before = [v for v in mv if v.at < current.at]
    stages = [("S_k, P_k", state.version, state.positions)]
    if following is not None:
        upcoming = following.progress
        stages += [
            ("S_k+1, P_k", upcoming.version, state.positions),
            ("S_k+1, P_k+1", upcoming.version, upcoming.positions),
        ]
    if state.dirty or (following is not None and following.progress.dirty):
        return
    wanted = [(name, definition.prefix(version, at)) for name, version, at in stages]
    if before and before[-1].rows != wanted[0][1]:
        raise Inexact(
            f"epoch {state.epoch} was committed while the MV (version {before[-1].version}) was "
            f"not at its prefix: {describe_difference(before[-1].rows, wanted[0][1])}"
        )
    stage = 0
    for version in here:
        later = [n for n in range(stage, len(wanted)) if wanted[n][1] == version.rows]
        if not later:
            raise Inexact(
                f"MV version {version.version} (after epoch {state.epoch}) is no allowed prefix "
                f"from ({wanted[stage][0]}) on; against ("
                + "; against (".join(
                    f"{name}): {describe_difference(version.rows, rows)}"
                    for name, rows in wanted[stage:]
                )
            )
        stage = later[0]
    if following is not None:
        last = (before + here)[-1:]
        if not last or last[0].rows != wanted[-1][1]:
            found = last[0].rows if last else Counter()
            raise Inexact(
                f"epoch {following.progress.epoch} was committed before the MV was at its prefix: "
                f"{describe_difference(found, wanted[-1][1])}"
            )


def check_progress(definition: Definition, progress: Sequence[Progress]) -> None:
    """Raises `Inexact` unless epochs, positions and counts move as the definition says.

    Epochs are consecutive and never restart. A barrier either starts over (every vnode NotStarted,
    no upstream version) or moves no position back and no upstream version back, and counts exactly
    the upstream rows of the range it read.
    """
    for old, new in itertools.pairwise(progress):
        where = f"from epoch {old.epoch} to {new.epoch}"
        if new.epoch != old.epoch + 1:
            raise Inexact(f"epochs are not consecutive {where}")
        if new.version is None:
            if new.started or any(new.row_counts.values()):
                raise Inexact(f"a state without an upstream version has started {where}")
            continue
        if new.dirty or old.dirty:
            continue
        if old.version is not None and new.version < old.version:
            raise Inexact(f"upstream version {old.version} went back to {new.version} {where}")
        for vnode, position in old.positions.items():
            if not position.is_behind(new.positions[vnode]):
                raise Inexact(f"vnode {vnode}: {position} went back {where}")
        read = definition.scanned(new.version, old.positions, new.positions)
        for vnode, count in old.row_counts.items():
            if new.row_counts[vnode] != count + read[vnode]:
                raise Inexact(
                    f"vnode {vnode}: row_count {count} became {new.row_counts[vnode]} "
                    f"where {read[vnode]} rows were read {where}"
                )


def rows_by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[Key, Row]:
    """Rows under their keys; a key that is there twice is an error of the test itself."""
    found: dict[Key, Row] = {}
    for row in rows:
        at = tuple(row[name] for name in key)
        if at in found:
            raise ValueError(f"key {at} is there twice")
        found[at] = row
    return found
