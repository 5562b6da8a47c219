"""One pass over the keys of a range counts them per vnode, and finds null and duplicate keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from support.duck import Duck
from support.macros import MACROS, Macros


@pytest.fixture
def check(macros: Macros, duck: Duck, keys: list[dict[str, str]]) -> Callable[..., dict[str, Any]]:
    def check(
        rows: list[tuple[Any, Any]], check_key: bool = True, many: bool = False
    ) -> dict[str, Any]:
        duck.create("lake.up", {"id": "bigint", "shard": "int"}, rows)
        total = "(select count(*) from lake.up)"
        arguments = ("select * from lake.up", total, keys, 4, check_key, many)
        sql = macros.call("get_key_check_sql", *arguments)
        [(checked,)] = duck.rows(sql)
        return dict(checked)

    return check


ROWS = [(i, j) for i in range(10) for j in range(3)]


HOW = pytest.mark.parametrize(
    ("check_key", "many"), [(True, False), (True, True), (False, False), (False, True)]
)


@HOW
def test_rows_are_counted_in_all_and_per_vnode(
    check: Callable[..., Any], vnode_of: Callable[..., int], check_key: bool, many: bool
) -> None:
    checked = check(ROWS, check_key, many)

    per_vnode = Counter(vnode_of(key, 4) for key in ROWS)
    assert checked["vnode_row_counts"] == per_vnode
    assert (checked["row_count"], checked["upstream_row_count"]) == (30, 30)
    assert not checked["duplicates"] and checked["null_keys"] == 0


@HOW
def test_null_keys_are_counted_also_where_the_key_is_not_checked(
    check: Callable[..., Any], check_key: bool, many: bool
) -> None:
    checked = check([*ROWS, (None, 1), (None, 1), (5, None)], check_key, many)

    assert checked["null_keys"] == 3


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("again", [(4, 1), (0, 0), (9, 2), (-3, -65)])
def test_a_key_that_stands_twice_is_found(
    check: Callable[..., Any], again: tuple[int, int], many: bool
) -> None:
    checked = check([*ROWS, (-3, -65), (-3, -1), again], many=many)

    assert checked["duplicates"]
    assert checked["row_count"] == 33


@pytest.mark.parametrize("many", [False, True])
def test_neighbours_are_not_taken_for_one_key(check: Callable[..., Any], many: bool) -> None:
    """The check uses words of 64 bits.

    Each of 64 neighbouring numbers has a bit of its own, even if the numbers are negative.
    """
    assert not check([(i, j) for i in (1, -1) for j in range(-70, 140)], many=many)["duplicates"]


@pytest.mark.parametrize(
    ("types", "number"),
    [
        (["bigint"], 0),
        (["int", "smallint"], 1),
        (["date", "string"], 0),
        (["tinyint", "string"], 0),
        (["string"], None),
        (["timestamp", "decimal(10,0)"], None),
    ],
)
def test_the_last_number_of_a_key_is_the_one_whose_neighbours_share_a_word(
    macros: Macros, types: list[str], number: int | None
) -> None:
    keys = [{"upstream": f"k{i}", "type": type_} for i, type_ in enumerate(types)]
    sql = macros.call("get_key_check_sql", "select * from lake.up", "0", keys, 4, True, True)

    shared = re.findall(r"shiftright\(cast\((?:unix_date\()?`(\w+)`", sql)
    assert shared == ([] if number is None else [f"k{number}"])


def test_a_duplicate_is_let_pass_where_the_key_is_not_checked(check: Callable[..., Any]) -> None:
    assert not check([*ROWS, (4, 1)], check_key=False)["duplicates"]


@HOW
def test_an_empty_range_is_counted_as_zero(
    check: Callable[..., Any], check_key: bool, many: bool
) -> None:
    assert check([], check_key, many) == {
        "upstream_row_count": 0,
        "row_count": 0,
        "null_keys": 0,
        "duplicates": False,
        "vnode_row_counts": {},
    }


def test_a_script_declares_what_is_counted(check: Callable[..., Any]) -> None:
    script = (MACROS / "core" / "barrier" / "plan_barrier.sql").read_text()
    [fields] = re.findall(r"declare checked struct<(.*)>;", script)

    assert re.findall(r"(\w+): ", fields) == list(check([]))
