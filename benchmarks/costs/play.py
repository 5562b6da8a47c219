"""Run a workload in one warm session. In every round the contestants run one after the other."""

from __future__ import annotations

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
from costs.workloads import Build, Idle, LongBackfill, Read, ReadFilling, Refresh, Workload
from support.lake import SessionLake
from support.project import Proceed, Project, intercepted, step_of

TEN = 10
LOOK_UPS = 5
ENOUGH = 0.95
"""The least part of the expected barriers that a run must have executed."""

Options = Mapping[str, str]
T = TypeVar("T")


class Notes:
    """The values of each act and unit. A round adds one value or several."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._bases: dict[str, str] = {}
        self._remarks: dict[str, dict[str, None]] = defaultdict(dict)

    def add(
        self, act: str, value: float, unit: str = SECONDS, *, base: str, remark: str = ""
    ) -> None:
        """:param base, remark: see `Measured`; all remarks are kept"""
        self._values[act, unit].append(value)
        self._bases[act] = base
        if remark:
            self._remarks[act][remark] = None

    def measured(self) -> tuple[Measured, ...]:
        return tuple(
            Measured(act, tuple(values), self._bases[act], unit, ", ".join(self._remarks[act]))
            for (act, unit), values in self._values.items()
        )


class Arena:
    """One warm session, and the upstreams of the workloads.

    :param variants: further options of the MV; each of them adds a contestant
    """

    def __init__(
        self, project: Project, log: EventLog, scale: float, variants: Sequence[Options] = ()
    ) -> None:
        self.project, self.log, self.scale, self.variants = project, log, scale, variants
        self._generated: dict[str, str] = {}
        self.rows = 0

    def play(self, workload: Workload, rounds: int) -> tuple[Measured, ...]:
        """Return the values of each act of a workload, in each round."""
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
            case ReadFilling():
                self._play_read_filling(workload, kind, rounds, notes)
        return notes.measured()

    # -- the kinds of workload ----------------------------------------------------------------

    def _play_build(self, workload: Workload, kind: Build, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream, kind.barriers) as field:
            peers = [peer(field) for peer in PEERS_OF_BUILD]
            contestants: list[Contestant] = [*peers, *self._backfilled(field)]
            with _ready(self.project, contestants):
                for number in range(rounds):
                    for each in _in_turn(contestants, number):
                        each.clear()
                        self._forget_events()
                        took = timed(each.build)
                        notes.add(each.name, took, base=acts.CTAS, remark=each.remark)
                        read = self._bytes_read(field.upstream)
                        notes.add(each.name, read, BYTES, base=acts.CTAS)
                    _check(contestants)

    def _play_refresh(self, workload: Workload, kind: Refresh, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream) as field:
            peers = [peer(field) for peer in PEERS_OF_REFRESH]
            contestants: list[Refreshed] = [*peers, *self._backfilled(field)]
            with _ready(self.project, contestants):
                for each in contestants:
                    each.build()
                for number in range(1, rounds + 1):
                    change = self._change(field, kind.change, number)
                    for each in _in_turn(contestants, number - 1):
                        took = timed(partial(each.refresh, change))
                        notes.add(each.name, took, base=acts.MERGES)
                    _check(contestants, change)

    def _play_long(self, workload: Workload, kind: LongBackfill, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream, kind.barriers) as field:
            mvs = self._backfilled(field)
            with _ready(self.project, mvs):
                for number in range(rounds):
                    for mv in _in_turn(mvs, number):
                        mv.clear()
                        seconds = seconds_of_barriers(mv, kind.barriers)[1:]
                        second, ten = acts.second_barrier(mv.name), acts.first_ten(mv.name)
                        add = partial(notes.add, remark=mv.remark)
                        add(second, seconds[0], base=second)
                        add(acts.last_barrier(mv.name), seconds[-1], base=second)
                        add(ten, statistics.median(seconds[:TEN]), base=ten)
                        add(acts.last_ten(mv.name), statistics.median(seconds[-TEN:]), base=ten)
                    _check(mvs)

    def _play_idle(self, workload: Workload, kind: Idle, rounds: int, notes: Notes) -> None:
        few, many = (replace(workload.upstream, label=label) for label in ("few", "many"))
        with self._field(few) as young, self._field(many) as old:
            runs = [
                (mv, versions)
                for field, versions in ((young, kind.few), (old, kind.many))
                for mv in self._backfilled(field)
            ]
            mvs = [mv for mv, _ in runs]
            with _ready(self.project, mvs):
                self._change(young, hot_keys(1_000, kind.few - 1), 1)
                self._change(old, hot_keys(1_000, kind.many - 1), 1)
                for mv in mvs:
                    mv.build()
                for number in range(rounds):
                    for mv, versions in _in_turn(runs, number):
                        took = timed(mv.run)
                        base = acts.idle(mv.name, kind.few)
                        notes.add(acts.idle(mv.name, versions), took, base=base)
                _check(mvs)

    def _play_read(self, workload: Workload, kind: Read, rounds: int, notes: Notes) -> None:
        with self._field(workload.upstream, kind.barriers) as field:
            fresh = CreateTableAs(field)
            kept: list[Refreshed] = [Incremental(field), *self._backfilled(field, kind.variants)]
            with _ready(self.project, [fresh, *kept]):
                for each in kept:
                    each.build()
                for number in range(1, kind.times + 1):
                    change = self._change(field, kind.change, number)
                    for each in kept:
                        each.refresh(change)
                _check(kept)
                fresh.build()
                keys = field.keys(LOOK_UPS, kind.barriers)
                for number in range(rounds):
                    for each in _in_turn([fresh, *kept], number):
                        self._time_reads(each, keys, notes)

    def _play_read_filling(
        self, workload: Workload, kind: ReadFilling, rounds: int, notes: Notes
    ) -> None:
        stages = [kind.barriers * quarters // 4 for quarters in (1, 2, 3)]
        for number in range(rounds):
            with self._field(workload.upstream, kind.barriers) as field:
                mvs = self._backfilled(field, barriers_per_run="1")
                fresh = CreateTableAs(field)
                with _ready(self.project, [fresh, *mvs]):
                    for barrier in range(1, stages[-1] + 1):
                        for mv in mvs:
                            mv.run()
                        if barrier in stages:
                            for mv in mvs:
                                mv.check(mv.filled())
                            fresh.build_prefix(mvs[0].filled())
                            # A range may end before its interval ends. So use only earlier
                            # intervals.
                            keys = field.keys(LOOK_UPS, barrier - 1)
                            for each in _in_turn([fresh, *mvs], number):
                                self._time_reads(each, keys, notes)
                        self._change(field, kind.change, barrier)

    # -- parts of a workload ------------------------------------------------------------------

    @contextmanager
    def _field(self, upstream: Upstream, windows: int = 1) -> Iterator[Field]:
        """Create an upstream, and drop it after the block."""
        table = upstream.source.table
        if table not in self._generated:
            self._generated[table] = generate(self.project, table, self.scale)
        try:
            self.project.sql(
                create_followable(upstream.name, self.project.file_format)
                + upstream.query(self._generated[table])
            )
            self.rows = self.project.value(f"select count(*) from {{schema}}.{upstream.name}")
            windowed = windows_of(self.project, upstream, windows)
            yield Field(self.project, upstream, windowed, self.rows)
        finally:
            self.project.sql(f"drop table if exists {{schema}}.{upstream.name}")

    def _backfilled(
        self,
        field: Field,
        variants: Sequence[Options] = (),
        *,
        barriers_per_run: str = Backfilled.ALL,
    ) -> list[Backfilled]:
        """Return several MVs: one with default options, and one for each option and variant."""
        return [
            Backfilled(field, options, number=number, barriers_per_run=barriers_per_run)
            for number, options in enumerate(({}, *variants, *self.variants))
        ]

    def _change(self, field: Field, change: Change, number: int) -> Change:
        """Change the upstream; return the change in SQL."""
        done = change.on(field.upstream, field.table, number)
        for statement in done.statements:
            self.project.sql(statement)
        return done

    def _time_reads(self, contestant: Contestant, keys: Sequence[str], notes: Notes) -> None:
        """:param keys: the keys to look up, one after the other"""
        project, table = self.project, f"{{schema}}.{contestant.table}"
        column = contestant.field.upstream.key_columns[0]

        def look_up() -> None:
            for key in keys:
                project.sql(f"select * from {table} where {column} = {key}")

        everything = f"select bit_xor(xxhash64(*)) from {table}"
        name = contestant.name
        took, of_keys = timed(lambda: project.sql(everything)), timed(look_up)
        notes.add(acts.all_rows(name), took, base=acts.all_rows(acts.CTAS))
        notes.add(acts.one_key(name), of_keys / len(keys), base=acts.one_key(acts.CTAS))

    def _forget_events(self) -> None:
        self._wait_for_events()
        self.log.read()

    def _bytes_read(self, upstream: Upstream) -> int:
        """Return the bytes read from the upstream since the last `_forget_events`."""
        self._wait_for_events()
        return bytes_read(self.log.read(), upstream.name)

    def _wait_for_events(self) -> None:
        context = cast(SessionLake, self.project.lake).spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()


def seconds_of_barriers(mv: Backfilled, expected: int) -> list[float]:
    """Return the seconds of each barrier of a first run.

    A barrier begins at the previous commit, and the first one at its first statement. The last
    range is left out, because it has the remaining rows.

    :raises ValueError: if far fewer barriers were made than expected
    """
    times: list[float] = []

    def note(sql: str, proceed: Proceed) -> None:
        step = step_of(sql)
        if step and not times:
            times.append(time.perf_counter())
        proceed()
        if step and step.startswith("commit the barrier"):
            times.append(time.perf_counter())

    with intercepted(note):
        mv.build()
    seconds = [after - before for before, after in pairwise(times)]
    if len(seconds) < ENOUGH * expected:
        raise ValueError(f"{mv.table} was built by {len(seconds)} barriers instead of {expected}")
    return seconds[:-1]


@contextmanager
def _ready(project: Project, contestants: Sequence[Contestant]) -> Iterator[None]:
    """Write the contestants' models for the block; after it remove the models and their tables."""
    models = {name: sql for each in contestants for name, sql in each.models().items()}
    project.write(models, sources=[each.field.upstream.name for each in contestants])
    try:
        # Otherwise the first contestant would also be measured with the time to parse all models.
        project.dbt("parse")
        yield
    finally:
        for each in contestants:
            each.clear()
        project.remove(*models)


def _in_turn(things: Sequence[T], number: int) -> list[T]:
    """Return all things in their order. Each round begins with a different thing."""
    first = number % len(things)
    return [*things[first:], *things[:first]]


def _check(contestants: Sequence[Contestant], change: Change | None = None) -> None:
    """Compare the contestants' tables with the query.

    Contestants that cannot find deletes are left out if the change has deletes.
    """
    for each in contestants:
        if each.finds_deletes or change is None or change.gone is None:
            each.check()
