"""Builds commits on an upstream table. A commit has its SQL and its changes as Python rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exactness.keys import KEY_TYPES, literal
from exactness.oracle import Change, Key, Row, Rows, rows_by_key

AMOUNTS = (None, -2, -1, 0, 1, 2, 3)
LABELS = (None, "a", "b", "hide", "it's")
VALUE_COLUMNS = {"amount": "int", "label": "string"}


@dataclass(frozen=True)
class Schema:
    """The columns of a table and their types. `key` lists the key columns in their sort order."""

    columns: Mapping[str, str]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def literals(self, row: Row) -> str:
        return ", ".join(self.literals_of(row, list(self.columns)))

    def literals_of(self, row: Row, names: Sequence[str]) -> list[str]:
        return [literal(row[name], self.columns[name]) for name in names]

    def values(self, rows: Iterable[Row]) -> str:
        """Return the rows as a `values` clause with the schema's types."""
        return "values " + ", ".join(f"({self.literals(row)})" for row in rows)

    def has_key(self, key: Key) -> str:
        parts = zip(self.key, key, strict=True)
        equal = " and ".join(
            f"{name} = {literal(part, self.columns[name])}" for name, part in parts
        )
        return f"({equal})"

    def has_any_key(self, keys: Iterable[Key]) -> str:
        return " or ".join(map(self.has_key, keys))


@dataclass(frozen=True)
class KeySpace:
    """Draws random keys whose columns have the given types."""

    types: tuple[str, ...]

    def schema(self, permutation: Sequence[int] = ()) -> Schema:
        """Return the schema of a table with these key columns.

        `permutation` is the order of the key columns in the table.
        """
        order = permutation or range(len(self.types))
        columns = {f"k{n}": KEY_TYPES[self.types[n]].sql for n in order}
        first, *rest = columns.items()
        return Schema(
            columns={**dict([first]), **VALUE_COLUMNS, **dict(rest)},
            key=tuple(f"k{n}" for n in range(len(self.types))),
        )

    def draw(self, rng: random.Random) -> Key:
        return tuple(rng.choice(KEY_TYPES[name].values) for name in self.types)

    def draw_absent(self, rng: random.Random, rows: Rows, count: int) -> list[Key]:
        """Return up to `count` different keys that are not in `rows`.

        Many of them have the same first columns as an existing key.
        """
        drawn: dict[Key, None] = {}
        for _ in range(count * 4):
            key = self.draw(rng)
            if rows and len(key) > 1 and rng.random() < 0.5:
                kept = rng.randrange(1, len(key))
                key = rng.choice(list(rows))[:kept] + key[kept:]
            if key not in rows:
                drawn[key] = None
            if len(drawn) == count:
                break
        return list(drawn)


@dataclass(frozen=True)
class Commit:
    """One statement on the upstream: its SQL and its changes of rows."""

    name: str
    sql: str
    changes: tuple[Change, ...]

    def apply(self, rows: Rows, key_of: Callable[[Row], Key]) -> dict[Key, Row]:
        after = dict(rows)
        for change in self.changes:
            if change.old is not None:
                del after[key_of(change.old)]
        for change in self.changes:
            if change.new is not None:
                key = key_of(change.new)
                if key in after:
                    raise ValueError(f"{self.name} makes key {key} appear twice")
                after[key] = change.new
        return after


