"""The barrier protocol as a Python model: the statements of a run, and their effects on the tables.

`tests/unit/test_protocol.py` plays random interleavings of several runs with this model alone.
`test_interleavings.py` plays them with the model and with real runs side by side. See
docs/barrier.md.

The whole state is one table. Each transition of the state is one statement with a condition on the
rows of this table:

    plan      where epoch = k and plan_id is null
    abandon   where epoch = k and plan_id = p and plan_kind <> 'abandon'
    commit    where epoch = k and plan_id = p and plan_kind = kind

A statement on the MV has three moments. First its base is fixed: the version of the MV against
which the statement commits. Then its fence reads the state. Then it commits. The commit fails if
another commit since the base has touched a key that the statement reads. A script has a moment for
each of its statements.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

Rows = Mapping[int, Any]
NOT_STARTED, FINISHED = -math.inf, math.inf
"""The two positions that are not keys."""
REPLACING = ("reset", "swap")
"""The kinds of barriers that replace the MV by a new table."""

PROTECTIONS = (
    "a plan that stands is not replaced",
    "the fence",
    "the fence is read after the base",
    "the kind of an abandoned plan",
    "the commit is guarded",
    "overlapping merges conflict",
    "an Iceberg range has a WHEN MATCHED clause",
    "an abandoned plan stops what is on its way",
    "a write that no barrier made is found",
    "a plan leaves a write that it does not repair",
    "changes follow the last executed barrier",
    "snapshots that the log does not know may delete",
    "epochs do not restart",
    "a run whose plan was given up is refused",
    "a re-anchor finds the keys that came and went",
    "a range of a sweep takes away what is not in it",
    "the changes of a fill have all columns",
    "a fill ends at the position",
    "columns are added by whatever ends a fill",
    "a rescale removes what is read again",
)
"""The protections that can be removed from a `World`."""


class Stopped(Exception):
    """Ends a run, because one of its statements finds that another run has continued."""


class Conflict(Stopped):
    """A commit since the base of a statement has touched a key that this statement reads."""


@dataclass(frozen=True)
class Plan:
    """The stored plan of a barrier. A plan keeps its id when it is abandoned."""

    id: int
    epoch: int
    kind: str
    version: int | None = None
    low: float = NOT_STARTED
    high: float = NOT_STARTED
    touched: tuple[float, ...] | None = None
    """The ends of the ranges that a re-anchor reads again. Abandoned plans could write to them.

    None if a re-anchor compares the whole MV.
    """
    at_once: bool = False
    wide: bool = False
    """Whether the plan's query returns the new column."""
    fill_low: float | None = None
    fill_high: float | None = None
    """The second position before and after the barrier. None if no column is being filled.

    The new column is filled up to the second position.
    """
    generation: bool = False
    """Whether the plan replaces the MV by a next generation with the upstream's `version`.

    The kind of an abandoned plan is "abandon", so `kind` does not show this any more.
    """

    @property
    def range(self) -> tuple[float, float]:
        """Return the range that the barrier reads."""
        if self.kind == "fill" and self.fill_low is not None and self.fill_high is not None:
            return self.fill_low, self.fill_high
        return self.low, self.high


@dataclass(frozen=True)
class GivenUp:
    """The plans that were abandoned since the last executed barrier.

    `since` is the upstream version of that barrier.
    """

    since: int | None
    plans: tuple[Plan, ...]


@dataclass(frozen=True)
class State:
    """The content of the progress table.

    `last` is the plan that the commit of this epoch executed.
    """

    epoch: int
    last: Plan
    version: int | None = None
    position: float = NOT_STARTED
    dirty: bool = False
    given_up: GivenUp | None = None
    mv_version: int = 0
    """The version in which the barrier left the MV."""
    foreign_write: bool = False
    """Whether the commit found a write to the MV that no barrier made."""
    sweeping: bool = False
    """Whether the MV has rows of an older version above the position."""
    wide: bool = False
    """Whether the committed query returns the new column."""
    filled: float = FINISHED
    """The second position: the new column is filled up to this key.

    FINISHED if no column is being filled.
    """
    plan: Plan | None = None

    def stands(self, plan: Plan) -> bool:
        """Return true if `plan` is the stored plan of the next epoch, even if it was abandoned."""
        return self.epoch == plan.epoch - 1 and self.plan is not None and self.plan.id == plan.id


@dataclass(frozen=True)
class Log:
    """The upstream's newest version and the start of its feed, as a run has read them.

    The feed has all changes after the version `feed_from`.
    """

    newest: int
    feed_from: int


