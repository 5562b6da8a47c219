"""What the tests must know of each table format to make and look at tables of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar


class TableFormat(ABC):
    name: ClassVar[str]

    followable: ClassVar[Mapping[str, str]]
    """Properties of a table that a `backfilled_mv` can follow."""

    clauses: ClassVar[Mapping[str, str]]
    """How a table may be laid out: `plain`, `partitioned` or `clustered`, by its columns."""

    def create_table(
        self,
        table: str,
        columns: str,
        properties: Mapping[str, str] = {},
        layout: str = "plain",
    ) -> str:
        """A statement that creates a followable table.

        :param table: qualified name
        :param columns: as in SQL: `id int, at timestamp`
        """
        listed = ", ".join(f"'{n}' = '{v}'" for n, v in {**self.followable, **properties}.items())
        return (
            f"create table {table} ({columns}) using {self.name} {self.clauses[layout]}"
            f" tblproperties ({listed})"
        )

    @abstractmethod
    def current_version(self, table: str) -> str:
        """A query of one value, or of no row: which version of the table is the current one."""

    @abstractmethod
    def merge_on_read(self, wanted: bool) -> dict[str, str]:
        """Properties: whether changes mark rows as deleted, or write files anew."""

    @abstractmethod
    def compact(self, catalog: str, table: str) -> str:
        """A statement that rewrites files and changes no row."""


class Delta(TableFormat):
    name = "delta"
    followable: ClassVar = {"delta.enableChangeDataFeed": "true"}
    clauses: ClassVar = {
        "plain": "",
        "partitioned": "partitioned by (label)",
        "clustered": "cluster by (amount)",
    }

    def current_version(self, table: str) -> str:
        return f"select max(version) from (describe history {table})"

    def merge_on_read(self, wanted: bool) -> dict[str, str]:
        return {"delta.enableDeletionVectors": str(wanted).lower()}

    def compact(self, catalog: str, table: str) -> str:
        return f"optimize {table}"


class Iceberg(TableFormat):
    name = "iceberg"
    followable: ClassVar = {"format-version": "3"}
    clauses: ClassVar = {
        "plain": "",
        "partitioned": "partitioned by (label)",
        "clustered": "partitioned by (bucket(3, amount))",
    }

    def current_version(self, table: str) -> str:
        return f"select snapshot_id from {table}.refs where name = 'main'"

    def merge_on_read(self, wanted: bool) -> dict[str, str]:
        mode = "merge-on-read" if wanted else "copy-on-write"
        return {f"write.{statement}.mode": mode for statement in ("delete", "update", "merge")}

    def compact(self, catalog: str, table: str) -> str:
        return (
            f"call {catalog}.system.rewrite_data_files("
            f"table => '{table}', options => map('rewrite-all', 'true'))"
        )


FORMATS: dict[str, TableFormat] = {each.name: each for each in (Delta(), Iceberg())}
