"""Executes a random history with real commits and dbt runs, then checks every MV version."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from exactness.events import ChangeTable
from exactness.follow import Follower, Upstream
from exactness.histories import (
    ORDERS,
    SETTINGS,
    Commit,
    History,
    Maintained,
    Model,
    Run,
    Step,
    vnodes_of,
)
from exactness.oracle import Checked, Inexact, Progress, ProgressVersion
from exactness.queries import QUERIES
from exactness.upstream import KeySpace, draw_commit, draw_rows
from support.formats import FORMATS
from support.project import Crash, Proceed, Project, RunFailed, RunResult
from support.scripts import dying_after, is_script, writes_of

BOUNDS_TOLERANCE = 1.25
"""A range may read more rows than the rate limit. This factor is the most that is allowed.

The bounds of several ranges are found at the same time. Rows that are inserted later add to a
range.
"""

REFUSED_SETTING = re.compile(
    r"the session has spark\S+ (on|set)"
    r"|on which its query (may depend|depends), changed from"
    r"|with another query, config or session: .*, on which its query"
)
"""The refusals of a run whose session has another setting than the run of the last barrier."""


@dataclass(frozen=True)
class Played:
    """The counts of a history."""

    runs: int
    barriers: int
    mv_versions: int
    commits: int
    crashes: int
    stalled: int
    maintained: int
    refused: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.barriers} barriers in {self.runs} runs, {self.commits} commits, "
            f"{self.crashes} crashes, {self.stalled} stalled statements, "
            f"{self.maintained} statements of maintenance, {self.refused} refusals; "
            f"{self.mv_versions} MV versions checked, {self.seconds:.0f} s"
        )


@dataclass(frozen=True)
class Ran:
    """The start and the end of a run, and the upstream's newest version at the start."""

    step: Run
    began: float
    ended: float
    upstream_version: int
    may_adopt: bool
    """Whether the first barrier of the run may have been planned by an earlier run."""
    refused: frozenset[str]
    """The names of the models that were refused because of the session's setting."""


@dataclass
class Fault:
    """Injects one fault at statement number `at` of a run. Records all statements that write."""

    project: Project
    kind: str | None
    at: int
    written: list[str] = field(default_factory=list)
    seen: int = 0
    crashed: bool = False

    def __call__(self, sql: str, proceed: Proceed) -> None:
        strikes = self.kind is not None and self.seen == self.at
        self.seen += 1
        writing = writes_of(sql)
        self.written += writing
        if strikes and self.kind == "crash before":
            self._crash("before")
        if strikes and self.kind == "crash inside" and is_script(sql):
            self._die_inside(sql)
        proceed()
        if strikes and self.kind == "crash after":
            self._crash("after")
        if strikes and self.kind == "submitted twice" and writing:
            proceed()

    def _die_inside(self, sql: str) -> None:
        """Execute a script up to its first statement that writes, then let the run die."""
        script = dying_after(sql, 1)
        if script is None:
            return
        with contextlib.suppress(Exception):
            self.project.sql(script)
        self._crash("inside")

    def _crash(self, where: str) -> None:
        self.crashed = True
        raise Crash(f"{where} statement {self.at}")