@dataclass(frozen=True)
class Commits:
    """Builds commits on one table. `rows` are always the table's rows before the commit."""

    table: str
    schema: Schema
    compact: str
    """The statement that rewrites the table's files."""

    replace_rows: str
    """The first words of a statement that replaces all rows by the rows of a query."""

    maintenance: Mapping[str, str] = field(default_factory=dict)
    """Statements that change no row, by a name. Each may create any number of versions."""

    def insert(self, new: Sequence[Row]) -> Commit:
        return Commit(
            "insert",
            f"insert into {self.table} {self.schema.values(new)}",
            tuple(Change(None, row) for row in new),
        )

    def update(self, rows: Rows, keys: Sequence[Key], assigned: Mapping[str, Any]) -> Commit:
        types = self.schema.columns
        assignments = ", ".join(f"{n} = {literal(v, types[n])}" for n, v in assigned.items())
        return Commit(
            "update",
            f"update {self.table} set {assignments} where {self.schema.has_any_key(keys)}",
            tuple(Change(rows[key], {**rows[key], **assigned}) for key in keys),
        )

    def rekey(self, rows: Rows, keys: Mapping[Key, Key]) -> Commit:
        """Return one UPDATE that gives rows other keys. It may swap or rotate keys."""
        assignments = []
        for number, name in enumerate(self.schema.key):
            sql = self.schema.columns[name]
            cases = " ".join(
                f"when {self.schema.has_key(old)} then {literal(new[number], sql)}"
                for old, new in keys.items()
            )
            assignments.append(f"{name} = case {cases} end")
        changes = [
            Change(rows[old], {**rows[old], **dict(zip(self.schema.key, new, strict=True))})
            for old, new in keys.items()
        ]
        return Commit(
            "rekey",
            f"update {self.table} set {', '.join(assignments)} "
            f"where {self.schema.has_any_key(keys)}",
            tuple(changes),
        )

    def delete(self, rows: Rows, keys: Sequence[Key]) -> Commit:
        return Commit(
            "delete",
            f"delete from {self.table} where {self.schema.has_any_key(keys)}",
            tuple(Change(rows[key], None) for key in keys),
        )

    def delete_all(self, rows: Rows) -> Commit:
        return Commit(
            "delete all",
            f"delete from {self.table}",
            tuple(Change(row, None) for row in rows.values()),
        )

    def merge(self, rows: Rows, upserted: Sequence[Row], deleted: Sequence[Key]) -> Commit:
        """Return one MERGE that inserts, updates and deletes."""
        names = list(self.schema.columns)
        gone = [rows[key] for key in deleted]
        lines = [f"(false, {self.schema.literals(row)})" for row in upserted]
        lines += [f"(true, {self.schema.literals(row)})" for row in gone]
        on = " and ".join(f"t.{name} = s.{name}" for name in self.schema.key)
        return Commit(
            "merge",
            f"merge into {self.table} as t using (select * from values {', '.join(lines)}"
            f" as v (gone, {', '.join(names)})) as s on {on}"
            " when matched and s.gone then delete"
            f" when matched then update set {', '.join(f't.{n} = s.{n}' for n in names)}"
            f" when not matched and not s.gone then insert ({', '.join(names)})"
            f" values ({', '.join(f's.{n}' for n in names)})",
            (
                *(Change(rows.get(self.schema.key_of(row)), row) for row in upserted),
                *(Change(row, None) for row in gone),
            ),
        )

    def overwrite(self, rows: Rows, new: Sequence[Row]) -> Commit:
        """Return a statement that replaces all rows.

        One version of the table deletes and inserts rows, even rows with the same key.
        """
        return Commit(
            "overwrite",
            f"{self.replace_rows} {self.schema.values(new)}",
            (
                *(Change(row, None) for row in rows.values()),
                *(Change(None, row) for row in new),
            ),
        )

    def touch(self, how: str) -> Commit:
        """Return a statement that changes no row, but may create versions."""
        statements = {
            "property": f"alter table {self.table} set tblproperties ('touched' = 'yes')",
            "insert nothing": f"insert into {self.table} select * from {self.table} where false",
            "update nothing": f"update {self.table} set amount = 1 where amount = 12345",
            **self.maintenance,
            "compact": self.compact,
        }
        return Commit(how, statements[how], ())


TOUCHES = ("property", "insert nothing", "update nothing", "compact")

COMMIT_KINDS = (
    "insert",
    "update",
    "delete",
    "merge",
    "move",
    "swap",
    "overwrite",
    "mass delete",
    "delete all",
    "touch",
)


def draw_row(rng: random.Random, schema: Schema, key: Key) -> dict[str, Any]:
    values = dict(zip(schema.key, key, strict=True))
    values |= {"amount": rng.choice(AMOUNTS), "label": rng.choice(LABELS)}
    return {name: values[name] for name in schema.columns}


def draw_commit(
    rng: random.Random, kind: str, size: int, keys: KeySpace, commits: Commits, rows: Rows
) -> Commit:
    """Return a commit of this kind. If the table has no suitable rows, return a similar commit."""
    schema = commits.schema
    here = list(rows)
    some = rng.sample(here, min(size, len(here)))
    if kind == "touch":
        how = rng.choice((*TOUCHES, *commits.maintenance))
        # An Iceberg table without rows may have no snapshot, and then it can have no tag.
        return commits.touch("property" if how == "tag" and not rows else how)
    if kind in ("update", "delete", "move", "swap", "mass delete", "delete all") and not some:
        kind = "insert"
    if kind == "update":
        assigned: dict[str, Any] = {"amount": rng.choice(AMOUNTS)}
        if rng.random() < 0.5:
            assigned["label"] = rng.choice(LABELS)
        return commits.update(rows, some, assigned)
    if kind == "delete":
        return commits.delete(rows, some)
    if kind == "delete all":
        return commits.delete_all(rows)
    if kind == "mass delete":
        return commits.delete(rows, rng.sample(here, max(1, len(here) * 3 // 4)))
    if kind == "swap" and len(some) > 1:
        rotated = some[1:] + some[:1]
        return commits.rekey(rows, dict(zip(some, rotated, strict=True)))
    absent = keys.draw_absent(rng, rows, size)
    new = [draw_row(rng, schema, key) for key in absent]
    if kind in ("move", "swap") and absent:
        return commits.rekey(rows, dict(zip(some, absent, strict=False)))
    if kind == "overwrite":
        kept = rng.sample(here, len(here) // 2)
        new += [draw_row(rng, schema, key) for key in kept]
        return commits.overwrite(rows, new) if new else commits.touch("insert nothing")
    if kind == "merge" and (new or some):
        half = len(some) // 2
        new += [draw_row(rng, schema, key) for key in some[half:]]
        return commits.merge(rows, new, some[:half])
    return commits.insert(new) if new else commits.touch("insert nothing")


def draw_rows(rng: random.Random, keys: KeySpace, schema: Schema, count: int) -> dict[Key, Row]:
    absent = keys.draw_absent(rng, {}, count)
    return dict(rows_by_key((draw_row(rng, schema, key) for key in absent), schema.key))
