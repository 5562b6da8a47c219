"""Keys are compared as tuples: a predicate must agree with Python's comparison of tuples."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product

import pytest

from support.duck import Duck
from support.macros import Macros

OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("op", OPERATORS)
def test_a_predicate_compares_as_python_compares_tuples(
    macros: Macros, duck: Duck, op: str, width: int
) -> None:
    columns = ["a", "b", "c"][:width]
    tuples = list(product(range(3), repeat=width))
    predicate = macros.call("tuple_predicate", columns, op, ["v_" + c for c in columns])

    values = [f"v_{column}" for column in columns]
    duck.create("pairs", dict.fromkeys([*columns, *values], "int"), [
        (*left, *right) for left, right in product(tuples, tuples)
    ])  # fmt: skip

    for *row, found in duck.rows(f"select *, {predicate} from pairs"):
        left, right = tuple(row[:width]), tuple(row[width:])
        assert found == OPERATORS[op](left, right), (left, op, right)


@pytest.mark.parametrize(
    ("op", "prunes"), [(">", "a >= 1"), (">=", "a >= 1"), ("<", "a <= 1"), ("<=", "a <= 1")]
)
def test_a_tuple_is_bounded_by_its_first_column_so_that_files_are_pruned(
    macros: Macros, op: str, prunes: str
) -> None:
    predicate = macros.call("tuple_predicate", ["a", "b"], op, ["1", "2"])

    assert predicate.startswith(f"({prunes} and (")
    assert "struct" not in predicate


def test_one_column_is_compared_once(macros: Macros) -> None:
    assert macros.call("tuple_predicate", ["a"], "<=", ["1"]) == "a <= 1"


def test_a_predicate_keeps_its_meaning_in_any_context(macros: Macros, duck: Duck) -> None:
    """`not x` and `x or y` must apply to the predicate as a whole."""
    predicate = macros.call("tuple_predicate", ["a", "b"], ">", ["1", "2"])

    assert duck.rows(f"select not {predicate} from (select 0 as a, 9 as b)") == [(True,)]
    assert duck.rows(f"select false and {predicate} from (select 1 as a, 3 as b)") == [(False,)]


@pytest.mark.parametrize(
    ("row", "is_null"),
    [("1, 2", False), ("null, 2", True), ("1, null", True), ("null, null", True)],
)
def test_a_key_is_null_if_any_of_its_columns_is(
    macros: Macros, duck: Duck, row: str, is_null: bool
) -> None:
    predicate = macros.call("null_key_predicate", ["a", "b"])

    sql = f"select {predicate}, not {predicate} from values ({row}) as t(a, b)"
    assert duck.rows(sql) == [(is_null, not is_null)]
