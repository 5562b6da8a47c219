"""One pass over the remaining keys finds the bounds of the next ranges."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import neg
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

KEYS = [{"name": "k", "upstream": "id", "type": "bigint"}]


@pytest.fixture
def find_bounds(macros: Macros, duck: Duck) -> Callable[..., dict[str, Any]]:
    """Return the bounds among the keys from 1 to `rows`, as numbers.

    `file` is SQL over `id` that returns the file of a key. `place` orders the keys in a file. By
    default the greatest key comes first, because the bounds must not depend on this order.
    """

    def find(
        rows: int,
        rate_limit: int,
        done: int = 0,
        total: int | None = None,
        file: str = "''",
        place: Callable[[int], int] = neg,
        keys: list[int] | None = None,
    ) -> Any:
        duck.create(
            "lake.up",
            {"id": "bigint"},
            [(key,) for key in sorted(keys or range(1, rows + 1), key=place)],
        )
        duck.file_name = file
        total = rows + done if total is None else total
        scan = "select * from lake.up"
        sql = macros.call("get_bounds_sql", scan, f"(select {total})", done, KEYS, rate_limit)
        found = json.loads(duck.rows(sql)[0][0])
        assert found["rows"] == max(1, total - done)
        if file != "''":
            return found["scans"]
        assert "scans" not in found
        return {"bounds": numbers(found["bounds"]), "complete": found["complete"]}

    return find


def numbers(bounds: list[list[str]]) -> list[int]:
    """Convert bounds of a bigint, which are literals such as 7L, to numbers."""
    return [int(literal.removesuffix("L")) for [literal] in bounds]


def shuffled(key: int) -> int:
    return key * 37 % 101


def ascending(key: int) -> int:
    return key


@pytest.mark.parametrize(
    ("file", "place", "scans"),
    [
        ("'one'", neg, 1),  # the keys are in order, so a range reads no other rows
        ("'one'", shuffled, 10),
        ("concat('f', id % 4)", shuffled, 10),
        ("concat('f', id % 4)", ascending, 1),
        ("concat('f', (id - 1) div 10)", shuffled, 1),  # each file has the keys of one range
        ("concat('f', (id - 1) div 20)", shuffled, 2),
        ("if(id <= 50, concat('f', (id - 1) div 10), 'rest')", shuffled, 3),
    ],
)
def test_it_is_told_how_often_all_ranges_would_read_a_row(
    find_bounds: Callable[..., Any], file: str, place: Callable[[int], int], scans: float
) -> None:
    assert find_bounds(100, 10, file=file, place=place) == scans


def test_every_range_has_the_rows_of_the_rate_limit(find_bounds: Callable[..., Any]) -> None:
    assert find_bounds(10, 3) == {"bounds": [3, 6, 9], "complete": True}


def test_a_bound_at_the_very_end_is_left_out_because_the_last_range_is_open(
    find_bounds: Callable[..., Any],
) -> None:
    assert find_bounds(9, 3) == {"bounds": [3, 6], "complete": True}


def test_a_key_that_fills_several_ranges_is_one_bound(find_bounds: Callable[..., Any]) -> None:
    keys = [1, 2, 3, 3, 3, 3, 4, 5, 6]

    assert find_bounds(len(keys), 2, keys=keys) == {"bounds": [2, 3, 5], "complete": True}


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_no_bounds_are_found_where_one_range_takes_all(
    find_bounds: Callable[..., Any], rows: int
) -> None:
    assert find_bounds(rows, 3) == {"bounds": [], "complete": True}


def test_at_most_256_bounds_are_found_and_the_rest_is_for_a_later_pass(
    find_bounds: Callable[..., Any],
) -> None:
    found = find_bounds(258 * 2, 2)

    assert found == {"bounds": [2 * i for i in range(1, 257)], "complete": False}


def test_bounds_are_complete_as_long_as_the_last_one_reaches_the_last_range(
    find_bounds: Callable[..., Any],
) -> None:
    found = find_bounds(257 * 2, 2)

    assert found == {"bounds": [2 * i for i in range(1, 257)], "complete": True}


def test_a_total_that_is_less_than_what_was_read_does_no_harm(
    find_bounds: Callable[..., Any],
) -> None:
    """Rows may have been deleted after they were read."""
    assert find_bounds(10, 3, done=50, total=20) == {"bounds": [3, 6, 9], "complete": True}


@pytest.mark.parametrize(
    ("remaining", "rate_limit", "scanned", "distance"),
    [
        (100_000, 10, 100_000, 10),  # all keys are sorted
        (1_000_000, 100_000, 1_000_000, 100_000),  # a tenth of them: 100,000 keys
        (1_000_000_000, 1_000_000, 2_500_000, 1_000_000),  # 1,000 sampled keys for each range
        (1_000_000_000, 10, 300_000, 1_000),  # at most a million keys, so each of them is a bound
    ],
)
def test_a_large_remainder_is_sampled_and_the_step_with_it(
    macros: Macros, duck: Duck, remaining: int, rate_limit: int, scanned: int, distance: int
) -> None:
    """The test's table has only the first of the remaining keys.

    The size of the sample follows from the given number of remaining keys.
    """
    scan = f"select id + 1 as id from range({scanned})"
    sql = macros.call("get_bounds_sql", scan, remaining, 0, KEYS, rate_limit, False)

    bounds = numbers(json.loads(duck.rows(sql)[0][0])["bounds"])

    assert len(bounds) == pytest.approx(min(256, (scanned - 1) // distance), rel=0.2)
    assert bounds[-1] / len(bounds) == pytest.approx(distance, rel=0.2)
