"""Measurements as data: values by act and round, their spreads and ratios, and JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SECONDS = "s"
BYTES = "bytes"


@dataclass(frozen=True)
class Spread:
    """The median, the lowest and the highest value of several rounds."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """:raises statistics.StatisticsError: if there are no values"""
        return Spread(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Measured:
    """The values of one act in each round of one run, in `unit`.

    :param base: the act with which it is compared; its ratio is 1
    :param remark: how the value was measured, if the results should mention it
    """

    act: str
    values: tuple[float, ...]
    base: str
    unit: str = SECONDS
    remark: str = ""

    @property
    def spread(self) -> Spread:
        return Spread.of(self.values)


@dataclass(frozen=True)
class Environment:
    """The machine and versions of a run, on which its figures depend."""

    commit: str
    date: str
    machine: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Result:
    """A workload in one table format, measured in one warm session."""

    workload: str
    title: str
    file_format: str
    scale: float
    rows: int
    rounds: int
    warm_up: int
    """The rounds over a small table before the measurement.

    After only a few rounds, a driver still compiles its own code.
    """

    load: float
    """The load of the machine in the minute before the workload, in processes.

    The load may include other work.
    """

    measured: tuple[Measured, ...]
    environment: Environment

    def find(self, act: str, unit: str = SECONDS) -> Measured | None:
        found = [each for each in self.measured if (each.act, each.unit) == (act, unit)]
        return found[0] if found else None

    def ratio(self, act: str, base: str, unit: str = SECONDS) -> Spread | None:
        """Return the ratios of two acts in each round; None if one is missing or the base is 0."""
        one, other = self.find(act, unit), self.find(base, unit)
        if one is None or other is None or 0 in other.values:
            return None
        return Spread.of([a / b for a, b in zip(one.values, other.values, strict=True)])


@dataclass(frozen=True)
class Figure:
    """A ratio of two acts in one run of a workload. The project is judged by such ratios."""

    title: str
    workload: str
    act: str
    base: str
    unit: str = SECONDS

    def of(self, results: Iterable[Result], file_format: str) -> Spread | None:
        for result in results:
            if (result.workload, result.file_format) == (self.workload, file_format):
                return result.ratio(self.act, self.base, self.unit)
        return None


def read(path: Path) -> list[Result]:
    """Return the results in a file; an empty list if the file does not exist."""
    if not path.exists():
        return []
    return [_result(each) for each in json.loads(path.read_text())]


def write(path: Path, results: Sequence[Result]) -> None:
    path.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")


def replaced(
    before: Sequence[Result], fresh: Sequence[Result], order: Sequence[str]
) -> list[Result]:
    """Return all results. Fresh results replace older ones of the same workload and format.

    :param order: the order of the workloads; other workloads are left out
    """
    by_place = {(each.file_format, each.workload): each for each in (*before, *fresh)}
    known = [place for place in by_place if place[1] in order]
    return [by_place[place] for place in sorted(known, key=lambda at: (at[0], order.index(at[1])))]


def _result(plain: dict[str, Any]) -> Result:
    measured = [Measured(**each | {"values": tuple(each["values"])}) for each in plain["measured"]]
    environment = Environment(**plain["environment"])
    return Result(**plain | {"measured": tuple(measured), "environment": environment})