@dataclass(frozen=True)
class Wide:
    """A row with the new column: the row of the old query, and the value of the new column."""

    row: Any
    new: Any = None


def narrow(row: Any) -> Any:
    """Return a row without the new column."""
    return row.row if isinstance(row, Wide) else row


@dataclass
class Mv:
    """The rows of the MV, and for each commit the keys that it has touched.

    A commit with None instead of keys conflicts with every MERGE that began before the commit.
    `marks` has the id of the plan that made each commit; None if another writer made the commit.
    """

    wide: bool = False
    """Whether the MV has the new column."""
    rows: Counter[tuple[int, Any]] = field(default_factory=Counter)
    commits: list[frozenset[int] | None] = field(default_factory=list)
    marks: list[int | None] = field(default_factory=list)

    @property
    def version(self) -> int:
        return len(self.commits)

    def merge(
        self, written: Mapping[int, Any], touched: Iterable[int], mark: int | None = None
    ) -> None:
        for key, row in [*self.rows]:
            if key in written:
                del self.rows[key, row]
        self.append(written)
        self.commit(frozenset(touched), mark)

    def commit(self, touched: frozenset[int] | None, mark: int | None) -> None:
        self.commits.append(touched)
        self.marks.append(mark)

    def foreign_write(self, since: int, own: Iterable[int], *, stops: bool) -> bool:
        """Return true if one of the commits after the version `since` has none of the marks `own`.

        :param stops: true if the last commit with such a mark repaired everything before it
        """
        for mark in reversed(self.marks[since:]):
            if mark not in {*own}:
                return True
            if stops:
                return False
        return False

    def append(self, written: Mapping[int, Any]) -> None:
        self.rows.update(
            (key, self._as_it_has(row)) for key, row in written.items() if row is not None
        )

    def _as_it_has(self, row: Any) -> Any:
        if self.wide:
            return row if isinstance(row, Wide) else Wide(row)
        return narrow(row)

    def add_column(self) -> None:
        self.wide = True
        self.rows = Counter({(key, self._as_it_has(row)): n for (key, row), n in self.rows.items()})

    def begin_anew(self, plan: Plan) -> None:
        self.rows.clear()
        self.wide = plan.wide
        self.stop(plan)

    def stop(self, plan: Plan) -> None:
        """Commit a version that conflicts with every statement that began before it."""
        self.commit(None, plan.id)


Moments = Generator[None, None, Any]
"""The execution of a statement. The generator pauses between moments and returns the result."""


@dataclass(frozen=True)
class Statement:
    """A statement of a run. `step` is the comment in its SQL.

    Each call of `execute` returns a new generator.
    """

    step: str
    execute: Callable[[], Moments]
    plan: Plan | None = None
    """The plan that the statement's fence checks. None if the statement has no fence."""


