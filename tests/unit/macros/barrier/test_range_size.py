"""`barrier_seconds`: how many rows a range gets, by what the last ones took."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.macros import Macros

TARGET = 20


def measure(rows: int, seconds: float, limit: int | None = None, cold: bool = False) -> Any:
    return {"rows": rows, "seconds": seconds, "limit": limit or rows, "cold": cold}


@pytest.fixture
def size(macros: Macros, make_state: Any) -> Any:
    def size(*measures: Any, target: float = TARGET, most: int | None = None, **state: Any) -> Any:
        return macros.call("get_sized_rows", target, list(measures), make_state(**state), most)

    return size


@pytest.mark.parametrize(
    ("last", "rows"),
    [
        (measure(1000, 10), 3000),  # half of the ten seconds saves no smaller range
        (measure(1000, 40), 500),
        (measure(1000, 1), 4000),  # at most four times as many
        (measure(1000, 900), 250),  # and at least a quarter
        (measure(1, 900), 1),
        (measure(1000, 18), 1000),  # near enough: the bounds that were found stay
        (measure(990, 24, limit=1000), 1000),
    ],
)
def test_a_single_measure_is_a_first_guess(size: Any, last: Any, rows: int) -> None:
    assert size(last) == rows


def test_two_measures_tell_what_a_barrier_takes_without_a_row(size: Any) -> None:
    # Six seconds, and one more for a hundred rows.
    assert size(measure(200, 8), measure(600, 12)) == 1400
    assert size(measure(200, 8), measure(600, 12), measure(400, 10)) == 1400


def test_the_first_barrier_of_a_run_says_little(size: Any) -> None:
    cold = measure(100, 60, cold=True)
    assert size(cold, measure(200, 8), measure(600, 12)) == 1400
    assert size(cold, measure(200, 8)) == 800
    assert size(cold) == 33


def test_a_target_below_what_a_barrier_takes_at_all_does_not_end_in_single_rows(size: Any) -> None:
    # Thirty seconds, and one more for a hundred rows.
    assert size(measure(500, 35), measure(1000, 40)) == 1500
    # No smaller range was faster.
    assert size(measure(1000, 40), measure(500, 40)) == 2000
    assert size(measure(1000, 40), measure(500, 45)) == 2000


def test_ranges_of_about_the_same_size_tell_nothing_of_a_row(size: Any) -> None:
    assert size(measure(1000, 9), measure(1010, 10)) == 3030


@pytest.mark.parametrize("fixed", [0, 2, 6, 15, 40])
@pytest.mark.parametrize("per_second", [500, 100_000])
def test_from_the_third_barrier_on_it_is_near_the_target_or_what_can_be(
    size: Any, fixed: float, per_second: int
) -> None:
    rng = random.Random(fixed)
    measures: list[Any] = []
    rows = per_second  # some guess that is not far off
    wanted = fixed + max(TARGET - fixed, fixed / 2)
    for number in range(8):
        exact = fixed + rows / per_second + (8 if number == 0 else 0)
        measures.append(measure(rows, exact * rng.uniform(0.97, 1.03), cold=number == 0))
        if number >= 2:
            assert 0.6 * wanted < exact < 1.4 * wanted
        rows = size(*measures)


@pytest.mark.parametrize(("limit", "rows"), [(None, 100_000), (700, 700)])
def test_without_a_measure_it_is_a_first_guess(size: Any, limit: Any, rows: int) -> None:
    assert size(most=limit, committed={"kind": "create"}) == rows


def test_without_a_measure_it_is_what_the_last_barrier_was_to_read(size: Any) -> None:
    assert size() == 10


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        ({"range_row_count": 4}, measure(4, 2.5, limit=10, cold=True)),
        ({"range_row_count": None}, None),
        ({"kind": "reanchor"}, None),
        ({"kind": "fill"}, None),
        ({"invocation_id": "an earlier one"}, None),
    ],
)
def test_only_what_this_run_has_planned_and_read_is_measured(
    macros: Macros, make_plan: Any, plan: Any, found: Any
) -> None:
    # The rest of it went into a copy of the upstream.
    barrier = {"plan": make_plan(**plan), "seconds": 60, "range_seconds": 2.5}

    assert macros.call("measure_barrier", barrier, True) == found


def test_nobody_reads_the_history_who_sizes_no_range(
    macros: Macros, backfill: Any, make_state: Any
) -> None:
    assert macros.call("read_measures", backfill, make_state()) == []
