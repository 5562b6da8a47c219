"""A failed statement of a plan that may be given up is recorded, but raises no error."""

from __future__ import annotations

import json
from typing import Any

from support.macros import Macros

STEP = "merge the range of the barrier 3"


def _merge(macros: Macros, backfill: Any, *result: dict[str, bool]) -> tuple[Any, str]:
    """Call run_merge for a plan that may be given up. Return its result and the sent script.

    Spark returns `result`.
    """
    macros.results = [[[json.dumps(each)]] for each in result]
    found = macros.call("run_merge", backfill, STEP, "merge into mv", True)
    return found, " ".join(macros.statements[-1].sql.split())


def test_a_plan_of_this_run_is_executed_without_a_script(macros: Macros, backfill: Any) -> None:
    """Delta returns the counts of a MERGE only outside of a script. Outside of a script the user
    also sees Spark's own error.
    """
    macros.results = [[["counts"]]]

    assert macros.call("run_merge", backfill, "merge", "merge into mv") == {
        "may_give_up": False,
        "failed": None,
        "result": [["counts"]],
    }
    assert " ".join(macros.statements[0].sql.split()) == "/* lake.mv: merge */ merge into mv"


def test_a_guarded_statement_catches_what_it_raises(macros: Macros, backfill: Any) -> None:
    found, sql = _merge(macros, backfill, {"done": True})

    assert found == {"may_give_up": True, "failed": None, "result": None}
    assert sql.count(" declare exit handler for ") == 2 and "; merge into mv; " in sql


def test_a_guarded_statement_that_fails_is_noted(macros: Macros, backfill: Any) -> None:
    assert _merge(macros, backfill, {"failed": True})[0]["failed"] == STEP


def test_a_conflict_is_no_failure_of_the_plan(macros: Macros, backfill: Any, refused: Any) -> None:
    with refused("another run or a compaction wrote to lake.mv while this run executed its"):
        _merge(macros, backfill, {"conflict": True})
