"""Stop the running models when dbt is asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn

GOES_ON = "Nothing is lost; run again to continue"


@dataclass
class Stop:
    """Remembers if dbt was asked to stop, and the progress of each running model.

    A session cannot end a statement early, and dbt waits until each thread ends its model. So a
    model stops between two statements. Such a stop is safe, because a run may end after any
    statement.
    """

    say: Callable[[str], None]
    is_set: bool = False
    _places: dict[Hashable, str] = field(default_factory=dict)

    def set(self) -> None:
        """Let no further statement of a barrier begin."""
        if not self.is_set and self._places:
            self.say("No further statement of a barrier begins; Ctrl-C again ends dbt at once")
        self.is_set = True

    def note(self, thread: Hashable, place: str) -> None:
        """Remember the progress of this thread's model."""
        self._places[thread] = place

    def forget(self, thread: Hashable) -> None:
        """Forget the thread's model, because it has ended."""
        self._places.pop(thread, None)

    def get_text(self, thread: Hashable, step: str, begun: bool) -> str:
        """Return the error of a statement that did not begin, or that was interrupted. The first
        call for a thread also prints the model's progress.

        The progress is printed because dbt does not show the errors of models that dbt has stopped.
        """
        if (place := self._places.pop(thread, None)) is not None:
            self.say(f"{place}. {GOES_ON}")
        return f"stopped {'in the middle of' if begun else 'before'}: {step}. {GOES_ON}"


def interrupt_on_sigterm() -> Callable[[], None]:
    """Let SIGTERM do what Ctrl-C does, unless SIGTERM has a handler already. Return a function that
    restores the previous handler.

    dbt handles only Ctrl-C. Without the handler, SIGTERM would end the process in the middle of a
    statement.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, _interrupt)

    def undo() -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is _interrupt:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    return undo


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
