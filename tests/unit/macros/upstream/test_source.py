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