@dataclass
class World:
    """The content of all tables, and the protocol without the protections in `without`."""

    file_format: str
    upstream: list[Rows]
    """The rows of each upstream version."""
    show: Callable[[Any], Any] = lambda row: row
    """The query as a function of a row. It returns None for a row that the filter drops."""
    without: frozenset[str] = frozenset()
    draw_range: Callable[[Plan], tuple[float, bool]] = lambda plan: (FINISHED, False)
    """Returns the end of a new range, and whether one MERGE writes changes and range."""
    feed_from: int = 0
    mv: Mv = field(default_factory=Mv)
    spoiled: int = 0
    """The MV's version after the last write that may have made it wrong; 0 once it is repaired."""
    stoppable: bool = True
    """Whether an abandoned plan can stop its late MERGEs on Iceberg; not with copy-on-write."""
    executed: dict[int, tuple[int, str]] = field(default_factory=dict)
    """For each committed epoch: the id and the kind of its plan."""
    wrong: str | None = None

    def __post_init__(self) -> None:
        assert self.without <= {*PROTECTIONS}
        self.ids = itertools.count(1)
        self.state = State(0, Plan(0, 0, "create"))

    @property
    def is_iceberg(self) -> bool:
        return self.file_format == "iceberg"

    def has(self, protection: str) -> bool:
        assert protection in PROTECTIONS
        return protection not in self.without

    def prefix(self, version: int | None, position: float) -> Counter[tuple[int, Any]]:
        rows = {} if version is None else self.upstream[version]
        shown = ((key, self.show(row)) for key, row in rows.items() if key <= position)
        return Counter((key, row) for key, row in shown if row is not None)

    @property
    def is_exact(self) -> bool:
        """Return true if the MV has rows that the committed state and the stored plan allow."""
        state, plan = self.state, self.state.plan
        if state.dirty or self.spoiled or (plan and plan.kind in ("reset", "abandon")):
            return True  # any rows are allowed until the next commit
        allowed = [(state.version, state.position)]
        if plan is not None and plan.kind == "swap":
            if self.mv.rows == self.complete(plan):
                return True
        elif plan is not None:
            allowed += [(plan.version, state.position), (plan.version, plan.high)]
        filled = state.filled if state.wide and self.state.wide else NOT_STARTED
        if plan is not None and plan.fill_low is not None:
            filled = plan.fill_low
        return any(self._is_prefix(version, at, filled) for version, at in allowed)

    def _is_prefix(self, version: int | None, position: float, filled: float) -> bool:
        """Return true if the MV's old columns equal this prefix.

        The new column must be right up to the key `filled`.
        """
        shown = self.shown(position)
        old = Counter[tuple[int, Any]]()
        for (key, row), count in shown.items():
            old[key, narrow(row)] += count
        is_filled = all(
            row == Wide(narrow(row), narrow(row)) for key, row in shown if key <= filled
        )
        return old == self.prefix(version, position) and is_filled

    def complete(self, plan: Plan) -> Counter[tuple[int, Any]]:
        """Return the rows of a finished next generation."""
        rows = self.prefix(plan.version, FINISHED)
        return Counter(
            {(key, Wide(row, row) if plan.wide else row): n for (key, row), n in rows.items()}
        )

    def shown(self, position: float) -> Counter[tuple[int, Any]]:
        """Return the rows of the MV that must be right.

        In a sweep these are only the rows up to the position.
        """
        if not self.state.sweeping:
            return self.mv.rows
        return Counter({row: n for row, n in self.mv.rows.items() if row[0] <= position})

    def changed_keys(self, since: int, to: int) -> set[int]:
        """Return the keys that the feed lists between two upstream versions.

        Iceberg's row lineage compares two snapshots, so it does not list a row that was inserted
        and deleted between the two. Other feeds list the changes of every version.
        """
        if self.is_iceberg:
            versions = [self.upstream[since], self.upstream[to]]
            rewritten = self._rewritten_keys(since, to) & versions[1].keys()
            return rewritten | {*versions[0].keys() - versions[1].keys()}
        return self._rewritten_keys(since, to)

    def _rewritten_keys(self, since: int, to: int) -> set[int]:
        return {
            key
            for before, after in itertools.pairwise(self.upstream[since : to + 1])
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }

    def appends(self, version: int) -> bool:
        """Return true if a version only adds rows."""
        before, after = self.upstream[version - 1], self.upstream[version]
        return all(after.get(key) == row for key, row in before.items())


Flow = Generator[Statement, Any, Any]
"""The statements of a dbt command.

The generator yields each statement and receives the statement's result or exception.
"""


class Run:
    """A dbt command. It waits before or inside its `next` statement, or it has ended."""

    def __init__(self, flow: Flow) -> None:
        self.refused: str | None = None
        self.next: Statement | None = None
        self.executing: Moments | None = None
        """The execution of the next statement. None before the statement is sent."""
        self._flow = flow
        self._go_on(partial(next, self._flow))

    @property
    def ended(self) -> bool:
        return self.next is None

    def advance(self) -> None:
        """Execute one moment of the next statement."""
        assert self.next is not None
        if self.executing is None:
            self.executing = self.next.execute()
        try:
            next(self.executing)
        except StopIteration as done:
            self._go_on(partial(self._flow.send, done.value))
        except Stopped as stopped:
            self._go_on(partial(self._flow.throw, stopped))

    def send(self) -> None:
        """Execute all remaining moments of the next statement."""
        statement = self.next
        while self.next is statement and statement is not None:
            self.advance()

    def _go_on(self, move: Callable[[], Statement]) -> None:
        self.executing = None
        try:
            self.next = move()
        except StopIteration:
            self.next = None
        except Stopped as why:
            self.next, self.refused = None, type(why).__name__


def dbt_run(
    world: World,
    *,
    full_refresh: bool = False,
    barriers: int = 1,
    sweeps: bool = False,
    wide: bool = False,
    beside: bool = False,
) -> Flow:
    """Return the statements of a `dbt run`.

    :param sweeps: the model has `on_gap: sweep`
    :param wide: the model's query returns the new column
    :param beside: a full refresh finds a next generation that is complete at the newest version.
        The same protocol has filled this next generation, with a separate table and state
    """
    return _Flow(world, sweeps, wide, beside).run(full_refresh, barriers)


