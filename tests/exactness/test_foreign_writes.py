"""Random histories of an MV to which other writers write too.

Between the runs, the upstream changes, runs die at a random statement, maintenance rewrites the
MV, and other writers insert, update and delete its rows, restore the MV, or restore only its state.
After each run that began without a stored plan, the MV is Q(upstream @ S where pk <= current_pos).
If no other writer has written, no run compares the whole MV.

DBT_BACKFILL_WRITTEN=20   the number of histories (default 1)
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from exactness.faults import Scene
from exactness.oracle import describe_difference
from exactness.runners import die_after, die_before, stepping
from support.project import Project

HISTORIES = int(os.environ.get("DBT_BACKFILL_WRITTEN", "1"))
STEPS = 16
FOUND = "something other than its barriers wrote to"

WRITES = (
    "insert into {mv} values (-7, 1, 'x')",
    "insert into {mv} select id_of_row, amount, 'twice' from {mv} where id_of_row % 30 = 0",
    "update {mv} set label = 'other' where id_of_row % 50 = 0",
    "delete from {mv} where id_of_row % 40 = 0",
    "delete from {mv}",
)
MAINTENANCE = {
    "delta": ("optimize {mv}", "vacuum {mv}", "alter table {mv} set tblproperties ('a' = 'b')"),
    "iceberg": (
        "call {catalog}.system.rewrite_data_files(table => '{mv}',"
        " options => map('rewrite-all', 'true'))",
        "alter table {mv} set tblproperties ('a' = 'b')",
    ),
}


class Written:
    """Plays one history and checks it."""

    def __init__(self, project: Project, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scene = Scene(project, f"written_{seed}", rows=60)
        sweeps = {"on_foreign_write": "sweep"} if self.rng.random() < 0.25 else {}
        self.scene.mv.write(backfill_rate_limit=8, **sweeps)
        self.scene.run()
        self.was_written = False
        self.found = 0

    def play(self) -> None:
        acts: list[Callable[[], None]] = [self.scene.commit, self.maintain, self.write, self.die]
        for _ in range(STEPS):
            if self.rng.random() < 0.5:
                self.run()
            else:
                self.rng.choice(acts)()
        for _ in range(20):
            self.run()
            if self.scene.mv.progress().finished and not self.was_written:
                break
        self.run()
        self.scene.mv.check_complete()

    @property
    def _has_plan(self) -> bool:
        return self.scene.mv.planned() is not None

    def maintain(self) -> None:
        project = self.scene.project
        statement = self.rng.choice(MAINTENANCE[project.file_format])
        catalog = project.lake.catalogs[project.file_format]
        project.sql(statement.format(mv=self.scene.mv.table, catalog=catalog))

    def write(self) -> None:
        """Write to the MV. Or restore the MV, or only its state, to the version before a run."""
        project, name = self.scene.project, self.scene.mv.name
        table = self.rng.choice([None, None, name, f"{name}__progress"])
        if table is None or self._has_plan:
            project.sql(self.rng.choice(WRITES).format(mv=self.scene.mv.table))
        else:
            version = project.current_version(table)
            self.scene.commit()
            self.run()
            project.restore(table, version)
        self.was_written = True

    def die(self) -> None:
        """Let a run die before or after one of its statements."""
        with stepping():
            died = self.scene.runner()
            for _ in range(self.rng.randrange(12)):
                if not died.ended:
                    died.advance()
            if died.ended:
                self._look(str(died.finish().output), checks=False)
            else:
                died.advance(self.rng.choice([die_before, die_after]))

    def run(self) -> None:
        had_plan = self._has_plan
        result = self.scene.project.run("--select", self.scene.mv.name)
        self._look(result.output, checks=not had_plan)

    def _look(self, output: str, *, checks: bool) -> None:
        if FOUND in output:
            assert self.was_written, output
            self.found += 1
        if not checks:
            return
        mv = self.scene.mv
        state = mv.progress()
        if state.dirty:
            return
        found = mv.definition.covered(mv.mv_rows(), state.positions)
        wanted = mv.definition.prefix(state.version, state.positions)
        assert found == wanted, describe_difference(found, wanted)
        self.was_written = False


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_what_something_else_has_written_is_repaired(project: Project, seed: int) -> None:
    history = Written(project, seed + 1)
    history.play()
    print(f"{history.found} writes were found")
