"""Two threads call one Thrift client at the same time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from dbt.adapters.spark_backfill.one_call import let_threads_share


class _Client:
    """A call fails if it begins during another call, as two calls on one socket do."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def GetOperationStatus(self, request: int) -> int:
        if not self._busy.acquire(blocking=False):
            raise AssertionError("reads the answer of another call")
        try:
            time.sleep(0.002)
            if request < 0:
                raise ConnectionError("the server has gone")
            return request + 1
        finally:
            self._busy.release()


def test_one_call_begins_after_the_other_has_its_answer() -> None:
    connection = SimpleNamespace(_client=_Client())
    let_threads_share(connection)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(connection._client.GetOperationStatus, range(40)))
    assert answers == list(range(1, 41))


def test_a_call_that_fails_leaves_the_client_to_others() -> None:
    connection = SimpleNamespace(_client=_Client())
    let_threads_share(connection)
    with pytest.raises(ConnectionError, match="has gone"):
        connection._client.GetOperationStatus(-1)
    assert connection._client.GetOperationStatus(1) == 2