def abandon_plan(world: World) -> Flow:
    """Return the statements of the operation `abandon_plan`."""
    return _Flow(world).abandon_by_hand()


def rescale_backfill(world: World, low: float) -> Flow:
    """Return the statements of the operation `rescale_backfill`.

    :param low: the lowest position of the joined vnodes, if it is below the position of the state

    The state in this file has one position for all vnodes. So either all vnodes go back to the
    lowest position, or no vnode does.
    """
    return _Flow(world).rescale_by_hand(low)


@dataclass
class _Flow:
    """Yields the statements of a run, in the same order as core/barrier/barrier.sql."""

    world: World
    sweeps: bool = False
    wide: bool = False
    beside: bool = False
    guarded: bool = False
    """Whether the run may abandon the plan if a statement of the plan fails."""
    known: int = 0
    """The version of the MV up to which every commit is known."""
    seen: int = 0
    """The version of the MV when the run looked at it before its barrier."""
    found: bool = False
    """Whether there is a write after the last barrier that no barrier made."""

    def run(self, full_refresh: bool, barriers: int) -> Flow:
        state, log = yield self._observe()
        rebuild = full_refresh
        while barriers:
            self.guarded = False
            self._observe_mv(state)
            log = log or (yield self._read_log())
            if state.plan is not None:
                plan = yield from self._adopt(state, log, rebuild)
            else:
                mine = self._choose(state, log, rebuild)
                if mine is None:
                    return
                plan, own = yield self._plan(mine)
            staged = state.plan is None and own
            try:
                yield from self._run_steps(state, log, plan, staged)
            except Stopped as stopped:
                plan = yield from self._give_up(state, plan, stopped)
            state, log = yield self._commit(state, plan)
            self._check_committed(state, plan)
            if plan.kind == "swap" and self.beside:
                return
            rebuild = rebuild and plan.kind not in REPLACING
            barriers -= plan.kind not in ("reset", "abandon", "rescale") and not rebuild

    def _observe_mv(self, state: State) -> None:
        """Look for writes to the MV since the last barrier that no barrier made."""
        mv, plan = self.world.mv, state.plan
        own = [(plan or state.last).id]
        stops = plan is not None and _repairs(plan)
        self.known, self.seen = state.mv_version, mv.version
        self.found = state.foreign_write or mv.foreign_write(self.known, own, stops=stops)
        self.found = self.found and self.world.has("a write that no barrier made is found")
        if not self.found:
            self.known = self.seen

    def _observe(self) -> Statement:
        def execute() -> Moments:
            return self._read_state()
            yield

        return Statement("observe the state", execute)

    def _read_state(self) -> tuple[State, Log | None]:
        return self.world.state, self._log() if self.world.is_iceberg else None

    def _log(self) -> Log:
        return Log(len(self.world.upstream) - 1, self.world.feed_from)

    def _read_log(self) -> Statement:
        def execute() -> Moments:
            return self._log()
            yield

        return Statement("read the log of the upstream", execute)

    def _adopt(self, state: State, log: Log, rebuild: bool) -> Flow:
        plan = state.plan
        assert plan is not None
        if plan.kind == "rescale":
            return plan
        since = _feed_start(state)
        lost = (
            plan.version is not None
            and _has_changes(self.world, state, plan)
            and (since is None or since < log.feed_from)
        )
        is_wanted = not rebuild or (plan.kind in REPLACING and plan.wide == self.wide)
        if plan.kind == "abandon" or (not lost and is_wanted):
            self._check_model(state, plan)
            self.guarded = plan.kind not in ("abandon", *REPLACING) and plan.version != log.newest
            return plan
        return (yield from self._abandon(plan))

    def _check_model(self, state: State, plan: Plan) -> None:
        """Refuse a plan with another query, unless this run only adds the new column.

        A run that adds the new column first executes the stored plan of the old query.
        """
        appends = self.wide and not state.wide and plan.kind != "reset"
        if plan.kind not in ("abandon", "swap") and plan.wide != self.wide and not appends:
            raise Stopped

    def _abandon(self, plan: Plan) -> Flow:
        given_up = yield Statement("abandon the plan of the barrier", lambda: self._mark(plan))
        if given_up is None:
            raise Stopped
        return given_up

    def _mark(self, plan: Plan) -> Moments:
        world = self.world
        if world.state.stands(plan):
            world.state = replace(world.state, plan=replace(plan, kind="abandon"))
        yield
        now = world.state.plan if world.state.stands(plan) else None
        return now if now is not None and now.kind == "abandon" else None

    def abandon_by_hand(self) -> Flow:
        state, _ = yield self._observe()
        if state.plan is not None and state.plan.kind != "abandon":
            plan = yield from self._abandon(state.plan)
            yield from self._stop_what_is_on_its_way(plan)

    def rescale_by_hand(self, low: float) -> Flow:
        state, log = yield self._observe()
        self._observe_mv(state)
        plan = state.plan
        if plan is None:
            if state.dirty or self.found or state.version is None:
                raise Stopped
            at, fills = state.position, state.filled != FINISHED
            plan = Plan(next(self.world.ids), state.epoch + 1, "rescale", state.version, at, at)
            plan = replace(plan, wide=state.wide)
            if fills:  # during a fill all vnodes have the same position
                plan = replace(plan, fill_low=state.filled, fill_high=state.filled)
            else:
                plan = replace(plan, high=min(low, at))
            plan, _ = yield self._plan(plan)
        if plan.kind != "rescale":
            raise Stopped
        yield from self._run_steps(state, log, plan, staged=False)
        state, _ = yield self._commit(state, plan)
        self._check_committed(state, plan)

    def _choose(self, state: State, log: Log, rebuild: bool) -> Plan | None:
        plan = Plan(next(self.world.ids), state.epoch + 1, "reset", wide=self.wide)
        left = state.last
        if rebuild or (left.kind == "abandon" and (left.version is None or left.generation)):
            swap = replace(plan, kind="swap", version=log.newest, high=FINISHED, generation=True)
            return swap if self.beside else plan
        if state.wide and not self.wide:
            raise Stopped  # the query no longer returns the new column
        if self.found and self.world.mv.wide != state.wide and not state.dirty:
            return plan  # a late reset has brought the columns of another query
        started = state.position != NOT_STARTED
        gap = state.dirty or (state.version is not None and state.version < log.feed_from)
        gap = gap or self.found
        filled = state.filled if state.wide == self.wide else NOT_STARTED
        fills = filled != FINISHED
        moves = state.position != FINISHED or fills
        if not gap and not moves and log.newest == state.version:
            return None
        if (gap or fills) and not started and not state.sweeping:
            return plan
        again = gap or (fills and not started)
        kind = "reanchor" if again else "fill" if fills else "advance"
        low = high = state.position
        plan = Plan(plan.id, plan.epoch, kind, log.newest, low, high, wide=self.wide)
        if fills:
            ends = kind == "reanchor"
            plan = replace(plan, fill_low=filled, fill_high=FINISHED if ends else filled)
        if (
            gap
            and not self.found
            and not fills
            and (
                not self.world.is_iceberg
                or not self.world.has("a re-anchor finds the keys that came and went")
            )
        ):
            plan = replace(plan, touched=_find_touched(state, log))
        is_swept = kind == "reanchor" and plan.touched is None
        if is_swept and (self.sweeps or state.sweeping):
            plan = replace(plan, kind="sweep", high=NOT_STARTED)
        return plan

    def _plan(self, plan: Plan) -> Statement:
        """Return the script that stores `plan` if no plan is stored.

        The result of the script is the stored plan, and true if this is `plan`.
        """

        def execute() -> Moments:
            world, mine = self.world, plan
            if mine.kind == "advance" and mine.low != FINISHED:
                high, at_once = world.draw_range(mine)
                mine = replace(mine, high=high, at_once=at_once)
            if mine.kind == "fill" and mine.fill_low is not None:
                end, _ = world.draw_range(replace(mine, low=mine.fill_low))
                mine = replace(mine, fill_high=min(end, self._end_of_fill(mine)))
            yield
            is_free = world.state.plan is None or not world.has(
                "a plan that stands is not replaced"
            )
            if world.state.epoch == mine.epoch - 1 and is_free:
                world.state = replace(world.state, plan=mine)
            yield
            standing = world.state.plan
            if world.state.epoch != mine.epoch - 1 or standing is None:
                raise Stopped
            if not world.has("a plan that stands is not replaced"):
                standing = mine
            if standing.kind not in ("abandon", "rescale") and standing.wide != mine.wide:
                raise Stopped
            return standing, standing.id == mine.id

        return Statement("plan the barrier", execute)

    def _end_of_fill(self, plan: Plan) -> float:
        return plan.high if self.world.has("a fill ends at the position") else FINISHED

    def _run_steps(self, state: State, log: Log, plan: Plan, staged: bool) -> Flow:
        if plan.fill_low is not None and plan.kind not in ("abandon", "rescale"):
            yield from self._add_column(plan)
        if plan.kind in REPLACING:
            step = "empty the MV" if plan.kind == "reset" else "put the next generation in place"
            yield Statement(f"{step} in the barrier", lambda: self._replace(plan), plan)
        elif plan.kind == "abandon":
            yield from self._stop_what_is_on_its_way(plan)
        elif plan.kind == "sweep":
            pass  # later barriers merge the ranges of the sweep
        elif plan.kind == "rescale":
            removes = self.world.has("a rescale removes what is read again")
            if plan.high < plan.low and not state.sweeping and removes:
                step = "remove what is read again after the barrier"
                yield self._merge(step, plan, {}, whole=True)
        elif plan.kind == "reanchor" and plan.touched is None:
            wanted = self._as_shown(plan, dict(self.world.prefix(plan.version, plan.high).keys()))
            yield self._merge("re-anchor in the barrier", plan, wanted, whole=True)
        else:
            yield from self._run_merges(state, log, plan, staged)

    def _add_column(self, plan: Plan) -> Flow:
        """Add the new column if the MV lacks it.

        Here the fence and the ALTER statement are one moment, but with real tables they are two. A
        reset to the old query between the two moments would leave a column that the next MERGE
        refuses.
        """
        needed = plan.kind == "fill" or self.world.has("columns are added by whatever ends a fill")

        def execute() -> Moments:
            self._fence(plan)
            if not self.world.mv.wide:
                self.world.mv.add_column()
                if not self.world.is_iceberg:
                    self.world.mv.stop(plan)
            return None
            yield

        if needed and not self.world.mv.wide:
            yield Statement("alter the columns in the barrier", execute, plan)

    def _stop_what_is_on_its_way(self, plan: Plan) -> Flow:
        """Make all statements that began earlier fail with a conflict.

        The real statement changes the metadata of the MV. On Iceberg it writes one row again
        without a change, if the MV has a row.
        """

        def execute() -> Moments:
            world = self.world
            is_possible = not world.is_iceberg or (world.mv.rows and world.stoppable)
            if is_possible and world.has("an abandoned plan stops what is on its way"):
                world.mv.stop(plan)
            return None
            yield

        yield Statement("stop what is on its way in the barrier", execute)

    def _run_merges(self, state: State, log: Log, plan: Plan, staged: bool) -> Flow:
        assert plan.version is not None
        read = self.world.upstream[plan.version]
        shown = self._as_shown(plan, {key: self.world.show(row) for key, row in read.items()})
        changes: dict[int, Any] = {}
        if _has_changes(self.world, state, plan):
            if not staged:
                yield Statement("stage the changes", lambda: _nothing())
            changes = self._changes(state, log, plan, shown)
        low, high = plan.range
        in_range = {key: row for key, row in shown.items() if low < key <= high}
        if plan.kind == "fill" and not self.world.has("the changes of a fill have all columns"):
            changes = {key: narrow(row) for key, row in changes.items()}
        if changes and plan.at_once and in_range and not state.sweeping:
            both = "merge the changes and the range of the barrier"
            yield self._merge(both, plan, changes | in_range)
            return
        if changes:
            yield self._merge("merge the changes of the barrier", plan, changes)
        if (state.sweeping or plan.kind == "fill") and high != low:
            yield self._merge("merge the range of the barrier", plan, in_range, whole=True)
        elif in_range:
            yield self._merge("merge the range of the barrier", plan, in_range, is_range=True)
        elif plan.touched:
            yield self._merge("remove what was given up in the barrier", plan, {}, whole=True)

    def _as_shown(self, plan: Plan, rows: Rows) -> Rows:
        """Add the new column to the rows of the old query, if the plan's query returns it."""
        if not plan.wide:
            return rows
        return {key: None if row is None else Wide(row, row) for key, row in rows.items()}

    def _changes(self, state: State, log: Log, plan: Plan, shown: Rows) -> dict[int, Any]:
        """Return the new row of each changed key. None if the query no longer returns the key."""
        assert state.version is not None and plan.version is not None
        keys = self.world.changed_keys(state.version, plan.version)
        if self.world.is_iceberg and not self._may_delete(state.version, plan.version, log):
            keys &= shown.keys()
        return {key: shown.get(key) for key in keys if key <= state.position}

    def _may_delete(self, since: int, to: int, log: Log) -> bool:
        """Return true if a snapshot between the two versions may delete rows.

        The run has read the operations of the snapshots in its log. A snapshot that is not in this
        log may always delete rows.
        """
        if to > log.newest:
            return self.world.has("snapshots that the log does not know may delete")
        return not all(map(self.world.appends, range(since + 1, to + 1)))

    def _merge(
        self,
        step: str,
        plan: Plan,
        source: Mapping[int, Any],
        *,
        is_range: bool = False,
        whole: bool = False,
    ) -> Statement:
        """Return a MERGE of `source`.

        :param whole: also delete the MV's rows that are not in `source`, if the plan may write
            their keys (see `Everything`)
        """

        def execute() -> Moments:
            mv, world = self.world.mv, self.world
            fence_first = not world.has("the fence is read after the base")
            if fence_first:
                self._fence(plan)
                yield
            base, before = mv.version, dict(mv.rows.keys())
            yield
            if not fence_first:
                self._fence(plan)
                yield
            written = dict(source)
            reads = Everything(plan) if whole else frozenset(source)
            if whole:
                gone = "a range of a sweep takes away what is not in it"
                if plan.kind not in ("advance", "fill") or world.has(gone):
                    written = {key: None for key in before if key in reads} | written
                written = {key: row for key, row in written.items() if before.get(key) != row}
            if is_range and not world.is_iceberg:
                written = {key: row for key, row in written.items() if key not in before}
            is_checked = world.has("an Iceberg range has a WHEN MATCHED clause")
            if is_range and world.is_iceberg and not is_checked:
                mv.append({key: row for key, row in written.items() if key not in before})
                mv.commit(frozenset(written), plan.id)
                return
            self._check_conflicts(base, reads)
            touched = [key for key, row in written.items() if row is not None or key in before]
            mv.merge(written, touched, plan.id)
            self._note_if_late(plan)

        return Statement(step, execute, plan)

    def _replace(self, plan: Plan) -> Moments:
        base = self.world.mv.version
        yield
        self._fence(plan)
        yield
        if not self.world.is_iceberg:
            self._check_conflicts(base, Everything())
        self.world.mv.begin_anew(plan)
        if plan.kind == "swap":
            self.world.mv.append(dict(self.world.complete(plan).keys()))
        self._note_if_late(plan)

    def _note_if_late(self, plan: Plan) -> None:
        """Note that the MV may be wrong if a statement was executed after the end of its plan.

        No conflict stops such a statement on Iceberg if it replaces the MV, or if the MV is copied
        on write.
        """
        world = self.world
        is_repeated = world.state.last.id == plan.id and world.state.plan is None
        if world.is_iceberg and not world.state.stands(plan) and not is_repeated:
            world.spoiled = world.mv.version

    def _fence(self, plan: Plan) -> None:
        if self.world.has("the fence") and not self._is_executable(plan):
            raise Stopped

    def _is_executable(self, plan: Plan) -> bool:
        state = self.world.state
        if not state.stands(plan):
            return False
        assert state.plan is not None
        return state.plan.kind == plan.kind or not self.world.has("the kind of an abandoned plan")

    def _check_conflicts(self, base: int, reads: Everything | frozenset[int]) -> None:
        """Raise if a commit since `base` has touched a key that the statement reads."""
        if not self.world.has("overlapping merges conflict"):
            return
        for touched in self.world.mv.commits[base:]:
            if touched is None or any(key in reads for key in touched):
                raise Conflict

    def _give_up(self, state: State, plan: Plan, stopped: Stopped) -> Flow:
        """Abandon the plan after an error if this is allowed. Otherwise raise the error.

        A conflict is always raised, except on Iceberg, where a conflict looks like any other error.
        """
        if not self.guarded or (isinstance(stopped, Conflict) and not self.world.is_iceberg):
            raise stopped
        now, _ = yield self._observe()
        if now.epoch != state.epoch or now.plan != plan:
            raise stopped
        given_up = yield from self._abandon(plan)
        yield from self._stop_what_is_on_its_way(given_up)
        return given_up

    def _commit(self, state: State, plan: Plan) -> Statement:
        def execute() -> Moments:
            world = self.world
            repairs, version = _repairs(plan), world.mv.version
            since = self.seen if repairs else self.known
            found = world.mv.foreign_write(since, [plan.id], stops=repairs)
            if not repairs and world.has("a plan leaves a write that it does not repair"):
                found = found or self.found
            yield
            if self._is_executable(plan) or not world.has("the commit is guarded"):
                self._record(plan)
                if repairs and not found and world.spoiled <= version:
                    world.spoiled = 0
                world.state = replace(
                    _committed(world, state, plan), mv_version=version, foreign_write=found
                )
            yield
            return self._read_state()

        return Statement("commit the barrier", execute)

    def _record(self, plan: Plan) -> None:
        world = self.world
        if plan.epoch in world.executed:
            world.wrong = f"the epoch {plan.epoch} is committed twice"
        world.executed[plan.epoch] = (plan.id, plan.kind)

    def _check_committed(self, state: State, plan: Plan) -> None:
        lost = (state.dirty and plan.kind != "abandon") or state.last.id != plan.id
        if state.epoch < plan.epoch or (state.epoch == plan.epoch and lost):
            raise Stopped
        if self.world.executed.get(plan.epoch) != (plan.id, plan.kind):
            if self.world.has("a run whose plan was given up is refused"):
                raise Stopped
            self.world.wrong = f"a run whose plan of the epoch {plan.epoch} was given up goes on"


