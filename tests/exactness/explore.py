"""Plays random histories with the model of the barrier protocol (protocol.py), without Spark.

In a history, runs crash, stall and overlap at any moment.

history = History(seed, "iceberg", without=["the fence"])
history.play()
assert history.wrong, history.told
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from exactness.protocol import (
    FINISHED,
    NOT_STARTED,
    REPLACING,
    Flow,
    Moments,
    Plan,
    Run,
    State,
    Statement,
    Stopped,
    Wide,
    World,
    abandon_plan,
    dbt_run,
    rescale_backfill,
)

KEYS = range(8)
ACTIONS = 100
AT_ONCE = 3
LONGEST_RUN = 8
SWITCHED = 22
"""In `play_switches`, the turn between two runs changes at two moments below this number."""
BARRIERS_TO_HEAL = 30


@dataclass
class Orphan:
    """A statement that a server still executes although its client has died or disconnected."""

    next: Statement
    executing: Moments | None

    @property
    def ended(self) -> bool:
        return self.executing is None

    def advance(self) -> None:
        assert self.executing is not None
        try:
            next(self.executing)
        except (StopIteration, Stopped):
            self.executing = None


@dataclass(frozen=True)
class Odds:
    """Each field is the probability of an event."""

    change: float = 0.06
    """At each moment, the upstream changes."""
    loss: float = 0.005
    """At each moment, the feed loses all changes of the upstream."""
    refresh: float = 0.1
    """A new run is a full refresh."""
    abandon: float = 0.1
    """A new run is the operation `abandon_plan`."""
    sweeps: float = 0.0
    """The model of a plain run has `on_gap: sweep`."""
    beside: float = 0.3
    """A full refresh replaces the MV by a complete next generation."""
    rescale: float = 0.0
    """A new run is the operation `rescale_backfill`."""
    widens: float = 0.0
    """At each moment, the model's query gets a new column."""
    writes: float = 0.0
    """At each moment, another writer writes to the MV."""
    stoppable: bool = True
    """See `World.stoppable`."""


REFRESHED = Odds(refresh=0.5, loss=0, abandon=0)
OVERTAKEN = Odds(change=0.1, refresh=0.8, loss=0, abandon=0, beside=0.5)
GIVEN_UP = Odds(abandon=0.4, loss=0, refresh=0)
UNCHANGED = Odds(change=0.02, loss=0, refresh=0, abandon=0.4)
LEFT_ALONE = Odds(change=0.1, loss=0, refresh=0, abandon=0)
SWEPT = Odds(loss=0.03, refresh=0.03, sweeps=0.8)
PLAIN = (Odds(), REFRESHED, GIVEN_UP, UNCHANGED)
FILLED = Odds(loss=0.01, refresh=0.03, sweeps=0.3, widens=0.03)
RESCALED = Odds(rescale=0.3, refresh=0.05, sweeps=0.3, widens=0.005)
WRITTEN = Odds(writes=0.03, sweeps=0.2, widens=0.005, rescale=0.05)
UNSTOPPABLE = Odds(abandon=0.4, refresh=0.05, sweeps=0.2, stoppable=False)
MIXED = (*PLAIN, SWEPT, FILLED, RESCALED, WRITTEN, UNSTOPPABLE)


