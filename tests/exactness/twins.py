"""Random commits on an upstream in which keys appear twice for a while.

The column `at` numbers the rows that have the same key. So a DELETE can remove one of two rows with
the same key. An episode is a sequence of commits that change a few keys. Episodes that overlap in
time change different keys. So their commits can be mixed, and a barrier can come between the
commits of an episode.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exactness.keys import literal
from exactness.oracle import Key, Row
from exactness.payloads import PAYLOAD_TYPES, TIMESTAMPS
from exactness.upstream import AMOUNTS, LABELS, TOUCHES, Commits, KeySpace, Schema

HIDDEN = {"amount": -1, "label": "hide"}
"""The values of a row that some filters of `zoned.py` drop."""


@dataclass(frozen=True)
class Statement:
    """One commit: its SQL, the rows that it removes and the rows that it adds."""

    sql: str
    removed: tuple[Row, ...] = ()
    added: tuple[Row, ...] = ()

    def apply(self, rows: Sequence[Row]) -> list[Row]:
        after = list(rows)
        for row in self.removed:
            after.remove(row)
        return [*after, *self.added]


@dataclass(frozen=True)
class Episode:
    kind: str
    keys: frozenset[Key]
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Payloads:
    """Draws values for the columns outside the key."""

    types: dict[str, str]
    """For each column: the name of its type in PAYLOAD_TYPES."""

    def schema(self, keys: KeySpace, order: Sequence[int]) -> Schema:
        plain = keys.schema(order)
        own = {name: PAYLOAD_TYPES[kind].sql for name, kind in self.types.items()}
        return Schema({**plain.columns, "at": "int", "ts": TIMESTAMPS.sql, **own}, plain.key)

    def draw(self, rng: random.Random) -> dict[str, Any]:
        values: dict[str, Any] = {"amount": rng.choice(AMOUNTS), "label": rng.choice(LABELS)}
        for name, kind in {"ts": TIMESTAMPS, **self._kinds()}.items():
            values[name] = None if rng.random() < 0.2 else rng.choice(kind.values)
        return values

    def _kinds(self) -> dict[str, Any]:
        return {name: PAYLOAD_TYPES[kind] for name, kind in self.types.items()}


@dataclass
class Writer:
    """Builds statements on one table and numbers the new rows."""

    commits: Commits
    payloads: Payloads
    rng: random.Random
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def table(self) -> str:
        return self.commits.table

    @property
    def schema(self) -> Schema:
        return self.commits.schema

    def row(self, key: Key, **values: Any) -> Row:
        drawn = {**self.payloads.draw(self.rng), "at": next(self.numbers), **values}
        drawn |= dict(zip(self.schema.key, key, strict=True))
        return {name: drawn[name] for name in self.schema.columns}

    def insert(self, *rows: Row) -> Statement:
        return Statement(self.commits.insert(rows).sql, (), rows)

    def delete(self, *rows: Row) -> Statement:
        return Statement(f"delete from {self.table} where {self._any_of(rows)}", rows)

    def change(self, row: Row, **values: Any) -> tuple[Row, Statement]:
        """Return the changed row and its UPDATE, which finds the old row by key and number."""
        after = {**row, **values}
        types = self.schema.columns
        assigned = ", ".join(f"{n} = {literal(v, types[n])}" for n, v in values.items())
        sql = f"update {self.table} set {assigned} where {self._any_of([row])}"
        return after, Statement(sql, (row,), (after,))

    def rekey(self, row: Row, key: Key) -> tuple[Row, Statement]:
        return self.change(row, **dict(zip(self.schema.key, key, strict=True)))

    def update_of_key(self, rows: Sequence[Row], label: str) -> tuple[list[Row], Statement]:
        """Return an UPDATE of all rows of one key."""
        after: list[Row] = [{**row, "label": label} for row in rows]
        where = self.schema.has_key(self.schema.key_of(rows[0]))
        sql = f"update {self.table} set label = {literal(label, 'string')} where {where}"
        return after, Statement(sql, tuple(rows), tuple(after))

    def exchange(self, one: Row, other: Row) -> Statement:
        """Return one UPDATE that swaps the keys of two rows."""
        one_key, other_key = self.schema.key_of(one), self.schema.key_of(other)
        assigned = []
        for name, to_one, to_other in zip(self.schema.key, other_key, one_key, strict=True):
            sql = self.schema.columns[name]
            assigned.append(
                f"{name} = case at when {one['at']} then {literal(to_one, sql)}"
                f" else {literal(to_other, sql)} end"
            )
        where = self._any_of([one, other])
        return Statement(
            f"update {self.table} set {', '.join(assigned)} where {where}",
            (one, other),
            (self._at(one, other_key), self._at(other, one_key)),
        )

    def merge(self, removed: Sequence[Row], added: Sequence[Row]) -> Statement:
        """Return one MERGE that deletes rows by key and number, and inserts other rows."""
        names = list(self.schema.columns)
        gone = list({row["at"]: row for row in removed}.values())
        lines = [f"(true, {self.schema.literals(row)})" for row in gone]
        lines += [f"(false, {self.schema.literals(row)})" for row in added]
        on = " and ".join(f"t.{name} = s.{name}" for name in (*self.schema.key, "at"))
        return Statement(
            f"merge into {self.table} as t using (select * from values {', '.join(lines)}"
            f" as v (gone, {', '.join(names)})) as s on s.gone and {on}"
            " when matched then delete"
            f" when not matched and not s.gone then insert ({', '.join(names)})"
            f" values ({', '.join(f's.{n}' for n in names)})",
            tuple(removed),
            tuple(added),
        )

    def overwrite(self, removed: Sequence[Row], added: Sequence[Row]) -> Statement:
        sql = f"insert overwrite {self.table} {self.schema.values(added)}"
        return Statement(sql, tuple(removed), tuple(added))

    def touch(self, how: str) -> Statement:
        return Statement(self.commits.touch(how).sql)

    def _at(self, row: Row, key: Key) -> Row:
        return {**row, **dict(zip(self.schema.key, key, strict=True))}

    def _any_of(self, rows: Iterable[Row]) -> str:
        return " or ".join(
            f"({self.schema.has_key(self.schema.key_of(row))} and at = {row['at']})" for row in rows
        )


class NoRoom(Exception):
    """There are not enough keys left for an episode."""


@dataclass
class Moment:
    """The keys that a new episode may use: keys with one row, and keys without a row."""

    writer: Writer
    keys: KeySpace
    rows: dict[Key, Row]
    busy: set[Key]
    taken: set[Key] = field(default_factory=set)

    @property
    def rng(self) -> random.Random:
        return self.writer.rng

    def row(self) -> Row:
        free = [key for key in self.rows if key not in self.busy | self.taken]
        if not free:
            raise NoRoom
        key = self.rng.choice(free)
        self.taken.add(key)
        return self.rows[key]

    def absent_key(self) -> Key:
        others = sorted(self.busy | self.taken, key=repr)
        here: dict[Key, Row] = {**self.rows, **{key: {} for key in others}}
        drawn = self.keys.draw_absent(self.rng, here, 1)
        if not drawn:
            raise NoRoom
        self.taken.add(drawn[0])
        return drawn[0]

    def key_of(self, row: Row) -> Key:
        return self.writer.schema.key_of(row)

    def twin_of(self, row: Row, **values: Any) -> Row:
        """Return a second row with the key of `row`. The other values are random or the same.

        The filters of some queries drop some of these second rows (see HIDDEN).
        """
        chance = self.rng.random()
        twin = self.writer.row(self.key_of(row), **values)
        if chance < 0.2:
            return {**row, "at": twin["at"], **values}
        return {**twin, **HIDDEN} if chance < 0.5 else twin


# -- episodes in which a key appears twice --------------------------------------------------------


def replaced(m: Moment) -> list[Statement]:
    old = m.row()
    new = m.twin_of(old)
    return [m.writer.insert(new), m.writer.delete(old)]


def copied(m: Moment) -> list[Statement]:
    old = m.row()
    new = m.twin_of(old)
    return [m.writer.insert(new), m.writer.delete(new)]


def swapped(m: Moment) -> list[Statement]:
    return _around(m, 2)


def rotated(m: Moment) -> list[Statement]:
    return _around(m, 3)


def _around(m: Moment, count: int) -> list[Statement]:
    """Give each row the key of the next row. Each UPDATE changes one row. The order is random."""
    rows = [m.row() for _ in range(count)]
    moves = [m.writer.rekey(a, m.key_of(b)) for a, b in zip(rows, rows[1:] + rows[:1], strict=True)]
    m.rng.shuffle(moves)
    return [statement for _, statement in moves]


def moved_onto(m: Moment) -> list[Statement]:
    """Give a row the key of another row. Then delete one of the two rows."""
    mover, other = m.row(), m.row()
    moved, statement = m.writer.rekey(mover, m.key_of(other))
    return [statement, m.writer.delete(m.rng.choice((moved, other)))]


def there_and_back(m: Moment) -> list[Statement]:
    mover, other = m.row(), m.row()
    moved, there = m.writer.rekey(mover, m.key_of(other))
    return [there, m.writer.rekey(moved, m.key_of(mover))[1]]


def born_twice(m: Moment) -> list[Statement]:
    """Insert two rows with a new key, in one commit or in two. Then delete one of the two rows."""
    key = m.absent_key()
    one = m.writer.row(key)
    other = m.twin_of(one)
    insert = m.writer.insert
    made = [insert(one, other)] if m.rng.random() < 0.5 else [insert(one), insert(other)]
    return [*made, m.writer.delete(m.rng.choice((one, other)))]


def changed_meanwhile(m: Moment) -> list[Statement]:
    """Update one row or both rows while the key appears twice."""
    old = m.row()
    new = m.twin_of(old)
    twins = [old, new]
    m.rng.shuffle(twins)
    changed: Sequence[Row]
    if m.rng.random() < 0.4:
        changed, update = m.writer.update_of_key(twins, "changed")
    else:
        after, update = m.writer.change(twins[0], label="changed", amount=m.rng.choice(AMOUNTS))
        changed = [after, twins[1]]
    return [m.writer.insert(new), update, m.writer.delete(changed[m.rng.randrange(2)])]


def chained(m: Moment) -> list[Statement]:
    """Let a key appear twice, then once, then twice again."""
    first = m.row()
    second, third = m.twin_of(first), m.twin_of(first)
    w = m.writer
    return [w.insert(second), w.delete(first), w.insert(third), w.delete(second)]


def hidden(m: Moment) -> list[Statement]:
    """Give a key two rows, of which some queries return only one. Then delete one of the rows."""
    old = m.row()
    if m.rng.random() < 0.5:
        new = m.twin_of(old, **HIDDEN)
        return [m.writer.insert(new), m.writer.delete(m.rng.choice((old, new)))]
    now_hidden, hide = m.writer.change(old, **HIDDEN)
    new = m.writer.row(m.key_of(old), amount=3, label="a")
    return [hide, m.writer.insert(new), m.writer.delete(now_hidden)]


def doubled(m: Moment) -> list[Statement]:
    """Insert a row twice. Then one MERGE deletes both copies and inserts one of them again."""
    row = m.row()
    return [m.writer.insert(row), m.writer.merge([row, row], [row])]


# -- episodes in which no key appears twice -------------------------------------------------------


def replaced_at_once(m: Moment) -> list[Statement]:
    old = m.row()
    return [m.writer.merge([old], [m.twin_of(old)])]


def swapped_at_once(m: Moment) -> list[Statement]:
    return [m.writer.exchange(m.row(), m.row())]


def reborn(m: Moment) -> list[Statement]:
    old = m.row()
    return [m.writer.delete(old), m.writer.insert(m.twin_of(old))]


def pushed_out(m: Moment) -> list[Statement]:
    """Delete a row and give its key to a second row. Insert a row with the second row's old key."""
    gone, mover = m.row(), m.row()
    moved = m.writer.rekey(mover, m.key_of(gone))[1]
    return [m.writer.delete(gone), moved, m.writer.insert(m.twin_of(mover))]


