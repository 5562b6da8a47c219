"""The current content of the upstream, or of the change table that is read instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

# -- observe_upstream ---------------------------------------------------------------------------


@pytest.fixture
def observe(macros: Macros, backfill: Any, make_state: Callable[..., Any]) -> Callable[..., Any]:
    """Return what is observed, and the calls of the contract: (table, since, log) or a check."""
    asked: list[Any] = []

    def read_upstream(upstream: Any, since: Any, log: Any = None) -> Any:
        asked.append((upstream["relation"].identifier, since, log))
        return {"version": len(asked)}

    macros.answer("read_upstream", read_upstream)
    macros.answer("check_feed", lambda observed: asked.append(("check", observed["version"])))

    def observe(feed: Any = None, since: Any = None, **state: Any) -> Any:
        backfill["feed"] = feed
        observed = macros.call("observe_upstream", backfill, make_state(**state), since)
        return observed, asked

    return observe


def test_a_change_table_is_read_before_its_upstream(
    observe: Callable[..., Any], feed: Any, make_plan: Callable[..., Any], followed: Any
) -> None:
    """In this order, the upstream has every change whose event is read."""
    of_upstream, of_feed = followed()
    observed, asked = observe(feed, make_plan(sources=followed()), log=["log"])

    assert observed == {"version": 3, "feed": {"version": 1}}
    assert asked == [
        ("changes", of_feed, ["log"]),
        ("check", 1),
        ("up", of_upstream, None),
    ]


# -- find_feed_gap ------------------------------------------------------------------------------


@pytest.fixture
def gap(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any], followed: Any
) -> Callable[..., Any]:
    def gap(
        feed: Any = None, noted: str | None = None, continues: bool = True, refusal: Any = None
    ) -> Any:
        backfill["feed"] = feed

        def found(reason: str) -> dict[str, Any]:
            return {"reason": reason, "refusal": refusal}

        macros.stub("describe_change_table", lambda feed: "the feed")
        macros.answer("continues_upstream", lambda observed, committed: continues)
        macros.answer("upstream_gap", lambda observed, _: found(f"of {observed['name']}"))
        observed = {"name": "the table", "feed": {"name": "the change table"}}
        plan = make_plan(**({"sources": followed(definition=noted)} if noted else {}))
        return macros.call("find_feed_gap", backfill, observed, plan)

    return gap


def test_a_gap_is_one_of_the_feed_that_is_followed(gap: Callable[..., Any], feed: Any) -> None:
    assert gap() == "of the table"
    assert gap(feed, "the feed") == "of the change table"


def test_what_cannot_be_followed_after_its_gap_either_is_refused(
    gap: Callable[..., Any], feed: Any, refused: Any
) -> None:
    refusal = {"fact": "lake.up has no change data feed", "change": "Give it one", "id": "a-b"}
    for arguments in [(), (feed, "the feed")]:
        with refused("lake.up has no change data feed. Give it one."):
            gap(*arguments, refusal=refusal)


@pytest.mark.parametrize("noted", [None, "another feed"])
def test_another_change_table_than_before_is_a_gap(
    gap: Callable[..., Any], feed: Any, noted: str | None
) -> None:
    assert gap(feed, noted) == "change_feed was changed"


def test_a_change_table_that_is_not_followed_any_more_is_a_gap(gap: Callable[..., Any]) -> None:
    """The upstream may have been ahead of the events in the change table."""
    assert gap(None, "the feed") == "change_feed was changed"


def test_an_upstream_that_was_replaced_is_a_gap_beside_a_change_table(
    gap: Callable[..., Any], feed: Any
) -> None:
    assert gap(feed, "the feed", continues=False) == (
        "the upstream may have been replaced, gone back to an earlier version or had columns"
        " changed"
    )
