"""The tables of an MV are created, without a barrier."""

from __future__ import annotations

from typing import Any


def test_an_mv_is_created_in_one_script(create: Any) -> None:
    _, sql = create("k", "shard")

    assert sql.endswith(
        " begin declare created_id string; declare standing string; declare create_mv string; "
        "create create ['k', 'shard']; end"
    )


def test_an_mv_that_was_created_is_not_missing_any_more(create: Any) -> None:
    state, _ = create("k", "shard")

    assert not state["missing"]
