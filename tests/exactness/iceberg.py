"""Reads Iceberg tables at any of their snapshots, with Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

from exactness.versions import VersionedTable


@dataclass
class VersionedIceberg(VersionedTable):
    """Snapshots are its versions, from 1; before the first there is nothing that could be read.

    `snapshots` lists them in the order in which they were committed; unlike `history`, also those
    that `create or replace` has cut off. A number stays with its snapshot when that expires.
    """

    _numbers: dict[int, int] = field(default_factory=dict)

    def commit_times(self) -> dict[int, float]:
        [(created,)] = self.project.sql(
            f"select unix_millis(min(timestamp)) from {self.table}.metadata_log_entries"
        )
        committed = {self._numbers[snapshot]: at / 1000 for snapshot, at in self._snapshots()}
        return {0: min([created / 1000, *committed.values()]), **committed}

    def newest_version(self) -> int:
        self._snapshots()
        return len(self._numbers)

    def number_of(self, recorded: str) -> int:
        if recorded == "0":
            return 0
        if int(recorded) not in self._numbers:
            self._snapshots()
        return self._numbers[int(recorded)]

    def reading(self, version: int) -> str | None:
        if version == 0:
            return None
        [snapshot] = [each for each, number in self._numbers.items() if number == version]
        return f"{self.table} version as of {snapshot}"

    def _snapshots(self) -> list[tuple[int, int]]:
        """Each with its time; the new ones get their numbers."""
        found = self.project.sql(
            f"select snapshot_id, unix_millis(committed_at) from {self.table}.snapshots"
        )
        for snapshot, _ in found:
            self._numbers.setdefault(snapshot, len(self._numbers) + 1)
        return [(snapshot, at) for snapshot, at in found]
