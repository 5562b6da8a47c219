"""What a run knows before it asks anything of Spark."""

from __future__ import annotations

from typing import Any

from support.macros import Macros


def test_a_backfill_reads_the_query_with_the_upstream_substituted(
    macros: Macros, up: Any, options: Any
) -> None:
    macros.stub("read_config", lambda: options)
    macros.stub("get_upstream", lambda sql, change_feed: {"relation": up, "kind": "delta"})
    backfill = macros.call("get_backfill", macros.relation, "select a from lake.up;")

    assert backfill["query"] == "select a from `up`"
    assert backfill["query_hash"] == macros.call("query_hash", "select a from `up`")
    assert backfill["sql"] == "select a from lake.up;"
    assert backfill["progress"].render() == "lake.mv__progress"
    assert backfill["options"] == options
    assert backfill["feed"] is None


def test_a_backfill_may_follow_a_change_table_beside_its_upstream(
    macros: Macros, up: Any, options: Any
) -> None:
    change_feed = {"node": "changes"}
    macros.stub("read_config", lambda: {**options, "change_feed": change_feed})
    macros.stub("get_upstream", lambda sql, feed: {"relation": up, "kind": "delta", "but": feed})
    macros.stub("get_change_table", lambda feed, upstream: (feed, upstream))
    backfill = macros.call("get_backfill", macros.relation, "select a from lake.up")

    assert backfill["upstream"]["but"] == change_feed
    assert backfill["feed"] == (change_feed, up)
