"""The columns of the progress table."""

from __future__ import annotations

from support.macros import Macros


def test_the_progress_table_has_these_columns_whatever_the_key_is(macros: Macros) -> None:
    """States of earlier releases have these columns. Others would need a new format number."""
    assert macros.call("progress_columns") == {
        "vnode": "int",
        "epoch": "bigint",
        "backfill_finished": "boolean",
        "row_count": "bigint",
        "upstream_version": "string",
        "dirty": "boolean",
        "plan_id": "string",
        "plan_kind": "string",
        "plan": "string",
        "last": "string",
        "unwritten": "array<string>",
    }
    assert macros.call("state_format") == "2"
