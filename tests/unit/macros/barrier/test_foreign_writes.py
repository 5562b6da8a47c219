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


REPLACED = entry("CREATE OR REPLACE TABLE AS SELECT")


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
    added, dropped = entry("ADD COLUMNS"), entry("DROP COLUMNS")
    fills = make_plan(plan_id="p3", kind="fill", fills=[{"name": "x"}, {"name": "y"}])
    assert look(added, planned=fills)[0] is None
    assert look(added, dropped, added, planned=fills)[0] == "ADD COLUMNS in version 8, at now"
    assert look(added, planned=make_plan(plan_id="p3"))[0] is not None
    drops = make_plan(plan_id="p3", drops=["x", "y"])
    assert look(dropped, dropped, planned=drops)[0] is None
    assert look(dropped, dropped, dropped, planned=drops)[0] == "DROP COLUMNS in version 8, at now"
    assert look(added, planned=drops)[0] is not None

    assert look(REPLACED, planned=make_plan(plan_id="p3", kind="reset"))[0] is None
    assert look(REPLACED)[0] is not None


@pytest.mark.parametrize("kind", ["reset", "swap"])
def test_what_a_plan_has_replaced_is_no_write(look: Look, kind: str) -> None:
    replaced = {"kind": kind, "mv_unclear": True}

    assert look(entry("UPDATE"), REPLACED, last=replaced) == (None, 1)
    assert look(REPLACED, entry("UPDATE"), last=replaced)[0] == "UPDATE in version 7, at now"
    # Another program may have replaced the MV after the barrier, or after its commit.
    again = f"{REPLACED['operation']} in version"
    assert look(REPLACED, REPLACED, last=replaced)[0] == f"{again} 7, at now"
    assert look(REPLACED, last={"kind": kind})[0] == f"{again} 6, at now"
    # A repair of the plan may have been sent after the write.
    repaired = merge("p2 repair")
    assert look(entry("UPDATE"), repaired, last=replaced)[0] == "UPDATE in version 6, at now"


@pytest.mark.parametrize("kind", ["reset", "swap"])
def test_what_the_stored_plan_has_replaced_is_no_write(
    look: Look, make_plan: Any, kind: str
) -> None:
    planned = make_plan(plan_id="p3", kind=kind)

    assert look(entry("UPDATE"), REPLACED, planned=planned) == (None, 1)
    assert look(REPLACED, entry("UPDATE"), planned=planned)[0] == "UPDATE in version 7, at now"
    # The statement may be one of the committed plan, before the write.
    unclear = {"mv_unclear": True}
    found, _ = look(entry("UPDATE"), merge("p2"), planned=planned, last=unclear)
    assert found == "UPDATE in version 6, at now"


@pytest.mark.parametrize(
    "compares",
    [
        {"kind": "reanchor"},
        {"kind": "reanchor", "removes_duplicates": True},
        {"kind": "reanchor", "touched": []},
        {"kind": "sweep", "removes_duplicates": True},
        {},
    ],
)
def test_a_write_before_a_comparison_is_found(look: Look, make_plan: Any, compares: Any) -> None:
    """The comparison may have been planned before the write."""
    planned = make_plan(plan_id="p3", **compares)
    update = "UPDATE in version 6, at now"

    assert look(entry("UPDATE"), merge("p3"), planned=planned)[0] == update
    assert look(entry("UPDATE"), merge("p2"), last={**compares, "mv_unclear": True})[0] == update
    assert look(merge("p3"), planned=planned)[0] is None


@pytest.mark.parametrize(
    ("plan", "repairs"),
    [
        ({"kind": "reset"}, True),
        ({"kind": "swap"}, True),
        ({"kind": "reanchor", "removes_duplicates": True}, True),
        ({"kind": "sweep", "removes_duplicates": True}, True),
        ({"kind": "reanchor"}, False),
        ({"kind": "sweep"}, False),
        ({"kind": "reanchor", "removes_duplicates": True, "touched": []}, False),
        ({"kind": "advance", "removes_duplicates": True}, False),
        ({"kind": "fill"}, False),
        ({"kind": "rescale"}, False),
        ({"kind": "abandon"}, False),
    ],
)
def test_a_comparison_repairs_only_if_it_removes_duplicates(
    macros: Macros, make_plan: Any, plan: Any, repairs: bool
) -> None:
    """A write may have added a key twice."""
    assert bool(macros.call("kind_of", make_plan(**plan))["repairs"]) is repairs


def test_a_write_before_the_first_barrier_of_an_adopted_mv_is_found(look: Look) -> None:
    """The adoption has recorded the version of the table, and changes only its properties."""
    adopted = {"kind": "adopt", "sweeps": True}

    assert look(entry("SET TBLPROPERTIES"), last=adopted) == (None, 1)
    for operation in ("UPDATE", "CREATE OR REPLACE TABLE AS SELECT"):
        found, _ = look(entry("SET TBLPROPERTIES"), entry(operation), last=adopted)
        assert found == f"{operation} in version 7, at now"


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
        assert macros.call("find_late_reset", backfill, found) is None
    else:
        with refused(fact):
            macros.call("find_late_reset", backfill, found)


def test_an_mv_that_a_late_reset_gave_other_columns_is_reset(
    macros: Macros, backfill: Any, make_state: Any
) -> None:
    late = make_state() | {"mv_columns": ["k"], "foreign_write": {"text": "append", "plan": "p1"}}

    assert macros.call("find_late_reset", backfill, late) == "a late full refresh has reset it"


def test_other_columns_are_not_refused_during_a_full_refresh_beside(
    macros: Macros, backfill: Any, make_state: Any
) -> None:
    altered = make_state() | {"mv_columns": ["k"], "foreign_write": None}
    for generation in "next", "former":
        backfill["generation"] = generation
        why = macros.call("find_late_reset", backfill, altered)
        assert why == "something has changed its columns"
