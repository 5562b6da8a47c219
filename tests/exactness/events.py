"""Writes change tables of an upstream, as a CDC tool does that is not this package's.

After each commit on the upstream, its events are appended. A table also gets rows that are not an
event (tombstones and heartbeats), and events that it has already.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exactness.follow import Upstream
from exactness.oracle import Change, Key
from exactness.upstream import Schema

FEEDS: dict[str, dict[str, Any]] = {
    "numbers": {"sequence": "seq"},
    "texts": {"sequence": "seq_text", "ordered_texts": True},
    "both": {"sequence": ["batch", "seq_text"], "ordered_texts": True},
}
"""The options of `change_feed` by which a model reads the events. All read the same table."""

_OWN = {"op": "string", "batch": "int", "seq": "bigint", "seq_text": "string"}
Event = Mapping[str, Any]


@dataclass
class ChangeTable:
    """The change table of an upstream. `rng` draws the forms of its events."""

    upstream: Upstream
    rng: random.Random
    _written: list[Event] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        project = self.upstream.project
        columns = ", ".join(f"{name} {kind}" for name, kind in self._schema.columns.items())
        project.create_table(self.name, columns)
        project.write({}, sources=[self.name])

    @property
    def name(self) -> str:
        return f"{self.upstream.name}_events"

    @property
    def source(self) -> str:
        return f"source('lake', '{self.name}')"

    def options(self, feed: str) -> dict[str, Any]:
        """Return the option `change_feed` for a key of FEEDS."""
        return {"relation": self.source, "operation": "op", **FEEDS[feed]}

    def append(self, changes: Sequence[Change]) -> None:
        """Append the events of a commit, and rows that must have no effect."""
        batch = list(self._events_of(changes))
        repeated = self.rng.sample(self._written, min(2, len(self._written)))
        self._written += batch
        rows = [*batch, *self._tombstones(batch), *repeated]
        rows += self.rng.sample([{}, {"op": "m", "seq": 0, "seq_text": ""}], self.rng.randrange(3))
        self.rng.shuffle(rows)
        if rows:
            complete = [{name: row.get(name) for name in self._schema.columns} for row in rows]
            table = self.upstream.project.table(self.name)
            self.upstream.project.sql(f"insert into {table} {self._schema.values(complete)}")

    @property
    def _schema(self) -> Schema:
        schema = self.upstream.schema
        return Schema({**schema.columns, **_OWN}, schema.key)

    def _events_of(self, changes: Sequence[Change]) -> Iterator[Event]:
        key_of = self.upstream.schema.key_of
        old = {key_of(change.old): change.old for change in changes if change.old is not None}
        new = {key_of(change.new): change.new for change in changes if change.new is not None}
        for key, row in old.items():
            if self.rng.random() < 0.3:
                yield self._event(self.rng.choice(("update_preimage", "UB")), row)
            if key not in new:
                yield self._event("d", self._key(key))
        for key, row in new.items():
            yield self._event("u" if key in old else "c", row)

    def _tombstones(self, batch: Sequence[Event]) -> list[Event]:
        """Return a row without an operation for some of the deletes."""
        deletes = [event for event in batch if event["op"] == "d" and self.rng.random() < 0.7]
        return [{**event, "op": None} for event in deletes]

    def _event(self, op: str, row: Mapping[str, Any]) -> Event:
        number = next(self._numbers)
        own = {"op": op, "batch": number // 10, "seq": number, "seq_text": f"{number:09}"}
        return {**row, **own}

    def _key(self, key: Key) -> dict[str, Any]:
        return dict(zip(self.upstream.schema.key, key, strict=True))
