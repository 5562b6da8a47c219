"""Reads Iceberg tables at any of their snapshots, with Spark."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from exactness.versions import VersionedTable


@dataclass
class VersionedIceberg(VersionedTable):
    """Each snapshot that became the current one is a version, from 1; a rollback makes one too.

    Before the first there is nothing that could be read. Numbers stay when snapshots expire.
    """

    _snapshots: list[int] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _created: float | None = None
    """When the table was made, once it was asked for."""

    def commit_times(self) -> dict[int, float]:
        if self._created is None:
            [(created,)] = self.project.sql(
                f"select unix_millis(min(timestamp)) from {self.table}.metadata_log_entries"
            )
            self._created = created / 1000
        committed = {self._numbers[entry]: entry[0] / 1000 for entry in self._history()}
        return {0: min([self._created, *committed.values()]), **committed}

    def newest_version(self) -> int:
        self._history()
        return len(self._snapshots)

    def number_of(self, recorded: str) -> int:
        if recorded == "0":
            return 0
        if int(recorded) not in self._snapshots:
            self._history()
        if int(recorded) not in self._snapshots:
            raise KeyError(f"{self.table} has no snapshot {recorded}")
        return len(self._snapshots) - self._snapshots[::-1].index(int(recorded))

    def identities(self, versions: Sequence[int]) -> list[Hashable]:
        if max(versions, default=0) > len(self._snapshots):
            self._history()
        return [self._snapshots[version - 1] if version else None for version in versions]

    def reading(self, version: int) -> str | None:
        if version == 0:
            return None
        if version > len(self._snapshots):
            self._history()
        return f"{self.table} version as of {self._snapshots[version - 1]}"

    def _history(self) -> list[tuple[int, int]]:
        """When a snapshot became the current one, and which; the new ones get their numbers."""
        rows = self.project.sql(
            f"select unix_millis(made_current_at), snapshot_id from {self.table}.history"
        )
        entries = [(at, snapshot) for at, snapshot in rows]
        for entry in entries:
            if entry not in self._numbers:
                self._snapshots.append(entry[1])
                self._numbers[entry] = len(self._snapshots)
        return entries
