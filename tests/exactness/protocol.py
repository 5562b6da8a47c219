"""The barrier protocol as a program: what each statement of a run does to what is committed.

A run observes, plans or adopts a plan, merges changes and range, by one statement or by two, and
commits. What a statement does follows from nothing else than what stands here, so that random
interleavings of several runs can be played with it and with real runs at once. See docs/barrier.md.

All state is one table, and each of its transitions is one statement with a guard on its own rows:

    plan      where epoch = k and plan is null
    commit    where epoch = k and plan is mine
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Plan:
    """The plan of one epoch. Two plans are never the same, even if they say the same."""

    version: int


MERGES = {
    "merge the changes of the barrier": ("changes",),
    "merge the range of the barrier": ("range",),
    "merge the changes and the range of the barrier": ("changes", "range"),
}
"""The statements on the MV, and what each merges."""


@dataclass
class World:
    """What the tables hold: the committed epoch and version, the plan, and where the MV is."""

    epoch: int
    version: int
    newest: int
    """The upstream's version."""
    plan: Plan | None = None
    """That of the next epoch."""
    merged: frozenset[str] = frozenset()
    """What of the plan is in the MV."""


@dataclass
class Run:
    """One run of one barrier; `execute` is told what it sends."""

    world: World
    epoch: int = -1
    newest: int = -1
    plan: Plan | None = None

    def execute(self, step: str) -> bool:
        """Whether the run goes on: it ends where it finds that another one went on."""
        world = self.world
        if step == "observe the state":
            self.epoch, self.plan = world.epoch, world.plan
        elif step == "read the log of the upstream":
            self.newest = world.newest
        elif step == "plan the barrier":
            if world.epoch == self.epoch and world.plan is None:
                world.plan = Plan(self.newest)
            self.plan = world.plan
            return world.epoch == self.epoch
        elif step in MERGES:
            if not self._stands():
                return False  # its fence raises an error
            world.merged |= {*MERGES[step]}
        elif step == "commit the barrier" and self._stands():
            assert self.plan is not None
            world.epoch, world.version = self.epoch + 1, self.plan.version
            world.plan, world.merged = None, frozenset()
        return True

    def _stands(self) -> bool:
        """Whether the plan that it executes is the one of the next epoch."""
        return self.world.epoch == self.epoch and self.world.plan is self.plan
