"""What a plan reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

# -- its sources ------------------------------------------------------------------------------


def test_a_source_is_found_by_its_role(
    macros: Macros, make_plan: Callable[..., Any], make_source: Callable[..., Any]
) -> None:
    upstream, feed = make_source(), make_source(role="feed", relation="lake.changes")
    plan = make_plan(sources=[feed, upstream])

    assert macros.call("get_source", plan) == upstream
    assert macros.call("get_source", plan, "upstream") == upstream
    assert macros.call("get_source", plan, "feed") == feed


def test_a_plan_may_read_no_source_of_a_role(macros: Macros, make_plan: Any) -> None:
    assert macros.call("get_source", make_plan(), "feed") is None


@pytest.mark.parametrize("plan", [None, {}, {"sources": []}])
def test_no_plan_reads_no_source(macros: Macros, plan: Any) -> None:
    assert macros.call("get_source", plan) is None


@pytest.mark.parametrize(
    ("type", "kind", "stands"),
    [
        ("table", "delta", True),
        ("table", "iceberg", False),
        ("view", "delta", False),
        (None, "delta", False),
    ],
)
def test_what_a_plan_notes_may_be_gone_or_something_else(
    macros: Macros, up: Any, type: str | None, kind: str, stands: bool
) -> None:
    macros.stub("load_table", lambda relation: up.incorporate(type=type) if type else None)
    macros.stub("get_table_format", lambda existing, name: kind)

    assert macros.call("stands_as_noted", {"relation": up, "kind": "delta"}) is stands
