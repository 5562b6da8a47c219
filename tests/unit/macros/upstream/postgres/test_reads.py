"""What a range of a live table is: the rows that were read, and the events laid over them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

TURN = 2**32


SINCE = 1000
DECLARED = {"format": "declared"}


@pytest.fixture
def sees(macros: Macros) -> Callable[..., bool]:
    """Whether who reads after a snapshot sees a transaction, by what an event tells of it: the 32
    bits of its id, and a position, here one that had landed before."""
    database = sqlite3.connect(":memory:")

    def sees(snapshot: str, xid: int, position: int = SINCE, renewed: int | None = None) -> bool:
        noted = {"snapshot": snapshot, "since": SINCE, "renewed": renewed}
        predicate = macros.call("unseen_predicate", DECLARED, noted)
        for name, value in {"__bf_xid": xid % TURN, "__bf_position": position}.items():
            predicate = predicate.replace(name, str(value))
        return not database.execute(f"select {predicate}").fetchone()[0]

    return sees


@pytest.mark.parametrize(
    ("snapshot", "seen", "unseen", "later"),
    [
        ("100:100::100", [1, 99], [], [100, 101, 2000]),
        ("100:110:100,105:110", [99, 101, 104, 109], [100, 105], [110, 2000]),
        # Of an id after the last one that has ended nothing says whether it was given.
        ("100:100::103", [99], [100, 102], [103, 2000]),
        ("100:100::98", [97, 99], [], [100]),
        (
            f"{TURN - 2}:{TURN + 3}:{TURN - 2},{TURN + 1}:{TURN + 5}",
            [TURN - 3, TURN],
            [TURN - 2, TURN + 1, TURN + 3, TURN + 4],
            [TURN + 5, TURN + 2000],
        ),
    ],
)
def test_a_reader_sees_what_was_committed_before(
    sees: Callable[..., bool], snapshot: str, seen: list[int], unseen: list[int], later: list[int]
) -> None:
    """What had landed by then is of an open transaction, held back by a standby, or it is seen:
    the same ids of 2^32 transactions ago are."""
    told = {xid: (sees(snapshot, xid), sees(snapshot, xid, SINCE + 1)) for xid in seen}
    assert told == dict.fromkeys(seen, (True, True))
    told = {xid: (sees(snapshot, xid), sees(snapshot, xid, SINCE + 1)) for xid in unseen}
    assert told == dict.fromkeys(unseen, (False, False))
    told = {xid: (sees(snapshot, xid), sees(snapshot, xid, SINCE + 1)) for xid in later}
    assert told == dict.fromkeys(later, (True, False))


def test_ids_that_begin_anew_are_compared_as_ahead_or_behind(sees: Callable[..., bool]) -> None:
    chance = random.Random(17)
    for _ in range(300):
        after = chance.choice([3, TURN // 2, TURN - 1, TURN, 7 * TURN, chance.randrange(9 * TURN)])
        running = sorted({max(3, after - chance.randrange(1, 50)) for _ in range(3)})
        next_one = after + chance.choice([-2, 0, 1, 7])
        snapshot = f"{running[0]}:{after}:{','.join(map(str, running))}:{next_one}"
        xid = max(3, after + chance.choice([-40, -1, 0, 1, 2**31 - 1, 1 - 2**31]))

        was_open = xid in running or after <= xid < next_one
        assert sees(snapshot, xid) is not was_open, (snapshot, xid)
        assert sees(snapshot, xid, SINCE + 1) is (xid < after and not was_open), (snapshot, xid)


def test_an_id_with_its_epoch_is_of_one_transaction(macros: Macros) -> None:
    """Not of the one of 2^32 transactions ago, whose events were kept."""
    snapshot = f"{TURN + 5}:{TURN + 9}:{TURN + 5}:{TURN + 11}"
    noted = {"snapshot": snapshot, "since": SINCE, "renewed": None}
    predicate = macros.call("unseen_predicate", {"format": "landed"}, noted)
    database = sqlite3.connect(":memory:")

    def sees(xid: int, position: int) -> bool:
        named = f"select {xid} as __bf_xid, {position} as __bf_position"
        return not database.execute(f"select {predicate} from ({named})").fetchone()[0]

    told = {5: True, TURN + 5: False, TURN + 6: True, 9: True, TURN + 10: False, TURN + 11: True}
    assert {xid: sees(xid, SINCE) for xid in told} == told
    assert not sees(TURN + 11, SINCE + 1)
    assert sees(11, SINCE + 1)


def test_ids_of_another_history_do_not_count(sees: Callable[..., bool]) -> None:
    for snapshot in ("90:100:90:100", "90:90::91"):
        assert sees(snapshot, 90, position=SINCE - 1, renewed=SINCE)
        assert not sees(snapshot, 90, position=SINCE, renewed=SINCE)


def test_an_event_of_debezium_has_its_own_place_in_the_wal(macros: Macros) -> None:
    """Its position is that of the commit before, and none is known after a snapshot."""
    noted = {"snapshot": "5:5::5", "since": 7, "renewed": None}
    predicate = macros.call("unseen_predicate", {"format": "debezium"}, noted)
    assert predicate.startswith("(__bf_sequence > 7 and __bf_xid between 5 and ")


@pytest.mark.parametrize(
    ("snapshot", "whole"),
    [("5:5::5", False), ("5:5::6", True), ("5:7:5:7", True), ("5:5::4", False)],
)
def test_an_event_that_does_not_tell_its_transaction_is_looked_at(
    macros: Macros, snapshot: str, whole: bool
) -> None:
    """Where nothing was running, all that had landed is seen; else the feed is looked at from where
    the table was last emptied, or its feed has a gap."""
    feed = {
        "relation": macros.relation,
        **{"format": "declared", "operation": "op", "sequence": ["file", "row"]},
        **{"deletes": ["d"], "before_images": [], "position": "at", "xid": None},
    }
    noted = {"columns": ["id"], "snapshot": snapshot, "since": 7, "renewed": None}
    key = [{"name": "id", "upstream": "id"}]
    sql = " ".join(macros.call("_get_overlay_sql", feed, "99", noted, key).split())
    assert ("or __bf_xid is null and __bf_position > 7)" in sql) is not whole
    assert ("where __bf_op in ('t', 'g') and __bf_position <= 99" in sql) is whole
    assert "__bf_xid is null" not in macros.call(
        "_get_overlay_sql", {**feed, "format": "landed"}, "99", noted, key
    )


def test_rows_that_were_read_are_read_as_they_were_then(macros: Macros, up: Any) -> None:
    stage = {"relation": "lake.mv__staged", "kind": "delta", "version": "7", "id": "s'1"}

    sql = " ".join(macros.call("get_staged_rows_of_sql", stage, "`id`").split())
    rows = "from lake.mv__staged version as of 7 where __bf_stage = "
    assert sql.startswith(
        f"select `id` {rows}'s\\'1' and ( select if(count(*) = 1, true, raise_error("
    )
    assert sql.endswith(f"{rows}'all of s\\'1' )")
