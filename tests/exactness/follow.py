"""Runs models on a real upstream table and checks every version of their MVs.

upstream = Upstream.create(project, "flights", schema, rows)
mv = Follower(project, upstream, "mv", QUERIES["positive"](schema))
mv.write(backfill_rate_limit=3)
project.run()
upstream.commit(upstream.commits.delete_all(upstream.rows))
project.run()
mv.check()
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from exactness.delta import VersionedDelta
from exactness.iceberg import VersionedIceberg
from exactness.keys import literal
from exactness.oracle import (
    Change,
    Checked,
    Definition,
    Inexact,
    Key,
    MvVersion,
    Position,
    Progress,
    ProgressVersion,
    Query,
    Row,
    Rows,
    check_every_version,
    check_progress,
    describe_difference,
    rows_by_key,
)
from exactness.queries import MORE, UPSTREAM, with_less, with_more
from exactness.risingwave import RisingWave, chunk_of
from exactness.upstream import Commit, Commits, Schema
from exactness.versions import VersionedTable
from support.formats import FORMATS
from support.project import Project

READERS: dict[str, type[VersionedTable]] = {"delta": VersionedDelta, "iceberg": VersionedIceberg}

# By default Spark writes timestamps as INT96. Other readers read INT96 as nanoseconds, which only
# cover the years 1677 to 2262.
READABLE = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

ORDER = os.environ.get("DBT_BACKFILL_ORDER", "ascending")
"""The `backfill_order` of an MV whose test does not choose an order."""

REPLICAS: dict[str, dict[str, Any]] = {
    "never": {},
    "always": {"replicate": "always"},
    "in parts": {"replicate": "always", "replica_rows": 7},
}

LOSING: dict[str, Any] = {
    "on_schema_change": "sync_all_columns",
    # A column of a Delta table can only be dropped if the table has column mapping.
    "tblproperties": {"delta.columnMapping.mode": "name"},
}


@dataclass
class Upstream:
    """A table, together with the rows that each of its versions must have."""

    project: Project
    name: str
    schema: Schema
    file_format: str
    versions: dict[int, Rows] = field(default_factory=dict)
    changes: dict[int, tuple[Change, ...]] = field(default_factory=dict)
    _hashes: dict[Key, int] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        project: Project,
        name: str,
        schema: Schema,
        rows: Rows = {},  # noqa: B006
        *,
        layout: str = "plain",
        merge_on_read: bool = False,
        properties: Mapping[str, str] = {},
        file_format: str | None = None,
    ) -> Upstream:
        """Create a table and insert `rows` in the first commit after the creation.

        :param layout: see `support/formats.py`
        :param properties: further properties of the table
        :param file_format: by default the profile's format
        """
        upstream = cls(project, name, schema, file_format or project.file_format)
        project.configure(READABLE)
        project.create_table(
            name,
            ", ".join(f"{column} {sql}" for column, sql in schema.columns.items()),
            {**FORMATS[upstream.file_format].merge_on_read(merge_on_read), **properties},
            layout=layout,
            file_format=file_format,
        )
        upstream.versions[0], upstream.changes[0] = {}, ()
        if rows:
            upstream.commit(upstream.commits.insert(list(rows.values())))
        return upstream

    @property
    def table(self) -> str:
        return self.project.table(self.name, self.file_format)

    @cached_property
    def stored(self) -> VersionedTable:
        return READERS[self.file_format](self.project, self.table)

    @cached_property
    def commits(self) -> Commits:
        catalog = self.project.lake.catalogs[self.file_format]
        kind = FORMATS[self.file_format]
        compact = kind.compact(catalog, self.table)
        column = next(name for name in self.schema.columns if name not in self.schema.key)
        return Commits(
            self.table,
            self.schema,
            compact,
            kind.replace_rows(self.table, self.schema.key[0]),
            kind.maintenance(catalog, self.table, column, self.version),
        )

    @property
    def version(self) -> int:
        return max(self.versions)

    @property
    def rows(self) -> Rows:
        return self.versions[self.version]

    def commit(self, commit: Commit) -> int:
        """Execute the commit. Return the upstream's version after the commit."""
        before = self.version
        self.project.sql(commit.sql)
        version = self.stored.newest_version()
        if not commit.changes:
            for number in range(before + 1, version + 1):
                self.versions[number], self.changes[number] = self.versions[before], ()
            return version
        if version != before + 1:
            raise AssertionError(f"{commit.name} made version {version} after version {before}")
        self.versions[version] = commit.apply(self.rows, self.schema.key_of)
        self.changes[version] = commit.changes
        return version

    def rows_at(self, version: int) -> Rows:
        return self.versions[version]

    def version_before(self, version: int) -> int:
        return max(0, version - 1)

    def changes_between(self, since: int, until: int) -> list[Sequence[Change]]:
        """Return the changes of each version after `since`, up to and including `until`."""
        return [self.changes[version] for version in range(since + 1, until + 1)]

    def known_keys(self) -> set[Key]:
        return {key for rows in self.versions.values() for key in rows}

    def check(self) -> None:
        """Check the test itself: raise if a version of the table has other rows than expected."""
        columns = self.schema.columns
        found = self.stored.rows(columns, sorted(self.versions))
        for version, rows in self.versions.items():
            wanted = Counter(tuple(row[name] for name in columns) for row in rows.values())
            if found[version] != wanted:
                difference = describe_difference(found[version], wanted)
                raise AssertionError(f"the test is wrong at version {version}: {difference}")

    def learn(self) -> None:
        """Read the expected rows from the table itself, because other code writes to the table."""
        columns = self.schema.columns
        versions = sorted(self.stored.commit_times())
        found = self.stored.rows(columns, versions)
        before: Rows = {}
        for version in versions:
            rows = [dict(zip(columns, values, strict=True)) for values in found[version].elements()]
            after = rows_by_key(rows, self.schema.key)
            keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            self.versions[version] = after
            self.changes[version] = tuple(Change(before.get(k), after.get(k)) for k in keys)
            before = after

    def hash_of(self, key: Key) -> int:
        """Return Spark's xxhash64 of a key. One statement hashes all keys that are known so far."""
        if key not in self._hashes:
            self._ask_hashes([*((self.known_keys() | {key}) - self._hashes.keys())])
        return self._hashes[key]

    def _ask_hashes(self, keys: Sequence[Key]) -> None:
        types = [self.schema.columns[name] for name in self.schema.key]
        values = ", ".join(
            "("
            + ", ".join([str(n), *(literal(v, t) for v, t in zip(key, types, strict=True))])
            + ")"
            for n, key in enumerate(keys)
        )
        names = ", ".join(self.schema.key)
        for number, hashed in self.project.sql(
            f"select n, xxhash64({names}) from values {values} as t (n, {names})"
        ):
            self._hashes[keys[number]] = hashed


