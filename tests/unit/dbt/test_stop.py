"""The effect of SIGTERM on a dbt that runs with the adapter."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dbt.adapters.spark_backfill.stop import interrupt_on_sigterm


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """Give SIGTERM its default handler before the test; restore the handler after it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.getsignal(signal.SIGTERM)  # Python calls a handler between two instructions


def test_it_is_a_ctrl_c_until_the_invocation_ends() -> None:
    undo = interrupt_on_sigterm()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            terminate()
    undo()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_who_listens_already_is_left_alone() -> None:
    heard: list[int] = []

    def hear(number: int, frame: Any) -> None:
        heard.append(number)

    signal.signal(signal.SIGTERM, hear)
    undo = interrupt_on_sigterm()
    terminate()
    undo()
    assert signal.getsignal(signal.SIGTERM) is hear
    assert heard == [signal.SIGTERM]


def test_what_came_to_listen_since_is_left_alone() -> None:
    undo = interrupt_on_sigterm()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    undo()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_in_another_thread_than_the_main_one_nothing_listens() -> None:
    thread = threading.Thread(target=lambda: interrupt_on_sigterm()())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
