"""One pass over the keys of a range counts them per vnode and finds null and duplicate ones."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


@pytest.fixture
def check(
    macros: Macros, sqlite: sqlite3.Connection, keys: list[dict[str, str]]
) -> Callable[..., dict[str, Any]]:
    def check(rows: list[tuple[Any, Any]], check_key: bool = True) -> dict[str, Any]:
        sqlite.execute("create table lake.up (id, shard)")
        sqlite.executemany("insert into lake.up values (?, ?)", rows)
        total = "(select count(*) from lake.up)"
        sql = macros.call("get_key_check_sql", "select * from lake.up", total, keys, 4, check_key)
        return json.loads(sqlite.execute(f"select to_json(({sql}))").fetchone()[0])

    return check


ROWS = [(i, j) for i in range(10) for j in range(3)]


@pytest.mark.parametrize("check_key", [True, False])
def test_rows_are_counted_in_all_and_per_vnode(
    check: Callable[..., Any], vnode_of: Callable[..., int], check_key: bool
) -> None:
    checked = check(ROWS, check_key)

    per_vnode = Counter(vnode_of(key, 4) for key in ROWS)
    assert checked["vnode_row_counts"] == {str(vnode): n for vnode, n in per_vnode.items()}
    assert (checked["row_count"], checked["upstream_row_count"]) == (30, 30)
    assert not checked["duplicates"] and checked["null_keys"] == 0


@pytest.mark.parametrize("check_key", [True, False])
def test_null_keys_are_counted_also_where_the_key_is_not_checked(
    check: Callable[..., Any], check_key: bool
) -> None:
    checked = check([*ROWS, (None, 1), (None, 1), (5, None)], check_key)

    assert checked["null_keys"] == 3


def test_a_key_that_stands_twice_is_found(check: Callable[..., Any]) -> None:
    checked = check([*ROWS, (4, 1)])

    assert checked["duplicates"]
    assert checked["row_count"] == 31


def test_a_duplicate_is_let_pass_where_the_key_is_not_checked(check: Callable[..., Any]) -> None:
    assert not check([*ROWS, (4, 1)], check_key=False)["duplicates"]


def test_the_keys_are_not_shuffled_where_the_key_is_not_checked(
    render: Callable[..., str], keys: Any
) -> None:
    def groups(check_key: bool) -> int:
        sql = render("get_key_check_sql", "select 1", "1", keys, 4, check_key)
        return sql.count("group by hash")

    assert (groups(True), groups(False)) == (1, 0)


@pytest.mark.parametrize("check_key", [True, False])
def test_an_empty_range_is_counted_as_zero(check: Callable[..., Any], check_key: bool) -> None:
    assert check([], check_key) == {
        "upstream_row_count": 0,
        "row_count": 0,
        "null_keys": 0,
        "duplicates": 0,
        "vnode_row_counts": {},
    }


def test_what_is_counted_can_be_declared_as_a_variable(
    macros: Macros, check: Callable[..., Any]
) -> None:
    type_ = macros.call("key_check_type")

    assert type_ == (
        "struct<upstream_row_count: bigint, row_count: bigint, null_keys: bigint, "
        "duplicates: boolean, vnode_row_counts: map<int, bigint>>"
    )
    assert re.findall(r"(\w+): ", type_) == list(check([]))


def test_duplicate_keys_are_named_by_their_literals_three_at_most(
    render: Callable[..., str], keys: Any
) -> None:
    sql = render("get_duplicate_keys_sql", "select * from lake.up", keys)

    assert sql.startswith("select to_json(named_struct('key', if(`id` is null, null, array(concat(")
    assert sql.endswith(
        "from ( select `id`, `shard` from (select * from lake.up) "
        "group by all having count(*) > 1 limit 3 )"
    )
