"""Computes the rows of a PostgreSQL table at any position of the WAL.

truth = Truth.begin(dsn, "truth")             # before the table is created
...                                           # any client writes
truth.read()                                  # read all commits until now
truth.at("orders", position)                  # the rows after all commits up to this position

The tests compare MVs with these rows. So this module uses neither the slot nor the plugin nor the
change table of the package. It has its own replication slot with the plugin `pgoutput`.
PostgreSQL's manual describes the messages of `pgoutput` under "Logical Replication Message
Formats".

A position is the end of a commit's WAL record, as a whole number: `pg_lsn - '0/0'`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg

from exactness.oracle import Change, Key, Row, Rows

PUBLICATION = "truth"

OF_TYPE: Mapping[int, Callable[[str], Any]] = {
    16: lambda text: text == "t",
    17: lambda text: bytes.fromhex(text.removeprefix("\\x")),
    20: int,
    21: int,
    23: int,
    1082: date.fromisoformat,
    1114: datetime.fromisoformat,
    1700: Decimal,
}
"""For each oid of a PostgreSQL type: a function that converts text to a Python value.

Values of other types stay text.
"""

UNCHANGED = object()
"""Represents a value that PostgreSQL does not send, because an UPDATE did not change it.

PostgreSQL stores such a large value outside its row (TOAST).
"""


class Tangled(AssertionError):
    """The messages of the slot are incomplete or contradict each other."""


@dataclass(frozen=True)
class Relation:
    name: str
    columns: tuple[str, ...]
    types: tuple[int, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)


@dataclass(frozen=True)
class Event:
    """A change of one row. `old` is None if the row is inserted, `new` is None if it is deleted."""

    old: Key | None
    new: Row | None


@dataclass(frozen=True)
class Transaction:
    """The events of one committed transaction in one table."""

    position: int
    xid: int
    events: tuple[Event | None, ...]
    """None represents a TRUNCATE."""


@dataclass
class _Table:
    """The transactions of one table. `rows` and `changes` result from the first `done` of them."""

    relation: Relation
    transactions: list[Transaction] = field(default_factory=list)
    rows: dict[Key, Row] = field(default_factory=dict)
    changes: list[tuple[int, Change]] = field(default_factory=list)
    done: int = 0
    kept: dict[int, Rows] = field(default_factory=dict)

    def go_to(self, position: int) -> bool:
        """Apply all commits up to a position. Return False if later commits are already applied."""
        if self.done and self.transactions[self.done - 1].position > position:
            return False
        for transaction in self.transactions[self.done :]:
            if transaction.position > position:
                break
            apply(self.rows, transaction, self.relation, self.changes)
            self.done += 1
        return True


@dataclass
class Truth:
    """Knows the rows of all tables of a database, at every position of the WAL.

    A table's key is its replica identity, unless `keys` names other columns.
    """

    dsn: str
    slot: str
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The key columns of each table whose replica identity is not its key.

    An example is a table with REPLICA IDENTITY FULL.
    """
    read_to: int = 0
    """All commits that end at or before this position are known."""
    _tables: dict[str, _Table] = field(default_factory=dict)
    _relations: dict[int, Relation] = field(default_factory=dict)
    _last: int = 0
    """The position of the last known commit."""

    @classmethod
    def begin(cls, dsn: str, slot: str = "truth") -> Truth:
        """Create the slot, which records all commits from now on. Existing tables must be empty."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            if not connection.execute(
                "select 1 from pg_publication where pubname = %s", (PUBLICATION,)
            ).fetchone():
                connection.execute(f"create publication {PUBLICATION} for all tables")
            connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        return cls(dsn, slot)

    def end(self) -> None:
        """Drop the replication slot. Otherwise PostgreSQL would keep all WAL for this slot."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("select pg_drop_replication_slot(%s)", (self.slot,))

    def read(self) -> int:
        """Read all commits until now; return the position up to which all commits are known."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            # At the border of a page of the WAL, the insert position is after the page's header.
            # The flushed WAL reaches this position only when a further record is written, so write
            # a message. The message's commit must not wait for a standby, but commits of the tests'
            # writers may wait.
            connection.execute("set synchronous_commit = local")
            connection.execute(
                "select pg_logical_emit_message(true, 'truth', '') "
                "where pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()"
            )
            # Read this position before the slot. Then the slot sends every commit up to this
            # position.
            until = _one(connection, "select (pg_current_wal_flush_lsn() - '0/0')::bigint")
            messages = connection.execute(
                "select data from pg_logical_slot_get_binary_changes("
                "%s, null, null, 'proto_version', '1', 'publication_names', %s)",
                (self.slot, PUBLICATION),
            ).fetchall()
        xid, events = 0, dict[str, list[Event | None]]()
        for (data,) in messages:
            message = Message(bytes(data))
            kind = message.letter()
            if kind == "B":
                xid, events = message.begin(), {}
            elif kind == "C":
                self._keep(message.commit(), xid, events)
            elif kind == "R":
                self._learn(*message.relation())
            elif kind == "T":
                for oid in message.truncated():
                    events.setdefault(self._relations[oid].name, []).append(None)
            elif kind in "IUD":
                relation = self._relations[message.number("I")]
                events.setdefault(relation.name, []).append(message.event(kind, relation))
        self.read_to = max(self.read_to, until)
        return self.read_to

    def insert_position(self) -> int:
        """Return the position of the next WAL record. All earlier commits end at or before it."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return _one(connection, "select (pg_current_wal_insert_lsn() - '0/0')::bigint")

    def at(self, table: str, position: int) -> Rows:
        """Return the rows of a table after all commits that end at or before a position."""
        self._know(position)
        if table not in self._tables:
            return {}
        known = self._tables[table]
        if position in known.kept:
            return known.kept[position]
        state = known
        if not state.go_to(position):
            state = _Table(known.relation, known.transactions)
            state.go_to(position)
        known.kept[position] = dict(state.rows)
        return known.kept[position]

    def changes(self, table: str, since: int, until: int) -> list[Change]:
        """Return the row changes after `since`, up to and including `until`, in order."""
        self._know(until)
        if (known := self._tables.get(table)) is None:
            return []
        known.go_to(until)
        return [change for at, change in known.changes if since < at <= until]

    def keys_of(self, table: str) -> set[Key]:
        """Return all keys that the table has ever had."""
        key_of = self._tables[table].relation.key_of
        events = (e for t in self.transactions(table) for e in t.events if e is not None)
        return {key_of(event.new) for event in events if event.new is not None}

    def transactions(self, table: str) -> Sequence[Transaction]:
        return self._tables[table].transactions if table in self._tables else []

    def _know(self, position: int) -> None:
        if position > self.read_to and position > self.read():
            # The slot does not send a record before PostgreSQL has flushed it.
            raise Tangled(f"{position} is beyond the last known position {self.read_to}")

    def _keep(self, position: int, xid: int, events: Mapping[str, list[Event | None]]) -> None:
        if position <= self._last:  # after a crash the slot may send a commit again
            return
        self._last = position
        for name, of_table in events.items():
            self._tables[name].transactions.append(Transaction(position, xid, tuple(of_table)))

    def _learn(self, oid: int, relation: Relation) -> None:
        relation = replace(relation, key=self.keys.get(relation.name, relation.key))
        self._relations[oid] = relation
        if relation.name in self._tables:
            self._tables[relation.name].relation = relation
        else:
            self._tables[relation.name] = _Table(relation)


