"""Reads any version of a Delta table with delta-rs, and not with Spark.

delta-rs reads a version in some milliseconds, but Spark needs half a second. A second reader also
finds an error that Spark's writer and Spark's reader have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from exactness.versions import RowsOfVersions, VersionedTable, plain


class VersionedDelta(VersionedTable):
    """A Delta table. Its versions have the numbers of the Delta log."""

    @property
    def path(self) -> Path | str:
        return self.project.lake.url(*self.table.split(".")[-2:])

    def commit_times(self) -> dict[int, float]:
        history = sorted(DeltaTable(self.path).history(), key=lambda commit: commit["version"])
        return {commit["version"]: commit["timestamp"] / 1000 for commit in history}

    def newest_version(self) -> int:
        return DeltaTable(self.path).version()

    def number_of(self, recorded: str) -> int:
        return int(recorded)

    def reading(self, version: int) -> str:
        return f"{self.table} version as of {version}"

    def identities(self, versions: Sequence[int]) -> list[Hashable]:
        table = DeltaTable(self.path).metadata().id
        return [(table, version) for version in versions]

    def read(self, columns: Mapping[str, str], versions: Sequence[int]) -> RowsOfVersions:
        return {version: self._rows_of(list(columns), version) for version in versions}

    def _rows_of(self, columns: Sequence[str], version: int) -> Counter[tuple[Any, ...]]:
        selected = ", ".join(f'"{column}"' for column in columns)
        reader = QueryBuilder().register("t", DeltaTable(self.path, version=version))
        table = pa.table(reader.execute(f"select {selected} from t").read_all())
        values = [column.to_pylist() for column in table.columns]
        return Counter(tuple(map(plain, row)) for row in zip(*values, strict=True))
