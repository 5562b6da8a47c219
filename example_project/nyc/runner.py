"""dbt in this process."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from dbt.cli.main import dbtRunner


class StepError(Exception):
    """A step failed; the message is dbt's own."""


class Dbt:
    """Runs dbt commands, and keeps the lines that their macros log with ``info=true``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.interrupted = False
        self.runner = dbtRunner(callbacks=[self._keep_line])

    def _keep_line(self, event: Any) -> None:
        if event.info.name == "JinjaLogInfo":
            self.lines.append(event.info.msg)

    def invoke(self, *arguments: str) -> Any:
        """Run a dbt command and return its result; ``self.lines`` holds what it logged.

        Raises ``StepError`` with dbt's message if it failed, ``KeyboardInterrupt`` on Ctrl-C.
        """
        self.lines = []
        outcome = self.runner.invoke(["--quiet", *arguments])
        if isinstance(outcome.exception, KeyboardInterrupt):
            raise KeyboardInterrupt
        if not outcome.success:
            results = getattr(outcome.result, "results", [])
            messages = [result.message for result in results if result.status != "success"]
            raise StepError("\n".join(filter(None, messages)) or str(outcome.exception))
        return outcome.result

    def watch_interrupts(self) -> None:
        """Record Ctrl-C in ``self.interrupted``. Call it again after Spark has set a handler.

        A statement that Ctrl-C cancels ends in an error of Spark, which does not mention Ctrl-C.
        """
        previous = signal.getsignal(signal.SIGINT)

        def note(number: int, frame: FrameType | None) -> None:
            self.interrupted = True
            if callable(previous):
                previous(number, frame)

        signal.signal(signal.SIGINT, note)

    def reuse_manifest(self) -> None:
        """Parse once; every later command starts from this manifest."""
        self.runner = dbtRunner(manifest=self.invoke("parse"), callbacks=[self._keep_line])

    def operation(self, name: str, arguments: str = "{}") -> str:
        self.invoke("run-operation", name, "--args", arguments)
        return " ".join(self.lines)
