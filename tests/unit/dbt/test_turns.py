"""Threads take turns at a turnstile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from dbt.adapters.spark_backfill.turns import Turnstile

SECONDS = 10.0


class Models:
    """Threads at one turnstile. The first turn starts after all threads have arrived."""

    def __init__(self) -> None:
        self.turnstile = Turnstile()
        self.order: list[str] = []
        self.threads: list[threading.Thread] = []

    def run(self, *models: tuple[str, int], ends: str = "") -> None:
        """Run models with these numbers of barriers. They arrive at the turnstile in this order.

        :param ends: the name of a model that ends with an error after its first barrier
        """
        self.turnstile.take("nobody")
        for place, (name, barriers) in enumerate(models, start=2):
            self._start(self._make_barriers, name, 1 if name == ends else barriers)
            while len(self.turnstile._queue) < place:
                threading.Event().wait(0.001)
        self.turnstile.leave("nobody")
        self.join()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        self.threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self.threads[-1].start()

    def _make_barriers(self, name: str, barriers: int) -> None:
        try:
            for _ in range(barriers):
                self.turnstile.take(name)
                self.order.append(name)
        finally:
            self.turnstile.leave(name)  # as the connection's release does

    def join(self) -> None:
        for thread in self.threads:
            thread.join(SECONDS)
        assert not [thread for thread in self.threads if thread.is_alive()]


@pytest.fixture
def models() -> Models:
    return Models()


def seen(models: Models) -> str:
    return "".join(models.order)


def test_barriers_alternate(models: Models) -> None:
    models.run(("a", 3), ("b", 3), ("c", 3))
    assert seen(models) == "abcabcabc"


def test_one_that_ends_early_is_waited_for_by_nobody(models: Models) -> None:
    models.run(("a", 3), ("b", 1), ("c", 3))
    assert seen(models) == "abcacac"


def test_an_error_hands_the_turn_on(models: Models) -> None:
    models.run(("a", 3), ("b", 3), ends="a")
    assert seen(models) == "abbb"


def test_one_alone_never_waits() -> None:
    turnstile = Turnstile()
    for _ in range(3):
        turnstile.take("a")
    turnstile.leave("a")
    turnstile.leave("a")
    turnstile.take("b")


def held(turnstile: Turnstile, names: Iterable[str]) -> list[threading.Thread]:
    threads = [threading.Thread(target=turnstile.take, args=(name,)) for name in names]
    for thread in threads:
        thread.daemon = True
        thread.start()
    return threads


def test_once_dbt_is_stopped_nobody_waits() -> None:
    turnstile = Turnstile()
    turnstile.take("a")
    threads = held(turnstile, ["b", "c"])
    threads[0].join(0.05)
    assert all(thread.is_alive() for thread in threads)

    turnstile.open()

    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    turnstile.take("d")
