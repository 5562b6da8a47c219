"""A write to the MV that no barrier made is distinguished from the barriers' own commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

Look = Callable[..., Any]


def merge(mark: str) -> dict[str, Any]:
    condition = f'[{{"predicate":"((__bf_plan#12 = {mark}) AND NOT __bf_dropped#3)"}}]'
    return {"operation": "MERGE", "parameters": {"matchedPredicates": condition}}


def entry(operation: str) -> dict[str, Any]:
    return {"operation": operation, "parameters": "{}"}


@pytest.fixture
def look(macros: Macros, relations: Any, make_state: Any, make_plan: Any) -> Look:
    """Return the foreign write of a Delta MV, and how often its log was read.

    The last barrier left the MV at version 5 (`last`). `log` has the later commits, oldest first.
    """

    def look(*log: Any, last: Any = None, **state: Any) -> tuple[str | None, int]:
        reads: list[int] = []
        entries = [
            {"version": 5 + number, "committed_at": "now", **found}
            for number, found in enumerate([entry("MERGE"), *log])
        ][::-1]

        def read(relation: Any, limit: int, whose: str) -> Any:
            reads.append(limit)
            return entries[:limit]

        macros.stub("read_delta_log", read)
        committed = make_plan(epoch=2, plan_id="p2", **({"mv_version": "5"} | (last or {})))
        found = macros.call(
            "observe_mv",
            {**relations, "options": {"file_format": "delta"}},
            {"mv_moved": bool(log)} | make_state(committed=committed, **state),
        )
        write = found["foreign_write"]
        assert found["mv_version"] == ("5" if write else found["mv_seen"])
        return (write and write["text"]), len(reads)

    return look


def test_an_mv_that_has_not_moved_is_not_looked_at(look: Look) -> None:
    assert look() == (None, 0)


@pytest.mark.parametrize(
    "operation",
    ["OPTIMIZE", "VACUUM END", "SET TBLPROPERTIES", "CHANGE COLUMN", "ADD CONSTRAINT", "REORG"],
)
def test_maintenance_is_no_write(look: Look, operation: str) -> None:
    assert look(entry(operation)) == (None, 1)


@pytest.mark.parametrize(
    "operation", ["WRITE", "UPDATE", "DELETE", "RESTORE", "TRUNCATE", "DROP COLUMNS", "A NEW ONE"]
)
def test_everything_else_is_a_write(look: Look, operation: str) -> None:
    assert look(entry("OPTIMIZE"), entry(operation), entry("OPTIMIZE")) == (
        f"{operation} in version 7, at now", 1,
    )  # fmt: skip


def test_the_statements_of_the_stored_plan_are_no_writes(look: Look, make_plan: Any) -> None:
    planned = make_plan(plan_id="p3")

    assert look(merge("p3"), planned=planned) == (None, 1)
    assert look(merge("p2"), planned=planned)[0] == "MERGE in version 6, at now"
    assert look(merge("p3"))[0] == "MERGE in version 6, at now"
    assert look(merge("p2"))[0] is None
    assert look(merge("p2 repair"), planned=planned)[0] is None


def test_the_alterations_and_replacements_of_a_plan_have_no_mark(
    look: Look, make_plan: Any
) -> None:
    fills = make_plan(plan_id="p3", kind="fill", fills=[{"name": "x"}])
    assert look(entry("ADD COLUMNS"), planned=fills)[0] is None
    assert look(entry("ADD COLUMNS"), planned=make_plan(plan_id="p3"))[0] is not None

    replaced = entry("CREATE OR REPLACE TABLE AS SELECT")
    assert look(replaced, planned=make_plan(plan_id="p3", kind="reset"))[0] is None
    assert look(replaced)[0] is not None


def test_what_a_comparison_has_repaired_is_no_write(look: Look) -> None:
    compared = {"kind": "reanchor", "mv_unclear": True}

    assert look(entry("UPDATE"), merge("p2"), last=compared) == (None, 1)
    assert look(merge("p2"), entry("UPDATE"), last=compared)[0] == "UPDATE in version 7, at now"
    assert look(entry("UPDATE"), merge("p2"), last={"mv_unclear": True})[0] is not None
    assert look(entry("UPDATE"), merge("p2"), last={**compared, "touched": []})[0] is not None


def test_commits_that_are_not_listed_any_more_count(macros: Macros, look: Look) -> None:
    assert look(*[entry("OPTIMIZE")] * 60) == (None, 2)
    macros.stub("read_delta_log", lambda relation, limit, whose: [
        {"version": 9, "committed_at": "now", **entry("OPTIMIZE")}
    ])  # fmt: skip
    found = macros.call("read_foreign_write", macros.relation, "5", ["p2"], [])
    assert "does not list" in found["foreign_write"]["text"]


def test_a_version_that_no_barrier_recorded_is_taken_as_it_is(look: Look) -> None:
    assert look(entry("UPDATE"), last={"mv_version": None}) == (None, 1)


COLUMNS = [
    (["k", "Shard"], {}, None),
    (["k"], {}, "lake.mv lacks the column shard"),
    (["k", "shard", "x"], {}, "lake.mv has the column x, which its query does not return"),
    (["k"], {"planned": {"kind": "fill"}}, None),
    (["k"], {"dirty": True}, None),
    (None, {}, None),
]


@pytest.mark.parametrize(("present", "state", "fact"), COLUMNS)
def test_an_mv_with_other_columns_than_its_query_is_refused(
    macros: Macros, backfill: Any, make_state: Any, refused: Any,
    present: Any, state: Any, fact: Any,
) -> None:  # fmt: skip
    found = make_state(**state) | {"mv_columns": present, "foreign_write": None}
    if fact is None:
        assert macros.call("find_late_reset", backfill, found) is False
    else:
        with refused(fact):
            macros.call("find_late_reset", backfill, found)


def test_an_mv_that_a_late_reset_gave_other_columns_is_reset(
    macros: Macros, backfill: Any, make_state: Any
) -> None:
    late = make_state() | {"mv_columns": ["k"], "foreign_write": {"text": "append", "plan": "p1"}}

    assert macros.call("find_late_reset", backfill, late) is True
