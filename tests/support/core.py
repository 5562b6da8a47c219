"""Choose the core set of tests, which `make test` runs.

    python -m support.core RECORD...    write `tests/recorded/`, from records of all tests

A record is what `pytest --record FILE` writes; see `support/recorder.py`. The core is the cheapest
set found that meets three conditions. Every macro is executed at least once. Every writing
statement of a barrier is sent on each table format on which any test sends it. And every such
statement is killed once. Unit tests are always run. So a macro that they execute needs no other
test, unless it sends statements, which must reach Spark. Tests marked `core(*profiles)` in the
source are always in the core, because a count of macros does not show their value.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.profiles import SESSION_DELTA
from support.recorder import OF_DBT

ROOT = Path(__file__).resolve().parents[2]
MACROS = ROOT / "macros"
RECORDED = ROOT / "tests" / "recorded"
CORE = RECORDED / "core.json"
KILLS = RECORDED / "kills.json"
SECONDS = RECORDED / "seconds.json"
UNCOVERED = RECORDED / "uncovered.txt"
"""A list of macros that no test of the core executes yet. Only remove lines; never add one."""

FAULTS = "tests/exactness/test_fault_matrix.py::test_every_version_is_exact_after_a_fault"
"""The test that records the writing statements of each scenario."""
IN_TURN = f"{FAULTS.removesuffix('a_fault')}runs_that_die_one_after_the_other"
"""The test that kills these statements in the core."""
KILLED_ON = "session-iceberg"
"""The profile on which each writing statement is killed: there a barrier takes half the time."""
KILLED_ON_DELTA = "both one by one"
"""The scenario of an ordinary barrier, whose statements the core also kills on Delta."""
SECONDS_PER_KILL = 12.0
WORTH = 40.0
"""The seconds that a macro is worth if only one test executes it. If that test takes longer, the
macro stays in UNCOVERED."""

UNIT = "tests/unit/"
SENDS = re.compile(r"dbt_backfill\.(run_table|run_json|run_merge)\(|\bcall statement\b")
"""The calls with which a macro sends a statement to Spark."""

_DEFINITION = re.compile(r"{%-?\s*(macro|test|materialization)\s+(\w+)(?:,\s*adapter='(\w+)')?")
_DEFINED = {
    "macro": "{name}",
    "test": "test_{name}",
    "materialization": "materialization_{name}_{adapter}",
}


@dataclass(frozen=True)
class Recorded:
    """A test on a profile: its seconds, what it executes, and the fixtures that it shares."""

    profile: str
    name: str
    seconds: float
    elements: frozenset[str]
    fixtures: frozenset[str]
    is_fixed: bool


@dataclass
class Records:
    tests: list[Recorded] = field(default_factory=list)
    fixture_seconds: dict[str, float] = field(default_factory=dict)
    executed: set[str] = field(default_factory=set)
    """Macros that are executed on Spark, including those that only a fixture executes."""
    rendered: set[str] = field(default_factory=set)
    """Macros that unit tests execute."""
    kills: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """The writing statements of each scenario of the fault matrix, by profile."""

    @property
    def writes(self) -> set[str]:
        """Return the names of the statements with which barriers write."""
        sent = (names for scenarios in self.kills.values() for names in scenarios.values())
        return {name for names in sent for name in names}

    def required(self, test: Recorded) -> frozenset[str]:
        """Return the macros and statements of the test that the core must contain."""
        return frozenset(
            element
            for element in test.elements - self.unit_tested
            if " on " not in element or element.partition(" on ")[0] in self.writes
        )

    @property
    def unit_tested(self) -> set[str]:
        """Return the macros that unit tests execute and that send no statement.

        Such macros need no test on Spark.
        """
        return self.rendered - sending_macros()

    def add(self, record: Mapping[str, Any]) -> None:
        profile = str(record["profile"])
        units = {name: part for name, part in record["tests"].items() if name.startswith(UNIT)}
        for part in units.values():
            self.rendered |= set(part["macros"])
        shared = {}
        for name, part in record["fixtures"].items():
            self.executed |= set(part["macros"])
            self.fixture_seconds[f"{profile} {name}"] = part["seconds"]
            shared[name] = elements_of(part, profile)
        for name, part in record["tests"].items():
            if name in units:
                continue
            self.executed |= set(part["macros"])
            if part["outcome"] != "passed":
                continue
            elements = elements_of(part, profile)
            for fixture in part["fixtures"]:
                elements |= shared.get(fixture, set())
            self.tests.append(
                Recorded(
                    profile,
                    name,
                    part["seconds"],
                    frozenset(elements),
                    frozenset(f"{profile} {fixture}" for fixture in part["fixtures"]),
                    bool(part.get("fixed")),
                )
            )
            if "statements" in part:
                scenario = name.partition("[")[2].removesuffix("]")
                self.kills.setdefault(profile, {})[scenario] = part["statements"]


def core_tests() -> dict[str, list[str]]:
    """Return the recorded core set: the tests of each profile."""
    return _recorded(CORE)


def kills_of(profile: str) -> dict[str, list[str]]:
    """Return the writing statements that the core kills on a profile, by scenario."""
    kills: dict[str, list[str]] = _recorded(KILLS).get(profile, {})
    return kills


def recorded_seconds() -> dict[str, dict[str, float]]:
    """Return the seconds of each test on each profile."""
    return _recorded(SECONDS)


def _recorded(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def elements_of(part: Mapping[str, Any], profile: str) -> set[str]:
    """Return the macros that a test executes, and its statements on the profile's table format."""
    file_format = profile.partition("-")[2]
    steps = {f"{step} on {file_format}" for step in part["steps"] if step != OF_DBT}
    return {*part["macros"], *steps}


