"""What a run of tests says of the time that it took."""

from __future__ import annotations

import pytest

from support.shares import Shares


def _report(test: str, when: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=test,
        location=("", None, ""),
        keywords={},
        outcome="passed",
        longrepr=None,
        when=when,  # type: ignore[arg-type]
        duration=seconds,
    )


@pytest.fixture
def shares() -> Shares:
    shares = Shares()
    for test, seconds in [("a.py::test_1", 30.0), ("b.py::test_2", 89.0), ("a.py::test_3", 60.0)]:
        for when, duration in [("setup", 0.0), ("call", seconds), ("teardown", 0.5)]:
            shares.pytest_runtest_logreport(_report(test, when, duration))
    return shares


def test_files_are_told_with_their_share_the_longest_first(shares: Shares) -> None:
    assert shares.lines() == [
        "3.0 minutes, of these:",
        "  1.5 min 50.4%  a.py, 2 tests",
        "  1.5 min 49.6%  b.py, 1 tests",
    ]


def test_a_run_of_less_than_a_minute_tells_nothing() -> None:
    shares = Shares()
    shares.pytest_runtest_logreport(_report("a.py::test_1", "call", 59.0))

    assert shares.lines() == []
