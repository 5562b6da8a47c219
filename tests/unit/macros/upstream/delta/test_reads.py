"""How a Delta table and its change data feed are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def events(macros: Macros, up: Any, keys: Any) -> Callable[..., str]:
    def events(from_version: Any, to_version: Any, keys: Any = keys) -> str:
        changes = macros.call(
            "delta_upstream_changes", {"relation": up}, from_version, to_version, keys
        )
        assert list(changes) == ["events", "tells_before", "alters_values", "one_commit"]
        assert changes["one_commit"] is (int(to_version) - int(from_version) == 1)
        return " ".join(changes["events"].split())

    return events


def test_a_table_is_read_at_a_version(macros: Macros, up: Any) -> None:
    assert macros.call("delta_upstream_read", {"relation": up}, "17") == "lake.up version as of 17"


@pytest.mark.parametrize("version", [16, "16"])
def test_changes_begin_after_the_committed_version(
    events: Callable[..., str], version: Any
) -> None:
    """table_changes includes its first version, and versions come back from the state as text."""
    assert events(version, "19").endswith("from table_changes('lake.up', 17, 19)")


def test_an_event_tells_its_version_and_whether_the_row_is_there_after_it(
    events: Callable[..., str],
) -> None:
    assert events(1, 2).startswith(
        "select * except (_change_type, _commit_version, _commit_timestamp), "
        "_commit_version as __bf_version, "
        "_change_type in ('insert', 'update_postimage') as __bf_is_upsert from "
    )


def test_the_feed_needs_no_key(events: Callable[..., str]) -> None:
    """Of a change table: its events have none."""
    assert events(1, 2, keys=None) == events(1, 2)
