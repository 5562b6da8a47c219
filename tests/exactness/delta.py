"""Reads Delta tables at any of their versions with delta-rs: a reader that is not Spark.

A version costs some milliseconds where Spark takes half a second, and an error that Spark's writer
and reader had in common would show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, QueryBuilder

from support.project import Project

RowsOfVersions = dict[int, Counter[tuple[Any, ...]]]


def location(project: Project, table: str) -> Path:
    """Where Spark keeps a managed table of the project's schema."""
    return project.lake.directory / "warehouse" / f"{project.schema}.db" / table


def write_timestamps_for_all_readers(project: Project) -> None:
    """Spark's default, INT96, is read as nanoseconds by others: only the years 1677 to 2262."""
    project.lake.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def newest_version(path: Path) -> int:
    return DeltaTable(path).version()


def commit_times(path: Path) -> dict[int, float]:
    """When each version was committed, in seconds since 1970, oldest first."""
    history = sorted(DeltaTable(path).history(), key=lambda commit: commit["version"])
    return {commit["version"]: commit["timestamp"] / 1000 for commit in history}


def rows_of_versions(path: Path, columns: Sequence[str], versions: Sequence[int]) -> RowsOfVersions:
    """The rows that each version of the table has, as plain Python values."""
    return {version: _rows_of_version(path, columns, version) for version in versions}


def _rows_of_version(path: Path, columns: Sequence[str], version: int) -> Counter[tuple[Any, ...]]:
    selected = ", ".join(f'"{column}"' for column in columns)
    reader = QueryBuilder().register("t", DeltaTable(path, version=version))
    table = pa.table(reader.execute(f"select {selected} from t").read_all())
    values = [column.to_pylist() for column in table.columns]
    return Counter(tuple(map(_plain, row)) for row in zip(*values, strict=True))


def rows_of_versions_in_spark(
    project: Project, table: str, columns: Mapping[str, str], versions: Sequence[int]
) -> RowsOfVersions:
    """The same, asked of Spark with `version as of`, one statement a version.

    :param columns: with their types; a `timestamp` is cast so that no time zone touches it
    """
    selected = ", ".join(
        f"cast({name} as timestamp_ntz) as {name}" if sql_type == "timestamp" else name
        for name, sql_type in columns.items()
    )
    return {
        version: Counter(
            tuple(map(_plain, row))
            for row in project.sql(f"select {selected} from {table} version as of {version}")
        )
        for version in versions
    }


def _plain(value: Any) -> Any:
    """Hashable, and a timestamp without its zone, which is UTC."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value
