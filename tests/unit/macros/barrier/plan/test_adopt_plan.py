"""A run adopts a plan that an earlier run has left, or gives the plan up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize(("newest", "expected"), [(17, False), (18, True)])
def test_a_plan_may_be_given_up_once_the_upstream_has_another_version(
    macros: Macros,
    backfill: Any,
    make_state: Any,
    make_plan: Any,
    make_source: Any,
    newest: int,
    expected: bool,
) -> None:
    macros.answer("upstream_readable", lambda *_: True)
    macros.stub("find_feed_gap", lambda *_: None)
    observed = {"version": str(newest), "feed": {"version": "4"}}

    def may_give_up(**plan: Any) -> Any:
        planned = make_plan(planned_at="2024-05-01T10:00:00", **plan)
        adopted = macros.call("adopt_plan", backfill, make_state(), observed, planned, None)
        return adopted["may_give_up"]

    assert may_give_up() is expected
    assert may_give_up(kind="reset", sources=[make_source(version=None)]) is False
    assert may_give_up(kind="abandon") is False
    backfill["feed"] = {"kind": "delta"}
    for version, has_gone_on in [("4", False), ("3", True)]:
        sources = [make_source(), make_source(role="feed", version=version)]
        assert may_give_up(sources=sources) is has_gone_on


@pytest.mark.parametrize("kind", ["advance", "rescale", "abandon"])
def test_a_plan_of_an_earlier_mv_is_not_adopted(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, refused: Any, kind: str
) -> None:
    """The next run removes it."""
    late = make_plan(kind=kind, backfill_id="b0", planned_at="2024-05-01T10:00:00")
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        macros.call("adopt_plan", backfill, make_state(), {"version": "17"}, late, None)


# -- a plan that an earlier run left ----------------------------------------------------------


@pytest.fixture
def adopt(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, make_source: Any
) -> Callable[..., Any]:
    """Return the plan if it is adopted, or the reason why it is given up.

    `version` is the version of the upstream that the plan reads. `feed` is the version of a change
    table that the plan reads; the committed plan has read version 8.
    """
    asked: list[tuple[Any, Any]] = []
    macros.context["asked"] = asked
    macros.stub(
        "run_mark_abandoned",
        lambda backfill, state, plan, reason: None if macros.context.get("gone") else reason,
    )

    def adopt(
        readable: bool = True,
        rebuild: str | None = None,
        gap: str | None = None,
        dirty: bool = False,
        version: str | None = "17",
        feed: str | None = None,
        committed: dict[str, Any] | None = None,
        **plan: Any,
    ) -> Any:
        def is_readable(observed: Any, source: Any) -> bool:
            asked.append((source["version"], source["id"]))
            return readable

        def sources(version: str | None, feed: str | None) -> list[Any]:
            events = [make_source(role="feed", relation="lake.events", version=feed)]
            return [make_source(version=version), *(events if feed else [])]

        macros.answer("upstream_readable", is_readable)
        macros.stub("find_feed_gap", lambda backfill, observed, committed: gap)
        plan = {"sources": sources(version, feed), **plan}
        planned = make_plan(planned_at="2024-05-01T10:00:00", **plan)
        observed = {"version": "17"}
        last = make_plan(epoch=2, sources=sources("16", feed and "8"), **(committed or {}))
        state = make_state(dirty=dirty, committed=last)
        adopted = macros.call("adopt_plan", backfill, state, observed, planned, rebuild)["plan"]
        return "adopted" if adopted == planned else adopted

    return adopt


def test_a_plan_is_adopted_word_for_word(adopt: Any, macros: Macros) -> None:
    assert adopt() == "adopted"
    assert macros.context["asked"] == [("17", "u1")]


def test_a_plan_of_the_query_of_before_is_adopted_where_the_new_one_returns_more_columns(
    adopt: Any, options: Any, refused: Any
) -> None:
    other = {"query_hash": "h9", "query": "select 9 as k"}

    with refused("another run has planned the barrier 3 with another query, config or session: "):
        adopt(**other)
    options["on_schema_change"] = "append_new_columns"
    with refused("another run has planned the barrier 3 with another query, config or session: "):
        adopt(**other)
    assert adopt(committed=other, **other) == "adopted"
    assert adopt(committed=other, vnode_count=9, **other) == "adopted"


def test_a_plan_whose_version_cannot_be_read_is_abandoned(adopt: Any) -> None:
    assert adopt(readable=False) == "version 17 of the upstream can no longer be read"


def test_a_plan_whose_changes_cannot_be_read_is_abandoned(adopt: Any) -> None:
    assert adopt(gap="the feed was switched") == "the feed was switched"


def test_a_plan_that_another_run_has_committed_is_not_abandoned(
    adopt: Any, macros: Macros, refused: Any
) -> None:
    macros.context["gone"] = True
    with refused("another run changed the state while this run executed the barrier 3. Nothing"):
        adopt(readable=False)


KEPT = [[{"version": 5}], [['{"kept": true}']]]


@pytest.mark.parametrize(
    ("found", "results", "feed", "adopted"),
    [
        (True, KEPT, {}, True),
        (True, [[{"version": 5}], [['{"kept": false}']]], {}, False),
        (True, [[{"version": 2}]], {}, False),
        (True, [[]], {}, False),
        (False, [], {}, False),
        # The change table now, which may have been created again or may have lost events.
        (True, KEPT, {"begun": "b"}, False),
        (True, KEPT, {"begun": None}, True),
        (True, KEPT, {"relation": "lake.others"}, False),
        (True, KEPT, {"floor": 9}, True),
        (True, KEPT, {"floor": 10}, False),
    ],
)
def test_a_plan_whose_staged_rows_or_their_later_events_are_gone_is_abandoned(
    macros: Macros,
    backfill: Any,
    make_state: Any,
    make_plan: Any,
    make_source: Any,
    adopt: Any,
    found: bool,
    results: list[Any],
    feed: dict[str, Any],
    adopted: bool,
) -> None:
    """The first range of an MV has no changes, so no gap of its feed would be found otherwise."""
    macros.answer("upstream_readable", lambda *_: True)
    macros.stub("find_feed_gap", lambda *_: None)
    macros.stub("run_mark_abandoned", lambda backfill, state, plan, reason: reason)
    macros.stub("find_table", lambda _: "found" if found else None)
    macros.results = list(results)
    backfill["upstream"]["kind"] = "postgres"

    def definition(relation: str = "lake.changes", begun: str | None = "a") -> str:
        return json.dumps({"relation": relation, "seen": {"begun": begun, "columns": {}}})

    source = make_source(definition=definition())
    stage = make_source(
        role="stage", relation="lake.mv__staged", id="s1", version="3", definition='{"since": 9}'
    )
    plan = make_plan(planned_at="2024-05-01T10:00:00", sources=[source, stage])
    observed = {"version": "17", "floor": feed.pop("floor", None), "facts": {"columns": []}}
    observed["definition"] = definition(**feed)
    found_plan = macros.call("adopt_plan", backfill, make_state(), observed, plan, None)["plan"]
    assert found_plan == (
        plan
        if adopted
        else "the rows that were staged for it, or later events of its feed, are gone"
    )


@pytest.mark.parametrize("plan", [{"version": "16"}, {"kind": "reanchor"}])
def test_a_plan_without_changes_needs_no_feed(adopt: Any, plan: dict[str, str]) -> None:
    assert adopt(gap="the feed was switched", **plan) == "adopted"


def test_new_events_of_a_change_table_are_changes_too(adopt: Any) -> None:
    plan = {"version": "16", "feed": "9"}

    assert adopt(gap="the change feed went back", **plan) == "the change feed went back"


def test_without_new_events_a_change_table_has_no_changes_though_the_upstream_moved(
    adopt: Any,
) -> None:
    plan = {"version": "17", "feed": "8"}

    assert adopt(gap="the change feed went back", **plan) == "adopted"


def test_a_rescale_is_executed_whatever_the_upstream_and_the_model_are_now(adopt: Any) -> None:
    """A rescale reads neither the upstream nor the query."""
    other = {"query_hash": "h0", "settings": {"spark.sql.session.timeZone": "Asia/Tokyo"}}

    assert adopt(readable=False, kind="rescale", vnode_count=9, **other) == "adopted"
    assert adopt(gap="the feed was switched", rebuild="full refresh", kind="rescale") == "adopted"


def test_a_plan_is_abandoned_where_the_mv_is_rebuilt_anyway(adopt: Any) -> None:
    assert adopt(rebuild="full refresh") == "full refresh"


def test_a_planned_reset_is_adopted_by_a_full_refresh(adopt: Any) -> None:
    plan = {"kind": "reset", "version": None}

    assert adopt(rebuild="full refresh", **plan) == "adopted"
    assert adopt(readable=False, **plan) == "adopted"


@pytest.mark.parametrize(
    "other",
    [
        {"query_hash": "h0", "query": "select 0 as k"},
        {"key": [{"name": "k", "upstream": "id", "type": "bigint", "position": "id"}]},
        {"vnode_count": 9},
        {"settings": {"spark.sql.session.timeZone": "Asia/Tokyo"}},
        {"sources": [{"role": "upstream", "relation": "lake.old", "kind": "delta"}]},
    ],
)
def test_a_planned_reset_of_another_model_is_abandoned_by_a_full_refresh(
    adopt: Any, other: dict[str, Any]
) -> None:
    """The query of the planned reset may fail at every run."""
    plan = {"kind": "reset", "version": None, **other}

    assert adopt(rebuild="full refresh", **plan) == "full refresh"


def test_a_planned_reset_to_another_order_is_abandoned_by_a_full_refresh(
    adopt: Any, options: Any, descending: Any, macros: Macros
) -> None:
    reset = {"kind": "reset", "version": None, "key": descending}
    assert adopt(rebuild="full refresh", **reset) == "full refresh"
    assert adopt(**reset) == "adopted"
    options["backfill_order"] = "descending"
    assert adopt(rebuild="full refresh", **reset) == "adopted"

    macros.stub("exists_with_id", lambda relation, id: True)
    swap = {"kind": "swap", "generation": {"relation": "lake.mv__next", "id": "b9"}}
    assert adopt(rebuild="full refresh", **swap) == "full refresh"
    options["full_refresh_mode"] = "beside"
    assert adopt(rebuild="full refresh", **swap) == "adopted"


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"query_hash": "h0", "query": "select 0 as k"}, "its query changed"),
        (
            {"settings": {"spark.sql.session.timeZone": "Asia/Tokyo"}},
            "the session's time zone, on which its query depends, changed from Asia/Tokyo to UTC",
        ),
    ],
)
def test_a_plan_of_another_deployment_is_not_executed(
    adopt: Any, refused: Any, other: dict[str, Any], difference: str
) -> None:
    """Another deployment rebuilt the MV while this run was at work. In this run's session the new
    query may return other values.
    """
    between = "another run has planned the barrier 3 with another query, config or session: "
    with refused(between + difference):
        adopt(**other)
    with refused(between + difference):
        adopt(kind="reset", version=None, **other)
    assert adopt(kind="abandon", **other) == "adopted"
    assert adopt(rebuild="full refresh", **other) == "full refresh"


@pytest.mark.parametrize("altered", [{"fills": [{"name": "x"}]}, {"drops": ["x"]}])
def test_a_plan_of_other_columns_may_be_given_up(adopt: Any, refused: Any, altered: Any) -> None:
    """Such a plan may fail at every run. Then no run could execute a corrected query."""
    with refused(
        "another run has planned the barrier 3 with another query, config or session: its query "
        "changed. Run only one deployment of the model, or give that plan up: dbt run-operation "
        "abandon_plan --args '{model: mv}'. This run wrote nothing."
    ):
        adopt(query_hash="h9", query="select 9 as k", **altered)


@pytest.mark.parametrize("rebuild", [None, "full refresh"])
def test_an_abandoned_plan_is_committed_as_such(adopt: Any, rebuild: str | None) -> None:
    assert adopt(readable=False, rebuild=rebuild, kind="abandon") == "adopted"
