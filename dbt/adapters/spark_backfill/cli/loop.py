"""Run barriers in a loop: forever, or until nothing is left to do or a budget is spent."""

from __future__ import annotations

import enum
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from dbt.adapters.spark_backfill.cli.project import ModelResult

SIGNALS = (signal.SIGINT, signal.SIGTERM)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0


class Ending(enum.IntEnum):
    """Why a loop ended; the values are the command's exit codes."""

    CAUGHT_UP = 0
    FAILED = 1
    BUDGET_SPENT = 3
    STOPPED = 130


@dataclass
class StopSignals:
    """The event of the first Ctrl-C or SIGTERM. The second signal ends the process, as usual."""

    notify: Callable[[], None] = lambda: None
    event: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Inside the block, a signal lets the running barrier end, and no further barrier
        begins."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self.listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def listen(self) -> None:
        """Set the handlers. The loop calls this method before each turn, because a Spark session
        that starts in this thread sets its own handler."""
        for number in SIGNALS:
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.event.is_set():
            raise KeyboardInterrupt
        self.event.set()
        self.notify()

    def wait(self, seconds: float) -> bool:
        """Wait up to this time for a signal, and return True if a signal has come."""
        return self.event.wait(max(0.0, seconds))


@dataclass(frozen=True)
class Limits:
    """The limits of a loop that still has work to do; times are in seconds."""

    budget: float | None = None
    every: float | None = None
    """The pause while nothing is left to do; with None, the loop ends instead."""
    retries: int = 5
    """How many runs in a row may fail or wait for a feed. A refused run ends the loop at once."""


def run_loop(
    run: Callable[[], list[ModelResult]],
    limits: Limits,
    stop: StopSignals,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Ending:
    """Call `run` repeatedly: a `dbt run` with one barrier or more per model.

    A failed run is repeated after a pause. The pause doubles each time, up to five minutes. A
    refused run is not repeated: it wrote nothing, and would be refused again. A run that waits for
    a change feed counts as a failed run, except in a loop that never ends (`every`): there, the run
    is repeated after a short pause.
    """
    started, failures = clock(), 0
    while True:
        stop.listen()
        results = run()
        failed = [result for result in results if result.failed]
        if any(result.is_refusal for result in failed):
            return Ending.FAILED
        at_rest = all(result.is_at_rest for result in results)
        waits = not at_rest and all(result.is_at_rest or result.waits for result in results)
        failures = failures + 1 if failed or (waits and limits.every is None) else 0
        if failures > limits.retries:
            return Ending.FAILED
        rest, spent = 0.0, Ending.BUDGET_SPENT
        if failures:
            rest = min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS)
            spent = Ending.FAILED if failed else spent
            report(f"runs again in {rest:.0f} s, for the {_ordinal(failures)} time")
        elif waits:
            rest = FIRST_PAUSE_SECONDS
        elif at_rest:
            if limits.every is None:
                return Ending.CAUGHT_UP
            rest, spent = limits.every, Ending.CAUGHT_UP
        left = None if limits.budget is None else started + limits.budget - clock()
        if stop.wait(rest if left is None else min(rest, left)):
            return Ending.STOPPED
        if left is not None and left <= rest:
            return spent


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
