"""Step 3 of a barrier: how the changes are read, and between which bounds their keys lie."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros


def test_changes_and_a_range_are_bounded_by_no_more_than_two_columns(
    macros: Macros, make_plan: Any, keys: Any
) -> None:
    """Spark's time for such a condition grows with the square of the number of columns."""
    wide = [*keys, {"name": "last", "upstream": "last", "type": "int", "position": "last"}]
    plan = make_plan(key=wide, range_low=["1", "2", "3"], range_high=["5", "6", "7"])
    staged = {"low": ["1", "2", "3"], "high": ["4", "0", "9"]}

    bounds = macros.call("get_changes_bounds", plan, staged, True)
    assert "`shard`" in bounds and "`last`" not in bounds


@pytest.mark.parametrize(
    ("asked", "plan", "state"),
    [
        (True, {}, {}),
        (False, {"sweeps": True}, {}),
        (False, {"kind": "fill"}, {}),
        (False, {}, {"dirty": True}),
    ],
)
@pytest.mark.parametrize("tells_before", [True, False])
def test_a_change_may_leave_a_row_as_it_was_where_that_row_is_exact(
    macros: Macros, backfill: Any, analysis: Any, observed: Any, make_state: Any, make_plan: Any,
    asked: bool, plan: Any, state: Any, tells_before: bool,
) -> None:  # fmt: skip
    events = {"events": "", "tells_before": tells_before}
    macros.answer("upstream_changes", lambda *_: events)
    known = {**analysis, "read_columns": [{"name": "id", "type": "int"}]}
    arguments = backfill, make_state(**state), observed, known, make_plan(**plan)

    changes = macros.call("get_changes", *arguments)
    assert changes["read_columns"] == (known["read_columns"] if asked and tells_before else None)


@pytest.mark.parametrize("drops_rows", [True, False])
@pytest.mark.parametrize("may_repeat", [True, False])
def test_the_row_before_is_checked_only_if_the_feed_reports_it(
    macros: Macros, backfill: Any, analysis: Any, observed: Any, make_state: Any, make_plan: Any,
    drops_rows: bool, may_repeat: bool,
) -> None:  # fmt: skip
    macros.answer("upstream_changes", lambda *_: {"events": "", "may_repeat": may_repeat})
    checking = {**backfill, "options": {**backfill["options"], "check_key": True}}
    arguments = checking, make_state(), observed, {**analysis, "drops_rows": drops_rows}
    changes = macros.call("get_changes", *arguments, make_plan())

    assert changes["checks_before"] is (drops_rows and not may_repeat)
