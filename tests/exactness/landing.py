"""A change table as `land_changes` writes it, landed by the tests from the slot of their truth.

It needs no dbt, so it may run beside a dbt run in the same process. What the barriers promise holds
of any such table; `land_changes` itself has tests of its own.
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
    """Lands what the truth knows of one table of PostgreSQL.

    :param sql: executes a statement of Spark's
    :param table: the change table, in SQL; it is made by the first landing
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
    """Of the change table, beside those of the upstream, with their types."""
    options: ClassVar[Mapping[str, Any]] = {}
    """What `change_feed` says of it."""

    def land(self) -> None:
        """In one commit, with a watermark."""
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
        """Again and again in a thread of its own, until the block ends."""
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
        """An update that changes the key is a delete of the old one and an insert."""
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
        """An event as a row of the change table."""
        return event

    def _select(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """As one literal: Spark takes a minute for a `values` clause of some thousand rows."""
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._columns.items())
        told = literal(json.dumps([self.written(row) for row in rows]), "string")
        return f"select inline(from_json({told}, 'array<struct<{columns}>>'))"


class DeclaredLanding(Landing):
    """The same events in a table with columns of the user's own."""

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
        # With its epoch, which a tool may write or leave out; the whole of it may be missing, too.
        xid = event[XID] + (5 << 32) if XID in event and event[OP] != "t" else None
        return {**event, **own, "step": event.get(SEQ), "transaction": xid}
