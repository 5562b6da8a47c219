"""The rows of a staged range, with later events of the feed applied to them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.duck import Duck
from support.macros import Macros

TURN = 2**32


SINCE = 1000
DECLARED = {"format": "declared"}


@pytest.fixture
def sees(macros: Macros, duck: Duck) -> Callable[..., bool]:
    """Return true if a reader with this snapshot sees the transaction of an event.

    The event has only 32 bits of the transaction's id. By default the event had landed before the
    rows were read.
    """

    def sees(snapshot: str, xid: int, position: int = SINCE, renewed: int | None = None) -> bool:
        noted = {"snapshot": snapshot, "since": SINCE, "renewed": renewed}
        predicate = macros.call("unseen_predicate", DECLARED, noted)
        event = {"__bf_xid": xid % TURN, "__bf_position": position}
        return duck.rows(f"select not {predicate}", **event) == [(True,)]

    return sees


@pytest.mark.parametrize(
    ("snapshot", "seen", "unseen", "later"),
    [
        ("100:100::100", [1, 99], [], [100, 101, 2000]),
        ("100:110:100,105:110", [99, 101, 104, 109], [100, 105], [110, 2000]),
        # No transaction from id 100 on has ended. The snapshot does not show which of the ids
        # 100 to 102 are in use.
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
    """An event that had landed before the rows were read is unseen only if its transaction was
    still open, for example while its commit waited for a standby.

    Any other id belongs to a transaction from 2^32 ids ago, which the reader sees.
    """
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


def test_an_id_with_its_epoch_is_of_one_transaction(macros: Macros, duck: Duck) -> None:
    """The feed also has events of the transaction that had the same id 2^32 transactions ago."""
    snapshot = f"{TURN + 5}:{TURN + 9}:{TURN + 5}:{TURN + 11}"
    noted = {"snapshot": snapshot, "since": SINCE, "renewed": None}
    predicate = macros.call("unseen_predicate", {"format": "landed"}, noted)

    def sees(xid: int, position: int) -> bool:
        event = {"__bf_xid": xid, "__bf_position": position}
        return duck.rows(f"select not {predicate}", **event) == [(True,)]

    told = {5: True, TURN + 5: False, TURN + 6: True, 9: True, TURN + 10: False, TURN + 11: True}
    assert {xid: sees(xid, SINCE) for xid in told} == told
    assert not sees(TURN + 11, SINCE + 1)
    assert sees(11, SINCE + 1)


def test_ids_of_another_history_do_not_count(sees: Callable[..., bool]) -> None:
    for snapshot in ("90:100:90:100", "90:90::91"):
        assert sees(snapshot, 90, position=SINCE - 1, renewed=SINCE)
        assert not sees(snapshot, 90, position=SINCE, renewed=SINCE)


@pytest.mark.parametrize(("place", "seen"), [(7, True), (8, False)])
def test_an_event_of_debezium_has_its_own_place_in_the_wal(
    macros: Macros, duck: Duck, place: int, seen: bool
) -> None:
    """For Debezium `__bf_position` is the position of the previous commit. After a snapshot it is
    unknown.
    """
    noted = {"snapshot": "5:5::5", "since": 7, "renewed": None}
    unseen = macros.call("unseen_predicate", {"format": "debezium"}, noted)
    event = {"__bf_xid": 6, "__bf_position": None, "__bf_sequence": place}

    assert duck.rows(f"select not {unseen}", **event) == [(seen,)]


@pytest.mark.parametrize(
    ("snapshot", "whole"),
    [("5:5::5", False), ("5:5::6", True), ("5:7:5:7", True), ("5:5::4", False)],
)
def test_an_event_that_does_not_tell_its_transaction_is_looked_at(
    macros: Macros, snapshot: str, whole: bool
) -> None:
    """Such an event may be unseen if any transaction was running while the rows were read.

    In this case all events since the last TRUNCATE or gap are applied to the rows.
    """
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
