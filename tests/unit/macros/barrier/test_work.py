"""What a barrier needs beside its plan."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def make(
    macros: Macros, backfill: Any, observed: Any, learned: Any, make_state: Any, make_plan: Any
) -> Any:
    """The work of a plan that reads version 17 of an upstream that was read up to 16."""

    there = [{"name": name, "type": "int"} for name in ("id", "amount")]
    macros.stub("get_query_columns", lambda query: there if query.endswith(" as of 17") else [])

    def make(columns: Any = None, plan: Any = None, **planned: Any) -> Any:
        planned = {"plan": make_plan(**(plan or {})), **planned}
        return macros.call("new_work", backfill, make_state(), observed, learned, planned, columns)

    return make


def test_the_work_of_a_plan_of_this_run_has_what_was_staged_and_looked_up(make: Any) -> None:
    work = make([{"name": "k"}], staged={"count": 1}, views=["`p3`", "`other`"])

    assert (work["staged"], work["columns"]) == ({"count": 1}, [{"name": "k"}])
    assert work["guarded"] is False
    assert work["changes"] is None
    assert work["views"] == ["`p3`", "`other`"]  # one was made for a plan that did not stand


def test_the_work_of_a_plan_that_was_adopted_drops_the_views_that_it_will_make(make: Any) -> None:
    work = make(guarded=True)

    assert (work["guarded"], work["staged"], work["columns"]) == (True, None, None)
    assert "table_changes('lake.up', 17, 17)" in work["changes"]["events"]
    assert work["changes"]["events"].startswith("select `id`, `amount`, __bf_version, ")
    assert work["learned"]["upstream_columns"] is None  # another plan reads another version
    assert [name.split("__p3__")[1] for name in work["views"]] == [
        f"00000000000000000000000000000000{suffix}`"
        for suffix in ("__rows", "__again", "__doubtful", "")
    ]


@pytest.mark.parametrize("plan", [{"kind": "reset"}, {"kind": "reanchor"}, {"kind": "abandon"}])
def test_a_plan_without_changes_makes_no_views(make: Any, plan: Any) -> None:
    work = make(plan=plan)

    assert (work["changes"], work["views"]) == (None, [])


def test_the_columns_of_a_change_table_are_looked_up_where_an_adopted_plan_reads_its_events(
    macros: Macros, make: Any, backfill: Any, feed: Any, followed: Any, observed: Any
) -> None:
    """The run may go on to explain its query, and does not ask for them again."""
    backfill["feed"], observed["feed"] = feed, {"version": "9"}
    macros.stub("get_feed_columns", lambda feed: ["id"])
    macros.stub("get_change_table_events", lambda *given: {"events": "", "columns": given[-2]})
    work = make(plan={"sources": followed("9")}, guarded=True)

    assert work["changes"]["columns"] == work["learned"]["feed_columns"] == ["id"]
    assert make(plan={"kind": "reset"})["learned"]["feed_columns"] is None
