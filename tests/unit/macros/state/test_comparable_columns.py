"""Columns of types that Spark does not compare."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.macros import Macros


@pytest.mark.parametrize(
    ("type_", "expression"),
    [
        ("bigint", "mv.`a b`"),
        ("array<int>", "mv.`a b`"),
        ("struct<x:int>", "mv.`a b`"),
        ("map<string,int>", "array_sort(map_entries(mv.`a b`))"),
        ("array<map<string,int>>", "to_json(struct(mv.`a b`))"),
        ("struct<m:map<string,int>>", "to_json(struct(mv.`a b`))"),
        ("variant", "to_json(struct(mv.`a b`))"),
    ],
)
def test_a_column_is_compared_by_what_spark_can_compare(
    macros: Macros, relations: Any, type_: str, expression: str
) -> None:
    column = SimpleNamespace(name="a b", dtype=type_)
    macros.context["adapter"].get_columns_in_relation = lambda relation: [column]

    assert macros.call("comparable_columns", relations["mv"], "mv.") == {"a b": expression}
