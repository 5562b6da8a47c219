"""A client of a Thrift server that several threads may call."""

from __future__ import annotations

import functools
import threading
from typing import Any


class OneCallAtATime:
    """Calls a Thrift client. Each call waits for the answer of the previous call.

    To cancel a statement, dbt's main thread uses the connection over which the model's own thread
    asks for the statement's progress. A client writes to one socket and reads from this socket. If
    two calls run at the same time, one call may read the other call's answer, and the other call
    waits forever.
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
    """Make all cursors of a PyHive connection call the server one at a time."""
    connection._client = OneCallAtATime(connection._client)
