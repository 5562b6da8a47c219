"""What the demo shows: one line per finished step, and a sign of life while a step runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

HEARTBEAT_SECONDS = 5.0


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
    def working(self, text: str) -> Iterator[None]:
        """Show ``text`` and the time: a spinner on a terminal, a line now and then elsewhere."""
        if self.console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            # What dbt prints goes to the log; rich would bring it back to the screen.
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
