"""Runs models on a table of a live PostgreSQL server, while clients write to the table.

scene = LiveScene(project, database, orders(3000), "orders")
scene.write(backfill_rate_limit=500)
with scene.writers():
    scene.barrier()          # a dbt run, during which the changes are landed
scene.check()                # every MV version must equal the query on the table at its position
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

import yaml

from exactness.follow import Follower, Upstream
from exactness.landing import LSN, OP, Landing
from exactness.oracle import Change, Checked, Key, Rows
from exactness.postgres_truth import Truth
from exactness.queries import QUERIES
from exactness.runners import Runner, Statement, stepping
from exactness.upstream import Schema
from exactness.versions import VersionedTable
from support.postgres import USER, Database
from support.project import Project, RunResult
from support.writers import Table, Writers

CATALOG = "pg"
SPARK_TYPES = {"bigint": "bigint", 'text collate "C"': "string"}
STAGE = "stage the rows of the barrier"
WAIT = "wait for the feed"


@dataclass
class LiveTable(Upstream):
    """A PostgreSQL table. Every position of the WAL is a version of the table."""

    truth: Truth = field(kw_only=True)
    catalog: str = field(kw_only=True)

    @property
    def table(self) -> str:
        return f"{self.catalog}.public.{self.name}"

    @cached_property
    def stored(self) -> VersionedTable:
        return _Positions(self.project, self.table)

    @property
    def rows(self) -> Rows:
        return self.truth.at(self.name, self.truth.read())

    def rows_at(self, version: int) -> Rows:
        return self.truth.at(self.name, version)

    def version_before(self, version: int) -> int:
        """Return the position of the last but one transaction that ends at or before `version`.

        Return 0 if there is no such transaction.
        """
        positions = [t.position for t in self.truth.transactions(self.name)]
        earlier = [position for position in positions if position <= version]
        return earlier[-2] if len(earlier) > 1 else 0

    def changes_between(self, since: int, until: int) -> list[Sequence[Change]]:
        return [[change] for change in self.truth.changes(self.name, since, until)]

    def known_keys(self) -> set[Key]:
        return self.truth.keys_of(self.name)


class _Positions(VersionedTable):
    """Only implements `number_of`, because `LiveTable` gets all rows from `Truth`."""

    def number_of(self, recorded: str) -> int:
        return int(recorded)

    def commit_times(self) -> dict[int, float]:
        raise NotImplementedError

    def reading(self, version: int) -> str | None:
        raise NotImplementedError

    def identities(self, versions: Sequence[int]) -> list[Any]:
        raise NotImplementedError


@dataclass
class LiveScene:
    """A PostgreSQL table, its change table, and an MV that reads the PostgreSQL table."""

    project: Project
    database: Database
    table: Table
    query: str = "positive"
    rows: int = 2000
    seed: str = "live"
    by_hand: bool = True
    """Whether landing.py writes the change table. Otherwise `land_changes` writes it."""
    landing_by_hand: Callable[..., Landing] = Landing
    catalog: str = CATALOG
    """The Spark catalog. Every database user of every database needs a separate catalog."""
    user: str = USER
    password: str = ""
    """The password that Spark sends. The PostgreSQL server accepts any password."""
    vnode_count: int = 4
    mv: Follower = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.table.name
        self.rng = random.Random(f"{self.seed} {self.name}")
        self.project.configure(
            self.database.catalog_settings(self.catalog, self.user, self.password)
        )
        truth = Truth.begin(self.dsn, f"truth_{self.name}")
        with self.database.connect() as connection:
            connection.execute(self.table.create)
            self.table.fill(connection, self.rows)
        schema = Schema(
            {name: SPARK_TYPES[kind] for name, kind in self.table.key.items()}
            | {"amount": "int", "label": "string"},
            key=tuple(self.table.key),
        )
        self.upstream = LiveTable(
            self.project,
            self.name,
            schema,
            self.project.file_format,
            truth=truth,
            catalog=self.catalog,
        )
        self.hand = self.landing_by_hand(
            self.project.sql,
            self.project.file_format,
            truth,
            self.name,
            self.project.table(self.changes),
            schema,
        )
        self.mv = Follower(
            self.project,
            self.upstream,
            f"{self.name}_mv",
            QUERIES[self.query](schema),
            vnode_count=self.vnode_count,
            relation=f"{{{{ source('{self.catalog}', '{self.name}') }}}}",
            feed=f"{{{{ source('lake', '{self.changes}') }}}}",
            order="ascending",
        )
        tables = [{"name": self.name}]
        live = {"name": self.catalog, "schema": f"{self.catalog}.public", "tables": tables}
        sources = yaml.safe_dump({"version": 2, "sources": [live]})
        self.project.write({}, sources=(self.changes,), files={"models/_live.yml": sources})

    @property
    def changes(self) -> str:
        """Return the name of the change table, which is also the name of the replication slot."""
        return f"{self.name}_changes"

    def write(self, **config: Any) -> None:
        """Write the model's file; `config` overrides the default options."""
        self.mv.write(**{"change_feed": self.feed(), **config})

    def feed(self, wait_seconds: int = 0) -> dict[str, Any]:
        return {
            "relation": f"source('lake', '{self.changes}')",
            **(self.hand.options if self.by_hand else {"slot": self.changes}),
            "wait_seconds": wait_seconds,
        }

    @property
    def dsn(self) -> str:
        return self.database.url.removeprefix("jdbc:")

    def writers(
        self,
        count: int = 6,
        per_second: float = 60.0,
        settings: tuple[Mapping[str, str], ...] = ({},),
    ) -> Writers:
        seed = f"{self.seed} {self.name}"
        return Writers(self.dsn, self.table, count, per_second, seed, settings)

    @property
    def landing(self) -> tuple[str, ...]:
        """Return the arguments of the dbt command that executes `land_changes` for the MV."""
        arguments = yaml.safe_dump({"model": self.mv.name}, default_flow_style=True).strip()
        return ("run-operation", "land_changes", "--args", arguments)

    def land(self) -> None:
        if self.by_hand:
            self.hand.land()
        else:
            self.project.dbt(*self.landing)

    def wrong_events(self) -> list[Any]:
        """Return the first differences between the change table and the expected events.

        The expected events come from the tests' own replication slot. Only events after the first
        position of the change table are compared, in order.
        """
        self.upstream.truth.read()
        table, key = self.project.table(self.changes), ", ".join(self.upstream.schema.key)
        told = self.project.sql(f"select _lsn, _op, {key} from {table} order by _lsn, _seq")
        first, last = told[0][0], told[-1][0]
        events = [tuple(row) for row in told if row[1] in ("i", "u", "d", "t")]
        wanted = [
            (event[LSN], event[OP], *(event.get(name) for name in self.upstream.schema.key))
            for transaction in self.upstream.truth.transactions(self.name)
            if first < transaction.position <= last
            for event in self.hand.events(transaction)
        ]
        return [pair for pair in zip_longest(events, wanted) if pair[0] != pair[1]][:3]

    def barrier(self, *arguments: str) -> RunResult:
        """Run the model until one barrier is committed.

        A barrier waits until the change table has all changes that the staged rows may contain. In
        most cases, these changes are landed while the run waits for them. In the other cases the
        run stops waiting. Then the changes are landed, and a second run completes the barrier.
        """
        if self.rng.random() < 0.3:
            result = self.run(*arguments)
            # The second run must not have `--full-refresh`, which would begin another full refresh.
            if arguments and "WAITS" not in result.message(self.mv.name):
                return result
            self.land()
            return self.run()
        with stepping():
            runner = Runner(self.project, self.mv.name, self.name, *arguments)
            while not runner.ended:
                if runner.next == Statement(WAIT):
                    self.land()
                runner.advance()
            result = runner.finish()
        assert result.success, result.error
        return result

    def run(self, *arguments: str) -> RunResult:
        return self.project.dbt("run", "--select", self.mv.name, *arguments)

    def catch_up(self) -> None:
        """Land all changes and run the model until the MV contains them.

        No client may write to the PostgreSQL table any more.
        """
        for _ in range(3):
            self.land()
            self.run()

    def check(self) -> Checked:
        return self.mv.check()

    def end(self) -> None:
        """Drop both replication slots. Otherwise PostgreSQL would keep all WAL for these slots."""
        self.upstream.truth.end()
        self.database.sql(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            f" where slot_name = '{self.changes}' and not active"
        )
