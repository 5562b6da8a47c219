"""Let models take turns, one barrier each, see the option `take_turns`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable


class Turnstile:
    """Lets one model at a time run a barrier, in the order in which the models asked.

    A model that asks for another turn during its own turn queues after all models that wait. So
    such models alternate, however long each turn takes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[Hashable] = deque()
        self._is_open = False

    def take(self, who: Hashable) -> None:
        """Return when it is the turn of `who`, or immediately if nobody has to wait any more."""
        with self._changed:
            self._remove(who)
            self._queue.append(who)
            self._changed.wait_for(lambda: self._is_open or self._queue[0] == who)

    def leave(self, who: Hashable) -> None:
        """End the turns of `who`: the next model in the queue gets the turn."""
        with self._changed:
            self._remove(who)

    def open(self) -> None:
        """Let all models run: no model has to wait any more."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def _remove(self, who: Hashable) -> None:
        if who in self._queue:
            self._queue.remove(who)
            self._changed.notify_all()
