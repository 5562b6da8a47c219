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

Without DBT_BACKFILL_FAULTS the boundaries are played of a third of the scenarios on Iceberg, each
day of another one (see `support/days.py`), and of some on Delta.
"""

from __future__ import annotations

import os
import random

import pytest

from exactness.conftest import faults
from exactness.faults import SCENARIOS, Cell, Theatre
from support.days import is_turn_of, today
from support.project import Project

FAULTS = os.environ.get("DBT_BACKFILL_FAULTS")
ON_DELTA_TOO = ("both", "both one by one")


def chosen(cells: list[Cell]) -> list[Cell]:
    if FAULTS == "all":
        return cells
    writing = [cell for cell in cells if cell.writes]
    if FAULTS is None or FAULTS == "boundaries":
        return [cell for cell in writing if cell.moment == "after"]
    return random.Random(cells[0].scenario).sample(writing, min(int(FAULTS), len(writing)))


def is_of_today(scenario: str, file_format: str) -> bool:
    if FAULTS is not None:
        return True
    if file_format == "delta":
        return scenario in ON_DELTA_TOO
    return is_turn_of(list(SCENARIOS).index(scenario))


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_version_is_exact_after_a_fault(project: Project, scenario: str) -> None:
    if not is_of_today(scenario, project.file_format):
        pytest.skip("takes long: another day, or with DBT_BACKFILL_FAULTS")
    before, faults.day = len(faults.wrong), today()
    theatre = Theatre(project, SCENARIOS[scenario], faults)

    theatre.play(chosen(theatre.cells()))

    assert faults.wrong[before:] == []
