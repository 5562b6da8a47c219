"""Plays many random histories at the same time.

A history has an upstream table with random commits, and one model that reads this table. One `dbt
run` executes a barrier of every model. After the last run, each version of each MV must have the
rows that Spark computes from the definition (see recomputed.py). After a run the MV must be exact,
or the package must have refused the run. A refusal is only allowed if a key appears twice in the
upstream's newest version.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from exactness.follow import Follower, Upstream
from exactness.histories import LAYOUTS, MODES
from exactness.keys import KEY_TYPES, literal
from exactness.oracle import (
    Inexact,
    Key,
    MvRows,
    MvVersion,
    Progress,
    ProgressVersion,
    Row,
    check_every_version,
    describe_difference,
)
from exactness.payloads import PAYLOAD_TYPES, ZONES
from exactness.recomputed import Recomputed, as_json
from exactness.twins import Payloads, Tale, Writer
from exactness.upstream import KeySpace, Schema
from exactness.zoned import draw_query
from support.checks import assert_no_java
from support.project import NodeResult, Project

RUNS = 4
THREADS = 2

FORMATS: dict[str, tuple[dict[str, str], ...]] = {
    "delta": ({"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "false"}),
    "iceberg": tuple(
        {"format-version": str(version)}
        | {f"write.{statement}.mode": mode for statement in ("delete", "update", "merge")}
        for version, mode in ((3, "merge-on-read"), (3, "copy-on-write"), (2, "copy-on-write"))
    ),
}


@dataclass(frozen=True)
class Ran:
    """The result of one model in one `dbt run`, and the upstream's version after this run."""

    number: int
    began: float
    ended: float
    upstream_version: int
    twins: frozenset[Key]
    refused: str | None
    kinds: tuple[str, ...]
    """The kinds of the episodes (see `Episode` in twins.py) that had begun before this run."""


@dataclass(frozen=True)
class Wrong:
    """The first error that was found in a history."""

    history: str
    run: int | None
    kinds: tuple[str, ...]
    """The kinds of the episodes that changed the keys of the wrong rows.

    This is empty if the error is not about rows.
    """
    text: str
    script: str

    def __str__(self) -> str:
        about = f" ({', '.join(self.kinds)})" if self.kinds else ""
        return f"{self.history}, run {self.run}{about}: {self.text}\n{self.script}"


@dataclass(frozen=True)
class Told:
    """The counts of one history, and its first error."""

    name: str
    barriers: int
    mv_versions: int
    commits: int
    refused: int
    kinds: Counter[str]
    wrong: Wrong | None