@dataclass(frozen=True)
class Everything:
    """All keys that a plan may write.

    A statement that also deletes rows outside its source reads all these keys.
    """

    plan: Plan | None = None

    def __contains__(self, key: int) -> bool:
        if self.plan is not None and self.plan.kind in ("advance", "fill"):
            low, high = self.plan.range
            return low < key <= high
        if self.plan is not None and self.plan.kind == "rescale":
            return key > self.plan.high
        if self.plan is None or not self.plan.touched:
            return True
        return any(self.plan.low < key <= high for high in self.plan.touched)


def _repairs(plan: Plan) -> bool:
    """Return true if the plan repairs everything that was written before its own statements."""
    compares_all = plan.kind == "reanchor" and plan.touched is None
    return compares_all or plan.kind in ("sweep", *REPLACING)


def _nothing() -> Moments:
    return None
    yield


def _has_changes(world: World, state: State, plan: Plan) -> bool:
    """Return true if the MV has rows and the plan moves to another upstream version."""
    if (plan.kind not in ("advance", "fill") and plan.touched is None) or state.version is None:
        return False
    last = "changes follow the last executed barrier"
    since = _feed_start(state) if world.has(last) else state.last.version
    return state.position != NOT_STARTED and plan.version != since


def _feed_start(state: State) -> int | None:
    """Return the upstream version of the last executed barrier.

    The feed is read from this version on.
    """
    if state.dirty:
        return state.given_up.since if state.given_up is not None else None
    return state.version


