"""After a fault at any statement of a barrier, the MV stays exact and its backfill continues.

A cell is a scenario (a kind of barrier), a statement of its run, and a fault. There are three kinds
of faults. The run dies before the statement, inside a script, or after the statement. The statement
is sent twice, one after the other or at the same time. The run stops before the statement, other
runs execute one or two barriers, and then the run continues. After each fault the upstream changes
and a run without a fault follows. Then every version of the MV is checked. Equal faults are played
once, see `cells_of`.

On Iceberg a run dies after each writing statement of every scenario. On Delta a run dies after each
of these statements only once, in the scenario that `tests/recorded/kills.json` lists. In `make
test` the runs of such a scenario die one after the other, each after the next statement.

DBT_BACKFILL_FAULTS=all         every cell
DBT_BACKFILL_FAULTS=3           three cells of each scenario, only of statements that write
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from exactness.conftest import faults
from exactness.faults import SCENARIOS, Cell, Theatre
from support.core import kills_of
from support.project import Project

FAULTS = os.environ.get("DBT_BACKFILL_FAULTS")


def chosen(cells: list[Cell], killed: list[str] | None) -> list[Cell]:
    """Return the cells to play. If `killed` is not None, runs die only after these statements."""
    if FAULTS == "all":
        return cells
    writing = [cell for cell in cells if cell.writes]
    if FAULTS is not None:
        return random.Random(cells[0].scenario).sample(writing, min(int(FAULTS), len(writing)))
    deaths = [cell for cell in writing if cell.moment == "after"]
    return [cell for cell in deaths if killed is None or step_of(cell) in killed]


def step_of(cell: Cell) -> str:
    return cell.statement.step if cell.statement else ""


@pytest.mark.every_profile
@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_version_is_exact_after_a_fault(
    project: Project, scenario: str, record_property: Callable[[str, list[str]], None]
) -> None:
    before = len(faults.wrong)
    theatre = Theatre(project, SCENARIOS[scenario], faults)
    cells = theatre.cells()
    written = [step_of(cell) for cell in cells if cell.writes and cell.moment == "after"]
    record_property("statements", [*dict.fromkeys(written)])
    kills = kills_of(project.lake.profile.name)
    once = project.file_format == "delta" and kills
    killed = kills.get(scenario, []) if once else None

    theatre.play(chosen(cells, killed))

    assert faults.wrong[before:] == []


@pytest.mark.profiles("session-delta", "session-iceberg", reason="all runs share one session")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_version_is_exact_after_runs_that_die_one_after_the_other(
    project: Project, scenario: str
) -> None:
    killed = kills_of(project.lake.profile.name).get(scenario)
    if killed is None:
        pytest.skip("no statement of this scenario is killed on this profile")
    Theatre(project, SCENARIOS[scenario], faults).die_in_turn(killed)