class TwinHistory:
    """An upstream in which keys appear twice for a while, and a model that reads this upstream.

    All random choices are drawn from `number` and `seed`.
    """

    def __init__(self, project: Project, number: int, seed: str = "") -> None:
        self.project = project
        self.number = number
        self.rng = random.Random(f"{seed}:{number}")
        self.properties = self.rng.choice(FORMATS[project.file_format])
        self.mode = self.rng.choice((*MODES, "arrangement"))
        self.limits = [*(self.rng.choice((3, 5, 8, 20, None)) for _ in range(RUNS - 1)), None]
        self.script: list[str] = []
        self.ran: list[Ran] = []
        self.wrong: Wrong | None = None
        self._create()

    @property
    def alive(self) -> bool:
        return self.wrong is None

    # -- the upstream and the model of a history
    # -----------------------------------------------------------

    def _create(self) -> None:
        rng = self.rng
        types = [rng.choice(list(KEY_TYPES)) for _ in range(rng.choice((1, 1, 2, 3)))]
        if types == ["boolean"]:
            types.append("int")
        keys = KeySpace(tuple(types))
        # Iceberg's format 2 has no variants. The package refuses maps in a table of format 2,
        # because the changes of such a table cannot be read: maps have no order.
        is_old = self.properties.get("format-version") == "2"
        kinds = [
            kind
            for kind, payload in PAYLOAD_TYPES.items()
            if not (is_old and ("map<" in payload.sql or payload.sql == "variant"))
        ]
        payloads = Payloads({f"p{n}": kind for n, kind in enumerate(rng.sample(kinds, 4))})
        schema = payloads.schema(keys, rng.sample(range(len(types)), len(types)))
        layout = rng.choice(LAYOUTS)
        self.upstream = Upstream.create(
            self.project, f"up_{self.number}", schema, layout=layout, properties=self.properties
        )
        self.script.append(f"-- the upstream, {layout}, {self.properties}: {dict(schema.columns)}")
        self.tale = Tale(Writer(self.upstream.commits, payloads, rng), keys)
        query = draw_query(rng, schema, list(payloads.types))
        self.follower = Follower(
            self.project, self.upstream, f"mv_{self.number}", query, rng.choice((1, 4, 8))
        )
        self._commit(self.tale.begin(rng.choice((6, 10, 16))).sql)
        self.recomputed = Recomputed(self.follower)

    def _commit(self, sql: str) -> None:
        self.script.append(sql)
        self.project.sql(sql)

    # -- one barrier --------------------------------------------------------------------------

    def change(self) -> None:
        """Execute random commits on the upstream before the next run."""
        number = len(self.ran)
        is_last = number == RUNS - 1
        # In the mode `snapshot`, all runs of the backfill read the upstream version of the first
        # run. So no key may appear twice in that version.
        may_catch = not is_last and not (self.mode == "snapshot" and number == 0)
        catches = may_catch and self.rng.random() < 0.4
        commits = 1 if number == 0 else self.rng.randint(2, 3)
        told = self.tale.until_the_barrier(commits, catches)
        for statement in told:
            self._commit(statement.sql)
        if not catches and self.rng.random() < 0.1:
            self._commit(self.tale.overwritten().sql)

    def write(self) -> None:
        number = len(self.ran)
        self.config: dict[str, Any] = {
            "backfill_mode": self.mode,
            "backfill_rate_limit": self.limits[number],
            "barriers_per_run": "all" if number == RUNS - 1 else 1,
        }
        self.follower.write(**self.config)

    def record(self, node: NodeResult, began: float, ended: float) -> None:
        number = len(self.ran) + 1
        refused = None if node.status == "success" else node.message
        self.script.append(f"-- run {number}, {self.config}: {node.status}, {node.message}")
        kinds = tuple(episode.kind for episode in self.tale.episodes)
        twins = frozenset(self.tale.twins())
        version = self.upstream.stored.newest_version()
        self.ran.append(Ran(number, began, ended, version, twins, refused, kinds))
        if refused is not None:
            try:
                self._check_refusal(refused, twins)
            except AssertionError as wrong:
                self._fail(str(wrong), number)

    def _check_refusal(self, message: str, twins: frozenset[Key]) -> None:
        """Raise unless the refusal names a key that appears twice in the upstream."""
        assert_no_java(message)
        if not twins:
            raise AssertionError(f"refused, though no key appears twice: {message}")
        found = re.search(r"not unique in .* duplicate keys: (.*)\. Delete", message, re.DOTALL)
        if found is None:
            raise AssertionError(f"no refusal of a duplicate key: {message}")
        keys = ", ".join(self.upstream.schema.key)
        duplicates = f"select {keys} from {self.upstream.table} group by all having count(*) > 1"
        named = f"select count(*) from ({duplicates}) where ({keys}) in ({found[1]})"
        if not self.project.value(named):
            raise AssertionError(f"names a key that does not appear twice: {message}")

    # -- checks -------------------------------------------------------------------------------

    def check(self) -> Told:
        barriers, mv_versions = 0, 0
        if self.alive:
            self._check_upstream()
            try:
                barriers, mv_versions = self._check_mv()
            except Inexact as wrong:
                self._fail(str(wrong))
        return Told(
            f"history {self.number}",
            barriers,
            mv_versions,
            commits=sum(not line.startswith("--") for line in self.script),
            refused=sum(run.refused is not None for run in self.ran),
            kinds=Counter(episode.kind for episode in self.tale.episodes),
            wrong=self.wrong,
        )

    def _check_upstream(self) -> None:
        """Check the test itself: the upstream table must have the rows that the test expects."""
        schema = self.upstream.schema
        names = [*schema.key, "at"]
        found = self._as_json(f"select {', '.join(names)} from {self.upstream.table}")
        wanted = self._as_json(_values_of(schema, names, self.tale.rows))
        if Counter(found) != Counter(wanted):
            raise AssertionError(f"the test is wrong about its upstream:\n{self._description}")

    def _as_json(self, select: str) -> list[str]:
        return [row[0] for row in self.project.sql(f"select {as_json()} from ({select})")]

    def _check_mv(self) -> tuple[int, int]:
        progress = self.follower.progress_versions()
        versions = self.recomputed.mv_versions()
        self.recomputed.learn(self._prefixes(progress))
        for run in self.ran:
            self._check_run(run, progress, versions)
        checked = check_every_version(self.recomputed, versions, progress)
        state = progress[-1].progress
        if not state.finished:
            raise Inexact(f"it has not finished at epoch {state.epoch}")
        return checked.barriers, checked.mv_versions

    def _prefixes(self, progress: Sequence[ProgressVersion]) -> Iterator[tuple[int | None, Any]]:
        states = [version.progress for version in progress]
        for state, following in zip(states, [*states[1:], states[-1]], strict=True):
            yield state.version, state.positions
            yield following.version, state.positions
            yield following.version, following.positions
        for run in self.ran:
            after = _last(progress, run.ended)
            if after is not None:
                yield run.upstream_version, after.positions

    def _check_run(
        self, run: Ran, progress: Sequence[ProgressVersion], versions: Sequence[MvVersion]
    ) -> None:
        """Check that the MV has the rows of the newest upstream version that the mode allows.

        A refused run must not have written to the MV or to its state.
        """
        if run.refused is not None:
            written = [v.version for v in versions if run.began <= v.at <= run.ended]
            states = [p for p in progress if run.began <= p.at <= run.ended]
            if written or states:
                self._fail(f"refused after it wrote to the MV {written} or its state", run.number)
            return
        before, after = _last(progress, run.began), _last(progress, run.ended)
        if after is None:
            self._fail("it left no state", run.number)
            return
        is_last = run.number == RUNS
        pinned = self.mode == "snapshot" and not is_last and before and not before.finished
        version = after.version if pinned else run.upstream_version
        wanted = self.recomputed.prefix(version, after.positions)
        found = [v.rows for v in versions if v.at <= run.ended][-1]
        if found != wanted:
            kinds = self._kinds_of_difference(found, wanted, run)
            self._fail(describe_difference(found, wanted), run.number, kinds)

    def _kinds_of_difference(self, found: MvRows, wanted: MvRows, run: Ran) -> tuple[str, ...]:
        """Return the kinds of the episodes that changed the keys of missing or surplus rows."""
        names = self.follower.query.key_columns
        wrong = {_values(row, names) for (row,) in (*(found - wanted), *(wanted - found))}
        kinds: dict[str, None] = {}
        for key, rendered in self._rendered_keys.items():
            if rendered in wrong:
                before = [k for k in self.tale.kinds_of(key) if k in run.kinds]
                kinds |= dict.fromkeys(before or ["no episode"])
        return tuple(kinds)

    @cached_property
    def _rendered_keys(self) -> dict[Key, str]:
        schema = self.upstream.schema
        there = [schema.key_of(row) for row in self.tale.rows]
        touched = [key for episode in self.tale.episodes for key in episode.keys]
        keys = list(dict.fromkeys((*there, *touched)))
        rows = [{"n": n, **dict(zip(schema.key, key, strict=True))} for n, key in enumerate(keys)]
        numbered = Schema({**schema.columns, "n": "int"}, schema.key)
        rendered = self._as_json(_values_of(numbered, ["n", *schema.key], rows))
        return {keys[json.loads(row)["n"]]: _values(row, schema.key) for row in rendered}

    def _fail(self, text: str, run: int | None = None, kinds: tuple[str, ...] = ()) -> None:
        if self.wrong is None:
            self.wrong = Wrong(f"history {self.number}", run, kinds, text, self._description)

    @property
    def _description(self) -> str:
        zone = self.project.settings.get("spark.sql.session.timeZone")
        model = (self.follower.project.models / f"{self.follower.name}.sql").read_text()
        return f"-- session time zone {zone}; the model:\n{model}\n" + ";\n".join(self.script)