def _find_touched(state: State, log: Log) -> tuple[float, ...] | None:
    """Return the ends of the ranges above the position to which abandoned plans could write.

    Return None if these ranges are not known.
    """
    given_up = state.given_up
    if not state.dirty or given_up is None or given_up.since is None:
        return None
    if given_up.since != state.version or given_up.since < log.feed_from:
        return None
    if any(plan.high < plan.low for plan in given_up.plans):
        return None  # an abandoned rescale, whose vnodes had different positions
    if state.sweeping:
        return ()
    ends = [high for plan in given_up.plans for high in plan.touched or ()]
    ends += [plan.high for plan in given_up.plans if plan.high != plan.low]
    return tuple(dict.fromkeys(ends))


def _committed(world: World, state: State, plan: Plan) -> State:
    """Return the state after the commit of a plan. The plan was made in the state `state`."""
    new = State(plan.epoch, plan, wide=plan.wide)
    if plan.kind not in REPLACING and plan.fill_low is not None and plan.fill_high is not None:
        fills_on = plan.kind == "rescale" or (plan.kind == "fill" and plan.fill_high < plan.high)
        is_filled = plan.kind != "abandon" and not fills_on
        at = plan.fill_low if plan.kind == "abandon" else plan.fill_high
        new = replace(new, filled=FINISHED if is_filled else at)
    if plan.kind == "reset":
        return new if world.has("epochs do not restart") else replace(new, epoch=0)
    if plan.kind != "abandon":
        sweeping = plan.kind == "sweep" or (state.sweeping and plan.high != FINISHED)
        return replace(new, version=plan.version, position=plan.high, sweeping=sweeping)
    earlier = state.given_up if state.last.kind == "abandon" else GivenUp(state.version, ())
    if earlier is not None and plan.version is not None and not plan.generation:
        earlier = GivenUp(earlier.since, (plan, *earlier.plans))
    else:
        earlier = None
    dirty = replace(new, dirty=True, given_up=earlier)
    return replace(dirty, version=state.version, position=state.position, sweeping=state.sweeping)
