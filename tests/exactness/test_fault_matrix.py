"""A fault at any statement of any kind of barrier: the MV is exact at every version, and goes on.

A cell is a scenario (a kind of barrier), a statement of its run and what happens to it: the run
dies before it, after it or inside a script; it is sent twice, one after the other or at once; or
the run is stopped before it while others do one or two barriers, and then let go. The statements
are found by a run without a fault. After each fault the upstream changes and a plain run follows;
then every version that the MV has had must be an allowed prefix. Cells that are the same fault are
played once: see `cells_of`.

DBT_BACKFILL_FAULTS=boundaries  the run dies between any two statements that write
DBT_BACKFILL_FAULTS=all         every cell; a number: so many of each scenario, of those whose
                                statement writes
DBT_BACKFILL_SEED=2026-11-25    another third of the boundaries than today's

Without DBT_BACKFILL_FAULTS a third of the boundaries is played, in all scenarios on Iceberg and in
some on Delta: each day another one, so that in a week nearly all are.
"""

from __future__ import annotations

import os
import random
from datetime import date

import pytest

from exactness.conftest import faults
from exactness.faults import SCENARIOS, Cell, Theatre
from support.project import Project

FAULTS = os.environ.get("DBT_BACKFILL_FAULTS", "third")
SEED = os.environ.get("DBT_BACKFILL_SEED", str(date.today()))
ON_DELTA_TOO = ("both", "both one by one")


def chosen(cells: list[Cell]) -> list[Cell]:
    if FAULTS == "all":
        return cells
    writing = [cell for cell in cells if cell.writes]
    if FAULTS in ("boundaries", "third"):
        boundaries = [cell for cell in writing if cell.moment == "after"]
        count = len(boundaries) if FAULTS == "boundaries" else len(boundaries) // 3 + 1
        return random.Random(f"{SEED} {cells[0].scenario}").sample(boundaries, count)
    return random.Random(cells[0].scenario).sample(writing, min(int(FAULTS), len(writing)))


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_version_is_exact_after_a_fault(project: Project, scenario: str) -> None:
    if FAULTS == "third" and project.file_format == "delta" and scenario not in ON_DELTA_TOO:
        pytest.skip("takes long: see --profile session-iceberg, or DBT_BACKFILL_FAULTS=all")
    before, faults.seed = len(faults.wrong), SEED
    theatre = Theatre(project, SCENARIOS[scenario], faults)

    theatre.play(chosen(theatre.cells()))

    assert faults.wrong[before:] == []
