"""Reports how much the random histories amounted to."""

from __future__ import annotations

import pytest

from exactness.play import Played


class Summary:
    """The histories that were played in this process."""

    def __init__(self) -> None:
        self.played: list[Played] = []

    def add(self, played: Played) -> None:
        self.played.append(played)


summary = Summary()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not summary.played:
        return
    terminalreporter.section("random histories")
    for number, played in enumerate(summary.played, 1):
        terminalreporter.write_line(f"{number}: {played}")
    terminalreporter.write_line(
        f"{len(summary.played)} histories, {sum(p.barriers for p in summary.played)} barriers, "
        f"{sum(p.mv_versions for p in summary.played)} MV versions, all exact"
    )
