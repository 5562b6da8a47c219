"""The peers and the project. Each of them makes a table of an upstream and keeps it up to date.

Each contestant has its own table. Peers written by hand know the intervals of keys and the rows
that a change touches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from lineitem import cheap_merges, plain_properties

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
from support.project import Project, RunResult

Window = tuple[str | None, str | None]

BESIDE = ("__progress", "__barriers", "__controls", "__staged", "__replica")
"""The ends of the names of an MV's companion tables."""

SAMPLED = 10_000
"""The number of keys per interval from which bounds of texts are found."""


@dataclass(frozen=True)
class Field:
    """An existing upstream, and the intervals of a backfill."""

    project: Project
    upstream: Upstream
    windows: tuple[Window, ...]
    """Each interval is two literals of the first key column: above the first, up to the second."""

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
        """Return the predicate of an interval."""
        column = self.upstream.key_columns[0]
        low, high = window
        above = [f"{column} > {low}"] if low is not None else []
        upto = [f"{column} <= {high}"] if high is not None else []
        return " and ".join(above + upto) or "true"

    def keys(self, number: int, windows: int) -> list[str]:
        """Return at most `number` values of the first key column from the first intervals."""
        upper = [high for _, high in self.windows[:windows] if high is not None]
        step = max(1, len(upper) // number)
        return upper[step - 1 :: step][:number]


class Contestant(ABC):
    """:ivar name: its name in the results :ivar table: its name in the project's schema, and the
    name of its model if it has one :ivar remark: how the table was last built, if the results
    should mention it"""

    name: str
    remark = ""
    suffix: ClassVar[str]
    finds_deletes: ClassVar[bool] = True

    def __init__(self, field: Field) -> None:
        self.field = field
        self.table = f"{field.upstream.name}__{self.suffix}"

    @property
    def project(self) -> Project:
        return self.field.project

    def models(self) -> Mapping[str, str]:
        """Return the dbt models of this contestant, by name."""
        return {}

    def clear(self) -> None:
        self.project.sql(f"drop table if exists {{schema}}.{self.table}")

    @abstractmethod
    def build(self) -> None:
        """Make the whole table, which does not exist."""

    def check(self, condition: str = "true") -> None:
        """:raises AssertionError: if table and query differ in the rows that meet the condition"""
        made, wanted = (
            self.project.sql(f"select count(*), sum(cast(xxhash64(*) as decimal(38))) from {rows}")
            for rows in (f"{{schema}}.{self.table}", f"{self.field.table} where {condition}")
        )
        assert made == wanted, f"{self.table} has {made}, but its query has {wanted}"

    def _create(self, condition: str = "true") -> None:
        file_format = self.project.file_format
        self.project.sql(
            f"create table {{schema}}.{self.table} using {file_format} "
            f"{plain_properties(file_format)} as {self.field.query} where {condition}"
        )

    def _merge(self, rows: str, within: str = "true") -> None:
        """MERGE the rows of a query by the key.

        :param within: a predicate of the table's rows that may have these keys
        """
        same = " and ".join(f"mv.{key} = fresh.{key}" for key in self.field.upstream.key_columns)
        self.project.sql(
            f"merge into {{schema}}.{self.table} as mv using ({rows}) as fresh "
            f"on {same} and {within} "
            "when matched then update set * when not matched then insert *"
        )


class Refreshed(Contestant):
    """A contestant that can also bring its table up to date."""

    @abstractmethod
    def refresh(self, change: Change) -> None:
        """Apply this change of the upstream to the table."""


class CreateTableAs(Refreshed):
    name = CTAS
    suffix = "ctas"

    def build(self) -> None:
        self._create()

    def build_prefix(self, condition: str) -> None:
        """Create or replace the table with the query's rows that meet the condition."""
        self.clear()
        self._create(condition)

    def refresh(self, change: Change) -> None:
        self.build_prefix("true")


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
        """Send one MERGE of the changed rows, and one DELETE of the deleted rows."""
        self._merge(f"{self.field.query} where {change.changed}")
        if change.gone:
            self.project.sql(f"delete from {{schema}}.{self.table} where {change.gone}")


class Modelled(Refreshed):
    """A contestant that is a dbt model."""

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """Return the options of the model, as in SQL."""

    def query(self) -> str:
        return self.field.model_query

    def models(self) -> Mapping[str, str]:
        listed = ", ".join(f"{name}={value}" for name, value in self.config().items())
        return {self.table: f"{{{{ config({listed}) }}}} {self.query()}"}

    def build(self) -> None:
        self.run()

    def refresh(self, change: Change) -> None:
        self.run()

    def run(self) -> RunResult:
        return self.project.run("--select", self.table)

    @property
    def _unique_key(self) -> str:
        return str(list(self.field.upstream.key_columns))

    @property
    def _cheap_merges(self) -> str:
        return str(cheap_merges(self.project.file_format))


class DbtTable(Modelled):
    name = TABLE
    suffix = "table"

    def config(self) -> Mapping[str, str]:
        return {"materialized": "'table'", "tblproperties": self._cheap_merges}


class Incremental(Modelled):
    name = INCREMENTAL
    suffix = "incremental"
    finds_deletes = False

    def config(self) -> Mapping[str, str]:
        return {
            "materialized": "'incremental'",
            "incremental_strategy": "'merge'",
            "unique_key": self._unique_key,
            "tblproperties": self._cheap_merges,
        }


class IncrementalByDate(Incremental):
    name = BY_DATE
    suffix = "by_date"

    def query(self) -> str:
        date = self.field.upstream.source.date
        newer = f"where {date} > (select max({date}) from {{{{ this }}}})"
        return f"{super().query()} {{% if is_incremental() %}} {newer} {{% endif %}}"


class Backfilled(Modelled):
    """The project.

    :param options: options of the MV, which the results name
    :param number: distinguishes this table from tables with other options
    :param barriers_per_run: as in SQL
    """

    name = BACKFILLED
    suffix = "mv"

    # A range ends near its limit. So there may be one barrier more or less than intervals.
    ALL = "'all'"

    def __init__(
        self,
        field: Field,
        options: Mapping[str, str] = {},
        *,
        number: int = 0,
        barriers_per_run: str = ALL,
    ) -> None:
        super().__init__(field)
        self._options = dict(options)
        self._barriers_per_run = barriers_per_run
        if options:
            named = (f"{name}={value}" for name, value in options.items())
            self.name = ", ".join((BACKFILLED, *named))
            self.table = f"{self.table}_{number}"

    def build(self) -> None:
        """Build the table; the remark says if ranges were read from a copy of the upstream."""
        output = self.run().output
        if len(self.field.windows) > 1:
            self.remark = "through a copy" if ": copied " in output else "without a copy"

    def filled(self) -> str:
        """Return a predicate for the upstream's rows up to the greatest key of the table."""
        key = f"struct({', '.join(self.field.upstream.key_columns)})"
        return f"{key} <= (select max({key}) from {{schema}}.{self.table})"

    def config(self) -> Mapping[str, str]:
        barriers = len(self.field.windows)
        limits = {
            "backfill_rate_limit": str(-(-self.field.rows // barriers)),
            "barriers_per_run": self._barriers_per_run,
        }
        return {
            "materialized": f"'{BACKFILLED}'",
            "unique_key": self._unique_key,
            **(limits if barriers > 1 else {}),
            **self._options,
        }

    def clear(self) -> None:
        for suffix in ("", *BESIDE):
            self.project.sql(f"drop table if exists {{schema}}.{self.table}{suffix}")


PEERS_OF_BUILD: Sequence[type[Contestant]] = (CreateTableAs, DbtTable, PlainInserts, PlainMerges)
PEERS_OF_REFRESH: Sequence[type[Refreshed]] = (
    PlainMerges,
    CreateTableAs,
    Incremental,
    IncrementalByDate,
)


def windows_of(project: Project, upstream: Upstream, number: int) -> tuple[Window, ...]:
    """Return intervals with about the same number of rows, by the first column of the key."""
    if number == 1:
        return ((None, None),)
    table, column = f"{{schema}}.{upstream.name}", upstream.key_columns[0]
    of_bounds = _bounds_of_texts if upstream.has_text_key else _bounds_of_numbers
    [[bounds]] = project.sql(of_bounds(table, column, number))
    return tuple(pairwise((None, *map(_literal, bounds), None)))


def _bounds_of_numbers(table: str, column: str, number: int) -> str:
    """Return a query for an array of bounds.

    A bound is wrong by at most a hundredth of an interval.
    """
    shares = ", ".join(f"{part / number}D" for part in range(1, number))
    return f"select approx_percentile({column}, array({shares}), {100 * number}) from {table}"


def _bounds_of_texts(table: str, column: str, number: int) -> str:
    """Return a query for an array of bounds. It uses the same sample each time."""
    rows = f"(select count(*) from {table})"
    sampled = f"pmod(xxhash64({column}, 1), {rows}) < {SAMPLED * number}"
    return (
        f"select transform(sequence(1, {number - 1}), "
        f"part -> element_at(keys, cast(size(keys) * part / {number} as int))) "
        f"from (select sort_array(collect_list({column})) as keys from {table} where {sampled})"
    )


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
