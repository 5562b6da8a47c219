"""How long each file of tests took, printed at the end of a run."""

from __future__ import annotations

from collections import defaultdict

import pytest

WORTH_PRINTING = 60.0  # seconds of a run


class Shares:
    """Seconds per file; a session's Spark or Thrift server counts for the test that starts it."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._tests: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._seconds[file] += report.duration
        self._tests[file] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """The longest first; none of a run that is over at once."""
        total = sum(self._seconds.values())
        if total < WORTH_PRINTING:
            return []
        lines = [f"{total / 60:.1f} minutes, of these:"]
        for file, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            share = seconds / total
            if share >= 0.01:
                tests = f"{file}, {self._tests[file]} tests"
                lines.append(f"{seconds / 60:5.1f} min {share:5.1%}  {tests}")
        return lines
