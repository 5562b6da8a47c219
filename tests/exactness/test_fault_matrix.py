"""A fault at any statement of any kind of barrier: the MV is exact at every version, and goes on.

A cell is a scenario (a kind of barrier), a statement of its run and what happens to it: the run
dies before it, after it or inside a script; it is sent twice, one after the other or at once; or
the run is stopped before it while others do one or two barriers, and then continues. The statements
are found by a run without a fault. After each fault the upstream changes and a plain run follows;
then every version that the MV has had must be an allowed prefix. Cells that are the same fault are
played once: see `cells_of`.

On Iceberg the run dies after each statement that writes, in every scenario, and on Delta after each
of these statements once, where `tests/recorded/kills.json` says. In `make test` the runs of such a
scenario die one after the other, each at the next statement.

DBT_BACKFILL_FAULTS=all         every cell; a number: so many of each scenario, of those whose
                                statement writes
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
    """The cells to play; `killed` are the statements that are killed here, if not all of them."""
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
        pytest.skip("nothing is killed here")
    Theatre(project, SCENARIOS[scenario], faults).die_in_turn(killed)
