"""The events of a change table whose columns the model names."""

from __future__ import annotations

from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

FEED: dict[str, Any] = {
    **{"format": "declared", "operation": "op", "sequence": ["step"], "deletes": ["d"]},
    **{"before_images": ["ub"], "position": "place", "xid": None},
}


@pytest.mark.parametrize(
    ("operation", "id", "shard", "read_as"),
    [
        ("c", 1, 1, "u"),
        ("d", 1, 1, "d"),
        ("D    ", 1, 1, "d"),  # a char(5)
        ("T    ", None, None, "t"),
        (None, 1, 1, "w"),  # a tombstone
        (None, None, None, "w"),  # a heartbeat
        ("M", None, None, "w"),
        ("m", 1, 1, "u"),
        ("c", None, None, "u"),
    ],
)
def test_a_tombstone_a_heartbeat_or_a_message_is_no_event_of_a_row(
    macros: Macros, duck: Duck, operation: Any, id: Any, shard: Any, read_as: str
) -> None:
    types = {"id": "bigint", "shard": "int", "op": "string", "place": "bigint", "step": "int"}
    duck.create(macros.relation.render(), types, [(id, shard, operation, 7, 1)])
    feed = {**FEED, "relation": macros.relation, "key": ["`id`", "`shard`"]}
    sql = macros.call("get_feed_rows_sql", feed, ["id", "shard"])
    [event] = duck.records(sql)
    assert (event["__bf_op"], event["__bf_position"]) == (read_as, 7)
