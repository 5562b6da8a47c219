"""What becomes of the MV's files after a barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

KEY = [{"name": "id", "upstream": "id"}, {"name": "from", "upstream": "a"}]


@pytest.mark.parametrize(
    ("every", "before", "after", "due"),
    [
        (None, 49, 50, None),
        (50, 48, 49, None),
        (50, 49, 50, "compact"),
        (50, 50, 51, None),
        (1, 0, 1, "compact"),
    ],
)
def test_it_is_compacted_when_a_multiple_is_passed(
    macros: Macros, every: int | None, before: int, after: int, due: str | None
) -> None:
    options = {"compact_every": every, "sort_when_finished": True}
    state = {"epoch": before, "finished": False, "committed": {"kind": "advance"}}
    assert macros.call("get_due_compaction", options, state, {**state, "epoch": after}) == due


@pytest.mark.parametrize(
    ("every", "sorts", "due"),
    [(50, False, "compact"), (50, True, "sort"), (None, True, "sort"), (None, False, None)],
)
def test_and_once_all_has_been_read(
    macros: Macros, every: int | None, sorts: bool, due: str | None
) -> None:
    options = {"compact_every": every, "sort_when_finished": sorts}
    last = {"epoch": 8, "finished": True, "committed": {"kind": "advance"}}
    for before in ({"epoch": 7, "finished": False}, {"missing": True}):
        assert macros.call("get_due_compaction", options, before, last) == due
    assert macros.call("get_due_compaction", options, last, {**last, "epoch": 9}) is None
    put_in_place = {"epoch": 9, "finished": True, "committed": {"kind": "swap"}}
    assert macros.call("get_due_compaction", options, last, put_in_place) == due


@pytest.mark.parametrize(
    ("config", "work", "statement"),
    [
        ({}, "compact", "optimize lake.mv'"),
        ({}, "sort", "optimize lake.mv zorder by (`id`, `from`)'"),
        ({"partition_by": "id"}, "sort", "optimize lake.mv zorder by (`from`)'"),
        ({"partition_by": "ID"}, "sort", "optimize lake.mv zorder by (`from`)'"),
        ({"partition_by": ["from", "id"]}, "sort", "optimize lake.mv'"),
        ({"clustered_by": "name"}, "sort", "optimize lake.mv'"),
        (
            {"file_format": "iceberg"},
            "compact",
            "( table => 'lake.mv', "
            "options => map('partial-progress.enabled', 'true', 'min-input-files', '2') )",
        ),
        (
            {"file_format": "iceberg"},
            "sort",
            "strategy => 'sort', sort_order => '`id`, `from`', "
            "options => map('partial-progress.enabled', 'true', 'rewrite-all', 'true') )",
        ),
    ],
)
def test_it_is_sorted_as_its_format_can(
    macros: Macros,
    render: Callable[..., str],
    backfill: Any,
    config: dict[str, Any],
    work: str,
    statement: str,
) -> None:
    macros.config.update(config)
    sql = render("get_compact_mv_sql", backfill, {"committed": {"key": KEY}}, work)
    assert statement in sql
    assert ("declare exit handler for sqlstate '2D521'" in sql) is ("file_format" not in config)
    assert sql.startswith("begin declare unsorted string; ") and sql.endswith(
        "select unsorted; end"
    )


def test_what_delta_cannot_sort_is_compacted_without_an_order(
    render: Callable[..., str], backfill: Any
) -> None:
    state = {"committed": {"key": KEY}}
    sql = render("get_compact_mv_sql", backfill, state, "sort")
    reasons = {"KD00D": "no statistics", "42613": "liquid clustering", "42P10": "partitioned by"}
    for sqlstate, reason in reasons.items():
        handler = sql.split(f"declare exit handler for sqlstate '{sqlstate}' begin ")[1]
        assert handler.startswith("execute immediate 'optimize lake.mv'; set unsorted = 'it")
        assert reason in handler.split("end;")[0]
    assert "KD00D" not in render("get_compact_mv_sql", backfill, state, "compact")


def test_a_next_generation_is_left_as_it_is(macros: Macros, backfill: Any) -> None:
    options = {**backfill["options"], "compact_every": 1, "sort_when_finished": True}
    mv_beside = {**backfill, "options": options, "generation": "next"}
    before = {"epoch": 0, "finished": False}
    after = {"epoch": 1, "finished": True, "committed": {"kind": "advance"}}
    assert macros.call("compact_mv", mv_beside, before, after) is None
    assert not macros.logged
