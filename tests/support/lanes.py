"""Run the tests of all profiles in two parallel processes, and print one summary line at the end.

    python -m support.lanes core                  what `make test` runs
    python -m support.lanes all [--shard 1/4]     what `make test-all` runs

Each profile has its own pytest process (a lane). The profile with the slowest tests has two
processes. The Spark session or the Thrift server lives as long as its process. Spark plans the
small statements of the tests on one core, so two lanes keep two cores busy. The output of a lane is
printed at its end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from support import core
from support.profiles import PROFILES

LANES = 2
RECORDS = core.ROOT / ".records"
SUITES = ("tests/functional", "tests/exactness")
LONGEST = "session-iceberg"
NO_TEST = 5
"""pytest's exit code if it has run no test, for example a shard that has no test of a profile."""


@dataclass(frozen=True)
class Lane:
    """One pytest process."""

    name: str
    arguments: tuple[str, ...]
    record: Path

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "pytest", *self.arguments, "--record", str(self.record)]


def lanes_of(which: str, shard: str | None) -> list[Lane]:
    """Return the lanes, the longest one first. The unit tests belong to the first shard."""
    directory = RECORDS / which
    chosen = ("-m", "core") if which == "core" else ()
    lanes = []
    for profile in sorted(PROFILES, key=lambda name: -_seconds(name, which)):
        in_parts = shard is None and profile == LONGEST
        for part in ("1/2", "2/2") if in_parts else (shard,):
            name = profile if part is None else f"{profile} {part}"
            of_part = () if part is None else ("--shard", part)
            record = directory / f"{name.replace(' ', '-').replace('/', 'of')}.json"
            lanes.append(Lane(name, (*SUITES, "--profile", profile, *chosen, *of_part), record))
    if lanes[1].name.startswith(LONGEST):  # the parts of a profile do not run in parallel
        lanes[1:3] = reversed(lanes[1:3])
    if shard is None or shard.startswith("1/"):
        lanes.append(Lane("unit", ("tests/unit",), directory / "unit.json"))
    return lanes


def _seconds(profile: str, which: str) -> float:
    recorded = core.recorded_seconds().get(profile, {})
    names = core.core_tests().get(profile, []) if which == "core" else recorded
    return sum(recorded.get(name, 0.0) for name in names)


def run(lane: Lane) -> int:
    started = time.monotonic()
    lane.record.parent.mkdir(parents=True, exist_ok=True)
    lane.record.unlink(missing_ok=True)
    done = subprocess.run(
        lane.command, cwd=core.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    minutes = (time.monotonic() - started) / 60
    print(f"\n===== {lane.name}, {minutes:.1f} minutes =====\n{done.stdout}", flush=True)
    return 0 if done.returncode == NO_TEST else done.returncode


def count(lanes: Sequence[Lane], exit_codes: Sequence[int]) -> Counter[str]:
    """Return the number of tests by outcome.

    A lane that failed without a failed test counts as an error.
    """
    counts: Counter[str] = Counter()
    for lane, exit_code in zip(lanes, exit_codes, strict=True):
        tests = json.loads(lane.record.read_text())["tests"] if lane.record.exists() else {}
        outcomes = Counter(test["outcome"] for test in tests.values())
        counts += outcomes
        counts["error"] += bool(exit_code and not outcomes["failed"])
    return counts


def walks(lanes: Sequence[Lane]) -> list[str]:
    """Return the macros and files that a reader of one barrier opens, as `test_walk.py` counts."""
    lines = []
    for lane in lanes:
        tests = json.loads(lane.record.read_text())["tests"] if lane.record.exists() else {}
        for walk in (test["walk"] for test in tests.values() if "walk" in test):
            figures = ", ".join(f"{count:,} {name}" for name, count in walk.items())
            lines.append(f"one barrier on {lane.name.partition(' ')[0]}: {figures}")
    return lines


def summary(counts: Counter[str], seconds: float) -> str:
    """Return the text of pytest's last line."""
    names = {"failed": "failed", "passed": "passed", "skipped": "skipped", "error": "error"}
    said = [f"{counts[name]} {text}" for name, text in names.items() if counts[name]]
    whole = f" {', '.join(said) or 'no tests ran'} in {seconds:.2f}s "
    return f"{whole:=^100}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m support.lanes")
    parser.add_argument("which", choices=("core", "all"))
    parser.add_argument("--shard", metavar="I/N")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    lanes = lanes_of(given.which, given.shard or None)
    with ThreadPoolExecutor(LANES) as pool:
        exit_codes = list(pool.map(run, lanes))
    counts = count(lanes, exit_codes)
    if given.which == "core" and not counts["failed"] and not counts["error"]:
        missing = set(core.missing_macros(core.read(lane.record for lane in lanes)))
        known = core.known_uncovered()
        for macro in sorted(missing - known):
            print(f"no test of the core executes this macro: {macro}")
        for macro in sorted(known - missing):
            print(f"remove this macro from {core.UNCOVERED.name}, a test executes it now: {macro}")
        counts["error"] += bool(missing - known)
        for line in walks(lanes):
            print(line)
    print(summary(counts, time.monotonic() - started), flush=True)
    return 1 if counts["failed"] or counts["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