def read(files: Iterable[Path]) -> Records:
    records = Records()
    for file in files:
        records.add(json.loads(file.read_text()))
    return records


def choose(records: Records, killing: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the core set by profile.

    It starts with the tests that are always in the core. Then it adds, one by one, the test with
    the most new macros and statements per second. At the end it removes tests that are no longer
    needed.

    :param killing: the tests that kill statements, as `profile name`; they are always in the core
    """

    def is_fixed(test: Recorded) -> bool:
        return test.is_fixed or f"{test.profile} {test.name}" in killing

    required = {id(test): records.required(test) for test in records.tests}
    chosen = [test for test in records.tests if is_fixed(test)]
    covered = {element for test in chosen for element in required[id(test)]}
    paid = {fixture for test in chosen for fixture in test.fixtures}
    left = [
        test
        for test in records.tests
        if not is_fixed(test)
        and test.profile.startswith("session")
        and not test.name.startswith((FAULTS, IN_TURN))
    ]

    def cost(test: Recorded) -> float:
        unpaid = sum(records.fixture_seconds[name] for name in test.fixtures - paid)
        return test.seconds + unpaid + 0.1

    def worth(test: Recorded) -> float:
        return len(required[id(test)] - covered) / cost(test)

    while left:
        best = max(left, key=lambda test: (worth(test), test.name))
        if worth(best) * WORTH < 1:
            break
        chosen.append(best)
        covered |= required[id(best)]
        paid |= best.fixtures
        left.remove(best)
    kept = list(chosen)
    for test in sorted(chosen, key=lambda test: -test.seconds):
        others = {part for other in kept if other is not test for part in required[id(other)]}
        if not is_fixed(test) and required[id(test)] <= others:
            kept.remove(test)
    core: dict[str, list[str]] = {}
    for test in sorted(kept, key=lambda test: (test.profile, test.name)):
        core.setdefault(test.profile, []).append(test.name)
    return core


def choose_kills(statements: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Assign each statement to one scenario that kills the statement.

    Use as few scenarios as possible.
    """
    kills: dict[str, list[str]] = {}
    left = {statement for sent in statements.values() for statement in sent}
    while left:
        scenario = max(statements, key=lambda name: (len(left & set(statements[name])), name))
        kills[scenario] = [name for name in statements[scenario] if name in left]
        left -= set(statements[scenario])
    return kills


def defined_macros(directory: Path = MACROS) -> dict[str, str]:
    """Return every macro as dbt names it, with the file that defines it."""
    found = {}
    for path in sorted(directory.rglob("*.sql")):
        for kind, name, adapter in _DEFINITION.findall(path.read_text()):
            found[_DEFINED[kind].format(name=name, adapter=adapter or "default")] = str(
                path.relative_to(directory)
            )
    return found


@functools.cache
def sending_macros() -> frozenset[str]:
    """Return the macros whose text sends a statement."""
    found = set()
    for path in MACROS.rglob("*.sql"):
        text = path.read_text()
        starts = [*_DEFINITION.finditer(text)]
        for start, end in itertools.zip_longest(starts, starts[1:]):
            body = text[start.start() : end.start() if end else None]
            if SENDS.search(body):
                kind, name, adapter = start.groups()
                found.add(_DEFINED[kind].format(name=name, adapter=adapter or "default"))
    return frozenset(found)


def known_uncovered() -> set[str]:
    return set(UNCOVERED.read_text().splitlines()) if UNCOVERED.exists() else set()


def missing_macros(records: Records) -> list[str]:
    """Return the macros that no recorded test executes as required, as `file: macro`."""
    executed = records.executed | records.unit_tested
    return sorted(
        f"{file}: {name}" for name, file in defined_macros().items() if name not in executed
    )


def write(records: Records) -> None:
    """Write the choice, and the seconds of every test; `make test-all` is divided by them."""
    kills = _recorded(KILLS) | {p: choose_kills(sent) for p, sent in records.kills.items()}
    on_delta = records.kills.get(SESSION_DELTA.name, {}).get(KILLED_ON_DELTA)
    if on_delta is not None:
        kills[SESSION_DELTA.name][KILLED_ON_DELTA] = on_delta
    killed = {KILLED_ON: [*kills.get(KILLED_ON, {})], SESSION_DELTA.name: [KILLED_ON_DELTA]}
    killing = {p: [f"{IN_TURN}[{s}]" for s in scenarios] for p, scenarios in killed.items()}
    core = choose(records, {f"{p} {name}" for p, names in killing.items() for name in names})
    for profile, names in killing.items():
        core[profile] = sorted({*core.get(profile, []), *names})
    seconds: dict[str, dict[str, float]] = {}
    for test in sorted(records.tests, key=lambda test: (test.profile, test.name)):
        seconds.setdefault(test.profile, {})[test.name] = round(test.seconds, 1)
    RECORDED.mkdir(exist_ok=True)
    for file, content in ((CORE, core), (KILLS, kills), (SECONDS, seconds)):
        file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    for profile, names in core.items():
        known = [seconds[profile].get(name, 0.0) for name in names if IN_TURN not in name]
        times = sum(len(kills.get(profile, {}).get(name, ())) for name in killed.get(profile, ()))
        minutes = (sum(known) + times * SECONDS_PER_KILL) / 60
        print(f"{profile}: {len(names)} tests, {times} kills, some {minutes:.1f} minutes")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m support.core")
    parser.add_argument("records", nargs="+", type=Path)
    records = read(parser.parse_args(arguments).records)
    write(records)
    for macro in missing_macros(records):
        print(f"executed by no recorded test: {macro}", file=sys.stderr)


if __name__ == "__main__":
    main()
