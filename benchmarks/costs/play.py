"""Playing a workload: peers and project in turn, several rounds, in one warm session."""

from __future__ import annotations

import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeVar, cast

from clock import timed
from lineitem import create_followable, generate

from costs import acts
from costs.changes import Change, hot_keys
from costs.contestants import (
    PEERS_OF_BUILD,
    PEERS_OF_REFRESH,
    Backfilled,
    Contestant,
    CreateTableAs,
    Field,
    Incremental,
    Refreshed,
    windows_of,
)
from costs.event_log import EventLog, bytes_read
from costs.figures import BYTES, SECONDS, Measured
from costs.upstreams import Upstream
from costs.workloads import Build, Idle, LongBackfill, Read, Refresh, Workload
from support.lake import SessionLake
from support.project import Project, intercepted

TEN = 10
LOOK_UPS = 5

Options = Mapping[str, str]
T = TypeVar("T")


class Notes:
    """Values by act and unit, one of each round."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, act: str, value: float, unit: str = SECONDS) -> None:
        self._values[act, unit].append(value)

    def measured(self) -> tuple[Measured, ...]:
        return tuple(
            Measured(act, tuple(values), unit) for (act, unit), values in self._values.items()
        )


class Arena:
    """One warm session, and the upstreams that workloads need of it.

    :param variants: further options of the MV; with each of them it is one more contestant
    """

    def __init__(
        self, project: Project, log: EventLog, scale: float, variants: Sequence[Options] = ()
    ) -> None:
        self.project, self.log, self.scale, self.variants = project, log, scale, variants
        self._generated: dict[str, str] = {}
        self.rows = 0

    def play(self, workload: Workload, rounds: int) -> tuple[Measured, ...]:
        """What each act of a workload took, in each round."""
        kind, notes = workload.kind, Notes()
        match kind:
            case Build():
                self._play_build(workload, kind, rounds, notes)
            case Refresh():
                self._play_refresh(workload, kind, rounds, notes)
            case LongBackfill():
                self._play_long(workload, kind, rounds, notes)
            case Idle():
                self._play_idle(workload, kind, rounds, notes)
            case Read():
                self._play_read(workload, kind, rounds, notes)
        return notes.measured()

    # -- the kinds of workload ----------------------------------------------------------------

    def _play_build(self, workload: Workload, kind: Build, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream, kind.barriers) as field:
            mvs = self._backfilled(field, workload)
            contestants: list[Contestant] = [*(peer(field) for peer in PEERS_OF_BUILD), *mvs]
            with _ready(self.project, contestants):
                for number in range(rounds):
                    for each in _in_turn(contestants, number):
                        each.clear()
                        self._forget_events()
                        notes.add(each.name, timed(each.build))
                        notes.add(each.name, self._bytes_read(field.upstream), BYTES)
                    _check(contestants)

    def _play_refresh(self, workload: Workload, kind: Refresh, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream) as field:
            mvs = self._backfilled(field, workload)
            contestants: list[Refreshed] = [*(peer(field) for peer in PEERS_OF_REFRESH), *mvs]
            with _ready(self.project, contestants):
                for each in contestants:
                    each.build()
                for number in range(1, rounds + 1):
                    change = self._change(field, kind.change, number)
                    for each in _in_turn(contestants, number - 1):
                        notes.add(each.name, timed(partial(each.refresh, change)))
                    _check(contestants, change)

    def _play_long(self, workload: Workload, kind: LongBackfill, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream, kind.barriers) as field:
            mv = self._backfilled(field, workload)[0]
            with _ready(self.project, [mv]):
                for _ in range(rounds):
                    mv.clear()
                    seconds = seconds_of_barriers(mv)[: kind.barriers]
                    notes.add(acts.FIRST_BARRIER, seconds[0])
                    notes.add(acts.FIRST_TEN, statistics.median(seconds[:TEN]))
                    notes.add(acts.LAST_TEN, statistics.median(seconds[-TEN:]))
                    notes.add(acts.LAST_BARRIER, seconds[-1])
                    _check([mv])

    def _play_idle(self, workload: Workload, kind: Idle, rounds: int, notes: Notes) -> None:
        few, many = (replace(workload.upstream, label=label) for label in ("few", "many"))
        with self._field(few) as young, self._field(many) as old:
            mvs = [self._backfilled(field, workload)[0] for field in (young, old)]
            with _ready(self.project, mvs):
                for mv, versions in zip(mvs, (kind.few, kind.many), strict=True):
                    self._change(mv.field, hot_keys(1_000, versions - 1), 1)
                    mv.build()
                for number in range(rounds):
                    pairs = list(zip(mvs, (kind.few, kind.many), strict=True))
                    for mv, versions in _in_turn(pairs, number):
                        notes.add(acts.idle(versions), timed(mv.build))
                _check(mvs)

    def _play_read(self, workload: Workload, kind: Read, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream, kind.barriers) as field:
            mvs = self._backfilled(field, workload)
            fresh = CreateTableAs(field)
            kept: list[Refreshed] = [Incremental(field), *mvs]
            with _ready(self.project, [fresh, *kept]):
                for each in kept:
                    each.build()
                for number in range(1, kind.times + 1):
                    change = self._change(field, kind.change, number)
                    for each in kept:
                        each.refresh(change)
                _check(kept)
                fresh.build()
                for number in range(rounds):
                    for each in _in_turn([fresh, *kept], number):
                        self._time_reads(each, notes)

    # -- parts of them ------------------------------------------------------------------------

    @contextmanager
    def _field(self, upstream: Upstream, windows: int = 1) -> Iterator[Field]:
        """An upstream made anew, which goes with the block."""
        table = upstream.source.table
        if table not in self._generated:
            self._generated[table] = generate(self.project, table, self.scale)
        self.project.sql(
            create_followable(upstream.name, self.project.file_format)
            + upstream.query(self._generated[table])
        )
        self.rows = self.project.value(f"select count(*) from {{schema}}.{upstream.name}")
        windowed = windows_of(self.project, upstream, windows)
        try:
            yield Field(self.project, upstream, windowed, self.rows)
        finally:
            self.project.sql(f"drop table {{schema}}.{upstream.name}")

    def _backfilled(self, field: Field, workload: Workload) -> list[Backfilled]:
        variants = [
            Backfilled(
                field,
                {**workload.config, **options},
                label=", ".join(f"{name}={value}" for name, value in options.items()),
                number=number,
            )
            for number, options in enumerate(self.variants)
        ]
        return [Backfilled(field, workload.config), *variants]

    def _change(self, field: Field, change: Change, number: int) -> Change:
        """Change the upstream; returns what was done in SQL."""
        done = change.on(field.upstream, field.table, number)
        for statement in done.statements:
            self.project.sql(statement)
        return done

    def _time_reads(self, contestant: Contestant, notes: Notes) -> None:
        project, table = self.project, f"{{schema}}.{contestant.table}"
        field = contestant.field
        column, (_, key) = field.upstream.key_columns[0], field.windows[0]

        def look_up() -> None:
            for _ in range(LOOK_UPS):
                project.sql(f"select * from {table} where {column} = {key}")

        everything = f"select bit_xor(xxhash64(*)) from {table}"
        name = contestant.name
        notes.add(acts.all_rows(name), timed(lambda: project.sql(everything)))
        notes.add(acts.one_key(name), timed(look_up) / LOOK_UPS)

    def _forget_events(self) -> None:
        self._wait_for_events()
        self.log.read()

    def _bytes_read(self, upstream: Upstream) -> int:
        """Since events were forgotten."""
        self._wait_for_events()
        return bytes_read(self.log.read(), upstream.name)

    def _wait_for_events(self) -> None:
        context = cast(SessionLake, self.project.lake).spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()


def seconds_of_barriers(mv: Contestant) -> list[float]:
    """Of each barrier of a first run: from the commit of the one before, or its first statement."""
    times: list[float] = []

    def note(sql: str, proceed: object) -> None:
        assert callable(proceed)
        ours = re.search(r"/\* [^\s{]+: (.*?) \*/", sql)
        if ours and not times:
            times.append(time.perf_counter())
        proceed()
        if ours and ours[1].startswith("commit the barrier"):
            times.append(time.perf_counter())

    with intercepted(note):
        mv.build()
    return [after - before for before, after in pairwise(times)]


@contextmanager
def _ready(project: Project, contestants: Sequence[Contestant]) -> Iterator[None]:
    """Their models are in the project and their tables are not made; both go with the block."""
    models = {name: sql for each in contestants for name, sql in each.models().items()}
    project.write(models, sources=[each.field.upstream.name for each in contestants])
    try:
        yield
    finally:
        for each in contestants:
            each.clear()
        project.remove(*models)


def _in_turn(things: Sequence[T], number: int) -> list[T]:
    """All of them, each time beginning with another one."""
    first = number % len(things)
    return [*things[first:], *things[:first]]


def _check(contestants: Sequence[Contestant], change: Change | None = None) -> None:
    """Compare what they made with the query, but for those that miss the deletes of the change."""
    for each in contestants:
        if each.finds_deletes or change is None or change.gone is None:
            each.check()
