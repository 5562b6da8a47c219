"""An upstream and the positions of its vnodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from support.duck import Duck


@pytest.fixture
def make_lake(duck: Duck) -> Callable[..., Duck]:
    """Create an upstream and a progress table. A vnode's position is a key, None for NotStarted, or
    "end".
    """

    def make_lake(keys: Iterable[Any], positions: Iterable[Any]) -> Duck:
        key_types = {"id": "bigint", "shard": "int"}
        duck.create("lake.up", key_types, keys)
        duck.create(
            "lake.mv__progress",
            {"vnode": "int", **key_types, "backfill_finished": "boolean"},
            [
                (vnode, *(place if isinstance(place, tuple) else (None, None)), place == "end")
                for vnode, place in enumerate(positions)
            ],
        )
        return duck

    return make_lake
