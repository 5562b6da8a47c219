"""The bounds of the next ranges, found by one pass over the keys that remain."""

from __future__ import annotations

import itertools
import json
import sqlite3
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

KEYS = [{"name": "k", "upstream": "id", "type": "bigint"}]


@pytest.fixture
def find_bounds(macros: Macros, sqlite: sqlite3.Connection) -> Callable[..., dict[str, Any]]:
    """The bounds among the keys 1 to `rows`; a bound is a number instead of a literal's text.

    `files`: SQL over `id`, the file that has it; the rows of each stand from the greatest to the
    least, or in another order that `place` gives.
    """
    macros.stub("literals_expression", lambda keys, prefix="": f"{prefix}`id`")

    def pairs(found: str | None) -> str:
        lists = json.loads((found or "json:[]").removeprefix("json:"))
        return "json:" + json.dumps([bound for _, bound in sorted(itertools.chain(*lists))])

    def distinct(values: str) -> str:
        return "json:" + json.dumps(list(dict.fromkeys(json.loads(values.removeprefix("json:")))))

    sqlite.create_function("bounds_of", 1, pairs)
    sqlite.create_function("array_distinct", 1, distinct)
    sqlite.create_aggregate("corr", 2, Correlation)  # type: ignore[arg-type]

    def find(
        rows: int,
        rate_limit: int,
        done: int = 0,
        total: int | None = None,
        files: str = "''",
        place: str = "-id",
        keys: list[int] | None = None,
    ) -> Any:
        sqlite.execute("drop table if exists lake.up")
        sqlite.execute("create table lake.up (id)")
        # Not in the order of the key: the bounds must not depend on it.
        found_keys = keys or range(rows, 0, -1)
        sqlite.executemany("insert into lake.up values (?)", [(i,) for i in found_keys])
        sql = macros.call(
            "get_bounds_sql",
            "select * from lake.up",
            f"(select {rows + done if total is None else total})",
            done,
            KEYS,
            rate_limit,
        )
        # SQLite has neither lambdas nor files; the rest of the statement is as it is.
        for spark, lite in {
            "transform(array_sort(flatten(collect_list(bounds))), bound -> bound.bound)": (
                "bounds_of(collect_list(bounds))"
            ),
            "struct(__bf_rank as rank, `id` as bound)": "struct(__bf_rank, `id`)",
            "input_file_name()": files,
            "input_file_block_start()": "0",
            "monotonically_increasing_id()": place,
            " div ": " / ",
        }.items():
            assert spark in sql
            sql = sql.replace(spark, lite)
        (result,) = sqlite.execute(sql).fetchone()
        found = json.loads(result)
        assert found["rows"] == max(1, (rows + done if total is None else total) - done)
        if files != "''":
            return found["scans"]
        assert found["scans"] is None
        return {"bounds": found["bounds"], "complete": bool(found["complete"])}

    return find


class Correlation:
    def __init__(self) -> None:
        self.pairs: list[tuple[float, float]] = []

    def step(self, x: float, y: float) -> None:
        self.pairs.append((x, y))

    def finalize(self) -> float | None:
        xs, ys = zip(*self.pairs, strict=True)
        if len(set(xs)) == 1 or len(set(ys)) == 1:
            return None
        return statistics.correlation(xs, ys)


SHUFFLED = "(id * 37) % 101"


@pytest.mark.parametrize(
    ("files", "place", "scans"),
    [
        ("'one'", "-id", 1),  # whatever is in order is not read in vain
        ("'one'", SHUFFLED, 10),
        ("'f' || (id % 4)", SHUFFLED, 10),
        ("'f' || (id % 4)", "id", 1),
        ("'f' || ((id - 1) / 10)", SHUFFLED, 1),  # each file has the keys of one range
        ("'f' || ((id - 1) / 20)", SHUFFLED, 2),
        ("case when id <= 50 then 'f' || ((id - 1) / 10) else 'rest' end", SHUFFLED, 3),
    ],
)
def test_it_is_told_how_often_all_ranges_would_read_a_row(
    find_bounds: Callable[..., Any], files: str, place: str, scans: float
) -> None:
    assert find_bounds(100, 10, files=files, place=place) == scans


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
    """Rows that were read may have been deleted since."""
    assert find_bounds(10, 3, done=50, total=20) == {"bounds": [3, 6, 9], "complete": True}


@pytest.mark.parametrize(
    ("remaining", "rate_limit", "step"),
    [
        (100_000, 10, 10),  # all keys are sorted
        (1_000_000, 100_000, 10_000),  # a tenth of them: 100,000 keys
        (1_000_000_000, 1_000_000, 1_000),  # 1,000 sampled keys for each range
        (1_000_000_000, 10, 1),  # at most a million keys, at least one between two bounds
    ],
)
def test_a_large_remainder_is_sampled_and_the_step_with_it(
    macros: Macros, sqlite: sqlite3.Connection, remaining: int, rate_limit: int, step: int
) -> None:
    macros.stub("literals_expression", lambda keys, prefix="": "`id`")
    sql = macros.call("get_bounds_sql", "select 1 as id", remaining, 0, KEYS, rate_limit, False)
    sql = sql.replace("monotonically_increasing_id()", "0")
    ranked = sql.split("select to_json")[0] + "select __bf_step from ranked"

    assert sqlite.execute(ranked).fetchone() == (step,)


def test_keys_are_sorted_as_tuples(render: Callable[..., str], keys: Any) -> None:
    assert "row_number() over (order by `id`, `shard`)" in render(
        "get_bounds_sql", "select 1", "9", 0, keys, 3
    )
