"""Change tables of a PostgreSQL table, and the rows that the macros derive from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbt.adapters.spark.relation import SparkRelation

from support.debezium import ENVELOPE, replay, same
from support.lake import SessionLake
from support.macros import Macros
from support.project import Project

UPSTREAM = {
    "id": "bigint",
    "status": "string",
    "small": "smallint",
    "amount": "decimal(10,2)",
    "price": "float",
    "born": "date",
    "at": "timestamp",
    "note": "string",
    "body": "binary",
}
# The columns with their types in Debezium's events; some types differ from the upstream's.
TOLD = {**UPSTREAM, "small": "int", "amount": "string", "born": "int", "at": "string"}
# The columns in the order of the expected rows, which were read from PostgreSQL.
COMPARED = (
    "id, status, small, cast(amount as string), cast(cast(price as string) as double),"
    " cast(born as string), date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), md5(note), md5(body)"
)


class Feeds:
    """The change tables of a project, and the rows that the macros derive from them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.macros = Macros()
        self.macros.stub("run_table", lambda step, sql: [tuple(row) for row in project.sql(sql)])

    def make(self, table: str, columns: str, rows: str) -> None:
        self.project.sql(
            f"create table {{schema}}.{table} ({columns}) using {self.project.file_format}"
        )
        self.project.sql(f"insert into {{schema}}.{table} {rows}")

    def make_events(self, table: str, files: list[Path], columns: Mapping[str, str] = TOLD) -> None:
        """Create a table of Debezium's events: a commit for each file, a row for each line."""
        struct = ", ".join(f"{name}: {type}" for name, type in columns.items())
        schema = ENVELOPE.format(columns=struct)
        self.project.sql(
            f"create table {{schema}}.{table} ({schema}) using {self.project.file_format}"
        )
        for file in files:
            self.append_events(table, file, columns)

    def append_events(self, table: str, file: Path, columns: Mapping[str, str] = TOLD) -> None:
        struct = ", ".join(f"{name}: {type}" for name, type in columns.items())
        assert isinstance(self.project.lake, SessionLake)
        reader = self.project.lake.spark.read.schema(ENVELOPE.format(columns=struct))
        reader.json(str(file)).createOrReplaceTempView("landing")
        self.project.sql(f"insert into {{schema}}.{table} select * from landing")

    def feed(self, table: str, format: str, **options: Any) -> dict[str, Any]:
        relation = SparkRelation.create(schema=self.project.schema, identifier=table)
        known = {"relation": relation, "format": format, "table": "public.orders"}
        return known | options

    def check(self, feed: dict[str, Any], upstream: dict[str, str]) -> dict[str, Any]:
        columns = [{"name": name, "type": type} for name, type in upstream.items()]
        checked: dict[str, Any] = self.macros.call("check_feed_table", feed, columns)
        return checked

    def rows_sql(self, feed: dict[str, Any], *columns: str) -> str:
        sql: str = self.macros.call("get_feed_rows_sql", feed, list(columns))
        return sql

    def landed(self, feed: dict[str, Any]) -> Any:
        landed = self.macros.call("get_feed_landed_sql", feed)
        return self.project.sql(f"select {landed} as landed")[0]["landed"]

    def place(self, feed: dict[str, Any], since: str | None) -> dict[str, Any]:
        place = self.macros.call("get_feed_place_sql", feed, since)
        told: dict[str, Any] = json.loads(self.project.sql(f"select {place} as place")[0]["place"])
        return told

    def differing(self, feed: dict[str, Any], truths: list[dict[str, Any]]) -> list[Any]:
        """Return the positions at which the rows derived from the events differ from the expected
        rows.
        """
        found = self.project.sql(
            f"select __bf_position, __bf_op, __bf_unchanged, {COMPARED}"
            f" from ({self.rows_sql(feed, *UPSTREAM)}) order by __bf_position, __bf_sequence"
        )
        events = [tuple(row) for row in found if row["__bf_op"] != "g"]
        commits = sorted({event[0] - 1 for event in events})
        first, *rest = [max(c for c in commits if c <= truth["position"]) for truth in truths]
        differing = []
        for commit, truth in zip(rest, truths[1:], strict=True):
            since = [event[1:] for event in events if first < event[0] <= commit]
            if not same(replay(truths[0]["rows"], since, list(UPSTREAM)), truth["rows"]):
                differing.append((commit, truth["position"]))
        return differing

    def explain(self, feed: dict[str, Any], condition: str) -> str:
        rows = self.rows_sql(feed, "id", "name")
        plan: str = self.project.sql(f"explain formatted select * from ({rows}) where {condition}")[
            0
        ]["plan"]
        return plan
