"""Keys that stood twice in the upstream, and are read again at the version of the plan."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.macros import Macros

ALL = ["__bf_unclear", "__bf_inserted", "__bf_gone"]


@pytest.fixture
def part(macros: Macros, backfill: Any, make_plan: Any, keys: Any) -> Any:
    """The part of the script, with what is executed in it."""

    def part(suspicions: list[str]) -> str:
        sql = macros.call("get_reread_statements", backfill, make_plan(), keys, suspicions)
        return " ".join(sql.split())

    return part


@pytest.mark.parametrize("suspicions", [ALL[:1], ALL[:2], ALL])
def test_keys_are_looked_for_in_the_mv_only_where_that_is_asked_for(
    part: Any, suspicions: list[str]
) -> None:
    sql = part(suspicions)

    assert "where __bf_unclear and not (" in sql
    assert ("left semi join lake.mv as mv on " in sql) is (len(suspicions) > 1)
    assert ("where __bf_gone and not (" in sql) is (len(suspicions) > 2)


def test_nothing_is_read_where_no_key_is_in_doubt(part: Any) -> None:
    sql = part(ALL)

    assert sql.startswith("if staged.suspects > 0 then execute immediate ")
    assert sql.index("; if reread.count > 0 then ") < sql.index("from lake.up version as of 17")


def test_both_tables_are_read_between_bounds_as_literals(part: Any) -> None:
    sql = part(ALL)
    mv, upstream = sql.split("if reread.count > 0 then ")

    for text, variable, column in ((mv, "staged", "mv.`k`"), (upstream, "reread", "source.`id`")):
        assert f"{column} >= __bf_low_1__ and ({column} > __bf_low_1__ or (" in text
        assert f"{column} <= __bf_high_1__ and ({column} < __bf_high_1__ or (" in text
        bounds = re.findall(r", '(__bf_\w+__)', ([\w.]+\[\d\])\)", text)
        assert bounds == [
            ("__bf_low_1__", f"{variable}.low[0]"),
            ("__bf_low_2__", f"{variable}.low[1]"),
            ("__bf_high_1__", f"{variable}.high[0]"),
            ("__bf_high_2__", f"{variable}.high[1]"),
        ]


def test_the_query_tells_whether_a_row_that_went_was_one_of_the_mv(part: Any) -> None:
    gone = part(ALL).split("union all")[1]

    assert "left anti join ( with `up` as ( select * except (__bf_deleted, " in gone
    assert "on stage.`id` = query.`k` and stage.`shard` = query.`shard`" in gone


def test_what_was_read_again_can_be_declared_as_a_variable(macros: Macros, keys: Any) -> None:
    summary = macros.call("get_reread_summary_sql", "`keys`", keys)

    assert re.findall(r"(\w+): ", macros.call("reread_summary_type")) == re.findall(
        r"^ +'(\w+)', ", summary, re.MULTILINE
    )
