"""The plan of the next epoch before its range is known."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

LOG = [
    {"version": 18, "committed_at": "2024-05-01 10:18:00", "operation": "WRITE", "parameters": ""},
    {"version": 17, "committed_at": "2024-05-01 10:17:00", "operation": "WRITE", "parameters": ""},
]
OBSERVED = {"version": "18", "id": "u1", "log": LOG, "complete": True}


@pytest.fixture(autouse=True)
def model(macros: Macros) -> None:
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")


def test_a_key_has_the_columns_that_the_progress_table_has_for_its_position(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any, keys: Any
) -> None:
    def positions(committed: dict[str, Any]) -> list[str]:
        state = make_state(epoch=2) | {"committed": committed}
        plan = macros.call("new_plan", backfill, state, analysis, "advance")
        return [column["position"] for column in plan["key"]]

    first = {**keys[0], "position": "pk_id"}
    assert positions(make_plan(key=[first, keys[1]])) == ["pk_id", "shard"]
    assert positions(make_plan(key=[first])) == ["pk_id", "shard"]
    assert positions({"backfill_id": "b1"}) == ["id", "shard"]


def test_two_plans_of_one_run_have_different_ids(
    macros: Macros, backfill: Any, analysis: Any, make_state: Callable[..., Any]
) -> None:
    ids = {
        macros.call("new_plan", backfill, make_state(epoch=epoch), analysis, "advance")["plan_id"]
        for epoch in [1, 1, 2]
    }

    assert len(ids) == 3


def test_a_plan_at_a_version_leaves_the_position_where_it_is(
    macros: Macros, backfill: Any, analysis: Any, make_state: Callable[..., Any]
) -> None:
    state = make_state(position=["1", "2"])
    plan = macros.call("new_plan_at", backfill, state, analysis, "advance", OBSERVED, "17")

    assert (plan["range_low"], plan["range_high"], plan["last_range"]) == (
        ["1", "2"],
        ["1", "2"],
        False,
    )
    assert "range_row_count" not in plan


def test_a_plan_at_a_version_tells_which_version_of_which_table(
    macros: Macros, backfill: Any, analysis: Any, make_state: Callable[..., Any]
) -> None:
    known = {**analysis, "types": '{"id": "int"}'}
    plan = macros.call("new_plan_at", backfill, make_state(), known, "advance", OBSERVED, "17")

    assert plan["sources"] == [
        {
            "role": "upstream",
            "relation": "lake.up",
            "kind": "delta",
            "definition": '{"id": "int"}',
            "id": "u1",
            "version": "17",
            "committed_at": "2024-05-01 10:17:00",
        }
    ]


def test_the_time_of_a_version_that_left_the_log_is_unknown(
    macros: Macros, backfill: Any, analysis: Any, make_state: Callable[..., Any]
) -> None:
    plan = macros.call("new_plan_at", backfill, make_state(), analysis, "advance", OBSERVED, "3")

    assert plan["sources"][0]["committed_at"] is None


def test_bounds_that_were_found_are_kept_for_the_next_range(
    macros: Macros,
    backfill: Any,
    analysis: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
) -> None:
    committed = make_plan(next_bounds=[["7", "8"]], bounds_complete=True, upstream_row_count=99)
    state = make_state(committed=committed)
    plan = macros.call("new_plan_at", backfill, state, analysis, "reanchor", OBSERVED, "18", "why")

    assert (plan["next_bounds"], plan["bounds_complete"]) == ([["7", "8"]], True)
    assert (plan["upstream_row_count"], plan["reason"]) == (99, "why")


def test_the_bounds_of_the_slices_of_a_fill_are_none_of_ranges(
    macros: Macros, backfill: Any, analysis: Any, make_state: Any, make_plan: Any
) -> None:
    fills = [{"name": "x", "type": "int"}]
    for dirty in (False, True):
        state = make_state(committed=make_plan(kind="fill", fills=fills), dirty=dirty)
        plan = macros.call("new_plan_at", backfill, state, analysis, "reanchor", OBSERVED, "18")
        assert (plan["next_bounds"], plan["bounds_complete"]) == ([], False)


@pytest.mark.parametrize(
    ("range_high", "ahead"),
    [(["5", "6"], [["5", "6"], ["7", "8"]]), (["1", "2"], [["7", "8"]])],
    ids=["a range", "no range"],
)
def test_the_bound_of_an_abandoned_range_lies_ahead_again(
    macros: Macros,
    backfill: Any,
    analysis: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    range_high: list[str],
    ahead: list[list[str]],
) -> None:
    abandoned = make_plan(kind="abandon", range_high=range_high, next_bounds=[["7", "8"]])
    state = make_state(committed=abandoned, dirty=True, position=["1", "2"])
    plan = macros.call("new_plan_at", backfill, state, analysis, "reanchor", OBSERVED, "18", "why")

    assert plan["next_bounds"] == ahead


# -- a change table of the user's own -----------------------------------------------------------

FEED = {"id": "f1", "version": "9", "committed_at": "noon"}
COMMITTED = {"role": "feed", "id": "f0", "version": "7", "committed_at": "dawn"}


@pytest.fixture
def noted(
    macros: Macros,
    backfill: Any,
    analysis: Any,
    make_state: Callable[..., Any],
    make_plan: Callable[..., Any],
    make_source: Callable[..., Any],
) -> Callable[..., Any]:
    """Return what a new plan records about the change table.

    The change table is at version 9. The committed plan has read version 7.
    """
    relation = backfill["mv"].incorporate(path={"identifier": "changes"})
    backfill["feed"] = {"relation": relation, "kind": "iceberg"}
    macros.stub("describe_change_table", lambda feed: "the feed")

    def noted(kind: str = "advance", **state: Any) -> Any:
        sources = [make_source(version="16"), make_source(**COMMITTED)]
        state = make_state(committed=make_plan(epoch=2, sources=sources), **state)
        plan = macros.call(
            "new_plan_at", backfill, state, analysis, kind, {**OBSERVED, "feed": FEED}, "18"
        )
        _, feed = plan["sources"]
        names = ["role", "relation", "kind", "id", "version", "committed_at", "definition"]
        return tuple(feed[name] for name in names)

    return noted


def test_a_plan_notes_how_far_the_change_table_is_read(noted: Callable[..., Any]) -> None:
    assert noted() == ("feed", "lake.changes", "iceberg", "f1", "9", "noon", "the feed")


def test_a_pinned_snapshot_takes_no_events(noted: Callable[..., Any], options: Any) -> None:
    options["backfill_mode"] = "snapshot"

    assert noted() == ("feed", "lake.changes", "iceberg", "f0", "7", "dawn", "the feed")
    assert noted("reanchor")[4] == noted(upstream_version=None)[4] == noted(finished=True)[4] == "9"


def test_a_plan_without_a_change_table_notes_none(
    macros: Macros, backfill: Any, analysis: Any, make_state: Callable[..., Any]
) -> None:
    plan = macros.call("new_plan_at", backfill, make_state(), analysis, "advance", OBSERVED, "18")

    assert [source["role"] for source in plan["sources"]] == ["upstream"]


# -- the order of a backfill ----------------------------------------------------------------------


@pytest.fixture
def order(macros: Macros) -> Callable[..., str]:
    """Return the order that a new plan records for all columns of the key."""

    def order(plan: dict[str, Any]) -> str:
        assert len({column.get("order") for column in plan["key"]}) == 1
        return "descending" if macros.call("is_descending", plan["key"]) else "ascending"

    return order


@pytest.mark.parametrize("configured", ["ascending", "descending"])
def test_a_backfill_begins_in_the_order_of_the_config(
    macros: Macros, backfill: Any, analysis: Any, options: Any, make_state: Any, order: Any,
    no_questions: None, configured: str,
) -> None:  # fmt: skip
    options["backfill_order"] = configured
    macros.context["model"] = SimpleNamespace(name="mv", unique_id="model.p.mv")
    macros.stub("analyze_query", lambda *_: analysis)
    missing = macros.call("observe_missing", backfill, {})["state"]
    state = make_state()

    assert order(missing["committed"]) == configured
    assert order(macros.call("new_plan", backfill, missing, analysis, "advance")) == configured
    assert order(macros.call("new_reset_plan", backfill, state, analysis, "-")) == configured


@pytest.mark.parametrize("kind", ["advance", "fill", "sweep", "reanchor"])
def test_it_goes_on_in_the_order_in_which_it_was_begun(
    macros: Macros, backfill: Any, analysis: Any, options: Any, make_state: Any, make_plan: Any,
    descending: Any, order: Any, kind: str,
) -> None:  # fmt: skip
    def planned(begun: Any) -> Any:
        state = make_state(committed=make_plan(key=begun))
        return macros.call("new_plan_at", backfill, state, analysis, kind, OBSERVED, "17")

    assert order(planned(descending)) == "descending"
    options["backfill_order"] = "descending"
    assert order(planned(make_plan()["key"])) == "ascending"
