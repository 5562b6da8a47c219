"""What is laid over the rows of a copy: when the feed does not tell it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize("alters_values", [True, False])
def test_a_key_that_the_feed_may_tell_otherwise_is_in_doubt(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, alters_values: bool
) -> None:
    """Also of a row that is gone: what is told as the 15th of October 1582 may be the 10th."""
    macros.context["invocation_id"] = "i1"
    macros.stub(
        "get_upstream_changes",
        lambda *_: {
            "events": "select", "alters_values": alters_values, "read_columns": None,
            "may_repeat": False, "one_commit": False, "literals": None,
        },
    )  # fmt: skip
    noted = {"version": "15", "columns": ["id", "shard"], "ranges": None}
    replica = {
        "relation": "lake.mv__replica", "version": "3", "kind": "delta",
        "definition": json.dumps(noted),
    }  # fmt: skip
    overlay = macros.call("get_overlay", backfill, make_state(), {}, make_plan(), replica)

    doubt = macros.call("altered_predicate", "struct(overlay.`id`, overlay.`shard`)")
    assert (f" or {doubt}" in overlay["statements"][-1]) is alters_values
