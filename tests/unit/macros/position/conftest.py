"""An upstream and the positions of its vnodes, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import pytest


@pytest.fixture
def make_lake(sqlite: sqlite3.Connection) -> Callable[..., sqlite3.Connection]:
    """Of each vnode the position is a key, None for NotStarted, or "end" for finished."""

    def make_lake(keys: Iterable[Any], positions: Iterable[Any]) -> sqlite3.Connection:
        sqlite.execute("create table lake.up (id, shard)")
        sqlite.executemany("insert into lake.up values (?, ?)", keys)
        sqlite.execute("create table lake.mv__progress (vnode, id, shard, backfill_finished)")
        for vnode, position in enumerate(positions):
            key = position if isinstance(position, tuple) else (None, None)
            sqlite.execute(
                "insert into lake.mv__progress values (?, ?, ?, ?)",
                (vnode, *key, position == "end"),
            )
        return sqlite

    return make_lake
