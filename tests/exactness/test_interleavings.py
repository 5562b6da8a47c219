"""Random interleavings of several runs do to real tables what the model of the protocol says.

Up to three runs of one MV are moved statement by statement, in random order, while the upstream
changes; some die. After every statement the committed epoch and version, the plan of the next epoch
and the MV must be those of the model, and whether the run goes on, too. Changes and range are
merged by one statement in one half of the histories, and by two in the other.

DBT_BACKFILL_INTERLEAVINGS=50   how many histories of each kind (1)
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import pytest

from exactness.faults import Scene
from exactness.protocol import MERGES, Run, World
from exactness.runners import Runner, die_before, stepping
from support.project import Project, two_merges

HISTORIES = int(os.environ.get("DBT_BACKFILL_INTERLEAVINGS", "1"))
ACTIONS = 60
RUNS_AT_ONCE = 3


@dataclass
class Twin:
    """A real run and the model's."""

    real: Runner
    model: Run

    def advance(self) -> None:
        """The next statement, of both."""
        statement = self.real.next
        assert statement is not None
        goes_on = self.model.execute(statement.step)
        self.real.advance()
        if not goes_on:
            self._look_why(statement.step)
            assert self.real.ended, f"{statement} was not fenced"
        if self.real.ended:
            result = self.real.finish()
            assert result.success == goes_on, f"{statement}: {result.error}"
            assert goes_on or "another run went on while this one" in result.error, result.error

    def _look_why(self, step: str) -> None:
        """A plan that was adopted may be given up: then the run reads the state before it ends."""
        again = self.real.next
        if step in MERGES and again is not None and again.step == "observe the state":
            self.real.advance()


class Interleaving:
    """A history, played in both worlds."""

    def __init__(self, project: Project, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scene = Scene(project, f"history_{seed}", rows=120)
        self.scene.mv.write(backfill_rate_limit=4)
        self.scene.run()
        self.world = World(epoch=1, version=self.newest, newest=self.newest)
        self.twins: list[Twin] = []
        self.sent: set[str] = set()

    @property
    def newest(self) -> int:
        return self.scene.upstream.version

    def play(self) -> None:
        for _ in range(ACTIONS):
            chance = self.rng.random()
            if chance < 0.08:
                self.scene.commit()
                self.world.newest = self.newest
            elif chance < 0.11 and self.twins:
                self.rng.choice(self.twins).real.advance(die_before)
            elif not self.twins or (chance < 0.2 and len(self.twins) < RUNS_AT_ONCE):
                self.twins.append(Twin(self.scene.runner(), Run(self.world)))
            else:
                self.rng.choice(self.twins).advance()
                self.compare()
            for twin in self.twins:
                self.sent |= {statement.step for statement, _ in twin.real.sent}
            self.twins = [twin for twin in self.twins if not twin.real.ended]

    def compare(self) -> None:
        mv, world = self.scene.mv, self.world
        progress = mv.progress()
        assert (progress.epoch, progress.version) == (world.epoch, world.version)
        planned, plan = mv.planned(), world.plan
        assert (planned is None) == (plan is None)
        if planned is not None and plan is not None:
            [source] = planned["sources"]
            assert (planned["epoch"], source["version"]) == (world.epoch + 1, str(plan.version))
        if "range" in world.merged:
            return  # where its range ends is known once it is committed; see `check` below
        version = plan.version if plan is not None and "changes" in world.merged else world.version
        assert mv.mv_rows() == mv.definition.prefix(version, progress.positions)


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("merges", [nullcontext, two_merges], ids=["at once", "one by one"])
@pytest.mark.profiles("session-delta", reason="the model reads Delta's log apart from the state")
def test_tables_and_model_agree_after_every_statement(
    project: Project, merges: Callable[[], AbstractContextManager[None]], seed: int
) -> None:
    with merges():
        interleaving = Interleaving(project, seed)
        with stepping():
            interleaving.play()
        interleaving.scene.run()
    interleaving.scene.mv.check()
    if merges is two_merges:
        assert "merge the changes and the range of the barrier" not in interleaving.sent