@dataclass
class Follower:
    """A `backfilled_mv` model that reads an upstream table, and the checks of its MV."""

    project: Project
    upstream: Upstream
    name: str
    query: Query
    vnode_count: int = 8
    """The model's option `vnode_count`. A rescale may give the MV another number of vnodes."""
    relation: str = ""
    """The relation that the model reads, as Jinja. By default it is the upstream as a source."""
    feed: str = ""
    """The change table as Jinja, if the upstream's changes are in a separate table."""
    through: str = "table"
    """What the model reads: the upstream, or a `view` or an `ephemeral` model of the upstream."""
    order: str = ORDER
    """The `backfill_order` that the next `write` configures. An MV with rows keeps its order."""
    replica: str = "never"
    """The key in REPLICAS. The next `write` configures the options of this key."""
    adopted: bool = False
    """Whether the package has adopted the table. Versions before the adoption are not checked."""
    wide: Query | None = None
    """The query with the new column, after `widen`."""
    loses: bool = False
    """Whether the model has a column that `widen` drops. The checks do not read this column."""

    def widen(self) -> None:
        """Add a new column to the query that every later `write` uses."""
        self.wide = with_more(self.query)

    @property
    def written(self) -> Query:
        return self.wide or self.query

    def write(self, **config: Any) -> None:
        """Write the model's file; `config` overrides the default options."""
        settings = {
            "materialized": "backfilled_mv",
            "unique_key": list(self.query.key_columns),
            "vnode_count": self.vnode_count,
            **({"on_schema_change": "append_new_columns"} if self.wide else {}),
            **(LOSING if self.loses else {}),
            **({} if self.order == "ascending" else {"backfill_order": self.order}),
            **REPLICAS[self.replica],
            **config,
        }
        arguments = ",\n    ".join(f"{name}={value!r}" for name, value in settings.items())
        query = with_less(self.query.sql) if self.loses and not self.wide else self.written.sql
        relation = self.relation or f"{{{{ source('lake', '{self.upstream.name}') }}}}"
        sources = () if self.relation else (self.upstream.name,)
        comment = f"-- depends_on: {self.feed}\n" if self.feed else ""
        text = f"{comment}{{{{ config(\n    {arguments}\n) }}}}\n{query}\n"
        models = {}
        if self.through != "table":
            stage = f"{{{{ config(materialized='{self.through}') }}}}\nselect * from {relation}\n"
            models[f"{self.name}_stage"] = stage
            relation = f"{{{{ ref('{self.name}_stage') }}}}"
        models[self.name] = text.replace(UPSTREAM, relation)
        self.project.write(models, sources=sources)

    @property
    def selected(self) -> tuple[str, ...]:
        """The models that a run has to select."""
        return (f"{self.name}_stage", self.name) if self.through == "view" else (self.name,)

    @property
    def table(self) -> str:
        return self.project.table(self.name)

    @cached_property
    def stored(self) -> VersionedTable:
        return READERS[self.project.file_format](self.project, self.table)

    @cached_property
    def _stored_progress(self) -> VersionedTable:
        return READERS[self.project.file_format](self.project, f"{self.table}__progress")

    @property
    def definition(self) -> Definition:
        return Definition(self.query, self.upstream.rows_at, self.upstream.hash_of)

    def column_types(self, query: Query) -> dict[str, str]:
        """Return the columns of a query as a dict.

        The value of a key column is its type. The value of any other column is ''.
        """
        keys = dict(zip(self.query.key_columns, self.upstream.schema.key, strict=True))
        types = self.upstream.schema.columns
        return {name: types[keys[name]] if name in keys else "" for name in query.columns}

    def mv_rows(self, query: Query | None = None) -> Counter[tuple[Any, ...]]:
        """Return the current rows of the MV as Spark reads them, with the columns of a query."""
        newest = self.stored.newest_version()
        types = self.column_types(query or self.written)
        return self.stored.rows_in_spark(types, [newest])[newest]

    def mv_versions(self) -> list[MvVersion]:
        committed = self.stored.commit_times()
        rows = self.stored.rows(self.column_types(self.query), list(committed))
        return [MvVersion(version, at, rows[version]) for version, at in committed.items()]

    def _versions_of_all_columns(self, since: float) -> list[MvVersion]:
        """Return the MV's versions from the time `since` on, with the new column.

        The first of these versions is the current version at that time, and its time is set to
        `since`.
        """
        assert self.wide is not None
        committed = self.stored.commit_times()
        first = max(version for version, at in committed.items() if at <= since)
        versions = [version for version in committed if version >= first]
        rows = self.stored.rows(self.column_types(self.wide), versions)
        return [MvVersion(v, max(committed[v], since), rows[v]) for v in versions]

    def progress_versions(self) -> list[ProgressVersion]:
        """Return the committed states of the progress table.

        The first state is the first version of the table that has rows.
        """
        state = (
            "vnode",
            "backfill_finished",
            "row_count",
            "epoch",
            "upstream_version",
            "dirty",
            "last",
        )
        key = {name: self.upstream.schema.columns[name] for name in self.upstream.schema.key}
        committed = self._stored_progress.commit_times()
        found = self._stored_progress.rows(dict.fromkeys(state, "") | key, list(committed))
        versions: list[ProgressVersion] = []
        for version, at in committed.items():
            if not found[version]:
                continue
            progress = self._progress_of(found[version])
            if not versions or progress != versions[-1].progress:
                versions.append(ProgressVersion(at, progress))
        return versions

    def progress(self) -> Progress:
        """Return the newest committed state of the progress table."""
        return self.progress_versions()[-1].progress

    def planned(self) -> dict[str, Any] | None:
        """Return the stored plan of the next epoch, or None if no plan is stored."""
        newest = self._stored_progress.newest_version()
        rows = self._stored_progress.rows({"plan": ""}, [newest])[newest]
        plans = {plan for (plan,) in rows if plan is not None}
        return dict(json.loads(max(plans))) if plans else None

    def _progress_of(self, rows: Counter[tuple[Any, ...]]) -> Progress:
        positions, row_counts = {}, {}
        shared, committed = set(), dict[str, Any]()
        for vnode, finished, row_count, epoch, version, dirty, last, *key in rows.elements():
            if vnode in positions:
                raise Inexact(f"vnode {vnode} appears twice in the progress of {self.name}")
            if len({part is None for part in key}) > 1:
                raise Inexact(f"vnode {vnode} is at {key}, of which only a part is NULL")
            pk = None if key[0] is None else tuple(key)
            positions[vnode] = Position(pk, finished)
            row_counts[vnode] = row_count
            shared.add((epoch, version, dirty))
            committed |= json.loads(last or "{}")
        if "key" not in committed:
            raise Inexact(f"the progress of {self.name} has no committed plan")
        descending = _is_descending(committed)
        positions = {n: replace(p, descending=descending) for n, p in positions.items()}
        if set(positions) != set(range(committed.get("vnode_count", self.vnode_count))):
            raise Inexact(f"progress of {self.name} has vnodes {sorted(positions)}")
        if len(shared) != 1:
            raise Inexact(f"rows of one progress state differ: {shared}")
        [(epoch, version, dirty)] = shared
        number = None if version is None else self.upstream.stored.number_of(version)
        swept_anew = committed.get("kind") == "sweep"
        finished = all(position.finished for position in positions.values())
        sweeping = not finished and (swept_anew or committed.get("sweeps", False))
        return Progress(
            epoch, number, positions, row_counts, bool(dirty), sweeping, swept_anew,
            committed.get("kind") == "swap", committed.get("kind") == "rescale",
            _filled_of(committed, bool(dirty)),
        )  # fmt: skip

    def check(self) -> Checked:
        """Check every version of the MV with the definition and with RisingWave's algorithm.

        Raise `Inexact` if a version has wrong rows.
        """
        columns = self.project.lake.columns(self.table)
        if columns != self.written.columns:
            raise Inexact(f"{self.name} has columns {columns}, its query {self.written.columns}")
        progress = self.progress_versions()
        try:
            versions, covered = self.mv_versions(), self.definition.covered
            if self.adopted:
                versions = _from_adoption(versions, progress[0])
            checked = check_every_version(self.definition, versions, progress, covered)
            check_progress(self.definition, [version.progress for version in progress])
            if self.wide is not None:
                self._check_all_columns(self.wide, progress)
        except Inexact as wrong:
            raise Inexact(f"{self.name}: {wrong}") from None
        self._check_against_risingwave(progress)
        return checked

    def _check_all_columns(self, wide: Query, progress: Sequence[ProgressVersion]) -> None:
        """Check all columns of the rows whose new column is filled.

        These are the rows up to the second position of the state. The check begins with the first
        state that has a second position.
        """
        begun = [n for n, p in enumerate(progress) if p.progress.filled and not p.progress.dirty]
        if not begun:
            raise Inexact("its new column was never filled")
        states = [replace(p, progress=p.progress.of_all_columns) for p in progress[begun[0] :]]
        definition = Definition(wide, self.upstream.rows_at, self.upstream.hash_of)
        versions = self._versions_of_all_columns(states[0].at)
        check_every_version(definition, versions, states, definition.covered)

    def _check_against_risingwave(self, progress: Sequence[ProgressVersion]) -> None:
        """Check that RisingWave's algorithm (risingwave.py) gives the same rows for every barrier.

        RisingWave reads the range of a barrier at the upstream version of the previous barrier. The
        first barrier has no previous barrier, so its range is read at the version before its own
        version. RisingWave has no re-anchor and no rescale. After a re-anchor or a rescale, the
        algorithm continues with the rows of the definition.
        """
        form = RisingWave(self.query, self.upstream.schema.key_of, self.upstream.hash_of)
        for old, new in itertools.pairwise(progress):
            before, after = old.progress, new.progress
            if after.version is None or after.swept_anew:
                form.reset()
                continue
            if before.dirty or after.dirty or after.rescaled:
                form.rows = self._rows_by_key(after)
                continue
            since = before.version
            if since is None:
                since = self.upstream.version_before(after.version)
            chunks = [
                chunk_of(changes, self.upstream.schema.key_of)
                for changes in self.upstream.changes_between(since, after.version)
            ]
            snapshot = self.upstream.rows_at(since)
            found = form.barrier(snapshot, chunks, before.positions, after.positions)
            wanted = self.definition.prefix(after.version, after.positions)
            if found != wanted:
                difference = describe_difference(wanted, found)
                raise Inexact(
                    f"{self.name}: RisingWave's form differs at epoch {after.epoch}: {difference}"
                )

    def _rows_by_key(self, state: Progress) -> dict[Key, tuple[Any, ...]]:
        assert state.version is not None
        return {
            key: shown
            for key, row in self.upstream.rows_at(state.version).items()
            if state.positions[self.definition.vnode_of(key, state.positions)].covers(key)
            and (shown := self.query.evaluate(row)) is not None
        }

    def check_complete(self) -> None:
        """Raise unless the backfill has finished and the MV is Q of the current upstream."""
        state = self.progress()
        if not state.finished:
            raise Inexact(f"{self.name} has not finished at epoch {state.epoch}")
        wanted = Counter(
            shown
            for row in self.upstream.rows.values()
            if (shown := self.written.evaluate(row)) is not None
        )
        found = self.mv_rows()
        if found != wanted:
            raise Inexact(f"{self.name} is complete, but {describe_difference(found, wanted)}")


