"""Statements of a plan that may be given up: what fails is noted, and not raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

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


@pytest.mark.parametrize(("newest", "expected"), [(17, False), (18, True)])
def test_a_plan_may_be_given_up_once_the_upstream_has_another_version(
    macros: Macros,
    backfill: Any,
    make_plan: Any,
    make_source: Any,
    newest: int,
    expected: bool,
) -> None:
    observed = {"version": newest, "feed": {"version": 4}}
    reset = make_plan(kind="reset", sources=[make_source(version=None)])

    assert macros.call("has_gone_on", backfill, make_plan(), observed) is expected
    assert macros.call("has_gone_on", backfill, reset, observed) is False
    backfill["feed"] = {"kind": "delta"}
    for version, has_gone_on in [("4", False), ("3", True)]:
        plan = make_plan(sources=[make_source(), make_source(role="feed", version=version)])
        assert macros.call("has_gone_on", backfill, plan, observed) is has_gone_on


MARKED = {"epoch": 3, "plan_id": "p3", "kind": "abandon"}


@pytest.fixture
def give_up(
    macros: Macros,
    backfill: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    stored: Callable[..., str],
) -> Callable[..., Any]:
    backfill["failed"] = "merge the range of the barrier 3"

    def give_up(marked: Any = MARKED, **now: Any) -> Any:
        found = stored(**{"planned": make_plan(), **now})
        macros.results = [[[found]], [[json.dumps({"plan": marked})]]]
        return macros.call("give_up_plan", backfill, make_state(), make_plan())

    return give_up


def test_a_failed_plan_is_marked_and_what_is_on_its_way_is_stopped(
    give_up: Callable[..., Any], macros: Macros
) -> None:
    assert give_up() == MARKED
    sent = [" ".join(each.sql.split()) for each in macros.statements]
    assert (
        '"reason": "it could not merge the range of the barrier 3, and the upstream has gone on '
        'from its version 17"'
    ) in sent[1]
    assert sent[2].endswith("alter table lake.mv set tblproperties ('dbt_backfill.given_up' = '3')")


@pytest.mark.parametrize(
    "now",
    [
        {"epoch": 3},
        {"planned": None},
        {"planned": {"plan_id": "p9", "kind": "advance"}},
        {"planned": {"plan_id": "p3", "kind": "abandon"}},
    ],
    ids=["committed", "and none planned", "another planned", "given up"],
)
def test_a_plan_that_failed_because_another_run_went_on_is_not_given_up(
    give_up: Callable[..., Any], refused: Any, macros: Macros, now: Any
) -> None:
    with refused("another run went on while this one executed the barrier 3. Nothing is lost"):
        give_up(**now)
    assert len(macros.statements) == 1


def test_a_plan_that_is_committed_before_it_can_be_marked_is_not_given_up(
    give_up: Callable[..., Any], refused: Any, macros: Macros
) -> None:
    with refused("another run went on while this one executed the barrier 3. Nothing is lost"):
        give_up(marked=None)
    assert len(macros.statements) == 2  # the MV is not touched
