"""The keys that a selection contains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

KEYS = [
    {"name": "a", "upstream": "x", "type": "int"},
    {"name": "b", "upstream": "y", "type": "int"},
]
ROWS = [(x, y) for x in range(4) for y in range(3)]


@pytest.fixture
def selected(macros: Macros, duck: Duck) -> Callable[..., list[tuple[int, int]]]:
    duck.create("up", {"x": "int", "y": "int"}, ROWS)

    def selected(**selection: Any) -> list[tuple[int, int]]:
        predicate = macros.call("selection_predicate", selection, KEYS, "up.")
        return duck.rows(f"select x, y from up where {predicate} order by x, y")

    return selected


def test_everything_is_selected_unless_something_is_said(macros: Macros) -> None:
    assert macros.call("selection_predicate", {}, KEYS) == "true"


@pytest.mark.parametrize(
    ("low", "high"),
    [(["1", "1"], None), (None, ["2", "0"]), (["0", "2"], ["2", "1"]), (["3", "3"], None)],
)
def test_both_ends_are_inclusive(selected: Any, low: Any, high: Any) -> None:
    least, most = ([int(v) for v in bound] if bound else None for bound in (low, high))

    assert selected(low=low, high=high) == [
        row
        for row in ROWS
        if (least is None or list(row) >= least) and (most is None or list(row) <= most)
    ]


def test_fewer_values_than_columns_mean_all_keys_that_begin_with_them(selected: Any) -> None:
    assert selected(low=["1"], high=["2"]) == [row for row in ROWS if row[0] in (1, 2)]
