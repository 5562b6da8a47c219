"""What a barrier may read: by the config, by what people have set, and by budgets of its run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

PAUSE = {"value": "true", "set_by": "bob", "set_at": "2026-11-24 12:00"}
RESUMED = {"value": "false", "set_by": "bob", "set_at": "2026-11-24 13:00"}
THROTTLE = {"value": "1000", "set_by": "alice", "set_at": "2026-11-23 09:30"}
LIFTED = {"value": "default", "set_by": "alice", "set_at": "2026-11-24 10:00"}


def run(**changes: Any) -> Any:
    """The namespace of a loop, before its first barrier."""
    start = {"rows": 0, "committed": 0, "measured": None, "rebuild": None, "next": None}
    return SimpleNamespace(**{**start, **changes})


@pytest.fixture
def allow(macros: Macros, backfill: Any, make_state: Any) -> Callable[..., Any]:
    """The allowance of the next barrier: (rows, what rules)."""

    def allow(loop: Any = None, controls: Any = None, **options: Any) -> Any:
        backfill["options"].update(options)
        state = make_state(controls=controls)
        allowance = macros.call("get_allowance", backfill, state, loop or run())
        return allowance["rows"], allowance["ruled_by"]

    return allow


@pytest.mark.parametrize("limit", [None, 0, 500])
@pytest.mark.parametrize(
    ("controls", "ruling"),
    [
        (None, None),
        ({"pause": PAUSE}, (0, "pause")),
        ({"pause": RESUMED}, None),
        ({"rate_limit": THROTTLE}, (1000, "throttle")),
        ({"rate_limit": LIFTED}, None),
        ({"rate_limit": THROTTLE, "pause": PAUSE}, (0, "pause")),
        ({"rate_limit": THROTTLE, "pause": RESUMED}, (1000, "throttle")),
    ],
    ids=["none", "pause", "resumed", "throttle", "lifted", "both", "resumed to a throttle"],
)
def test_what_people_have_set_wins_over_the_config(
    allow: Callable[..., Any], limit: Any, controls: Any, ruling: Any
) -> None:
    assert allow(controls=controls, backfill_rate_limit=limit) == (ruling or (limit, "config"))


def test_who_has_set_it_and_when_is_told(macros: Macros, backfill: Any, make_state: Any) -> None:
    state = make_state(controls={"rate_limit": THROTTLE})
    allowance = macros.call("get_allowance", backfill, state, run())

    assert (allowance["by"], allowance["since"]) == ("alice", "2026-11-23 09:30")
    text = macros.call("get_allowance_text", allowance, state)
    assert text == "throttled to 1,000 rows by alice since 2026-11-23 09:30"
    assert macros.call("get_control_text", allowance, state) == text


def test_the_former_of_two_generations_reads_no_ranges_whatever_is_set(
    macros: Macros, backfill: Any, allow: Callable[..., Any]
) -> None:
    backfill["generation"] = "former"

    controls = {"rate_limit": THROTTLE}
    assert allow(controls=controls, backfill_rate_limit=0) == (0, "config")


# -- the budget of rows -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "limit", "allowed"),
    [
        (0, 10, (10, "config")),
        (20, 10, (5, "run_rows")),
        (0, None, (25, "run_rows")),
        (26, 10, (0, "run_rows")),  # a range may hold a few more rows than it is to
    ],
)
def test_the_last_range_is_cut_to_what_is_left(
    allow: Callable[..., Any], read: int, limit: Any, allowed: Any
) -> None:
    assert allow(run(rows=read), run_rows=25, backfill_rate_limit=limit) == allowed


def test_a_pause_stops_also_a_run_with_a_budget(allow: Callable[..., Any]) -> None:
    assert allow(controls={"pause": PAUSE}, run_rows=25, barrier_seconds=9) == (0, "pause")


@pytest.mark.parametrize(
    ("budget", "loop", "finished", "spent"),
    [
        ({}, {"rows": 1000}, False, False),
        ({"run_rows": 25}, {"rows": 24}, False, False),
        ({"run_rows": 25}, {"rows": 25}, False, True),
        ({"run_rows": 25}, {"rows": 25}, True, False),  # then there is nothing to save up
        ({"run_rows": 25}, {"rows": 25, "rebuild": "full refresh"}, False, False),
        ({"run_rows": 25}, {"rows": 25, "next": "planned"}, False, False),
        ({"run_minutes": 3}, {}, False, False),
        ({"run_minutes": 1.5}, {}, False, True),
        ({"run_minutes": 2}, {}, True, True),
        ({"run_minutes": 2}, {"rebuild": "full refresh"}, True, False),
    ],
)
def test_a_budget_that_is_spent_ends_a_run_unless_only_this_one_knows_what_is_left(
    macros: Macros, backfill: Any, make_state: Any, budget: Any, loop: Any, finished: bool,
    spent: bool,
) -> None:  # fmt: skip
    backfill["options"].update(budget)
    backfill["started_at"] = datetime.now() - timedelta(minutes=2)
    loop = run(state=make_state(finished=finished), **loop)

    assert macros.call("is_budget_spent", backfill, loop) is spent


# -- the target duration ----------------------------------------------------------------------


def measured(rows: int, seconds: float, limit: int | None = None) -> Any:
    return run(committed=1, measured={"rows": rows, "seconds": seconds, "limit": limit or rows})


@pytest.mark.parametrize(
    ("loop", "rows"),
    [
        (measured(1000, 10), 2000),
        (measured(1000, 40), 500),
        (measured(1000, 1), 4000),  # at most four times as many
        (measured(1000, 900), 250),  # and at least a quarter
        (measured(1, 900), 1),
        (measured(1000, 18), 1000),  # near enough: the bounds that were found stay
        (measured(990, 24, limit=1000), 1000),
        (run(committed=1), 10),  # what the last one was to read
    ],
)
def test_a_range_has_as_many_rows_as_took_the_target_in_the_last_one(
    allow: Callable[..., Any], loop: Any, rows: int
) -> None:
    limits = {"barrier_seconds": 20, "backfill_rate_limit": None}
    assert allow(loop, **limits) == (rows, "barrier_seconds")


def test_the_rate_limit_is_the_upper_bound(allow: Callable[..., Any]) -> None:
    limits = {"barrier_seconds": 20, "backfill_rate_limit": 1500}
    assert allow(measured(1000, 10), **limits) == (1500, "config")
    controls = {"rate_limit": THROTTLE}
    assert allow(measured(1000, 10), controls=controls, **limits) == (1000, "throttle")


@pytest.mark.parametrize(
    ("limit", "allowed"), [(None, (100_000, "barrier_seconds")), (700, (700, "config"))]
)
def test_without_a_measure_it_is_a_first_guess(
    macros: Macros, backfill: Any, make_state: Any, limit: Any, allowed: Any
) -> None:
    backfill["options"].update(barrier_seconds=20, backfill_rate_limit=limit)
    state = make_state(committed={"kind": "create"})
    allowance = macros.call("get_allowance", backfill, state, run())

    assert (allowance["rows"], allowance["ruled_by"]) == allowed


@pytest.mark.parametrize(
    ("plan", "rows"),
    [
        (
            {"planned_at": "2026-11-24T12:00:00.000Z", "committed_at": "2026-11-24T12:00:05.000Z"},
            16,
        ),
        (
            {
                "planned_at": "2026-11-24T12:00:00.500+01:00",
                "committed_at": "2026-11-24T12:00:05.500+01:00",
            },
            16,
        ),
        ({"planned_at": "noon", "committed_at": "later"}, 10),  # as its plan had it
        ({"kind": "fill", "planned_at": "2026-11-24T12:00:00.000Z", "committed_at": "x"}, 10),
    ],
)
def test_a_run_begins_with_what_the_last_barrier_of_before_took(
    macros: Macros, backfill: Any, make_state: Any, make_plan: Any, plan: Any, rows: int
) -> None:
    backfill["options"].update(barrier_seconds=20, backfill_rate_limit=None)
    state = make_state(committed=make_plan(epoch=2, range_row_count=4, **plan))

    assert macros.call("get_allowance", backfill, state, run())["rows"] == rows


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        ({"range_row_count": 4}, {"rows": 4, "seconds": 2.5, "limit": 10}),
        ({"range_row_count": None}, None),
        ({"kind": "reanchor"}, None),
        ({"kind": "fill"}, None),
        ({"invocation_id": "an earlier one"}, None),
    ],
)
def test_only_what_this_run_has_planned_and_read_is_measured(
    macros: Macros, make_plan: Any, plan: Any, found: Any
) -> None:
    barrier = {"plan": make_plan(**plan), "seconds": 2.5}

    assert macros.call("measure_barrier", barrier) == found


# -- what a user sees -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "ruled_by", "text"),
    [
        (10, "config", ""),
        (1234, "barrier_seconds", "up to 1,234 by barrier_seconds"),
        (5, "run_rows", "up to 5 by run_rows"),
    ],
)
def test_what_rules_is_told_unless_it_is_the_config(
    macros: Macros, make_state: Any, rows: int, ruled_by: str, text: str
) -> None:
    allowance = macros.call("new_allowance", rows, ruled_by)

    assert macros.call("get_allowance_text", allowance, make_state()) == text
    assert macros.call("get_allowance_text", allowance, make_state(finished=True)) == ""
    assert macros.call("get_control_text", allowance, make_state()) == ""
