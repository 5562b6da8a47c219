"""Computes the rows of the definition with Spark, for any type and any query.

Rows are compared as JSON text. JSON distinguishes 0.0 from -0.0, which are equal for Spark, and
NULL from a struct of NULLs. Unlike `=`, the comparison of JSON also works for NULL, maps and
variants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exactness.follow import Follower
from exactness.keys import literal
from exactness.oracle import MvRows, MvVersion, Position, Positions
from exactness.queries import UPSTREAM
from exactness.upstream import Schema

_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}


def as_json(columns: str = "*") -> str:
    options = ", ".join(f"'{name}', '{value}'" for name, value in _OPTIONS.items())
    return f"to_json(struct({columns}), map({options}))"


_Prefix = tuple[int, frozenset[tuple[int, Position]]]


@dataclass
class Recomputed:
    """Computes `Q(upstream @ S where pk <= current_pos)` for each vnode, with Spark."""

    follower: Follower
    _known: dict[_Prefix, MvRows] = field(default_factory=dict)

    def prefix(self, version: int | None, positions: Positions) -> MvRows:
        if version is None:
            return Counter()
        self.learn([(version, positions)])
        return self._known[_prefix(version, positions)]

    def learn(self, wanted: Iterable[tuple[int | None, Positions]]) -> None:
        """Compute all these prefixes in one statement.

        One statement for each prefix would be slower.
        """
        missing = {
            _prefix(version, positions): self._select(version, positions)
            for version, positions in wanted
            if version is not None and _prefix(version, positions) not in self._known
        }
        selects = [
            f"select {number} as prefix, {as_json()} as mv_row from ({sql})"
            for number, sql in enumerate(missing.values())
            if sql is not None
        ]
        found: dict[int, MvRows] = {number: Counter() for number in range(len(missing))}
        for number, row in (
            self.follower.project.sql(" union all ".join(selects)) if selects else ()
        ):
            found[number][(row,)] += 1
        self._known |= dict(zip(missing, found.values(), strict=True))

    def _select(self, version: int, positions: Positions) -> str | None:
        """Return the SELECT of a prefix, or None if the version cannot be read and has no rows."""
        reading = self.follower.upstream.stored.reading(version)
        if reading is None:
            return None
        schema = self.follower.upstream.schema
        keys = ", ".join(f"source.{name}" for name in schema.key)
        ends = ", ".join(f"progress.{name}" for name in schema.key)
        reached = ">=" if any(p.descending for p in positions.values()) else "<="
        prefix = (
            f"(select source.* from {reading} as source"
            f" join ({_values(schema, positions)}) as progress"
            f" on progress.vnode = pmod(xxhash64({keys}), {len(positions)})"
            f" where progress.finished or struct({keys}) {reached} struct({ends}))"
        )
        return self.follower.query.sql.replace(UPSTREAM, prefix)

    def mv_versions(self) -> list[MvVersion]:
        stored = self.follower.stored
        committed = stored.commit_times()
        rows: Mapping[int, MvRows] = {version: Counter() for version in committed}
        selects = [
            f"select {version} as version, {as_json()} as mv_row from {reading}"
            for version in committed
            if (reading := stored.reading(version)) is not None
        ]
        for version, row in self.follower.project.sql(" union all ".join(selects)):
            rows[version][(row,)] += 1
        return [MvVersion(version, at, rows[version]) for version, at in committed.items()]


def _prefix(version: int, positions: Positions) -> _Prefix:
    return version, frozenset(positions.items())


def _values(schema: Schema, positions: Positions) -> str:
    """Return a SELECT with one row for each vnode that has a position or has finished."""
    types = [schema.columns[name] for name in schema.key]
    lines = []
    for vnode, position in positions.items():
        pk = position.pk or (None,) * len(types)
        parts = [literal(part, sql) for part, sql in zip(pk, types, strict=True)]
        if position.finished or position.pk is not None:
            lines.append(f"({vnode}, {str(position.finished).lower()}, {', '.join(parts)})")
    names = f"vnode, finished, {', '.join(schema.key)}"
    if not lines:
        nulls = ", ".join(literal(None, sql) for sql in types)
        return f"select * from values (0, false, {nulls}) as t ({names}) where false"
    return f"select * from values {', '.join(lines)} as t ({names})"