def inserted(m: Moment) -> list[Statement]:
    return [m.writer.insert(*(m.writer.row(m.absent_key()) for _ in range(m.rng.randint(1, 3))))]


def deleted(m: Moment) -> list[Statement]:
    return [m.writer.delete(*(m.row() for _ in range(m.rng.randint(1, 3))))]


def updated(m: Moment) -> list[Statement]:
    return [m.writer.change(m.row(), **m.writer.payloads.draw(m.rng))[1]]


def moved_away(m: Moment) -> list[Statement]:
    return [m.writer.rekey(m.row(), m.absent_key())[1]]


def touched(m: Moment) -> list[Statement]:
    return [m.writer.touch(m.rng.choice(TOUCHES))]


TWINS: tuple[Callable[[Moment], list[Statement]], ...] = (
    replaced,
    copied,
    swapped,
    rotated,
    moved_onto,
    there_and_back,
    born_twice,
    changed_meanwhile,
    chained,
    hidden,
    doubled,
)
OTHERS: tuple[Callable[[Moment], list[Statement]], ...] = (
    replaced_at_once,
    swapped_at_once,
    reborn,
    pushed_out,
    inserted,
    deleted,
    updated,
    moved_away,
    touched,
)


@dataclass
class Tale:
    """The current rows of an upstream, and the remaining commits of its unfinished episodes."""

    writer: Writer
    keys: KeySpace
    rows: list[Row] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    """All episodes that have begun."""
    _pending: list[tuple[Episode, Statement]] = field(default_factory=list)

    @property
    def rng(self) -> random.Random:
        return self.writer.rng

    def twins(self) -> set[Key]:
        counted = Counter(self.writer.schema.key_of(row) for row in self.rows)
        return {key for key, count in counted.items() if count > 1}

    def begin(self, count: int) -> Statement:
        keys = self.keys.draw_absent(self.rng, {}, count)
        return self._tell(self.writer.insert(*map(self.writer.row, keys)))

    def until_the_barrier(self, commits: int, may_catch: bool) -> list[Statement]:
        """Return the commits before the next barrier, in most cases at least `commits`.

        If `may_catch` is true, a key may appear twice after the last of these commits.
        """
        while len(self._pending) < commits and self._begin_episode():
            pass
        told = len(self._pending)
        if may_catch and told > 1:
            cuts = [n for n in range(1, told) if self._after(n).twins()]
            told = self.rng.choice(cuts) if cuts else told
        statements = [statement for _, statement in self._pending[:told]]
        self._pending = self._pending[told:]
        return [self._tell(statement) for statement in statements]

    def overwritten(self) -> Statement:
        """Return an overwrite of all rows, of which half stay unchanged.

        All episodes must be finished.
        """
        assert not self._pending
        kept = self.rng.sample(self.rows, len(self.rows) // 2)
        changed = [
            {**row, **self.writer.payloads.draw(self.rng)}
            for row in self.rows
            if row not in kept and self.rng.random() < 0.7
        ]
        return self._tell(self.writer.overwrite(self.rows, [*kept, *changed]))

    def kinds_of(self, key: Key) -> list[str]:
        return [episode.kind for episode in self.episodes if key in episode.keys]

    def _begin_episode(self) -> bool:
        busy = {key for episode, _ in self._pending for key in episode.keys}
        rows = {self.writer.schema.key_of(row): row for row in self.rows}
        kinds = TWINS if self.rng.random() < 0.75 else OTHERS
        for kind in self.rng.sample(kinds, len(kinds)):
            moment = Moment(self.writer, self.keys, rows, busy)
            try:
                statements = tuple(kind(moment))
            except NoRoom:
                continue
            episode = Episode(kind.__name__, frozenset(moment.taken), statements)
            self.episodes.append(episode)
            self._interleave(episode)
            return True
        return False

    def _interleave(self, episode: Episode) -> None:
        places = sorted(self.rng.randint(0, len(self._pending)) for _ in episode.statements)
        for shift, (place, statement) in enumerate(zip(places, episode.statements, strict=True)):
            self._pending.insert(place + shift, (episode, statement))

    def _after(self, count: int) -> Tale:
        rows = self.rows
        for _, statement in self._pending[:count]:
            rows = statement.apply(rows)
        return replace(self, rows=rows)

    def _tell(self, statement: Statement) -> Statement:
        self.rows = statement.apply(self.rows)
        return statement
