"""The statements by which the tests create, change and inspect tables of each format."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar


def properties_clause(properties: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    return f"tblproperties ({listed})"


class TableFormat(ABC):
    name: ClassVar[str]

    followable: ClassVar[Mapping[str, str]]
    """The properties of a table whose changes a `backfilled_mv` can read."""

    unfollowable: ClassVar[Mapping[str, str]]
    """The properties of a table whose changes it cannot read."""

    clauses: ClassVar[Mapping[str, str]]
    """The layout of a table: `plain`, `partitioned` or `clustered`, by its columns."""

    def create_table(
        self,
        table: str,
        columns: str,
        properties: Mapping[str, str] = {},
        layout: str = "plain",
    ) -> str:
        """Return a statement that creates a table whose changes can be read.

        :param table: qualified name
        :param columns: as in SQL: `id int, at timestamp`
        """
        return (
            f"create table {table} ({columns}) using {self.name} {self.clauses[layout]}"
            f" {properties_clause({**self.followable, **properties})}"
        )

    @abstractmethod
    def current_version(self, table: str) -> str:
        """Return a query whose first value is the current version; no row means no version."""

    @abstractmethod
    def merge_on_read(self, wanted: bool) -> dict[str, str]:
        """Return properties: changes mark rows as deleted if `wanted`, else they rewrite files."""

    @abstractmethod
    def compact(self, catalog: str, table: str) -> str:
        """Return a statement that rewrites files and changes no row."""

    @abstractmethod
    def replace_rows(self, table: str, key: str) -> str:
        """Return the first words of a statement that replaces all rows. Its changes can be read.

        :param key: a column without nulls
        """

    @abstractmethod
    def clean_up(self, catalog: str, table: str) -> list[str]:
        """Return statements that delete all files that only old versions need."""

    @abstractmethod
    def maintenance(self, catalog: str, table: str, column: str, number: int) -> dict[str, str]:
        """Return statements that change no row and no type, by a name.

        :param column: any column of the table
        :param number: another number in each call for the table
        """

    @abstractmethod
    def restore(self, catalog: str, table: str, version: str) -> str:
        """Return a statement that restores a version of a table."""

    def put_back(self, catalog: str, table: str, version: str) -> str:
        """Return a statement that gives a table the rows of a version, for example by a restore."""
        return self.restore(catalog, table, version)


class Delta(TableFormat):
    name = "delta"
    followable: ClassVar = {"delta.enableChangeDataFeed": "true"}
    unfollowable: ClassVar = {"delta.enableChangeDataFeed": "false"}
    clauses: ClassVar = {
        "plain": "",
        "partitioned": "partitioned by (label)",
        "clustered": "cluster by (amount)",
    }

    def current_version(self, table: str) -> str:
        return f"describe history {table} limit 1"

    def merge_on_read(self, wanted: bool) -> dict[str, str]:
        return {"delta.enableDeletionVectors": str(wanted).lower()}

    def compact(self, catalog: str, table: str) -> str:
        return f"optimize {table}"

    def replace_rows(self, table: str, key: str) -> str:
        # Without `replace where` the statement could also change the columns. Then its changes
        # cannot be read from the feed.
        return f"insert into {table} replace where {key} is not null"

    def clean_up(self, catalog: str, table: str) -> list[str]:
        return [
            "set spark.databricks.delta.retentionDurationCheck.enabled = false",
            f"vacuum {table} retain 0 hours",
        ]

    def maintenance(self, catalog: str, table: str, column: str, number: int) -> dict[str, str]:
        return {
            "compact": f"optimize {table}",
            "vacuum": f"vacuum {table}",
            "property": f"alter table {table} set tblproperties ('kept' = '{number}')",
            "no property": f"alter table {table} unset tblproperties if exists ('kept')",
            "comment": f"comment on table {table} is 'comment {number}'",
            "comment on a column": f"alter table {table} alter column {column} comment '{number}'",
            "constraint": f"alter table {table} add constraint kept_{number}"
            f" check ({column} is null or {column} is not null)",
        }

    def restore(self, catalog: str, table: str, version: str) -> str:
        return f"restore table {table} to version as of {version}"

    def put_back(self, catalog: str, table: str, version: str) -> str:
        # A RESTORE would be slower: it compares the files of two versions in several jobs.
        return f"insert overwrite {table} select * from {table} version as of {version}"


class Iceberg(TableFormat):
    name = "iceberg"
    followable: ClassVar = {"format-version": "3"}
    unfollowable: ClassVar = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    clauses: ClassVar = {
        "plain": "",
        "partitioned": "partitioned by (label)",
        "clustered": "partitioned by (bucket(3, amount))",
    }

    @property
    def with_changelog(self) -> dict[str, str]:
        """Return properties of a table whose changes come from a changelog, not row lineage."""
        return {"format-version": "2", **self.merge_on_read(False)}

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

    def replace_rows(self, table: str, key: str) -> str:
        return f"insert overwrite {table}"

    def clean_up(self, catalog: str, table: str) -> list[str]:
        return [
            f"call {catalog}.system.expire_snapshots(table => '{table}',"
            " older_than => timestamp'2100-01-01', retain_last => 1)"
        ]

    def maintenance(self, catalog: str, table: str, column: str, number: int) -> dict[str, str]:
        return {
            "compact": self.compact(catalog, table),
            "manifests": f"call {catalog}.system.rewrite_manifests('{table}')",
            "expire": f"call {catalog}.system.expire_snapshots('{table}')",
            "property": f"alter table {table} set tblproperties ('kept' = '{number}')",
            "no property": f"alter table {table} unset tblproperties ('kept')",
            "comment": f"comment on table {table} is 'comment {number}'",
            "comment on a column": f"alter table {table} alter column {column} comment '{number}'",
            "tag": f"alter table {table} create or replace tag kept",
            "order": f"alter table {table} write ordered by {column}",
        }

    def restore(self, catalog: str, table: str, version: str) -> str:
        return f"call {catalog}.system.set_current_snapshot('{table}', {version})"


FORMATS: dict[str, TableFormat] = {each.name: each for each in (Delta(), Iceberg())}


SERIALIZABLE = {
    "write.merge.isolation-level": "serializable",
    "write.update.isolation-level": "serializable",
    "write.delete.isolation-level": "serializable",
    "write.wap.enabled": "false",
    "write.spark.accept-any-schema": "false",
}
"""The properties of every Iceberg table that the package creates: exactness needs them."""


def metadata_of(lake: Path, table: str) -> dict[str, Any] | None:
    """Return the metadata of an Iceberg table in a Hadoop catalog; None for other tables.

    The metadata is read from its file. Spark would take a tenth of a second for each part of it.
    """
    *_, schema, name = table.replace("`", "").split(".")
    folder = lake / "iceberg" / schema / name / "metadata"
    names = [re.fullmatch(r"v(\d+)\.metadata\.json", path.name) for path in folder.glob("v*.json")]
    numbers = [int(name[1]) for name in names if name]
    if not numbers:
        return None
    metadata: dict[str, Any] = json.loads((folder / f"v{max(numbers)}.metadata.json").read_text())
    return metadata