def _one(connection: psycopg.Connection[Any], sql: str) -> int:
    found = connection.execute(sql).fetchone()
    assert found is not None
    return int(found[0])


def apply(
    rows: dict[Key, Row],
    transaction: Transaction,
    relation: Relation,
    changes: list[tuple[int, Change]],
) -> None:
    """Apply a transaction to the rows and record each change."""

    def note(old: Row | None, new: Row | None) -> None:
        changes.append((transaction.position, Change(old, new)))

    for event in transaction.events:
        if event is None:
            for row in rows.values():
                note(row, None)
            rows.clear()
            continue
        old = None
        if event.old is not None:
            if event.old not in rows:
                raise Tangled(f"{relation.name}: no row {event.old} at {transaction.position}")
            old = rows.pop(event.old)
        new = None if event.new is None else _completed(event.new, old)
        if new is not None:
            key = relation.key_of(new)
            if key in rows:
                raise Tangled(f"{relation.name}: two rows {key} at {transaction.position}")
            rows[key] = new
        note(old, new)


def _completed(new: Row, old: Row | None) -> Row:
    """Return the new row. Values that PostgreSQL did not send are copied from the old row."""
    if UNCHANGED not in new.values():
        return new
    assert old is not None
    return {name: old[name] if value is UNCHANGED else value for name, value in new.items()}


class Message:
    """Reads the fields of one pgoutput message, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, format: str) -> int:
        """Return the next number. `format` is B, H, I or Q for one, two, four or eight bytes."""
        (value,) = struct.unpack_from(f">{format}", self._data, self._at)
        self._at += struct.calcsize(f">{format}")
        return int(value)

    def letter(self) -> str:
        return chr(self.number("B"))

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def begin(self) -> int:
        """Return the transaction's id."""
        self.number("Q")  # the position of its commit record
        self.number("Q")  # the commit time
        return self.number("I")

    def commit(self) -> int:
        """Return the position at which the commit ends."""
        self.number("B")
        self.number("Q")  # the position at which it begins
        return self.number("Q")

    def relation(self) -> tuple[int, Relation]:
        oid = self.number("I")
        self.text()  # the schema of the table
        name = self.text()
        self.number("B")  # the replica identity of the table
        columns, types, key = [], [], []
        for _ in range(self.number("H")):
            is_key = self.number("B")
            columns.append(self.text())
            types.append(self.number("I"))
            self.number("I")  # its type modifier
            if is_key:
                key.append(columns[-1])
        return oid, Relation(name, tuple(columns), tuple(types), tuple(key))

    def truncated(self) -> list[int]:
        count = self.number("I")
        self.number("B")  # cascade, restart identity
        return [self.number("I") for _ in range(count)]

    def event(self, kind: str, relation: Relation) -> Event:
        old: Row | None = None
        new: Row | None = None
        while self._at < len(self._data):
            part = self.letter()
            row = dict(zip(relation.columns, self._values(relation), strict=True))
            if part == "N":
                new = row
            else:
                old = row
        if old is not None:
            return Event(relation.key_of(old), new)
        assert new is not None
        return Event(relation.key_of(new) if kind == "U" else None, new)

    def _values(self, relation: Relation) -> Iterator[Any]:
        count = self.number("H")
        assert count == len(relation.types)
        for oid in relation.types:
            kind = self.letter()
            if kind == "n":
                yield None
            elif kind == "u":
                yield UNCHANGED
            else:
                length = self.number("I")
                text = self._data[self._at : self._at + length].decode()
                self._at += length
                yield OF_TYPE.get(oid, str)(text)
