"""Seconds of the steps of a benchmark, and of the statements that a barrier sends."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable

import lineitem  # noqa: F401  puts the folder of `support` on the path
from rich.table import Table

from support.project import step_of


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


class Clock:
    """Seconds of each statement of the materialization, by the step in its comment."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def intercept(self, sql: str, proceed: Callable[[], None]) -> None:
        step = re.sub(r" \d+$", "", step_of(sql) or "dbt's own")
        self.seconds[step].append(timed(proceed))

    def table(self, runs: int, seconds: float, unit: float, unit_name: str) -> Table:
        """Return each step's mean seconds over ``runs`` runs, also as multiples of ``unit``."""
        steps = Table("statement", "times", "seconds in a run", unit_name)
        total = 0.0
        for step, took in sorted(self.seconds.items(), key=lambda item: -sum(item[1])):
            each = sum(took) / runs
            total += each
            steps.add_row(step, f"{len(took) / runs:.1f}", f"{each:.2f}", f"{each / unit:.2f}")
        rest = seconds - total
        steps.add_row("dbt, and fetching", "", f"{rest:.2f}", f"{rest / unit:.2f}")
        return steps
