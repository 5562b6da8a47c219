"""Keys compare as tuples: a predicate is checked against Python's comparison of tuples."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable
from itertools import product

import pytest

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
    macros: Macros, sqlite: sqlite3.Connection, op: str, width: int
) -> None:
    columns = ["a", "b", "c"][:width]
    tuples = list(product(range(3), repeat=width))
    predicate = macros.call("tuple_predicate", columns, op, ["v_" + c for c in columns])

    for left, right in product(tuples, tuples):
        values = dict(zip(columns, left, strict=True))
        values |= {"v_" + c: value for c, value in zip(columns, right, strict=True)}
        row = ", ".join(f"{value} as {name}" for name, value in values.items())
        (result,) = sqlite.execute(f"select {predicate} from (select {row})").fetchone()
        assert bool(result) == OPERATORS[op](left, right), (left, op, right)


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


def test_a_predicate_keeps_its_meaning_in_any_context(
    macros: Macros, sqlite: sqlite3.Connection
) -> None:
    """`not x` and `x or y` around it must not pick it apart."""
    predicate = macros.call("tuple_predicate", ["a", "b"], ">", ["1", "2"])

    (negated,) = sqlite.execute(f"select not {predicate} from (select 0 as a, 9 as b)").fetchone()
    (both,) = sqlite.execute(f"select 0 and {predicate} from (select 1 as a, 3 as b)").fetchone()

    assert (negated, both) == (1, 0)


@pytest.mark.parametrize(
    ("row", "is_null"), [("1, 2", 0), ("null, 2", 1), ("1, null", 1), ("null, null", 1)]
)
def test_a_key_is_null_if_any_of_its_columns_is(
    macros: Macros, sqlite: sqlite3.Connection, row: str, is_null: int
) -> None:
    predicate = macros.call("null_key_predicate", ["a", "b"])

    sql = f"with t(a, b) as (values ({row})) select {predicate}, not {predicate} from t"
    assert sqlite.execute(sql).fetchone() == (is_null, 1 - is_null)