def _last(progress: Sequence[ProgressVersion], at: float) -> Progress | None:
    found = [version.progress for version in progress if version.at <= at]
    return found[-1] if found else None


def _values_of(schema: Schema, names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a SELECT statement that returns these columns of the given rows."""
    lines = [f"({', '.join(schema.literals_of(row, names))})" for row in rows]
    nulls = ", ".join(literal(None, schema.columns[name]) for name in names)
    return (
        f"select * from values {', '.join([*lines, f'({nulls})'])} as t ({', '.join(names)})"
        f" where {names[-1]} is not null"
    )


def _values(row: str, names: Sequence[str]) -> str:
    values = json.loads(row)
    return json.dumps([values[name] for name in names])


@dataclass
class Crowd:
    """Plays histories in one dbt project, with one session time zone."""

    project: Project
    numbers: Sequence[int]
    zone: str
    seed: str = ""
    histories: list[TwinHistory] = field(default_factory=list)

    def play(self) -> list[Told]:
        with self._in_zone(), ThreadPoolExecutor(THREADS) as pool:
            self.histories = list(
                pool.map(lambda n: TwinHistory(self.project, n, self.seed), self.numbers)
            )
            for _ in range(RUNS):
                alive = [history for history in self.histories if history.alive]
                list(pool.map(TwinHistory.change, alive))
                self._run(alive)
            return list(pool.map(TwinHistory.check, self.histories))

    def _run(self, histories: Sequence[TwinHistory]) -> None:
        for history in histories:
            history.write()
        names = [history.follower.name for history in histories]
        began = time.time()
        arguments = ("--threads", str(THREADS), "--select", *names)
        result = self.project.dbt("run", *arguments, expect=False)
        ended = time.time()
        for history, name in zip(histories, names, strict=True):
            history.record(result[name], began, ended)

    @contextlib.contextmanager
    def _in_zone(self) -> Iterator[None]:
        name = "spark.sql.session.timeZone"
        before = self.project.value("select current_timezone()")
        self.project.configure({name: self.zone})
        try:
            yield
        finally:
            self.project.sql(f"set `{name}` = {before}")


def zone_of(batch: int) -> str:
    return ZONES[batch % len(ZONES)]
