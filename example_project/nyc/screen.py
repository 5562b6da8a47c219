"""The output of the demo: a line for each finished step, and the time while a step runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

HEARTBEAT_SECONDS = 5.0
COLUMNS = 80


def take_over_output(log: Path) -> Console:
    """Return a console that prints to the real output.

    The output of Spark and Ivy goes to the file `log`.
    """
    log.parent.mkdir(exist_ok=True)
    sys.stdout.flush()
    terminal = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    width = min(COLUMNS, Console(file=terminal).width)
    return Console(file=terminal, width=width, highlight=False)


class Screen:
    """Prints to ``console``, which may be a terminal or a file."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def heading(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def line(self, text: str, *, seconds: float | None = None, style: str = "") -> None:
        """Print ``text``, indented and wrapped, with ``seconds`` at the right edge."""
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(ratio=1)
        grid.add_column(justify="right", width=7)
        duration = "" if seconds is None else f"{seconds:.1f} s"
        grid.add_row("", Text(text, style=style), Text(duration, style="dim"))
        self.console.print(grid)

    @contextmanager
    def step(self, doing: str) -> Iterator[list[str]]:
        """Show ``doing`` while the block runs, then the lines that the block has appended."""
        begun = time.monotonic()
        lines: list[str] = []
        with self.working(doing):
            yield lines
        seconds: float | None = time.monotonic() - begun
        for line in lines:
            self.line(line, seconds=seconds)
            seconds = None

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show ``text`` and the time: a spinner on a terminal, an occasional line elsewhere."""
        if self.console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            # The output of dbt goes to the log. By default rich would print it on the screen.
            with Progress(
                *columns,
                console=self.console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as progress:
                progress.add_task(text)
                yield
            return
        done = threading.Event()
        begun = time.monotonic()

        def beat() -> None:
            while not done.wait(HEARTBEAT_SECONDS):
                self.line(f"... {text} ({time.monotonic() - begun:.0f} s)", style="dim")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
