"""Keys that stood twice in the upstream, and are read again at the version of the plan."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.macros import Macros

ALL = ["__bf_unclear", "__bf_inserted", "__bf_gone"]


@pytest.fixture
def part(macros: Macros, backfill: Any, make_state: Any, make_plan: Any, keys: Any) -> Any:
    """The part of the script, with what is executed in it."""

    def part(suspicions: list[str], alters_values: bool = False) -> str:
        state = make_state(position=["1", "2"])
        arguments = (backfill, state, make_plan(), keys, suspicions, alters_values)
        return " ".join(macros.call("get_reread_statements", *arguments).split())

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


def test_keys_that_the_feed_would_tell_as_it_tells_another_are_read_again(
    part: Any, macros: Macros, keys: Any
) -> None:
    """Of the upstream and of the MV, up to the position, and wherever files say that they are."""
    sql = part(ALL, True)
    told = " ".join(macros.call("_told_key", keys).split())
    told = told.replace("\\", "\\\\").replace("'", "\\'")
    doubtful, again = sql.split("; cache table ", 1)

    assert "where (__bf_unclear or to_json(struct(`id`, `shard`), " in doubtful
    alike = doubtful.partition(", '__bf_alike__', if(staged.altered_keys > 0, 'union ")[2]
    assert alike.startswith("select `id`, `shard` from ( select `id`, `shard` from ( select * ")
    assert "from lake.up version as of 17 as source where (source.`id` <= 1 and (" in alike
    assert "select `k` as `id`, `shard` as `shard` from ( select * from lake.mv as " in alike
    assert "lake.mv as source where (source.`k` <= 1 and (" in alike
    assert alike.endswith(f") as told on {told} = told.__bf_told', ''))")
    assert "where __bf_anywhere__ or (source.`id` >= __bf_low_1__ and (" in again
    assert ", '__bf_anywhere__', cast(staged.altered_keys > 0 as string))" in again
    assert "alike" not in part(ALL) and "anywhere" not in part(ALL)


def test_what_was_read_again_can_be_declared_as_a_variable(macros: Macros, keys: Any) -> None:
    summary = macros.call("get_reread_summary_sql", "`keys`", keys)

    assert re.findall(r"(\w+): ", macros.call("reread_summary_type")) == re.findall(
        r"^ +'(\w+)', ", summary, re.MULTILINE
    )
