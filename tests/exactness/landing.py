"""Writes the change table of a PostgreSQL table, as the operation `land_changes` does.

The changes come from the tests' own replication slot. This module does not use dbt, so it can write
the change table while a dbt run is executed in the same process. Other tests check `land_changes`
itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from exactness.keys import literal
from exactness.postgres_truth import Transaction, Truth
from exactness.upstream import Schema

COLUMNS = {
    "_op": "string",
    "_lsn": "bigint",
    "_seq": "bigint",
    "_xid": "bigint",
    "_committed_at": "timestamp",
    "_unchanged": "array<string>",
    "_timeline": "int",
}
OP, LSN, SEQ, XID = list(COLUMNS)[:4]
EVERY_SECONDS = 0.5


@dataclass
class Landing:
    """Writes the changes of one PostgreSQL table to a change table.

    :param sql: executes a statement in Spark
    :param table: the name of the change table in SQL; the first call of `land` creates the table
    """

    sql: Callable[[str], Any]
    file_format: str
    truth: Truth
    name: str
    table: str
    schema: Schema
    landed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    own_columns: ClassVar[Mapping[str, str]] = COLUMNS
    """The columns that the change table has in addition to the upstream's columns."""
    options: ClassVar[Mapping[str, Any]] = {}
    """The options of `change_feed` that describe the change table."""

    def land(self) -> None:
        """Append the new changes and a watermark to the change table, in one commit."""
        with self._lock:
            until = self.truth.read()
            if not self.landed:
                self._create()
            rows: list[Mapping[str, Any]] = [
                row
                for transaction in self.truth.transactions(self.name)
                if self.landed < transaction.position <= until
                for row in self.events(transaction)
            ]
            rows.append({OP: "w", LSN: until})
            self.sql(f"insert into {self.table} {self._select(rows)}")
            self.landed = until

    @contextmanager
    def all_the_while(self) -> Iterator[None]:
        """Call `land` repeatedly in a separate thread until the block ends."""
        done = threading.Event()
        failed: list[BaseException] = []

        def land() -> None:
            try:
                while not done.wait(EVERY_SECONDS):
                    self.land()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=land, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if failed:
            raise failed[0]

    @property
    def _columns(self) -> dict[str, str]:
        return {**self.schema.columns, **self.own_columns}

    def _create(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in self._columns.items())
        self.sql(f"create table {self.table} ({columns}) using {self.file_format}")

    def events(self, transaction: Transaction) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a transaction. An update of the key is a delete and an insert."""
        place = {LSN: transaction.position, XID: transaction.xid}
        for number, event in enumerate(transaction.events):
            if event is None:
                yield {**place, OP: "t", SEQ: 2 * number}
                continue
            key = None if event.new is None else self.schema.key_of(event.new)
            if event.old is not None and event.old != key:
                old = dict(zip(self.schema.key, event.old, strict=True))
                yield {**old, **place, OP: "d", SEQ: 2 * number}
            if event.new is not None:
                op = "u" if event.old == key else "i"
                yield {**event.new, **place, OP: op, SEQ: 2 * number + 1}

    def written(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event as a row of the change table."""
        return event

    def _select(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Return a SELECT that reads the rows from one JSON literal.

        Spark needs a minute for a `values` clause with some thousand rows.
        """
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._columns.items())
        told = literal(json.dumps([self.written(row) for row in rows]), "string")
        return f"select inline(from_json({told}, 'array<struct<{columns}>>'))"


class DeclaredLanding(Landing):
    """Writes the same events to a change table whose columns have other names.

    The model declares these names in the option `change_feed`.
    """

    own_columns: ClassVar[Mapping[str, str]] = {
        "verb": "string",
        "ended": "bigint",
        "step": "int",
        "transaction": "bigint",
    }
    options: ClassVar[Mapping[str, Any]] = {
        "operation": "verb",
        "sequence": "step",
        "position": "ended",
        "xid": "transaction",
        "deletes": ["gone"],
    }

    def written(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        verbs = {"i": "INSERT", "u": "UPDATE", "d": "GONE"}
        verbs |= {"t": "TRUNCATE", "g": "GAP", "w": "WATERMARK"}
        own = {"verb": verbs[event[OP]], "ended": event[LSN]}
        # A user's tool may write a transaction id with or without its epoch. This table contains
        # ids with an epoch. A TRUNCATE has no id in this table.
        xid = event[XID] + (5 << 32) if XID in event and event[OP] != "t" else None
        return {**event, **own, "step": event.get(SEQ), "transaction": xid}
