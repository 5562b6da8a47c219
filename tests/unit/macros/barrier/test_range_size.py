"""`barrier_seconds`: the time of the last range decides how many rows the next range gets."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros

TARGET = 20


@pytest.fixture
def size(macros: Macros) -> Any:
    def size(most: int | None = None, **committed: Any) -> Any:
        read = {"range_row_count": 8, "backfill_rate_limit": committed.get("sized_rows")}
        return macros.call("get_sized_rows", TARGET, {**read, **committed}, most)

    return size


@pytest.mark.parametrize(
    ("seconds", "rows"),
    [(1, 16_000), (9.9, 16_000), (10, 8000), (20, 8000), (30, 8000), (30.1, 4000), (900, 4000)],
)
def test_a_range_is_halved_or_doubled_or_stays(size: Any, seconds: float, rows: int) -> None:
    assert size(sized_rows=8000, seconds=seconds) == rows


def test_a_target_that_no_range_can_meet_does_not_end_in_ranges_of_a_few_rows(size: Any) -> None:
    assert size(sized_rows=1500, seconds=900) == 1000
    assert size(sized_rows=1000, seconds=900) == 1000
    assert size(sized_rows=40, seconds=900) == 40  # the rate limit says so


@pytest.mark.parametrize(
    "committed",
    [
        {"range_row_count": None},
        {"seconds": None},  # an earlier run had planned the barrier
    ],
    ids=["no range", "not measured"],
)
def test_a_barrier_that_says_nothing_of_the_size_leaves_it(size: Any, committed: Any) -> None:
    assert size(**{"sized_rows": 8000, "seconds": 900, **committed}) == 8000


@pytest.mark.parametrize(
    ("limit", "seconds", "rows"),
    [(6000, 900, 3000), (100, 900, 1000), (6000, 20, 8000), (6000, 1, 8000)],
    ids=["too long", "much too long", "as wanted", "fast"],
)
def test_a_range_that_a_limit_has_cut_halves_the_size_but_does_not_double_it(
    size: Any, limit: int, seconds: float, rows: int
) -> None:
    assert size(sized_rows=8000, backfill_rate_limit=limit, seconds=seconds) == rows


@pytest.mark.parametrize(("limit", "rows"), [(None, 100_000), (700, 700)])
def test_the_first_range_is_as_the_rate_limit_says(size: Any, limit: Any, rows: int) -> None:
    assert size(most=limit, seconds=900) == rows
