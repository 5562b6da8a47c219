"""Values of types that Spark cannot compare, or compares in another way than an MV needs."""

from __future__ import annotations

from typing import Any

import pytest

from support.duck import Duck
from support.macros import Macros

NAN = float("nan")


@pytest.mark.parametrize(
    ("type_", "value", "other", "equal"),
    [
        ("bigint", 1, 2, False),
        ("array<int>", [1, 2], [2, 1], False),
        ("map<string,int>", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("map<string,int>", {"a": 1}, {"a": 2}, False),
        ("map<string,map<string,int>>", {"x": {"a": 1}, "y": {}}, {"y": {}, "x": {"a": 1}}, True),
        ("map<string,map<string,int>>", {"x": {"a": 1}}, {"x": {"a": 2}}, False),
        ("array<map<string,int>>", [{"a": 1}], [{"a": 2}], False),
        ("struct<m:map<string,int>>", {"m": {"a": 1}}, {"m": {"a": 1}}, True),
        ("struct<m:map<string,int>>", {"m": {"a": 1}}, {"m": {"a": 2}}, False),
        ("double", 0.0, -0.0, False),
        ("float", 0.0, -0.0, False),
        ("double", NAN, NAN, True),
        ("array<double>", [0.0], [-0.0], False),
        ("map<string,double>", {"a": 0.0}, {"a": -0.0}, False),
        ("struct<x:float>", {"x": 0.0}, {"x": -0.0}, False),
    ],
)
def test_values_are_equal_if_no_query_can_tell_them_apart(
    macros: Macros, duck: Duck, type_: str, value: Any, other: Any, equal: bool
) -> None:
    duck.create("t", {"a b": type_}, [(value,), (other,), (None,)])
    [expression] = macros.call("comparable_columns", [{"name": "a b", "type": type_}]).values()
    grouped = duck.rows(f"select count(*) from (select {expression} as x from t) group by x")

    assert len(grouped) == (2 if equal else 3)