def _is_descending(committed: Mapping[str, Any]) -> bool:
    """Return true if the committed plan has a descending backfill order."""
    (order,) = {column.get("order", "ascending") for column in committed["key"]}
    return bool(order == "descending")


def _filled_of(committed: Mapping[str, Any], dirty: bool) -> Position | None:
    """Return the second position: the position up to which a new column is filled.

    Return None if no column is being filled. The key must consist of whole numbers.
    """
    fills = [column["name"] for column in committed.get("fills", [])]
    if not fills or (committed.get("last_fill") and not dirty):
        return None
    assert fills == [MORE]
    end = committed.get("fill_low" if dirty else "fill_high")
    pk = None if end is None else tuple(map(int, end))
    return Position(pk, descending=_is_descending(committed))


def row(schema: Schema, *values: Any) -> Row:
    """Return a row from values in the order of the schema's columns."""
    return dict(zip(schema.columns, values, strict=True))


def _from_adoption(versions: Sequence[MvVersion], created: ProgressVersion) -> list[MvVersion]:
    """Return the versions of the MV.

    The first of them is the version that was current when the table was adopted.
    """
    later = [version for version in versions if version.at > created.at]
    [found] = [version for version in versions if version.at <= created.at][-1:]
    return [replace(found, at=created.at), *later]
