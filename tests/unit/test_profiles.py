"""The Makefile runs each test somewhere, and on Delta some of each file that moved elsewhere."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.days import DAYS
from support.profiles import (
    PROFILES,
    SESSION_DELTA,
    home_of,
    is_run_on,
    profiles_of,
    turn_of,
)

ROOT = Path(__file__).parents[2]


class Collected:
    """A plugin that keeps what pytest finds."""

    items: list[pytest.Item]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


@pytest.fixture(scope="module")
def items() -> list[pytest.Item]:
    found = Collected()
    suites = [str(ROOT / "tests" / suite) for suite in ("functional", "exactness")]
    options = ["--collect-only", "--quiet", "--all", "-p", "no:cacheprovider"]
    assert pytest.main([*options, f"--rootdir={ROOT}", *suites], plugins=[found]) == 0
    return found.items


def listed(*targets: str) -> Iterator[tuple[str, Path]]:
    """The profiles on which these targets run pytest, with the paths that it is given."""
    command = ["make", "--dry-run", "--no-print-directory", *targets]
    # Of the make that runs these tests.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True
    )
    for line in made.stdout.splitlines():
        words = shlex.split(line) if "-m pytest" in line else []
        named = "--profile" in words
        profile = words[words.index("--profile") + 1] if named else SESSION_DELTA.name
        yield from ((profile, ROOT / word) for word in words if word.startswith("tests/"))


@pytest.fixture(scope="module")
def profiles_by_test(items: list[pytest.Item]) -> dict[pytest.Item, set[str]]:
    """On which profiles each test is run by `make test`, or by `make test-faults`."""
    paths = list(listed("test", "test-faults"))
    assert {profile for profile, _ in paths} == set(PROFILES)
    return {
        item: {
            profile
            for profile, path in paths
            if item.path.is_relative_to(path)
            and profile in profiles_of(item)
            and is_run_on(item, profile)
        }
        for item in items
    }


def test_no_test_is_run_nowhere(profiles_by_test: dict[pytest.Item, set[str]]) -> None:
    assert [item.nodeid for item, profiles in profiles_by_test.items() if not profiles] == []


def test_of_what_is_at_home_on_iceberg_some_is_run_on_delta_too(
    profiles_by_test: dict[pytest.Item, set[str]],
) -> None:
    profiles_by_file: dict[str, set[str]] = defaultdict(set)
    moved = set()
    for item, profiles in profiles_by_test.items():
        profiles_by_file[item.path.name] |= profiles
        if item.get_closest_marker("home") and home_of(item) != SESSION_DELTA.name:
            moved.add(item.path.name)

    assert moved
    assert [file for file in moved if SESSION_DELTA.name not in profiles_by_file[file]] == []


def test_only_what_says_so_waits_for_its_turn_at_home(items: list[pytest.Item]) -> None:
    turns = {item: turn_of(item, home_of(item)) for item in items}
    waiting = {item for item, turn in turns.items() if turn is not None}

    assert waiting == {item for item in items if item.get_closest_marker("in_turn")}
    assert 0 < len(waiting) < len(items) / 4
    numbers = {turn for turn in turns.values() if isinstance(turn, int)}
    assert {number % DAYS for number in numbers} == set(range(DAYS))


def test_elsewhere_a_file_waits_for_its_turn_unless_its_tests_are_daily(
    items: list[pytest.Item],
) -> None:
    for item in items:
        mark = item.get_closest_marker("every_profile")
        if mark is None or item.get_closest_marker("in_turn"):
            continue
        away = next(name for name in PROFILES if name != home_of(item))
        assert turn_of(item, away) == (None if mark.kwargs.get("daily") else item.path.name)
