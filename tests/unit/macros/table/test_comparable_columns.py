"""Columns of types that Spark does not compare."""

from __future__ import annotations

import pytest

from support.macros import Macros

TIMES = (
    "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)
JSON = f"to_json(struct(mv.`a b`), {TIMES})"
ENTRIES = f"array_sort(transform(map_entries(mv.`a b`), entry -> to_json(entry, {TIMES})))"
WITH_ZERO = (
    "named_struct('value', mv.`a b`, 'zero', if(mv.`a b` = 0, cast(mv.`a b` as string), null))"
)


@pytest.mark.parametrize(
    ("type_", "expression"),
    [
        ("bigint", "mv.`a b`"),
        ("array<int>", "mv.`a b`"),
        ("struct<x:int>", "mv.`a b`"),
        ("map<string,int>", "array_sort(map_entries(mv.`a b`))"),
        ("array<map<string,int>>", JSON),
        ("struct<m:map<string,int>>", JSON),
        ("map<string,map<string,int>>", ENTRIES),
        ("map<string,variant>", ENTRIES),
        ("double", WITH_ZERO),
        ("float", WITH_ZERO),
        ("array<double>", JSON),
        ("struct<x:float>", JSON),
        ("map<string,double>", ENTRIES),
        ("variant", JSON),
        ("array<variant>", JSON),
        ("struct<v:variant>", JSON),
    ],
)
def test_a_column_is_compared_by_what_spark_can_compare(
    macros: Macros, type_: str, expression: str
) -> None:
    columns = [{"name": "a b", "type": type_}]

    assert macros.call("comparable_columns", columns, "mv.") == {"a b": expression}
