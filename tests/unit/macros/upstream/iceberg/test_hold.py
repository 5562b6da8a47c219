"""A tag keeps a snapshot from expiring."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


def test_there_is_nothing_to_hold_without_a_snapshot(macros: Macros) -> None:
    macros.call("iceberg_hold", {"relation": "lake.up", "version": "0"}, "dbt_backfill_b1")

    assert macros.statements == []


@pytest.mark.parametrize(
    ("observed", "version"),
    [({"holds": {"t": 7}}, "7"), ({"holds": {"other": 7}}, None), ({}, None)],
)
def test_what_is_held_is_told_as_a_version(
    macros: Macros, observed: dict[str, Any], version: str | None
) -> None:
    assert macros.call("iceberg_held_version", observed, "t") == version
