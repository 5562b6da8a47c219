"""The sort or compaction of the MV's files after a barrier."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

KEY = [{"name": "id", "upstream": "id"}, {"name": "from", "upstream": "a"}]


@pytest.fixture
def due(macros: Macros, backfill: Any) -> Callable[..., str | None]:
    """Return the compaction that a run sends between two states; none if it sends none."""

    def due(options: dict[str, Any], before: Any, after: Any) -> str | None:
        done: list[str] = []
        macros.stub("get_compact_mv_sql", lambda backfill, state, work: done.append(work))
        macros.stub("try_table", lambda step, sql: {"error": "lost", "table": []})
        macros.call("compact_mv", {**backfill, "options": options}, before, after)
        return done[0] if done else None

    return due


@pytest.mark.parametrize(
    ("every", "before", "after", "work"),
    [
        (None, 49, 50, None),
        (50, 48, 49, None),
        (50, 49, 50, "compact"),
        (50, 50, 51, None),
        (1, 0, 1, "compact"),
    ],
)
def test_it_is_compacted_when_a_multiple_is_passed(
    due: Callable[..., str | None], every: int | None, before: int, after: int, work: str | None
) -> None:
    options = {"compact_every": every, "sort_when_finished": True}
    state = {"epoch": before, "finished": False, "committed": {"kind": "advance"}}
    assert due(options, state, {**state, "epoch": after}) == work


@pytest.mark.parametrize(
    ("every", "sorts", "work"),
    [(50, False, "compact"), (50, True, "sort"), (None, True, "sort"), (None, False, None)],
)
def test_and_once_all_has_been_read(
    due: Callable[..., str | None], every: int | None, sorts: bool, work: str | None
) -> None:
    options = {"compact_every": every, "sort_when_finished": sorts}
    last = {"epoch": 8, "finished": True, "committed": {"kind": "advance"}}
    for before in ({"epoch": 7, "finished": False}, {"missing": True}):
        assert due(options, before, last) == work
    assert due(options, last, {**last, "epoch": 9}) is None
    put_in_place = {"epoch": 9, "finished": True, "committed": {"kind": "swap"}}
    assert due(options, last, put_in_place) == work


@pytest.mark.parametrize(
    ("config", "columns"),
    [
        ({}, ["`id`, `from`"]),
        ({"partition_by": "ID"}, ["`from`"]),
        ({"partition_by": ["from", "id"]}, []),
        ({"clustered_by": "name"}, []),
    ],
)
def test_delta_sorts_by_the_key_but_for_its_partitions(
    macros: Macros, backfill: Any, config: dict[str, Any], columns: list[str]
) -> None:
    """A table with its own clustering is not sorted."""
    macros.config.update(config)
    sql = macros.call("get_compact_mv_sql", backfill, {"committed": {"key": KEY}}, "sort")

    assert re.findall(r"zorder by \((.*?)\)", sql) == columns


Compact = Callable[..., list[str]]


@pytest.fixture
def compact(macros: Macros, backfill: Any) -> Compact:
    """Return the lines that compact_mv prints after barrier 5.

    The statements of the sort or compaction return `results`.
    """

    def compact(work: str, *results: list[Any]) -> list[str]:
        macros.results = [[result] for result in results]
        state = {"epoch": 5, "finished": True, "committed": {"kind": "advance", "key": KEY}}
        before = {"epoch": 4, "finished": work == "compact"}
        options = {"compact_every": 1, "sort_when_finished": True}
        backfill["options"].update(options)
        macros.call("compact_mv", backfill, before, state)
        return [re.sub(r" · \d+ s\]", "]", line) for line in macros.logged]

    return compact


@pytest.mark.parametrize(
    ("work", "told", "line"),
    [
        ("sort", "{}", "SORTED after BARRIER 5"),
        ("compact", "{}", "COMPACTED after BARRIER 5"),
        ("sort", '{"unsorted": "it is"}', "COMPACTED after BARRIER 5 · not sorted: it is"),
        ("sort", '{"kept": "another run"}', "NOT SORTED after BARRIER 5 · another run"),
        ("compact", '{"kept": "another run"}', "NOT COMPACTED after BARRIER 5 · another run"),
    ],
)
def test_delta_says_what_became_of_it(compact: Compact, work: str, told: str, line: str) -> None:
    assert compact(work, [told]) == [f"mv [{line}]"]


@pytest.mark.parametrize(
    ("work", "results", "line"),
    [
        ("sort", [[3, 1, 900, 0, 0]], "SORTED after BARRIER 5"),
        ("compact", [[3, 1, 900, 0, 0]], "COMPACTED after BARRIER 5"),
        ("compact", [[0, 0, 0, 0, 0]], "NOT COMPACTED after BARRIER 5 · there were no files"),
        ("sort", [[0, 0, 0, 0, 0], [3]], "NOT SORTED after BARRIER 5 · another run wrote"),
        ("sort", [[0, 0, 0, 0, 0], [0]], "SORTED after BARRIER 5"),
    ],
    ids=["sorted", "compacted", "nothing", "overtaken", "empty"],
)
def test_iceberg_tells_of_a_conflict_only_that_no_file_was_replaced(
    iceberg: None, compact: Compact, work: str, results: list[Any], line: str
) -> None:
    (said,) = compact(work, *results)
    assert said.startswith(f"mv [{line}")


def test_files_that_iceberg_could_not_rewrite_are_a_warning(
    macros: Macros, iceberg: None, compact: Compact
) -> None:
    warned, said = compact("sort", [2, 1, 900, 4, 0])
    assert warned.startswith("backfilled_mv mv: the MV could not be sorted after the barrier 5")
    assert "Iceberg could not rewrite 4 files" in warned
    assert said.startswith("mv [NOT SORTED after BARRIER 5")
    assert len(macros.statements) == 1


@pytest.mark.parametrize(
    ("work", "done", "then"),
    [("sort", "sorted", "To sort the MV, run"), ("compact", "compacted", "A later run compacts")],
)
def test_an_error_is_a_warning_with_the_adapter(
    macros: Macros, compact: Compact, work: str, done: str, then: str
) -> None:
    sent: list[str] = []

    def attempt(sql: str) -> dict[str, Any]:
        sent.append(" ".join(sql.split()))
        return {"table": None, "error": "[DISK] full"}

    macros.context["adapter"].type = lambda: "spark_backfill"
    macros.context["adapter"].attempt = attempt
    (warned,) = compact(work)
    assert warned.startswith(f"backfilled_mv mv: the MV could not be {done} after the barrier 5")
    assert then in warned and warned.endswith(". [DISK] full")
    assert sent[0].startswith(f"/* lake.mv: {work} the MV after the barrier 5 */ begin")
    assert not macros.statements


def test_a_next_generation_is_left_as_it_is(macros: Macros, backfill: Any) -> None:
    options = {**backfill["options"], "compact_every": 1, "sort_when_finished": True}
    mv_beside = {**backfill, "options": options, "generation": "next"}
    before = {"epoch": 0, "finished": False}
    after = {"epoch": 1, "finished": True, "committed": {"kind": "advance"}}
    assert macros.call("compact_mv", mv_beside, before, after) is None
    assert not macros.logged
