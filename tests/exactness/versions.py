"""Reads every version of a table: an upstream, an MV or a progress table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from support.project import Project

RowsOfVersions = dict[int, Counter[tuple[Any, ...]]]


@dataclass
class VersionedTable(ABC):
    """A table of the project's schema. Its versions are numbered in the order of their commits.

    Version 0 is the table as it was created, without rows.
    """

    project: Project
    table: str
    """The name of the table in SQL, with the schema."""
    _read: dict[Hashable, Counter[tuple[Any, ...]]] = field(default_factory=dict, init=False)

    @abstractmethod
    def commit_times(self) -> dict[int, float]:
        """Return the commit time of each version in seconds since 1970, oldest first."""

    @abstractmethod
    def number_of(self, recorded: str) -> int:
        """Return the number of a version, from its text in a progress table."""

    @abstractmethod
    def reading(self, version: int) -> str | None:
        """Return the table at a version, for a FROM clause; None if this version cannot be read."""

    @abstractmethod
    def identities(self, versions: Sequence[int]) -> list[Hashable]:
        """Return a unique value for each version, even if the table is created again."""

    def newest_version(self) -> int:
        return max(self.commit_times())

    def rows(self, columns: Mapping[str, str], versions: Sequence[int]) -> RowsOfVersions:
        """Return the rows of each version as plain Python values. No version is read twice.

        :param columns: the columns and their types; only the type `timestamp` has an effect
        """
        names = tuple(columns)
        keys = {
            version: (names, identity)
            for version, identity in zip(versions, self.identities(versions), strict=True)
        }
        missing = [version for version in versions if keys[version] not in self._read]
        for version, rows in self.read(columns, missing).items():
            self._read[keys[version]] = rows
        return {version: self._read[keys[version]] for version in versions}

    def read(self, columns: Mapping[str, str], versions: Sequence[int]) -> RowsOfVersions:
        """Return the rows of versions that have not been read yet."""
        return self.rows_in_spark(columns, versions)

    def rows_in_spark(self, columns: Mapping[str, str], versions: Sequence[int]) -> RowsOfVersions:
        """Return the rows of each version, which Spark reads in one statement."""
        # A timestamp is read without a zone, so that no time zone of Spark or Python changes it.
        selected = ", ".join(
            f"{in_utc(name)} as {name}" if sql_type == "timestamp" else name
            for name, sql_type in columns.items()
        )
        selects = [
            f"select {version} as version_number, {selected} from {reading}"
            for version in versions
            if (reading := self.reading(version)) is not None
        ]
        found: RowsOfVersions = {version: Counter() for version in versions}
        for version, *row in self.project.sql(" union all ".join(selects)) if selects else ():
            found[version][tuple(map(plain, row))] += 1
        return found


def in_utc(column: str) -> str:
    """Return the SQL of a timestamp in UTC, without a zone.

    The session's time zone has no effect.
    """
    seconds = f"cast(cast(unix_micros({column}) as decimal(20, 0)) / 1000000 as decimal(18, 6))"
    return f"timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {seconds})"


def plain(value: Any) -> Any:
    """Return the value in a hashable form; a timestamp loses its zone, which is UTC."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value
