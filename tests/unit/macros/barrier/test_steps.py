"""The statements that a plan sends, each with its name in Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

STAGE, CHANGES, BOTH = "stage the changes", "merge the changes", "merge the changes and the range"
RANGE, REMOVAL, WHOLE = "merge the range", "remove what was given up", "re-anchor"
ALTER, STOP = "alter the columns", "stop what is on its way"
NO_RANGE = {"range_row_count": None}
AT_ONCE = {"at_once": True}
LIMITED = {"kind": "reanchor", "touched": [["5", "6"]], **NO_RANGE}
WHOLLY = {"kind": "reanchor", "reason": "it was replaced"}
FILL = {"kind": "fill", "fills": [{"name": "x", "type": "int"}], "fill_high": ["2", "3"]}
NOT_STARTED = {"position": None}

# Each entry: the plan, other inputs (state, version, staged counts, a failing step), and the
# statements.
STEPS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "changes before the range": ({}, {}, [STAGE, CHANGES, RANGE]),
    "staged while it was planned": ({}, {"staged": True}, [CHANGES, RANGE]),
    "both at once": (AT_ONCE, {}, [STAGE, BOTH]),
    "at once, and no changes were found": (AT_ONCE, {"upserts": 0}, [STAGE, RANGE]),
    "no changes were found": ({}, {"upserts": 0}, [STAGE, RANGE]),
    "keys that the query drops": ({}, {"upserts": 0, "drops": 1}, [STAGE, CHANGES, RANGE]),
    "no range": (NO_RANGE, {}, [STAGE, CHANGES]),
    "a range without rows": ({"range_row_count": 0}, {}, [STAGE, CHANGES]),
    # The MV may have rows in the range that must be deleted.
    "such a range in a sweep": (
        {"range_row_count": 0, "sweeps": True}, {}, [STAGE, CHANGES, RANGE]
    ),
    "no range in a sweep": ({**NO_RANGE, "sweeps": True}, {}, [STAGE, CHANGES]),
    "the upstream did not change": ({}, {"version": "17"}, [RANGE]),
    "nothing was read yet": ({}, {"state": NOT_STARTED}, [RANGE]),
    "some vnodes have started": (
        {}, {"state": {**NOT_STARTED, "uniform": False}}, [STAGE, CHANGES, RANGE]
    ),
    "all have finished": (
        NO_RANGE, {"state": {**NOT_STARTED, "any_finished": True, "finished": True}},
        [STAGE, CHANGES],
    ),
    "a limited re-anchor": (LIMITED, {}, [STAGE, CHANGES, REMOVAL]),
    "one that could touch nothing": ({**LIMITED, "touched": []}, {}, [STAGE, CHANGES]),
    "a re-anchor": (WHOLLY, {}, [WHOLE]),
    "a fill": (FILL, {}, [ALTER, STAGE, CHANGES, RANGE]),
    "a fill without a slice": ({**FILL, **NO_RANGE}, {}, [ALTER, STAGE, CHANGES]),
    "the begin of a sweep": ({"kind": "sweep", "reason": "it was replaced"}, {}, []),
    "a plan that was given up": ({"kind": "abandon"}, {}, [STOP]),
    # Nothing is merged after a step that failed.
    "the stage fails": ({}, {"failing": STAGE}, [STAGE]),
    "the changes fail": ({}, {"failing": CHANGES}, [STAGE, CHANGES]),
    "the range fails": ({}, {"failing": RANGE}, [STAGE, CHANGES, RANGE]),
    "both fail": (AT_ONCE, {"failing": BOTH}, [STAGE, BOTH]),
    "the stage of a limited re-anchor fails": (LIMITED, {"failing": STAGE}, [STAGE]),
    "its changes fail": (LIMITED, {"failing": CHANGES}, [STAGE, CHANGES]),
    "its removal fails": (LIMITED, {"failing": REMOVAL}, [STAGE, CHANGES, REMOVAL]),
    "the changes of a fill fail": (FILL, {"failing": CHANGES}, [ALTER, STAGE, CHANGES]),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "given", "steps"), STEPS.values(), ids=STEPS)
def test_a_plan_has_these_statements(
    macros: Macros, backfill: Any, staged: Any, analysis: Any, make_state: Any, make_plan: Any,
    make_source: Any, plan: dict[str, Any], given: dict[str, Any], steps: list[str],
) -> None:  # fmt: skip
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    merged = {"upserts": given.get("upserts", 2), "drops": given.get("drops", 0)}
    sent: list[str] = []
    send = macros._run

    def answer(name: str, sql: str) -> Any:
        step = name.removeprefix("dbt_backfill_").split(" of the b")[0].split(" in the b")[0]
        if step == "describe the query":
            altered = [["x", "int"]] if ALTER in sent else []
            macros.results = [[["k", "bigint"], ["shard", "int"], *altered]]
        else:
            sent.append(step)
            failed = step == given.get("failing")
            told = json.dumps({"failed": failed, "staged": {}, "merged": merged})
            macros.results = [] if given.get("staged") else [[[told]]]
        return send(name, sql)

    macros._run = answer  # type: ignore[method-assign]
    macros.answer("upstream_changes", lambda *_: {"events": "select 1", "tells_before": False})
    committed = make_plan(epoch=2, sources=[make_source(version=given.get("version", "16"))])
    made, state = make_plan(**plan), make_state(committed=committed, **given.get("state", {}))
    planned = {"plan": made, "may_give_up": True}
    if given.get("staged"):
        planned = {"plan": made, "staged": staged | merged}
    done = macros.call("run_steps", backfill, state, {}, analysis, planned)

    assert sent == steps
    assert bool(done["failed"]) is ("failing" in given)


@pytest.mark.parametrize(("suspects", "reread"), [(0, 0), (2, 0), (2, 1)])
def test_a_barrier_drops_the_views_that_its_script_has_made(
    macros: Macros, backfill: Any, staged: Any, make_state: Any, make_plan: Any, observed: Any,
    analysis: Any, suspects: int, reread: int,
) -> None:  # fmt: skip
    plan = make_plan(**NO_RANGE)
    views = macros.call("get_changes", backfill, make_state(), observed, analysis, plan)["views"]
    staged |= {"suspects": suspects, "reread": {"count": reread}}
    planned = {"plan": plan, "staged": staged, "views": views}

    done = macros.call("run_steps", backfill, make_state(), None, None, planned)

    names = macros.call("get_stage_names", backfill, plan)
    kept = {names["again"]: reread > 0, names["doubtful"]: suspects > 0}
    assert done["views"] == [view for view in views if kept.get(view, True)]


def test_changes_that_a_plan_which_was_given_up_has_read_are_changes_still(
    macros: Macros, make_state: Any, make_plan: Any
) -> None:
    given_up = make_plan(epoch=2, kind="abandon")  # it has read version 17; the MV is at 16
    state = make_state(dirty=True, upstream_version="16", committed=given_up)
    plan = make_plan(kind="reanchor", touched=[["5", "6"]])

    assert macros.call("has_changes", state, plan)


def test_changes_after_a_plan_was_given_up_are_those_since_the_last_executed_barrier(
    macros: Macros, make_state: Any, make_plan: Any, make_source: Any
) -> None:
    since = {"epoch": 1, "sources": [make_source(version="16")]}
    given_up = {"kind": "abandon", "given_up": {"since": since, "plans": []}}

    def start(**committed: Any) -> Any:
        state = make_state(dirty=True, committed=make_plan(**committed))
        return macros.call("get_feed_start", state)

    assert start(**given_up) == since
    assert start(kind="abandon") is None
