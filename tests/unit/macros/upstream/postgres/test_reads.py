"""What a range of a live table is: the rows that were read, and the events laid over them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

TURN = 2**32


@pytest.fixture
def sees(macros: Macros) -> Callable[[str, int], bool]:
    """Whether a snapshot sees a transaction, by the 32 bits that an event has of its id."""
    database = sqlite3.connect(":memory:")

    def sees(snapshot: str, xid: int) -> bool:
        predicate = macros.call("unseen_predicate", snapshot).replace("__bf_xid", str(xid % TURN))
        return not database.execute(f"select {predicate}").fetchone()[0]

    return sees


@pytest.mark.parametrize(
    ("snapshot", "seen", "unseen"),
    [
        ("100:100:", [1, 99], [100, 101, 2000]),
        ("100:110:100,105", [99, 101, 104, 109], [100, 105, 110]),
        (f"{TURN - 2}:{TURN + 3}:{TURN - 2},{TURN + 1}", [TURN - 3, TURN], [TURN + 1, TURN + 3]),
    ],
)
def test_a_snapshot_sees_what_was_committed_before_it(
    sees: Callable[[str, int], bool], snapshot: str, seen: list[int], unseen: list[int]
) -> None:
    assert [sees(snapshot, xid) for xid in seen] == [True] * len(seen)
    assert [sees(snapshot, xid) for xid in unseen] == [False] * len(unseen)


def test_ids_that_begin_anew_are_compared_as_ahead_or_behind(
    sees: Callable[[str, int], bool],
) -> None:
    chance = random.Random(17)
    for _ in range(300):
        after = chance.choice([3, TURN // 2, TURN - 1, TURN, 7 * TURN, chance.randrange(9 * TURN)])
        running = sorted({max(3, after - chance.randrange(1, 50)) for _ in range(3)})
        snapshot = f"{running[0]}:{after}:{','.join(map(str, running))}"
        xid = max(3, after + chance.choice([-40, -1, 0, 1, 2**31 - 1, 1 - 2**31]))

        assert sees(snapshot, xid) is (xid < after and xid not in running), (snapshot, xid)


def test_an_event_that_does_not_tell_its_transaction_is_looked_at(macros: Macros) -> None:
    assert "__bf_xid is null or" in macros.call("unseen_predicate", "5:5:")


def test_rows_that_were_read_are_read_as_they_were_then(macros: Macros, up: Any) -> None:
    stage = {"relation": "lake.mv__staged", "kind": "delta", "version": "7", "id": "s'1"}

    sql = " ".join(macros.call("get_staged_rows_of_sql", stage, "`id`").split())
    assert sql == "select `id` from lake.mv__staged version as of 7 where __bf_stage = 's\\'1'"
