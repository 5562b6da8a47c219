"""Statements of a plan that may be given up: what fails is noted, and not raised."""

from __future__ import annotations

import json
from typing import Any

from support.macros import Macros


def _merge(macros: Macros, backfill: Any, *result: dict[str, bool]) -> tuple[Any, str]:
    macros.results = [[[json.dumps(each)]] for each in result]
    found = macros.call("run_merge", backfill, "merge the range of the barrier 3", "merge into mv")
    return found, " ".join(macros.statements[-1].sql.split())


def test_a_plan_of_this_run_is_executed_without_a_script(macros: Macros, backfill: Any) -> None:
    """Delta returns the counts of a MERGE only outside of one, and the user sees Spark's error."""
    macros.results = [[["counts"]]]

    assert macros.call("run_merge", backfill, "merge", "merge into mv") == [["counts"]]
    assert " ".join(macros.statements[0].sql.split()) == "/* lake.mv: merge */ merge into mv"


def test_a_guarded_statement_catches_what_it_raises(macros: Macros, backfill: Any) -> None:
    backfill["guarded"] = True
    found, sql = _merge(macros, backfill, {"done": True})

    assert (found, backfill["failed"]) == (None, None)
    assert sql.endswith("merge into mv; select to_json(named_struct('done', true)); end")
    assert " begin declare exit handler for sqlstate '2D521' begin select " in sql
    assert " declare exit handler for sqlexception begin select " in sql


def test_a_guarded_statement_that_fails_is_noted(macros: Macros, backfill: Any) -> None:
    backfill["guarded"] = True
    _merge(macros, backfill, {"failed": True})

    assert backfill["failed"] == "merge the range of the barrier 3"


def test_a_conflict_is_no_failure_of_the_plan(macros: Macros, backfill: Any, refused: Any) -> None:
    backfill["guarded"] = True
    with refused("another run or a compaction wrote to lake.mv while this one went on with its"):
        _merge(macros, backfill, {"conflict": True})
    assert backfill["failed"] is None
