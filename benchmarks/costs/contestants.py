"""Who makes a table of an upstream's rows and keeps it up to date: the peers, and the project.

Each has a table of its own. Peers written by hand are told what they need to know: the windows of
keys, and which rows a change touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from lineitem import plain_properties

from costs.acts import (
    BACKFILLED,
    BY_DATE,
    CTAS,
    INCREMENTAL,
    INSERTS,
    MERGES,
    TABLE,
)
from costs.changes import Change
from costs.upstreams import Upstream
from support.project import Project

Window = tuple[str | None, str | None]


@dataclass(frozen=True)
class Field:
    """Where they compete: an upstream that has been made, and the windows of a backfill."""

    project: Project
    upstream: Upstream
    windows: tuple[Window, ...]
    """Literals of the first key column, each window above the first and up to the second."""

    rows: int

    @property
    def table(self) -> str:
        return f"{{schema}}.{self.upstream.name}"

    @property
    def query(self) -> str:
        return f"select * from {self.table}"

    @property
    def model_query(self) -> str:
        return f"select * from {{{{ source('lake', '{self.upstream.name}') }}}}"

    def inside(self, window: Window) -> str:
        """The predicate of a window."""
        column = self.upstream.key_columns[0]
        low, high = window
        above = [f"{column} > {low}"] if low is not None else []
        upto = [f"{column} <= {high}"] if high is not None else []
        return " and ".join(above + upto) or "true"


class Contestant(ABC):
    """
    :ivar name: as the results show it
    :ivar table: its name in the project's schema, also that of its model if it has one
    """

    name: str
    suffix: ClassVar[str]
    finds_deletes: ClassVar[bool] = True

    def __init__(self, field: Field) -> None:
        self.field = field
        self.table = f"{field.upstream.name}__{self.suffix}"

    @property
    def project(self) -> Project:
        return self.field.project

    def models(self) -> Mapping[str, str]:
        """The dbt models that it needs, by name."""
        return {}

    def clear(self) -> None:
        self.project.sql(f"drop table if exists {{schema}}.{self.table}")

    @abstractmethod
    def build(self) -> None:
        """Make the whole table, which is not there."""

    def check(self) -> None:
        """:raises AssertionError: if the table does not have the rows of the query"""
        made, wanted = (
            self.project.sql(f"select count(*), sum(cast(xxhash64(*) as decimal(38))) from {rows}")
            for rows in (f"{{schema}}.{self.table}", self.field.table)
        )
        assert made == wanted, f"{self.table} has {made}, and its query {wanted}"

    def _create(self, condition: str = "true") -> None:
        file_format = self.project.file_format
        self.project.sql(
            f"create table {{schema}}.{self.table} using {file_format} "
            f"{plain_properties(file_format)} as {self.field.query} where {condition}"
        )

    def _merge(self, rows: str, within: str = "true") -> None:
        """MERGE of a query's rows by the key.

        :param within: a predicate of the table's rows that can have these keys
        """
        same = " and ".join(f"mv.{key} = fresh.{key}" for key in self.field.upstream.key_columns)
        self.project.sql(
            f"merge into {{schema}}.{self.table} as mv using ({rows}) as fresh "
            f"on {same} and {within} "
            "when matched then update set * when not matched then insert *"
        )


class Refreshed(Contestant):
    """One that can also bring its table up to date."""

    @abstractmethod
    def refresh(self, change: Change) -> None:
        """After this change of the upstream."""


class CreateTableAs(Refreshed):
    name = CTAS
    suffix = "ctas"

    def build(self) -> None:
        self._create()

    def refresh(self, change: Change) -> None:
        self.clear()
        self._create()


class PlainInserts(Contestant):
    name = INSERTS
    suffix = "inserts"

    def build(self) -> None:
        self._create("false")
        for window in self.field.windows:
            condition = self.field.inside(window)
            self.project.sql(
                f"insert into {{schema}}.{self.table} {self.field.query} where {condition}"
            )


class PlainMerges(Refreshed):
    name = MERGES
    suffix = "merges"

    def build(self) -> None:
        self._create("false")
        column = self.field.upstream.key_columns[0]
        for window in self.field.windows:
            inside = self.field.inside(window)
            of_table = inside.replace(f"{column} ", f"mv.{column} ")
            self._merge(f"{self.field.query} where {inside}", of_table)

    def refresh(self, change: Change) -> None:
        """One MERGE of what was changed; what was deleted by a DELETE."""
        self._merge(f"{self.field.query} where {change.changed}")
        if change.gone:
            self.project.sql(f"delete from {{schema}}.{self.table} where {change.gone}")


class Modelled(Refreshed):
    """One that is a dbt model."""

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """The options of the model, as in SQL."""

    def query(self) -> str:
        return self.field.model_query

    def models(self) -> Mapping[str, str]:
        listed = ", ".join(f"{name}={value}" for name, value in self.config().items())
        return {self.table: f"{{{{ config({listed}) }}}} {self.query()}"}

    def build(self) -> None:
        self.project.run("--select", self.table)

    def refresh(self, change: Change) -> None:
        self.build()

    @property
    def _unique_key(self) -> str:
        return str(list(self.field.upstream.key_columns))


class DbtTable(Modelled):
    name = TABLE
    suffix = "table"

    def config(self) -> Mapping[str, str]:
        return {"materialized": "'table'"}


class Incremental(Modelled):
    name = INCREMENTAL
    suffix = "incremental"
    finds_deletes = False

    def config(self) -> Mapping[str, str]:
        return {
            "materialized": "'incremental'",
            "incremental_strategy": "'merge'",
            "unique_key": self._unique_key,
        }


class IncrementalByDate(Incremental):
    name = BY_DATE
    suffix = "by_date"

    def query(self) -> str:
        date = self.field.upstream.source.date
        newer = f"where {date} > (select max({date}) from {{{{ this }}}})"
        return f"{super().query()} {{% if is_incremental() %}} {newer} {{% endif %}}"


class Backfilled(Modelled):
    """The project, with more options if it is one of several: `label` tells them apart."""

    name = BACKFILLED
    suffix = "mv"

    def __init__(
        self, field: Field, options: Mapping[str, str] = {}, *, label: str = "", number: int = 0
    ) -> None:
        super().__init__(field)
        self._options = dict(options)
        if label:
            self.name = f"{BACKFILLED}, {label}"
            self.table = f"{self.table}_{number}"

    def config(self) -> Mapping[str, str]:
        barriers = len(self.field.windows)
        limits = {
            "backfill_rate_limit": str(-(-self.field.rows // barriers)),
            # A range ends near its limit: there may be one more, or one less.
            "barriers_per_run": "'all'",
        }
        return {
            "materialized": f"'{BACKFILLED}'",
            "unique_key": self._unique_key,
            **(limits if barriers > 1 else {}),
            **self._options,
        }

    def clear(self) -> None:
        for suffix in ("", "__progress", "__barriers"):
            self.project.sql(f"drop table if exists {{schema}}.{self.table}{suffix}")


PEERS_OF_BUILD: Sequence[type[Contestant]] = (CreateTableAs, DbtTable, PlainInserts, PlainMerges)
PEERS_OF_REFRESH: Sequence[type[Refreshed]] = (
    PlainMerges,
    CreateTableAs,
    Incremental,
    IncrementalByDate,
)


def windows_of(project: Project, upstream: Upstream, number: int) -> tuple[Window, ...]:
    """So many windows of about as many rows, by the first column of the key."""
    if number == 1:
        return ((None, None),)
    column = upstream.key_columns[0]
    bounds = project.sql(
        f"select max({column}) from (select {column}, ntile({number}) over (order by {column}) "
        f"as part from {{schema}}.{upstream.name}) where part < {number} group by part order by 1"
    )
    literals = [f"'{value}'" if isinstance(value, str) else str(value) for (value,) in bounds]
    return tuple(pairwise((None, *literals, None)))