class History:
    """Plays one random history. `wrong` describes its first error, or is None."""

    def __init__(
        self,
        seed: int,
        file_format: str,
        without: Iterable[str] = (),
        odds: Sequence[Odds] = MIXED,
    ) -> None:
        self.rng = random.Random(f"{file_format} {seed}")
        first = {key: self._draw_row() for key in KEYS if self.rng.random() < 0.7}
        self.world = World(
            file_format,
            [first],
            show=lambda row: row or None,
            without=frozenset(without),
            draw_range=self._draw_range,
        )
        self.actors: dict[str, Run | Orphan] = {}
        self.told: list[str] = []
        """A list of the events, which helps a developer to find the cause of an error."""
        self._started = 0
        self._moving = ""
        self._asleep: dict[str, int] = {}
        """For each stalled run: the moment at which the run continues."""
        self._clock = 0
        self._is_wide = False
        self._odds = self.rng.choice(odds)
        self.world.stoppable = self._odds.stoppable

    @property
    def wrong(self) -> str | None:
        return self.world.wrong

    def play(self) -> None:
        for _ in range(ACTIONS):
            self._act()
            if self.wrong:
                return
        self._heal()

    def play_switches(self, stalled: int, other: Other, at: Container[int]) -> bool:
        """Stop a run before its statement number `stalled`, then start another run.

        Only one of the two runs moves at a time. The turn changes at each moment in `at`, and when
        a run ends. Return False if the first run ends before it has sent `stalled` statements.
        """
        version, position = len(self.world.upstream) - 1, KEYS[3]
        self.world.state = State(1, Plan(0, 1, "advance", version), version, position)
        self.world.mv.rows = self.world.prefix(version, position)
        self._commit()
        self.actors["run"] = run = Run(dbt_run(self.world))
        for _ in range(stalled):
            run.send()
        if run.ended:
            return False
        self.actors["other"] = Run(other(self.world))
        self._moving = "other"
        self._commit()
        for moment in itertools.count():
            if not self.actors or self.wrong:
                break
            if moment in at or self._moving not in self.actors:
                self._moving = next((n for n in self.actors if n != self._moving), self._moving)
            self._move(self._moving)
        self._heal()
        return True

    def _act(self) -> None:
        """Play one random event. In most cases, the run that moved last moves again."""
        self._clock += 1
        chance = self.rng.random()
        awake = [name for name in self.actors if self._asleep.get(name, 0) <= self._clock]
        if self._odds.widens and self.rng.random() < self._odds.widens:
            self._is_wide = True
        if self._odds.writes and self.rng.random() < self._odds.writes:
            self._write_to_the_mv()
        elif chance < self._odds.change:
            self._commit()
        elif chance < self._odds.change + self._odds.loss:
            self._lose_the_feed()
        elif not awake or (chance < 0.14 and len(self.actors) < AT_ONCE):
            self._start()
        elif chance < 0.16:
            self._orphan(self.rng.choice(awake))
        elif chance < 0.22:
            self._asleep[self.rng.choice(awake)] = self._clock + self.rng.choice((4, 15, 40))
        else:
            if self._moving not in awake or chance > 0.95:
                self._moving = self.rng.choice(awake)
            self._move(self._moving)

    def _commit(self) -> None:
        """Commit random rows to the upstream. Some commits only add rows.

        A deleted row may be inserted again with the same value.
        """
        before = self.world.upstream[-1]
        rows = dict(before)
        only_adds = self.rng.random() < 0.3
        for key in self.rng.sample(KEYS, self.rng.randint(1, 3)):
            if not only_adds and self.rng.random() < 0.4:
                rows.pop(key, None)
            elif not only_adds or key not in rows:
                rows[key] = self._draw_row()
        if rows != before:
            self.world.upstream.append(rows)
            self.told.append(f"the upstream has {rows}")

    def _draw_row(self) -> int:
        return self.rng.randint(0, 2)

    def _draw_range(self, plan: Plan) -> tuple[float, bool]:
        low = -1 if plan.low == NOT_STARTED else int(plan.low)
        high = low + self.rng.randint(1, 4)
        return (high if high < KEYS[-1] else FINISHED), self.rng.random() < 0.5

    def _write_to_the_mv(self) -> None:
        """As another writer, write a row, or delete the rows of a key."""
        mv, key = self.world.mv, self.rng.choice(KEYS)
        mv.merge({key: self._draw_row() or None}, [key])
        self.world.spoiled = mv.version
        self.told.append(f"something writes to the MV: {dict(mv.rows)}")

    def _lose_the_feed(self) -> None:
        self.world.upstream.append(self.world.upstream[-1])
        self.world.feed_from = len(self.world.upstream) - 1
        self.told.append("the feed is lost")

    def _start(self) -> None:
        self._started += 1
        chance = self.rng.random()
        if chance < self._odds.abandon:
            name, flow = "abandon_plan", abandon_plan(self.world)
        elif chance < self._odds.abandon + self._odds.refresh:
            name = "full refresh"
            beside = self.rng.random() < self._odds.beside
            flow = dbt_run(self.world, full_refresh=True, wide=self._is_wide, beside=beside)
        elif chance < self._odds.abandon + self._odds.refresh + self._odds.rescale:
            low = self.rng.choice((FINISHED, FINISHED, NOT_STARTED, *KEYS))
            name, flow = "rescale", rescale_backfill(self.world, low)
        else:
            barriers = self.rng.randint(1, 2)
            sweeps = self._odds.sweeps > 0 and self.rng.random() < self._odds.sweeps
            name = "run"
            flow = dbt_run(self.world, barriers=barriers, sweeps=sweeps, wide=self._is_wide)
        self._moving = f"{name} {self._started}"
        self.actors[self._moving] = Run(flow)

    def _orphan(self, name: str) -> None:
        """Let a run die, or let the run lose its connection and send its statement again."""
        run = self.actors[name]
        if not isinstance(run, Run):
            return
        assert run.next is not None
        if run.executing is not None:
            self._started += 1
            self.actors[f"orphan {self._started} of {name}"] = Orphan(run.next, run.executing)
            run.executing = None
        if self.rng.random() < 0.5:
            del self.actors[name]
        self.told.append(f"{name} loses its connection, or dies")

    def _move(self, name: str) -> None:
        actor, before = self.actors[name], len(self.world.mv.commits)
        assert actor.next is not None
        step = actor.next.step
        actor.advance()
        if actor.ended:
            del self.actors[name]
        refused = getattr(actor, "refused", None)
        self.told.append(
            f"{name}: {step}"
            + (f" ({refused})" if refused else "")
            + (f" -> {dict(self.world.mv.rows)}" if len(self.world.mv.commits) > before else "")
        )
        self._look()

    def _look(self) -> None:
        world, state = self.world, self.world.state
        if not world.is_exact:
            world.wrong = world.wrong or (
                f"no allowed prefix at epoch {state.epoch}: {dict(world.mv.rows)}, {state}"
            )

    def _heal(self) -> None:
        """Complete the statements of dead runs, then run until a run commits nothing.

        The MV must then be complete.
        """
        self.actors = {n: actor for n, actor in self.actors.items() if isinstance(actor, Orphan)}
        while self.actors and not self.wrong:
            self._move(self.rng.choice([*self.actors]))
        for _ in range(BARRIERS_TO_HEAL):
            if self.wrong:
                return
            epoch, plan = self.world.state.epoch, self.world.state.plan
            # A plain run is refused if a full refresh with another query has begun.
            again = plan is not None and plan.kind in REPLACING and plan.wide != self._is_wide
            flow = dbt_run(self.world, wide=self._is_wide, full_refresh=again)
            self.actors["last run"] = run = Run(flow)
            while not run.ended and not self.wrong:
                self._move("last run")
            if self.world.state.epoch == epoch:
                break
        newest = len(self.world.upstream) - 1
        wanted = self.world.prefix(newest, FINISHED)
        if self._is_wide:
            wanted = Counter({(key, Wide(row, row)): n for (key, row), n in wanted.items()})
        if self.world.mv.rows != wanted and not self.wrong:
            self.world.wrong = f"the MV does not heal: the last run was {run.refused}"


