"""RisingWave's algorithm of a backfill barrier, which computes the expected rows in a second way.

RisingWave reads a range of the upstream at the *previous* version and emits its rows as inserts.
Then it forwards the changes of the barrier if the *new* positions allow it
(`mark_chunk_ref_by_vnode`). A Completed vnode forwards every change, a NotStarted vnode
forwards no change, and an InProgress vnode forwards the changes with pk <= current_pos. If only one
half of an update is forwarded, the update becomes a delete or an insert
(`normalize_unmatched_updates`).

After every barrier the MV has the same rows as in the definition. But RisingWave computes them from
change events with old and new rows. So this algorithm also finds errors that a comparison of rows
cannot find: a change that is applied twice, or a delete of a row that the MV does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from exactness.oracle import (
    Change,
    Key,
    MvRow,
    MvRows,
    Position,
    Positions,
    Query,
    Row,
    Rows,
)


class Op(Enum):
    INSERT = "+"
    DELETE = "-"
    UPDATE_DELETE = "U-"
    UPDATE_INSERT = "U+"


Event = tuple[Op, Row]
Chunk = Sequence[Event]
KeyOf = Callable[[Row], Key]


def chunk_of(changes: Iterable[Change], key_of: KeyOf) -> list[Event]:
    """Return the events of one commit, in an order in which they can be applied one by one.

    An UPDATE that swaps keys gives a row a key that the same commit frees. Such an update is a
    delete and an insert, and all deletes come first. Any other update is a pair of `U-` and `U+`,
    even if it changes the key.
    """
    changes = list(changes)
    freed = {key_of(c.old) for c in changes if c.old is not None}
    deletes: list[Event] = []
    updates: list[Event] = []
    inserts: list[Event] = []
    for change in changes:
        if change.new is None:
            if change.old is not None:
                deletes.append((Op.DELETE, change.old))
        elif change.old is None:
            inserts.append((Op.INSERT, change.new))
        elif key_of(change.old) != key_of(change.new) and key_of(change.new) in freed:
            deletes.append((Op.DELETE, change.old))
            inserts.append((Op.INSERT, change.new))
        else:
            updates += [(Op.UPDATE_DELETE, change.old), (Op.UPDATE_INSERT, change.new)]
    return deletes + updates + inserts


def mark_chunk_ref_by_vnode(
    chunk: Chunk, positions: Positions, hash_of: Callable[[Key], int], key_of: KeyOf
) -> list[bool]:
    """Return, for each event of the chunk, true if the event is forwarded to the MV."""
    visible = []
    for _, row in chunk:
        key = key_of(row)
        position = positions[hash_of(key) % len(positions)]
        if position.finished:
            visible.append(True)
        elif position.pk is None:
            visible.append(False)
        else:
            visible.append(position.covers(key))
    return visible


def normalize_unmatched_updates(chunk: Chunk, visible: Sequence[bool]) -> list[Event]:
    """Return the visible events. An update with one hidden half becomes a delete or an insert."""
    shown: list[Event] = []
    number = 0
    while number < len(chunk):
        op, row = chunk[number]
        if op is not Op.UPDATE_DELETE:
            if visible[number]:
                shown.append((op, row))
            number += 1
            continue
        _, new = chunk[number + 1]
        old_shown, new_shown = visible[number], visible[number + 1]
        if old_shown and new_shown:
            shown += [(Op.UPDATE_DELETE, row), (Op.UPDATE_INSERT, new)]
        elif old_shown:
            shown.append((Op.DELETE, row))
        elif new_shown:
            shown.append((Op.INSERT, new))
        number += 2
    return shown


@dataclass
class RisingWave:
    """The MV that RisingWave's operators produce: backfill, filter and project, materialize."""

    query: Query
    key_of: KeyOf
    hash_of: Callable[[Key], int]
    rows: dict[Key, MvRow] = field(default_factory=dict)

    def barrier(
        self, snapshot: Rows, chunks: Sequence[Chunk], old: Positions, new: Positions
    ) -> MvRows:
        """Insert the rows of `snapshot` between the positions, then apply the changes."""
        scanned = [
            (Op.INSERT, row)
            for key, row in snapshot.items()
            if _is_in_range(
                key, old[self.hash_of(key) % len(old)], new[self.hash_of(key) % len(new)]
            )
        ]
        self._materialize(scanned)
        for chunk in chunks:
            visible = mark_chunk_ref_by_vnode(chunk, new, self.hash_of, self.key_of)
            self._materialize(normalize_unmatched_updates(chunk, visible))
        return Counter(self.rows.values())

    def reset(self) -> None:
        self.rows.clear()

    def _materialize(self, chunk: Chunk) -> None:
        passes = [self.query.evaluate(row) is not None for _, row in chunk]
        for op, row in normalize_unmatched_updates(chunk, passes):
            key = self.key_of(row)
            shown = self.query.evaluate(row)
            assert shown is not None
            if op in (Op.DELETE, Op.UPDATE_DELETE):
                if self.rows.get(key) != shown:
                    raise ValueError(f"{op.value} of {shown}, but there is {self.rows.get(key)}")
                del self.rows[key]
            else:
                if key in self.rows:
                    raise ValueError(f"{op.value} of {shown}, but there is {self.rows[key]}")
                self.rows[key] = shown


def _is_in_range(key: Key, old: Position, new: Position) -> bool:
    return new.covers(key) and not old.covers(key)