@dataclass
class Player:
    """Executes one history in its own dbt project."""

    project: Project
    history: History
    name: str
    ran: list[Ran] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    crashes: int = 0
    stalled: int = 0
    maintained: int = 0
    may_adopt: bool = False

    def play(self) -> Played:
        began = time.monotonic()
        self.upstream = self._create_upstream()
        self._create_other_table()
        reads_events = any(model.feed for model in self.history.models)
        rng = random.Random(self.history.seed)
        self.change_table = ChangeTable(self.upstream, rng) if reads_events else None
        self.followers = [
            Follower(
                self.project,
                self.upstream,
                name,
                QUERIES[model.query](self.upstream.schema),
                vnode_count=model.vnode_count,
                feed=f"{{{{ {self.change_table.source} }}}}"
                if self.change_table and model.feed
                else "",
                through=self._through(model),
            )
            for name, model in zip(self._names(), self.history.models, strict=True)
        ]
        for step in self.history.steps:
            self._take(step)
        self._complete()
        self.upstream.check()
        checked = [self._check(n) for n in range(len(self.followers))]
        self._drop_the_first()
        return Played(
            runs=len(self.ran),
            barriers=sum(c.barriers for c in checked),
            mv_versions=sum(c.mv_versions for c in checked),
            commits=sum(isinstance(step, Commit) for step in self.history.steps),
            crashes=self.crashes,
            stalled=self.stalled,
            maintained=self.maintained,
            refused=sum(len(run.refused) for run in self.ran),
            seconds=time.monotonic() - began,
        )

    # -- steps --------------------------------------------------------------------------------

    def _create_upstream(self) -> Upstream:
        history = self.history
        keys = KeySpace(history.key)
        schema = keys.schema(history.column_order)
        return Upstream.create(
            self.project,
            f"{self.name}_upstream",
            schema,
            draw_rows(random.Random(history.seed), keys, schema, history.rows),
            layout=history.layout,
            merge_on_read=history.merge_on_read,
        )

    def _create_other_table(self) -> None:
        """Create a table with the name of the upstream in another schema, for the hooks."""
        schema, name = f"{self.project.schema}_other", self.upstream.name
        kind = FORMATS[self.project.file_format]
        self.project.sql(f"create schema if not exists {schema}")
        self.project.sql(kind.create_table(f"{schema}.{name}", "n bigint"))
        source = {"name": "other", "schema": schema, "tables": [{"name": name}]}
        text = yaml.safe_dump({"version": 2, "sources": [source]})
        self.project.write({}, files={"models/_other.yml": text})

    def _names(self) -> list[str]:
        names: list[str] = []
        for model in self.history.models:
            if model.is_beside:
                # A model with the name of another model's state is refused.
                names.append(f"{names[0]}{'__live' if model.suffix == '__live' else '__next'}")
            else:
                names.append(f"{self.name}_{model.mode}{model.suffix}")
        return names

    def _take(self, step: Step) -> None:
        if isinstance(step, Run):
            self._run(step)
        elif isinstance(step, Commit):
            upstream = self.upstream
            commit = draw_commit(
                random.Random(step.seed),
                step.kind,
                step.size,
                KeySpace(self.history.key),
                upstream.commits,
                upstream.rows,
            )
            upstream.commit(commit)
            if self.change_table is not None:
                self.change_table.append(commit.changes)
        elif isinstance(step, Maintained):
            self._maintain(random.Random(step.seed))
        elif self.written:
            self._execute_stalled(random.Random(step.seed).choice(self.written))

    def _maintain(self, rng: random.Random) -> None:
        """Execute a statement on each MV that changes no row."""
        kind = FORMATS[self.project.file_format]
        catalog = self.project.lake.catalogs[self.project.file_format]
        for follower in self.followers:
            # An Iceberg table without rows may have no snapshot, and then it can have no tag.
            if not self.project.exists(follower.name) or not self.project.rows(
                f"select 1 from {follower.table} limit 1"
            ):
                continue
            others = set(follower.query.columns) - set(follower.query.key_columns)
            self.maintained += 1
            statements = kind.maintenance(catalog, follower.table, min(others), self.maintained)
            self.project.sql(rng.choice(list(statements.values())))

    def _execute_stalled(self, statement: str) -> None:
        """Execute a statement of an earlier run once more. Its fence may refuse it with an error.

        The later checks find a wrong MV if the statement did any harm.
        """
        self.stalled += 1
        self.may_adopt = True
        try:
            self.project.sql(statement)
        except Exception as refused:
            self.refusals.append(str(refused))

    def _run(self, step: Run) -> None:
        for number, (follower, model) in enumerate(
            zip(self.followers, self.history.models, strict=True)
        ):
            follower.order, follower.replica = model.order, model.replica
            if model.feed:
                follower.replica = "never"  # no copy is made of such an upstream
            if step.turns_order:
                follower.order = ORDERS[1 - ORDERS.index(model.order)]
            follower.write(**self._config(step, number, model))
        fault = Fault(self.project, step.fault, step.fault_at)
        began, version = time.time(), self.upstream.version
        arguments = ["--full-refresh"] if step.full_refresh else []
        names = [name for follower in self.followers for name in follower.selected]
        before = [self._versions(follower) for follower in self.followers]
        with self._session(step.setting):
            result = self.project.dbt(
                "run", "--select", *names, *arguments, expect=False, intercept=fault
            )
        refused = frozenset() if fault.crashed else self._find_refused(step, result, before)
        self.ran.append(Ran(step, began, time.time(), version, self.may_adopt, refused))
        self.may_adopt = fault.crashed or (self.may_adopt and bool(refused))
        self.written += fault.written
        self.crashes += fault.crashed
        if refused and step.setting is None:
            self._run(replace(step, full_refresh=True, fault=None))

    @contextlib.contextmanager
    def _session(self, setting: str | None) -> Iterator[None]:
        """Give the sessions a setting of SETTINGS inside the block."""
        if setting is None:
            yield
            return
        zone, settings = self.project.value("select current_timezone()"), self.project.settings
        self.project.settings = dict(settings)
        self.project.configure({setting: SETTINGS[setting]})
        try:
            yield
        finally:
            self.project.settings = settings
            self.project.configure({})
            self.project.sql(f"reset `{setting}`")
            self.project.sql(f"set `spark.sql.session.timeZone` = {zone}")

    def _find_refused(
        self, step: Run, result: RunResult, before: Sequence[object]
    ) -> frozenset[str]:
        """Return the models that were refused because of a setting.

        Raise if a refused run has written something, or if a run failed for another reason.
        """
        refused = [node.name for node in result.nodes if node.status != "success"]
        was_set = step.setting or any(run.step.setting for run in self.ran)
        documented = [REFUSED_SETTING.search(result.message(name)) for name in refused]
        may_be_refused = was_set and (step.setting or not step.full_refresh)
        if not result.success and not (may_be_refused and refused and all(documented)):
            raise RunFailed(f"{step}:\n{result.output}\n{result.error}")
        for follower, versions in zip(self.followers, before, strict=True):
            if follower.name in refused and self._versions(follower) != versions:
                raise Inexact(f"{follower.name} was refused after it wrote something: {step}")
        return frozenset(refused)

    def _versions(self, follower: Follower) -> list[str | None]:
        """Return the current versions of the MV and of its state."""
        tables = [follower.name, f"{follower.name}__progress"]
        return [self.project.current_version(t) for t in tables if self.project.exists(t)]

    def _through(self, model: Model) -> str:
        """Return what the model reads. It is no view on Iceberg, see `test_views.py`."""
        has_views = self.project.file_format == "delta"
        return model.through if has_views or model.through != "view" else "ephemeral"

    def _config(self, step: Run, number: int, model: Model) -> dict[str, Any]:
        config: dict[str, Any] = {
            "backfill_mode": model.mode,
            "backfill_rate_limit": step.limits[number],
            "barriers_per_run": step.barriers_per_run,
            **self._hooks(model),
        }
        if self.change_table is not None and model.feed is not None:
            config["change_feed"] = self.change_table.options(model.feed)
        if model.upstream_key_declared:
            config["upstream_key"] = list(self.upstream.schema.key)
        vnodes = vnodes_of(step, number, model.vnode_count)
        if vnodes is not None and model.mode == "arrangement":
            config["backfill_vnodes"] = vnodes
        return config

    def _hooks(self, model: Model) -> dict[str, str]:
        other = f"{{{{ source('other', '{self.upstream.name}') }}}}"
        hooks = {
            "reads": {"pre_hook": f"select count(*) from {other}"},
            "writes": {"post_hook": f"insert into {other} select count(*) from {{{{ this }}}}"},
        }
        return hooks.get(model.hook, {})

    def _drop_the_first(self) -> None:
        """Drop the MV of the first model. The MV of the other model must stay as it is."""
        first, *others = self.followers
        before = [self._versions(follower) for follower in others]
        if others:
            self.project.operation("drop_backfill", model=first.name)
        if before != [self._versions(follower) for follower in others]:
            raise Inexact(f"a drop of {first.name} has changed another MV")
        for follower in others:
            follower.check_complete()

    def _complete(self) -> None:
        """Run once without limits. This also completes a barrier that a crash has interrupted."""
        self._run(Run(limits=(None,) * len(self.followers), barriers_per_run="all"))
        for follower in self.followers:
            follower.check_complete()

    # -- checks -------------------------------------------------------------------------------

    def _check(self, number: int) -> Checked:
        follower, model = self.followers[number], self.history.models[number]
        checked = follower.check()
        progress = follower.progress_versions()
        self._check_runs(progress, follower, model, number)
        return checked

    def _check_runs(
        self, progress: Sequence[ProgressVersion], follower: Follower, model: Model, number: int
    ) -> None:
        for run in self.ran:
            if follower.name in run.refused:
                continue
            states = [p.progress for p in progress if run.began <= p.at <= run.ended]
            before = [p.progress for p in progress if p.at < run.began][-1:]
            barriers = before + states if before else states
            budget = run.step.barriers_per_run
            made = sum(s.version is not None and not s.dirty for s in barriers[1:])
            if isinstance(budget, int) and made > budget:
                raise Inexact(f"{follower.name}: {made} barriers, but at most {budget} are allowed")
            begun = bool(before) and before[0].epoch > 0
            reset = begun and any(s.version is None and s.epoch > before[0].epoch for s in states)
            if run.step.full_refresh and begun and not (run.step.fault or reset):
                raise Inexact(f"{follower.name}: --full-refresh did not reset the MV")
            pairs = list(itertools.pairwise(barriers))
            for old, new in pairs[1:] if run.may_adopt else pairs:
                self._check_barrier(old, new, run, follower, model, number)

    def _check_barrier(
        self,
        old: Progress,
        new: Progress,
        run: Ran,
        follower: Follower,
        model: Model,
        number: int,
    ) -> None:
        """Check that a barrier follows the configuration of the run that planned this barrier."""
        where = f"{follower.name}, epoch {new.epoch}"
        if new.version is None:
            return
        if model.mode == "no_shuffle" and len(set(new.positions.values())) > 1:
            raise Inexact(f"{where}: positions of vnodes differ")
        turned = any(earlier.step.turns_order for earlier in self.ran)
        descending = {position.descending for position in new.positions.values()}
        if not turned and descending != {model.order == "descending"}:
            raise Inexact(f"{where}: it is not backfilled {model.order}")
        limit = run.step.limits[number]
        read = follower.definition.scanned(new.version, old.positions, new.positions).total()
        if limit is not None and read > limit * BOUNDS_TOLERANCE:
            raise Inexact(f"{where}: {read} rows were read, but the limit is {limit}")
        if limit == 0 and old.positions != new.positions:
            raise Inexact(f"{where}: positions moved, although the limit is 0")
        pinned = model.mode == "snapshot" and not old.finished
        if pinned and old.version is not None and new.version != old.version:
            raise Inexact(f"{where}: version {new.version}, but {old.version} is pinned")
        if not pinned and new.version != run.upstream_version:
            raise Inexact(f"{where}: version {new.version}, newest is {run.upstream_version}")
