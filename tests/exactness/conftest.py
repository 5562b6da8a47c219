"""Print how many histories, faults, barriers and versions the tests have checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from exactness.crowd import Told
from exactness.faults import Tally
from exactness.play import Played

if TYPE_CHECKING:
    from exactness.live import LiveScene
    from support.postgres import Database
    from support.project import Project
    from support.writers import Table


class Summary:
    """Collects the results of the random histories of this pytest process."""

    def __init__(self) -> None:
        self.played: list[Played] = []

    def add(self, played: Played) -> None:
        self.played.append(played)


@dataclass
class Lived:
    """Counts what the tests with a live PostgreSQL server have checked."""

    committed: int = 0
    barriers: int = 0
    mv_versions: int = 0
    found: list[str] = field(default_factory=list)
    """The errors found by the tests that change the order of the statements.

    Each of these tests must find an error.
    """


summary = Summary()
lived = Lived()
faults = Tally()
told: list[Told] = []
"""The results of the histories in which a key of the upstream appears twice for a while."""


@pytest.fixture
def make_scene(database: Database) -> Iterator[Any]:
    """Yield a function that creates a `LiveScene`.

    After the test, drop the replication slots of all its `LiveScene` objects.
    """
    from exactness.live import LiveScene

    scenes: list[LiveScene] = []

    def make(project: Project, table: Table, **options: Any) -> LiveScene:
        scenes.append(LiveScene(project, database, table, **options))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if faults.cells or faults.missed:
        _report_faults(terminalreporter)
    if summary.played:
        _report_histories(terminalreporter)
    if told:
        _report_twins(terminalreporter)
    if lived.committed:
        _report_live(terminalreporter)


def _report_faults(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("faults")
    for reason, times in faults.stopped.most_common():
        terminalreporter.write_line(f"{times} stalled runs stopped: {reason}")
    for missed in faults.missed:
        terminalreporter.write_line(f"error found without a protection: {missed[:300]}")
    for wrong in faults.wrong:
        terminalreporter.write_line(f"WRONG {wrong}")
    terminalreporter.write_line(str(faults))


def _report_histories(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("random histories")
    for number, played in enumerate(summary.played, 1):
        terminalreporter.write_line(f"{number}: {played}")
    terminalreporter.write_line(
        f"{len(summary.played)} histories, {sum(p.barriers for p in summary.played)} barriers, "
        f"{sum(p.mv_versions for p in summary.played)} MV versions, all exact"
    )


def _report_twins(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("histories in which keys appear twice")
    begun: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for each in told:
        begun += each.kinds
        if each.wrong is not None:
            wrong.update(each.wrong.kinds or ["refusals and errors"])
            terminalreporter.write_line(f"WRONG {str(each.wrong)[:600].splitlines()[0]}")
    for kind in begun | wrong:
        terminalreporter.write_line(f"{kind}: {begun[kind]} times, {wrong[kind]} wrong")
    terminalreporter.write_line(
        f"{len(told)} histories, {sum(e.barriers for e in told)} barriers,"
        f" {sum(e.commits for e in told)} commits, {sum(e.refused for e in told)} runs refused,"
        f" {sum(e.mv_versions for e in told)} MV versions;"
        f" {sum(e.wrong is not None for e in told)} histories wrong"
    )


def _report_live(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("a live database")
    for found in lived.found:
        terminalreporter.write_line(f"error found with a wrong order: {found[:300]}")
    terminalreporter.write_line(
        f"{lived.committed} transactions, {lived.barriers} barriers,"
        f" {lived.mv_versions} MV versions, all exact"
    )