Other = Callable[[World], Flow]


def two_barriers(world: World) -> Flow:
    return dbt_run(world, barriers=2)


def a_full_refresh(world: World) -> Flow:
    return dbt_run(world, full_refresh=True)


def abandon_plan_and_run(world: World) -> Flow:
    yield from abandon_plan(world)
    yield from dbt_run(world)


def rescale_and_run(world: World) -> Flow:
    yield from rescale_backfill(world, KEYS[1])
    yield from dbt_run(world)


def random_histories(
    file_format: str, without: Iterable[str] = (), odds: Sequence[Odds] = MIXED
) -> Iterator[History]:
    """Play and yield histories without end."""
    for seed in itertools.count():
        history = History(seed, file_format, without, odds)
        history.play()
        yield history


def all_switches(file_format: str, without: Iterable[str] = ()) -> Iterator[History]:
    """Yield histories in which one run stops before a statement and another run starts.

    The two runs then take turns, see `play_switches`. All statements, all kinds of the second run
    and all pairs of moments are played.
    """
    for other in (two_barriers, a_full_refresh, abandon_plan_and_run, rescale_and_run):
        for stalled in range(LONGEST_RUN):
            for at in itertools.combinations(range(SWITCHED), 2):
                history = History(0, file_format, without)
                if not history.play_switches(stalled, other, at):
                    break
                yield history
