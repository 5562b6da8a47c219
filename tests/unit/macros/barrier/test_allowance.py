"""The number of rows that a barrier may read.

The config, users' controls and the budgets of the run decide it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros

PAUSE = {"value": "0", "set_by": "bob", "set_at": "2026-11-24 12:00"}
THROTTLE = {"value": "1000", "set_by": "alice", "set_at": "2026-11-23 09:30"}
LIFTED = {"value": "default", "set_by": "alice", "set_at": "2026-11-24 10:00"}


def run(**changes: Any) -> Any:
    """Return the variables of a run's loop before its first barrier."""
    start = {"rows": 0, "committed": 0, "rebuild": None, "next": None}
    return SimpleNamespace(**{**start, **changes})


@pytest.fixture
def allow(macros: Macros, backfill: Any, make_state: Any) -> Callable[..., Any]:
    """Return how many rows the next barrier may read, and which limit sets this number."""

    def allow(loop: Any = None, control: Any = None, **options: Any) -> Any:
        backfill["options"].update(options)
        state = make_state(control=control)
        allowance = macros.call("get_allowance", backfill, state, loop or run())
        return allowance["rows"], allowance["ruled_by"]

    return allow


@pytest.mark.parametrize("limit", [None, 0, 500])
@pytest.mark.parametrize(
    ("control", "ruling"),
    [
        (None, None),
        (PAUSE, (0, "pause")),
        (THROTTLE, (1000, "throttle")),
        (LIFTED, None),
    ],
    ids=["none", "pause", "throttle", "lifted"],
)
def test_what_people_have_set_wins_over_the_config(
    allow: Callable[..., Any], limit: Any, control: Any, ruling: Any
) -> None:
    assert allow(control=control, backfill_rate_limit=limit) == (ruling or (limit, "config"))


def test_who_has_set_it_and_when_is_told(macros: Macros, backfill: Any, make_state: Any) -> None:
    state = make_state(control=THROTTLE)
    allowance = macros.call("get_allowance", backfill, state, run())

    assert (allowance["by"], allowance["since"]) == ("alice", "2026-11-23 09:30")
    text = macros.call("get_allowance_text", allowance, state)
    assert text == "throttled to 1,000 rows by alice since 2026-11-23 09:30"


def test_the_former_of_two_generations_reads_no_ranges_whatever_is_set(
    macros: Macros, backfill: Any, allow: Callable[..., Any]
) -> None:
    backfill["generation"] = "former"

    assert allow(control=THROTTLE, backfill_rate_limit=0) == (0, "config")


# -- the budget of rows -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "limit", "allowed"),
    [
        (0, 10, (10, "config")),
        (20, 10, (5, "run_rows")),
        (0, None, (25, "run_rows")),
        (26, 10, (0, "run_rows")),  # a range may have a few more rows than its limit
    ],
)
def test_the_last_range_is_cut_to_what_is_left(
    allow: Callable[..., Any], read: int, limit: Any, allowed: Any
) -> None:
    assert allow(run(rows=read), run_rows=25, backfill_rate_limit=limit) == allowed


def test_a_pause_stops_also_a_run_with_a_budget(allow: Callable[..., Any]) -> None:
    assert allow(control=PAUSE, run_rows=25, barrier_seconds=9) == (0, "pause")


@pytest.mark.parametrize(
    ("budget", "loop", "finished", "spent"),
    [
        ({}, {"rows": 1000}, False, False),
        ({"run_rows": 25}, {"rows": 24}, False, False),
        ({"run_rows": 25}, {"rows": 25}, False, True),
        ({"run_rows": 25}, {"rows": 25}, True, False),  # nothing is left to read
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


# -- the target duration: how it sizes a range is in test_range_size.py --------------------------


def test_the_target_duration_sizes_a_range(allow: Callable[..., Any]) -> None:
    limits = {"barrier_seconds": 20, "backfill_rate_limit": None}
    assert allow(**limits) == (100_000, "barrier_seconds")


def test_the_rate_limit_is_the_upper_bound(allow: Callable[..., Any]) -> None:
    limits = {"barrier_seconds": 20, "backfill_rate_limit": 1500}
    assert allow(**limits) == (1500, "config")
    assert allow(control=THROTTLE, **limits) == (1000, "throttle")


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
    allowance = {"rows": rows, "ruled_by": ruled_by}

    assert macros.call("get_allowance_text", allowance, make_state()) == text
    assert macros.call("get_allowance_text", allowance, make_state(finished=True)) == ""
