"""The barrier protocol as a program: what each statement of a run does to what is committed.

A run observes, plans or adopts a plan, merges changes and range, and commits. What a statement does
follows from nothing else than what stands here, so that random interleavings of several runs can be
played with it and with real runs at once. See docs/barrier.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Plan:
    """The plan of one epoch. Two plans are never the same, even if they say the same."""

    version: int


@dataclass
class World:
    """What the tables hold: the committed epoch and version, the plans, and where the MV is."""

    epoch: int
    version: int
    newest: int
    """The upstream's version."""
    plans: dict[int, Plan] = field(default_factory=dict)
    changes_merged: bool = False
    range_merged: bool = False


@dataclass
class Run:
    """One run of one barrier; `execute` is told what it sends."""

    world: World
    epoch: int = -1
    newest: int = -1
    plan: Plan | None = None

    def execute(self, step: str) -> bool:
        """Whether the run goes on: a statement that is fenced ends it."""
        world = self.world
        if step == "observe the state":
            self.epoch, self.plan = world.epoch, world.plans.get(world.epoch + 1)
        elif step == "read the log of the upstream":
            self.newest = world.newest
        elif step == "plan the barrier":
            self.plan = world.plans.setdefault(self.epoch + 1, Plan(self.newest))
        elif step == "merge the changes of the barrier":
            if self._is_fenced():
                return False
            world.changes_merged = True
        elif step == "merge the range of the barrier":
            if self._is_fenced():
                return False
            world.range_merged = True
        elif step == "commit the barrier" and world.epoch == self.epoch:
            assert self.plan is not None
            world.epoch, world.version = self.epoch + 1, self.plan.version
            world.changes_merged = world.range_merged = False
        return True

    def _is_fenced(self) -> bool:
        planned = self.world.plans.get(self.epoch + 1)
        return self.world.epoch != self.epoch or planned is not self.plan
