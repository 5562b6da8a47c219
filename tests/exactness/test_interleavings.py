"""Random interleavings of several runs have the same effect on real tables as in the model.

The model is protocol.py. Up to three runs of one MV send their statements in random order while the
upstream changes. Some runs die, some are full refreshes, and some plans are abandoned. Each real
run must send the same statements as its run of the model, and must end in the same way. After every
statement that writes, the real tables and the model must have the same committed state, the same
plan of the next epoch, and the same rows of the MV. In some histories one statement merges changes
and range, but in others there are two statements. In some histories the query gets a new column,
which is then filled.

DBT_BACKFILL_INTERLEAVINGS=50   the number of histories of each kind (default 1)
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from exactness.faults import Scene
from exactness.oracle import Position
from exactness.protocol import (
    FINISHED,
    NOT_STARTED,
    Plan,
    Run,
    State,
    Wide,
    World,
    abandon_plan,
    dbt_run,
)
from exactness.runners import Runner, Statement, die_before, stepping
from support.project import Project, two_merges

HISTORIES = int(os.environ.get("DBT_BACKFILL_INTERLEAVINGS", "1"))
ACTIONS = 50
RUNS_AT_ONCE = 3

READS = ("observe the state", "read the log of the upstream", "stage the changes")
WRITES = (
    "plan the barrier",
    "alter the columns in the barrier",
    "merge the changes of the barrier",
    "merge the range of the barrier",
    "merge the changes and the range of the barrier",
    "empty the MV in the barrier",
    "re-anchor in the barrier",
    "remove what was given up in the barrier",
    "abandon the plan of the barrier",
    "stop what is on its way in the barrier",
    "commit the barrier",
)
REFUSALS = (
    "another run changed the state while this run",
    "another run committed a barrier while this run was reading the log of",
    # The next two messages refuse a run whose query differs from the query of another run.
    "another run has planned the barrier",
    "its query changed since its last barrier",
)


@dataclass
class Twin:
    """A real run, and the run of the model that must send the same statements."""

    real: Runner
    model: Run
    is_refresh: bool

    def advance(self) -> bool:
        """Send the next statement of both runs. Return true if it may have written something."""
        statement = self.real.next
        assert statement is not None
        expected = self.model.next.step if self.model.next is not None else None
        is_modelled = statement.step == expected
        assert is_modelled or statement.step not in (*READS, *WRITES), f"{statement}: {expected}"
        self.real.advance()
        if is_modelled:
            self.model.send()
        if self.real.ended:
            result = self.real.finish()
            assert self.model.ended, f"the run ended with {statement}: {result.error}"
            assert result.success == (self.model.refused is None), f"{statement}: {result.error}"
            assert result.success or any(why in result.error for why in REFUSALS), result.error
        return statement.step in WRITES


class Interleaving:
    """Plays one history with real tables and with the model at the same time."""

    def __init__(
        self, project: Project, seed: int, on_gap: str = "reanchor", *, widens: bool = False
    ) -> None:
        self.rng = random.Random(seed)
        self.widens = widens
        self.sweeps = on_gap == "sweep"
        self.scene = Scene(project, f"history_{seed}", rows=120)
        self.scene.mv.write(backfill_rate_limit=4, on_gap=on_gap)
        self.scene.run()
        self.world = World(
            project.file_format,
            [],
            self.scene.mv.definition.query.evaluate,
            draw_range=self._planned_range,
        )
        self.see_the_upstream()
        self._see_the_first_barrier()
        self.twins: list[Twin] = []
        self.sent: set[str] = set()

    def see_the_upstream(self) -> None:
        versions = self.scene.upstream.versions
        for version in range(len(self.world.upstream), len(versions)):
            rows = {number: row for (number,), row in versions[version].items()}
            self.world.upstream.append(rows)

    def _see_the_first_barrier(self) -> None:
        version = self.scene.upstream.version
        position = _position(self.scene.mv.progress().positions[0])
        plan = Plan(0, 1, "advance", version, high=position)
        self.world.state = State(1, plan, version, position)
        self.world.mv.rows = self.world.prefix(version, position)

    def _planned_range(self, plan: Plan) -> tuple[float, bool]:
        """Return the end of the planned range, and true if one MERGE writes changes and range.

        The model does not choose these values. So both are read from the real plan.
        """
        planned = self.scene.mv.planned()
        if planned is None:
            return plan.low, False
        if planned["kind"] == "fill":
            return (int(planned["fill_high"][0]) if "fill_high" in planned else FINISHED), False
        high = FINISHED if planned["last_range"] else int(planned["range_high"][0])
        return high, bool(planned.get("at_once"))

    def play(self, actions: int) -> None:
        """Play random actions, and each of the required events at a random moment.

        If an event is not possible at its moment, it happens as soon as it is possible. At the end
        all runs die, and one more run completes their work.
        """
        due = [self.abandon_plan, self.lose_the_feed, self.refresh]
        if self.widens:
            due += [self.widen, self.abandon_plan]
        moments = self.rng.sample(range(actions * 2 // 3), len(due))
        for now in range(actions):
            ready = [n for n, at in enumerate(moments) if at <= now and self._can(due[n])]
            if ready:
                due.pop(ready[0])()
                moments.pop(ready[0])
            else:
                self._act()
        for twin in [*self.twins]:
            self.kill(twin)
        self.finish(self.start())
        # A run first executes an older plan and repairs an abandoned plan. Only later runs begin a
        # fill.
        for _ in range(3 if self.widens else 0):
            if "fill" not in self.executed:
                self.finish(self.start())

    @property
    def executed(self) -> set[str]:
        """Return the kinds of the committed barriers."""
        return {kind for _, kind in self.world.executed.values()}

    def _can(self, act: Callable[[], object]) -> bool:
        state = self.world.state
        if act == self.widen:
            # A re-anchor would fill the whole column in one step. A refresh with the old query
            # would leave an MV without the column.
            is_behind = state.dirty or (state.version or 0) < self.world.feed_from
            is_advance = state.plan is None or state.plan.kind == "advance"
            return not self.refreshes and not is_behind and is_advance
        if self.scene.mv.wide is not None and "fill" not in self.executed:
            return False
        if act == self.abandon_plan:
            return state.plan is not None
        return act != self.refresh or len(self.twins) < RUNS_AT_ONCE

    @property
    def refreshes(self) -> bool:
        return any(twin.is_refresh for twin in self.twins)

    def widen(self) -> None:
        """Add a new column to the query of later runs. Several barriers then fill this column."""
        self.scene.mv.widen()
        self.scene.mv.write(backfill_rate_limit=2)

    def _act(self) -> None:
        chance = self.rng.random()
        if chance < 0.07:
            self.commit()
        elif chance < 0.1 and self.twins:
            self.kill(self.rng.choice(self.twins))
        elif not self.twins or (chance < 0.2 and len(self.twins) < RUNS_AT_ONCE):
            self.start()
        else:
            self.advance(self.rng.choice(self.twins))

    def refresh(self) -> None:
        self.start("--full-refresh")

    def commit(self) -> None:
        self.scene.commit()
        self.see_the_upstream()

    def lose_the_feed(self) -> None:
        self.scene.lose_the_feed()
        self.see_the_upstream()
        self.world.feed_from = self.scene.upstream.version

    def abandon_plan(self) -> None:
        self.scene.project.operation("abandon_plan", model=self.scene.mv.name)
        operation = Run(abandon_plan(self.world))
        while not operation.ended:
            operation.send()
        self.compare()

    def start(self, *arguments: str) -> Twin:
        wide, refresh = self.scene.mv.wide is not None, bool(arguments)
        flow = dbt_run(self.world, full_refresh=refresh, sweeps=self.sweeps, wide=wide)
        self.twins.append(Twin(self.scene.runner(*arguments), Run(flow), refresh))
        return self.twins[-1]

    def kill(self, twin: Twin) -> None:
        twin.real.advance(die_before)
        self.twins.remove(twin)

    def advance(self, twin: Twin) -> None:
        wrote = twin.advance()
        self.sent |= {statement.step for statement, _ in twin.real.sent}
        if twin.real.ended:
            self.twins.remove(twin)
        if wrote:
            self.compare()

    def advance_to(self, twin: Twin, step: str) -> None:
        while twin.real.next != Statement(step):
            self.advance(twin)

    def finish(self, twin: Twin) -> None:
        while not twin.real.ended:
            self.advance(twin)

    def compare(self) -> None:
        mv, state = self.scene.mv, self.world.state
        progress = mv.progress()
        assert (progress.epoch, progress.dirty) == (state.epoch, state.dirty)
        assert progress.version == state.version
        assert {_position(at) for at in progress.positions.values()} == {state.position}
        assert self._seen(mv.planned()) == (
            None if state.plan is None else (state.plan.epoch, state.plan.kind, state.plan.version)
        )
        query = mv.wide if mv.wide and self.world.mv.wide else mv.query
        rows = Counter(_as_shown(row) for _, row in self.world.mv.rows.elements())
        assert mv.mv_rows(query) == rows

    def _seen(self, planned: dict[str, Any] | None) -> tuple[int, str, int | None] | None:
        if planned is None:
            return None
        [source] = planned["sources"]
        version = source.get("version")
        number = None if version is None else self.scene.upstream.stored.number_of(version)
        return planned["epoch"], planned["kind"], number


def _as_shown(row: Any) -> tuple[Any, ...]:
    """Return the row as `with_more` returns it.

    The new column is half of the first column, plus 1.
    """
    if not isinstance(row, Wide):
        return tuple(row)
    return (*row.row, None if row.new is None else row.new[0] // 2 + 1)


def _position(at: Position) -> float:
    if at.finished:
        return FINISHED
    return NOT_STARTED if at.pk is None else float(at.pk[0])


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize(
    ("merges", "on_gap", "widens"),
    [
        (nullcontext, "reanchor", False),
        (two_merges, "reanchor", False),
        (nullcontext, "sweep", False),
        (nullcontext, "reanchor", True),
    ],
    ids=["at once", "one by one", "in slices", "with a column more"],
)
@pytest.mark.profiles("session-delta", reason="all runs share one session")
def test_tables_and_model_agree_after_every_statement(
    project: Project,
    merges: Callable[[], AbstractContextManager[None]],
    on_gap: str,
    widens: bool,
    seed: int,
) -> None:
    with merges():
        interleaving = Interleaving(project, seed, on_gap, widens=widens)
        with stepping():
            interleaving.play(ACTIONS)
    kinds = interleaving.executed
    if widens and "fill" not in kinds:
        pytest.skip("no barrier of this history has filled the column; another seed may")
    interleaving.scene.mv.check()
    assert {"advance", "fill" if widens else "abandon"} <= kinds
    assert ("sweep" in kinds) == (on_gap == "sweep")
    assert ("fill" in kinds) == widens
    if merges is two_merges:
        assert "merge the changes and the range of the barrier" not in interleaving.sent


@pytest.mark.every_profile
@pytest.mark.profiles("session-iceberg", reason="about row lineage")
def test_a_run_finds_the_deletes_of_a_plan_that_read_a_younger_snapshot_than_its_own_log(
    project: Project,
) -> None:
    """A run reads deletes from row lineage only if its log has a snapshot that may delete rows."""
    interleaving = Interleaving(project, 0)
    upstream = interleaving.scene.upstream
    with stepping():
        late = interleaving.start()
        interleaving.advance_to(late, "plan the barrier")
        upstream.commit(upstream.commits.delete(upstream.rows, sorted(upstream.rows)[:2]))
        interleaving.see_the_upstream()
        first = interleaving.start()
        interleaving.advance_to(first, "plan the barrier")
        interleaving.advance(first)
        interleaving.kill(first)
        interleaving.finish(late)
    interleaving.scene.mv.check()
