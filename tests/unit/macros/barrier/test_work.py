"""What a barrier needs beside its plan."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def make(macros: Macros, backfill: Any, make_state: Any, make_plan: Any) -> Any:
    """The work of a plan that reads version 17 of an upstream that was read up to 16."""

    def make(columns: Any = None, plan: Any = None, **planned: Any) -> Any:
        planned = {"plan": make_plan(**(plan or {})), **planned}
        return macros.call("new_work", backfill, make_state(), planned, columns)

    return make


def test_the_work_of_a_plan_of_this_run_has_what_was_staged_and_looked_up(make: Any) -> None:
    work = make([{"name": "k"}], staged={"count": 1}, views=["`other`"])

    assert (work["staged"], work["columns"]) == ({"count": 1}, [{"name": "k"}])
    assert work["guarded"] is False
    assert work["views"][0] == "`other`"  # made for a plan that did not stand


def test_the_work_of_a_plan_that_was_adopted_drops_the_views_that_it_will_make(make: Any) -> None:
    work = make(guarded=True)

    assert (work["guarded"], work["staged"], work["columns"]) == (True, None, None)
    assert [name.split("__p3__")[1] for name in work["views"]] == [
        f"00000000000000000000000000000000{suffix}`"
        for suffix in ("__rows", "__again", "__doubtful", "")
    ]


@pytest.mark.parametrize("plan", [{"kind": "reset"}, {"kind": "reanchor"}, {"kind": "abandon"}])
def test_a_plan_without_changes_makes_no_views(make: Any, plan: Any) -> None:
    assert make(plan=plan)["views"] == []
