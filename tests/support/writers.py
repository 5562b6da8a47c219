"""Applications that continuously write to a PostgreSQL table; each is a thread with a connection.

with Writers(dsn, ORDERS, count=6, per_second=120) as writers:
    ...                     # their transactions continue
print(writers.committed)

They insert, update, delete, and move rows to other keys, in transactions of one to many rows. Some
transactions are rolled back completely, others to a savepoint. The seed determines the statements
of each writer. A statement may fail because of the other writers.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

AMOUNTS = (None, -2, -1, 0, 1, 2, 3)
LABELS = (None, "a", "b", "hide", "it's", "ü")
STOP_SECONDS = 20

EXPECTED = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)
"""Errors that writers cause each other; the transaction is rolled back."""

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """A table with the columns `amount` and `label` besides its key.

    :param key: the key columns with their types in PostgreSQL
    :param draw_key: returns one of the possible keys
    """

    name: str
    key: Mapping[str, str]
    draw_key: Callable[[random.Random], Values]

    @property
    def create(self) -> str:
        columns = ", ".join(f"{name} {kind} not null" for name, kind in self.key.items())
        return (
            f"create table {self.name} ({columns}, amount int, label text, "
            f"primary key ({', '.join(self.key)}))"
        )

    def fill(self, connection: psycopg.Connection[Any], rows: int, seed: str = "fill") -> None:
        """Insert up to `rows` rows in one transaction."""
        rng = random.Random(seed)
        drawn = {self.draw_key(rng): None for _ in range(rows)}
        with (
            connection.transaction(),
            connection.cursor() as cursor,
            cursor.copy(sql.SQL("copy {} from stdin").format(self._name)) as copy,
        ):
            for key in drawn:
                copy.write_row((*key, *draw_values(rng)))

    @property
    def insert(self) -> sql.Composed:
        places = sql.SQL(", ").join([sql.Placeholder()] * (len(self.key) + 2))
        return sql.SQL("insert into {} values ({}) on conflict do nothing").format(
            self._name, places
        )

    @property
    def update(self) -> sql.Composed:
        return sql.SQL("update {} set amount = %s, label = %s where {}").format(
            self._name, self._has_key
        )

    @property
    def delete(self) -> sql.Composed:
        return sql.SQL("delete from {} where {}").format(self._name, self._has_key)

    @property
    def move(self) -> sql.Composed:
        """Return an update that moves a row to an unused key.

        Its parameters are the new key, the old key, and the new key again.
        """
        new = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(k)) for k in self.key)
        return sql.SQL(
            "update {table} set {new} where {has_key}"
            " and not exists (select from {table} where {has_key})"
        ).format(table=self._name, new=new, has_key=self._has_key)

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(self.name)

    @property
    def _has_key(self) -> sql.Composed:
        equal = [sql.SQL("{} = %s").format(sql.Identifier(name)) for name in self.key]
        return sql.SQL(" and ").join(equal)


def orders(keys: int, name: str = "orders") -> Table:
    """Return a table with a whole number as its key."""
    return Table(name, {"id": "bigint"}, lambda rng: (rng.randint(1, keys),))


def places(accounts: int, name: str = "places") -> Table:
    """Return a table with a key of two columns. One of them is a text in byte order."""
    names = [f"{a}{b}" for a in "aAéz_" for b in ("", "1", " x", "Z", "ß")]
    return Table(
        name,
        {"account": "bigint", "place": 'text collate "C"'},
        lambda rng: (rng.randint(1, accounts), rng.choice(names)),
    )


def draw_values(rng: random.Random) -> Values:
    return rng.choice(AMOUNTS), rng.choice(LABELS)


class Writers:
    """Writers that run from the beginning of the `with` block to its end.

    :param per_second: the number of transactions of all writers together
    :param settings: the settings of each writer's session; further writers have the last settings
    """

    def __init__(
        self,
        dsn: str,
        table: Table,
        count: int = 6,
        per_second: float = 60.0,
        seed: str = "writers",
        settings: tuple[Mapping[str, str], ...] = ({},),
    ) -> None:
        self.dsn = dsn
        self.table = table
        self.committed = 0
        self.rolled_back: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self._pause = count / per_second
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        self._threads = [
            threading.Thread(
                target=self._write,
                args=(random.Random(f"{seed} {n}"), settings[min(n, len(settings) - 1)]),
                name=f"writer {n}",
                daemon=True,
            )
            for n in range(count)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all writers; raise the error of a writer that has ended too early."""
        self._done.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(1)
                if thread.is_alive():  # the writer may wait for a standby or for another writer
                    self._cancel()
        if self.errors:
            raise self.errors[0]

    def _cancel(self) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(psycopg.Error):
                    connection.cancel()

    def _write(self, rng: random.Random, settings: Mapping[str, str]) -> None:
        try:
            while not self._done.is_set():
                try:
                    self._write_in_a_connection(rng, settings)
                except (psycopg.OperationalError, psycopg.Rollback):  # the connection died
                    if self._done.is_set():
                        return
                    self._note("connection lost")
                    time.sleep(0.2)
        except BaseException as error:
            self.errors.append(error)

    def _write_in_a_connection(self, rng: random.Random, settings: Mapping[str, str]) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            with self._lock:
                self._connections.append(connection)
            for name, value in settings.items():
                connection.execute("select set_config(%s, %s, false)", (name, value))
            while not self._done.is_set():
                begun = time.monotonic()
                self._transact(connection, rng)
                passed = time.monotonic() - begun
                self._done.wait(max(0.0, self._pause * rng.uniform(0.5, 1.5) - passed))

    def _transact(self, connection: psycopg.Connection[Any], rng: random.Random) -> None:
        undone = rng.random() < 0.1
        try:
            with connection.transaction(force_rollback=undone):
                for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 20))):
                    if rng.random() < 0.15:
                        with connection.transaction() as savepoint:
                            self._change(connection, rng)
                            self._change(connection, rng)
                            if rng.random() < 0.5:
                                raise psycopg.Rollback(savepoint)
                    self._change(connection, rng)
                if rng.random() < 0.1:  # keep the transaction open while others commit
                    time.sleep(rng.uniform(0.0, 0.4))
        except EXPECTED as error:
            self._note(type(error).__name__)
        except psycopg.errors.QueryCanceled:
            self._note("cancelled")
        else:
            if undone:
                self._note("on purpose")
                return
            with self._lock:
                self.committed += 1

    def _change(self, connection: psycopg.Connection[Any], rng: random.Random) -> None:
        key, other, values = self.table.draw_key(rng), self.table.draw_key(rng), draw_values(rng)
        kind = rng.choices(("insert", "update", "delete", "move"), (30, 30, 20, 20))[0]
        if kind == "insert":
            connection.execute(self.table.insert, (*key, *values))
        elif kind == "update":
            connection.execute(self.table.update, (*values, *key))
        elif kind == "delete":
            connection.execute(self.table.delete, key)
        elif key != other:
            connection.execute(self.table.move, (*other, *key, *other))

    def _note(self, why: str) -> None:
        with self._lock:
            self.rolled_back[why] += 1
