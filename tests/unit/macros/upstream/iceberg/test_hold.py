"""A tag holds the version that the mode `snapshot` reads for as long as it does."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def sent(macros: Macros) -> list[str]:
    statements: list[str] = []
    macros.stub("run_table", lambda step, sql: statements.append(sql))
    return statements


def backfill(kind: str = "iceberg") -> dict[str, Any]:
    return {"upstream": {"kind": kind}}


def plan(**other: Any) -> dict[str, Any]:
    return {
        "kind": "advance",
        "backfill_mode": "snapshot",
        "backfill_id": "b1",
        "upstream": "lake.up",
        "upstream_version": "7",
        "last_range": False,
        **other,
    }


def test_the_barrier_that_begins_to_read_a_version_holds_it(
    macros: Macros, sent: list[str]
) -> None:
    macros.call("hold_upstream", backfill(), {}, plan())

    assert sent == ["alter table lake.up create or replace tag dbt_backfill_b1 as of version 7"]


@pytest.mark.parametrize(
    ("kind", "state", "other"),
    [
        ("delta", {}, {}),
        ("iceberg", {}, {"backfill_mode": "arrangement"}),
        ("iceberg", {}, {"kind": "reset"}),
        ("iceberg", {}, {"last_range": True}),
        ("iceberg", {"upstream_version": "7"}, {}),
        ("iceberg", {}, {"upstream_version": "0"}),
        ("iceberg", {"finished": True}, {}),
    ],
    ids=["delta", "another mode", "reads nothing", "reads it once", "held", "no snapshot", "done"],
)
def test_no_other_does(
    macros: Macros, sent: list[str], kind: str, state: dict[str, Any], other: dict[str, Any]
) -> None:
    macros.call("hold_upstream", backfill(kind), state, plan(**other))

    assert sent == []


def test_the_first_barrier_after_the_backfill_lets_it_go(macros: Macros, sent: list[str]) -> None:
    state = {"finished": True, "committed": {"last_range": True}}

    macros.call("release_upstream", backfill(), state, plan(upstream_version="9"))

    assert sent == ["alter table lake.up drop tag if exists dbt_backfill_b1"]


@pytest.mark.parametrize(("finished", "last_range"), [(False, False), (True, False)])
def test_no_other_lets_it_go(
    macros: Macros, sent: list[str], finished: bool, last_range: bool
) -> None:
    state = {"finished": finished, "committed": {"last_range": last_range}}

    macros.call("release_upstream", backfill(), state, plan())

    assert sent == []
