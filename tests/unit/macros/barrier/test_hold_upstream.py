"""A tag holds the version that the mode `snapshot` reads for as long as it does."""

from __future__ import annotations

from collections.abc import Callable
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


BEFORE = {"committed": {"backfill_mode": "snapshot"}}
HELD = {"holds": {"dbt_backfill_b1": 7}}  # the tags that stand, each with its snapshot


def plan(version: str | None = "7", **other: Any) -> dict[str, Any]:
    """`version` is that of the upstream which it reads, None for a plan that reads none."""
    source = {"role": "upstream", "relation": "lake.up", "kind": "iceberg"}
    return {
        "kind": "advance",
        "backfill_mode": "snapshot",
        "backfill_id": "b1",
        "sources": [source if version is None else {**source, "version": version}],
        "last_range": False,
        **other,
    }


def test_the_barrier_that_begins_to_read_a_version_holds_it(
    macros: Macros, sent: list[str]
) -> None:
    assert macros.call("hold_upstream", backfill(), BEFORE, plan())

    assert sent == ["alter table lake.up create or replace tag dbt_backfill_b1 as of version 7"]


def test_a_version_is_held_once_the_mode_becomes_snapshot(macros: Macros, sent: list[str]) -> None:
    state = {"upstream_version": "7", "committed": {"backfill_mode": "arrangement"}}

    macros.call("hold_upstream", backfill(), state, plan())

    assert len(sent) == 1


def test_a_version_is_let_go_once_the_mode_is_another(macros: Macros, sent: list[str]) -> None:
    macros.call("release_upstream", backfill(), HELD, plan(backfill_mode="arrangement"))

    assert sent == ["alter table lake.up drop tag if exists dbt_backfill_b1"]


@pytest.mark.parametrize(
    ("kind", "state", "other"),
    [
        ("delta", {}, {}),
        ("iceberg", {}, {"backfill_mode": "arrangement"}),
        ("iceberg", {}, {"kind": "reset"}),
        ("iceberg", {}, {"last_range": True}),
        ("iceberg", {"upstream_version": "7"}, {}),
        ("iceberg", {}, {"version": "0"}),
        ("iceberg", {"finished": True}, {}),
    ],
    ids=["delta", "another mode", "reads nothing", "reads it once", "held", "no snapshot", "done"],
)
def test_no_other_does(
    macros: Macros, sent: list[str], kind: str, state: dict[str, Any], other: dict[str, Any]
) -> None:
    assert not macros.call("hold_upstream", backfill(kind), BEFORE | state, plan(**other))

    assert sent == []


@pytest.mark.parametrize("version", ["9", None])
def test_the_first_barrier_that_leaves_the_version_lets_it_go(
    macros: Macros, sent: list[str], version: str | None
) -> None:
    """Or any later one, if that run died before it did. A reset leaves it too."""
    macros.call("release_upstream", backfill(), HELD, plan(version))

    assert sent == ["alter table lake.up drop tag if exists dbt_backfill_b1"]


@pytest.mark.parametrize(
    ("kind", "holds", "version"),
    [
        ("iceberg", {"dbt_backfill_b1": 7}, "7"),
        ("iceberg", {}, "9"),
        ("iceberg", {"dbt_backfill_b2": 7}, "9"),
        ("delta", {}, "9"),
    ],
    ids=["reads it", "held none", "another's", "delta"],
)
def test_no_other_lets_it_go(
    macros: Macros, sent: list[str], kind: str, holds: dict[str, int], version: str
) -> None:
    macros.call("release_upstream", backfill(kind), {"holds": holds}, plan(version))

    assert sent == []


@pytest.fixture
def release(
    macros: Macros, backfill: Any, options: Any, make_state: Any, make_plan: Any, make_source: Any
) -> Callable[..., list[str]]:
    """What is sent once all has been read: by a run that has staged its last rows, or any later."""
    macros.stub("stages_ranges", lambda upstream: True)
    macros.stub("is_complete", lambda state: True)
    macros.context["adapter"].cache_dropped = lambda relation: ""

    def release(
        file_format: str = "delta", properties: Any = None, type: str | None = "table",
        has_staged: bool = True, listed: bool = True,
    ) -> list[str]:  # fmt: skip
        options["file_format"] = file_format
        there = None if type is None else backfill["staged"].incorporate(type=type)
        macros.stub("load_table", lambda relation: there if listed else None)
        macros.stub("find_table", lambda relation: there)
        macros.stub("read_table_properties", lambda relation: properties or {})
        sources = [make_source(), *([make_source(role="stage")] if has_staged else [])]
        macros.call("release_staged", backfill, make_state(), make_plan(sources=sources))
        return [statement.sql.split("*/")[1].strip() for statement in macros.statements]

    return release


OURS = {"dbt_backfill.format": "2"}


@pytest.mark.parametrize(
    ("file_format", "gc", "end"),
    [
        ("iceberg", "true", " purge"),
        ("iceberg", "false", ""),
        ("delta", None, ""),
    ],
)
@pytest.mark.parametrize(("has_staged", "listed"), [(True, False), (False, True)])
def test_staged_rows_go_with_their_files_where_the_table_lets_them(
    release: Callable[..., list[str]], file_format: str, gc: str | None, end: str,
    has_staged: bool, listed: bool,
) -> None:  # fmt: skip
    sent = release(file_format, {**OURS, "gc.enabled": gc}, has_staged=has_staged, listed=listed)
    assert sent == [f"drop table if exists lake.mv__staged{end}"]


@pytest.mark.parametrize("file_format", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("properties", "type"), [({"owner": "somebody"}, "table"), (OURS, "view"), (OURS, None)]
)
def test_a_table_of_others_stays_and_one_that_is_gone_is_not_asked(
    release: Callable[..., list[str]], file_format: str, properties: Any, type: str | None
) -> None:
    for has_staged in (True, False):
        assert release(file_format, properties, type, has_staged) == []
