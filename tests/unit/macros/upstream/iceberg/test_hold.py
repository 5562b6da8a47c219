"""A tag keeps a snapshot from expiring."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def sent(macros: Macros) -> list[str]:
    statements: list[str] = []
    macros.stub("run_table", lambda step, sql: statements.append(sql))
    return statements


def test_a_snapshot_is_held_by_a_tag_of_that_name(macros: Macros, sent: list[str]) -> None:
    macros.call("iceberg_hold", {"relation": "lake.up", "version": "7"}, "dbt_backfill_b1")

    assert sent == ["alter table lake.up create or replace tag dbt_backfill_b1 as of version 7"]


def test_there_is_nothing_to_hold_without_a_snapshot(macros: Macros, sent: list[str]) -> None:
    macros.call("iceberg_hold", {"relation": "lake.up", "version": "0"}, "dbt_backfill_b1")

    assert sent == []


def test_a_tag_that_another_run_has_dropped_is_no_error(macros: Macros, sent: list[str]) -> None:
    macros.call("iceberg_release", {"relation": "lake.up"}, "dbt_backfill_b1")

    assert sent == ["alter table lake.up drop tag if exists dbt_backfill_b1"]


@pytest.mark.parametrize(
    ("observed", "version"),
    [({"holds": {"t": 7}}, "7"), ({"holds": {"other": 7}}, None), ({}, None)],
)
def test_what_is_held_is_told_as_a_version(
    macros: Macros, observed: dict[str, Any], version: str | None
) -> None:
    assert macros.call("iceberg_held_version", observed, "t") == version
