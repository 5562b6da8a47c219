"""Reads any snapshot of an Iceberg table.

Spark reads the rows. The list of snapshots is read from the table's metadata files, or by Spark if
these files are not found.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from exactness.versions import VersionedTable
from support.formats import metadata_of


@dataclass
class VersionedIceberg(VersionedTable):
    """An Iceberg table. Its versions are numbered from 1.

    A snapshot gets the next number when it becomes the current snapshot. So a rollback also adds a
    version. Version 0 is the empty table without a snapshot, and Spark cannot read it. A version
    keeps its number when snapshots expire.
    """

    _snapshots: list[int] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _created: float | None = None
    """The time at which the table was created; None until `commit_times` is called."""

    def commit_times(self) -> dict[int, float]:
        if self._created is None:
            self._created = self._first_metadata() / 1000
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
        """Number the new snapshots.

        Return the time and the id of each snapshot that became current.
        """
        metadata = metadata_of(self.project.lake.directory, self.table)
        if metadata is not None:
            log = metadata.get("snapshot-log", [])
            entries = [(entry["timestamp-ms"], entry["snapshot-id"]) for entry in log]
        else:
            rows = self.project.sql(
                f"select unix_millis(made_current_at), snapshot_id from {self.table}.history"
            )
            entries = [(at, snapshot) for at, snapshot in rows]
        for entry in entries:
            if entry not in self._numbers:
                self._snapshots.append(entry[1])
                self._numbers[entry] = len(self._snapshots)
        return entries

    def _first_metadata(self) -> int:
        """Return the time of the oldest known metadata file, in milliseconds."""
        metadata = metadata_of(self.project.lake.directory, self.table)
        if metadata is not None:
            first = [
                *metadata.get("metadata-log", []),
                {"timestamp-ms": metadata["last-updated-ms"]},
            ]
            return int(first[0]["timestamp-ms"])
        [(created,)] = self.project.sql(
            f"select unix_millis(min(timestamp)) from {self.table}.metadata_log_entries"
        )
        return int(created)
