"""A client of a Thrift server that several threads may call."""

from __future__ import annotations

import functools
import threading
from typing import Any


class OneCallAtATime:
    """Calls a Thrift client; each call waits for the answer of the previous one.

    dbt's main thread cancels a statement over the connection by which the model's own thread asks
    for its progress. A client writes to and reads from one socket. If two calls run at once, one
    may read the other's answer, and the other one waits forever.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        @functools.wraps(call)
        def alone(*args: Any) -> Any:
            with self._lock:
                return call(*args)

        return alone


def let_threads_share(connection: Any) -> None:
    """Have all cursors of a PyHive connection call one at a time."""
    connection._client = OneCallAtATime(connection._client)
