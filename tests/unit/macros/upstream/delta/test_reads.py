"""How a Delta table and its change data feed are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_a_table_is_read_at_a_version(macros: Macros, up: Any) -> None:
    assert macros.call("delta_upstream_read", up, "17") == "lake.up version as of 17"


@pytest.mark.parametrize("version", [16, "16"])
def test_changes_begin_after_the_committed_version(
    render: Callable[..., str], up: Any, version: Any
) -> None:
    """table_changes includes its first version, and versions come back from the state as text."""
    assert render("delta_upstream_changes", up, version, "19").endswith(
        "from table_changes('lake.up', 17, 19)"
    )


def test_an_event_tells_its_version_and_whether_the_row_is_there_after_it(
    render: Callable[..., str], up: Any
) -> None:
    sql = render("delta_upstream_changes", up, 1, 2)

    assert sql.startswith(
        "select * except (_change_type, _commit_version, _commit_timestamp), "
        "_commit_version as __bf_version, "
        "_change_type in ('insert', 'update_postimage') as __bf_is_upsert from "
    )
