"""Copies the directories of tables, and puts the copies back, as a backup tool does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from exactness.follow import Follower
from support.lake import SessionLake
from support.project import Project


class Copies:
    """Copies of tables of the profile's format, as they are when this object is created."""

    def __init__(self, project: Project, tables: Sequence[str]) -> None:
        self.project = project
        self._directories = {table: self._directory(table) for table in tables}
        for directory in self._directories.values():
            shutil.copytree(directory, self._copy_of(directory))

    def put_back(self, mv: Follower | None = None) -> None:
        """Put the copies back. `mv` then reads its versions again."""
        for directory in self._directories.values():
            shutil.rmtree(directory)
            shutil.move(self._copy_of(directory), directory)
        lake = self.project.lake
        assert isinstance(lake, SessionLake) and lake.spark._jvm is not None
        # A session of Delta remembers the newest version of each table that it has read.
        lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        for name in ("stored", "_stored_progress"):
            if mv is not None:
                mv.__dict__.pop(name, None)

    def _directory(self, table: str) -> Path:
        lake = self.project.lake
        if self.project.file_format == "delta":
            return lake.location(self.project.schema, table)
        return lake.directory / "iceberg" / self.project.schema / table

    def _copy_of(self, directory: Path) -> Path:
        return self.project.root / "copies" / directory.name
