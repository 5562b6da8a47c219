"""A plan as it is stored, and what is told of one that was read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros

SOURCES = (
    "array<struct<role: string, relation: string, kind: string, id: string, version: string, "
    "committed_at: string, definition: string>>"
)
KEY = "array<struct<name: string, upstream: string, type: string, position: string>>"
TYPES = {
    "epoch": "bigint",
    "plan_id": "string",
    "backfill_id": "string",
    "kind": "string",
    "reason": "string",
    "sources": SOURCES,
    "upstream_row_count": "bigint",
    "range_low": "array<string>",
    "range_high": "array<string>",
    "last_range": "boolean",
    "vnodes": "array<int>",
    "vnode_row_counts": "map<int, bigint>",
    "range_row_count": "bigint",
    "sweeps": "boolean",
    "at_once": "boolean",
    "touched": "array<array<string>>",
    "fills": "array<struct<name: string, type: string, was: string>>",
    "drops": "array<string>",
    "fill_low": "array<string>",
    "fill_high": "array<string>",
    "last_fill": "boolean",
    "filled_row_count": "bigint",
    "generation": "map<string, string>",
    "next_bounds": "array<array<string>>",
    "bounds_complete": "boolean",
    "query": "string",
    "query_hash": "string",
    "query_columns": "string",
    "settings": "map<string, string>",
    "key": KEY,
    "vnode_count": "int",
    "backfill_mode": "string",
    "backfill_rate_limit": "bigint",
    "invocation_id": "string",
    "planned_at": "timestamp",
}


@pytest.fixture
def values(macros: Macros, make_plan: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """The SQL values of a plan by their names."""

    def values(**changes: Any) -> dict[str, Any]:
        columns = macros.call("plan_columns", make_plan(**changes))
        return {name: column[1] for name, column in columns.items()}

    return values


def test_a_stored_plan_has_these_entries(macros: Macros, make_plan: Callable[..., Any]) -> None:
    """A state that was made by an earlier release has them too: a change is another format."""
    columns = macros.call("plan_columns", make_plan())

    assert [(name, column[0]) for name, column in columns.items()] == list(TYPES.items())


def test_a_descending_order_is_stored_with_the_key(
    macros: Macros, make_plan: Callable[..., Any], descending: Any
) -> None:
    type_, value = macros.call("plan_columns", make_plan(key=descending))["key"]

    assert type_ == TYPES["key"].replace(">>", ", order: string>>")
    assert value == (
        "array(struct('k', 'id', 'bigint', 'id', 'descending'), "
        "struct('shard', 'shard', 'int', 'shard', 'descending'))"
    )


def test_columns_in_the_place_of_an_alias_are_stored_where_there_are_any(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    stored = macros.call("plan_columns", make_plan(alias_columns=["it's"]))

    assert stored["alias_columns"] == ["array<string>", "array('it\\'s')"]
    assert "alias_columns" not in macros.call("plan_columns", make_plan(alias_columns=[]))


def test_everything_that_executing_a_plan_needs_is_stored(
    macros: Macros, values: Callable[..., Any], make_source: Callable[..., Any]
) -> None:
    changes = make_source(role="feed", relation="lake.changes", kind="iceberg", definition="d")
    stored = values(
        reason="why", vnodes=[0, 3], vnode_row_counts="checked.vnode_row_counts", last_range=True,
        used_settings=["spark.sql.ansi.enabled"], sources=[make_source(), changes],
        next_bounds=[["7", "8"], ["9", "'x'"]], touched=[["5", "6"], []], at_once="merged.few",
        sweeps=True, fills=[{"name": "it's", "type": "int"}], drops=["it's"],
        fill_low=["1"], fill_high=["2"], last_fill=True, filled_row_count="4 + checked.row_count",
        generation={"id": "it's"},
    )  # fmt: skip

    assert stored == {
        "epoch": 3,
        "plan_id": "'p3'",
        "backfill_id": "'b1'",
        "kind": "'advance'",
        "reason": "'why'",
        "sources": (
            "array("
            "struct('upstream', 'lake.up', 'delta', 'u1', '17', '2024-05-01 10:00:00.5', null), "
            "struct('feed', 'lake.changes', 'iceberg', 'u1', '17', '2024-05-01 10:00:00.5', 'd'))"
        ),
        "upstream_row_count": 100,
        "range_low": "array('1', '2')",
        "range_high": "array('5', '6')",
        "last_range": "true",
        "vnodes": "array(0, 3)",
        "vnode_row_counts": "checked.vnode_row_counts",
        "range_row_count": 4,
        "sweeps": "true",
        "at_once": "merged.few",
        "touched": "array(array('5', '6'), array())",
        "fills": "array(struct('it\\'s', 'int', null))",
        "drops": "array('it\\'s')",
        "fill_low": "array('1')",
        "fill_high": "array('2')",
        "last_fill": "true",
        "filled_row_count": "4 + checked.row_count",
        "generation": "map('id', 'it\\'s')",
        "next_bounds": "array(array('7', '8'), array('9', '\\'x\\''))",
        "bounds_complete": "true",
        "query": "'select id as k, shard from `up`'",
        "query_hash": "'h1'",
        "query_columns": "'k: bigint, shard: int'",
        "settings": macros.call("settings_expression", ["spark.sql.ansi.enabled"]),
        "key": (
            "array(struct('k', 'id', 'bigint', 'id'), struct('shard', 'shard', 'int', 'shard'))"
        ),
        "vnode_count": 4,
        "backfill_mode": "'arrangement'",
        "backfill_rate_limit": 10,
        "invocation_id": "'00000000-0000-0000-0000-000000000000'",
        "planned_at": "current_timestamp()",
    }


def test_the_settings_are_those_that_give_the_query_other_values(
    values: Callable[..., Any],
) -> None:
    """The zone and the ANSI mode, which are often set, only where the query depends on them."""
    common = ["spark.sql.session.timeZone", "spark.sql.ansi.enabled"]

    assert not any(name in values(used_settings=[])["settings"] for name in common)
    assert all(name in values(used_settings=common)["settings"] for name in common)
    assert "spark.sql.timestampType" in values(used_settings=[])["settings"]


def test_a_plan_without_a_version_reads_none(
    values: Callable[..., Any], make_source: Callable[..., Any]
) -> None:
    """The one that creates the state, or a reset."""
    source = make_source(id=None, version=None, committed_at=None)

    assert values(kind="reset", sources=[source])["sources"] == (
        "array(struct('upstream', 'lake.up', 'delta', null, null, null, null))"
    )


def test_what_a_plan_does_not_have_is_null(values: Callable[..., Any]) -> None:
    stored = values(
        range_low=None, range_high=None, vnodes=None, vnode_row_counts=None, next_bounds=None,
        range_row_count=None, last_range=None, bounds_complete=None, backfill_rate_limit=None,
        upstream_row_count=None, backfill_mode=None,
    )  # fmt: skip

    assert {name for name, value in stored.items() if value in (None, "null")} == {
        "reason", "upstream_row_count", "range_low", "range_high", "vnodes", "range_row_count",
        "touched", "backfill_mode", "backfill_rate_limit", "fills", "drops", "fill_low",
        "fill_high", "last_fill", "filled_row_count", "generation",
    }  # fmt: skip
    assert stored["vnode_row_counts"] == "map()"
    assert stored["next_bounds"] == "array()"
    assert stored["last_range"] == stored["bounds_complete"] == "false"
    assert stored["sweeps"] == stored["at_once"] == "false"


def test_a_rate_limit_of_zero_is_not_null(values: Callable[..., Any]) -> None:
    stored = values(backfill_rate_limit=0, range_row_count=0)

    assert stored["backfill_rate_limit"] == stored["range_row_count"] == 0


def test_no_vnodes_are_not_all_vnodes(values: Callable[..., Any]) -> None:
    assert values(vnodes=[])["vnodes"] == "array()"


def test_nothing_touched_is_not_everything(values: Callable[..., Any]) -> None:
    assert (values(touched=[])["touched"], values()["touched"]) == ("array()", "null")


def test_a_query_with_quotes_stays_one_value(values: Callable[..., Any]) -> None:
    assert values(query="select 'it''s \\ ${x}'\nfrom `up`")["query"] == (
        "'select \\'it\\'\\'s \\\\ \\u0024{x}\\'\nfrom `up`'"
    )


def test_the_name_of_a_column_stays_one_value(values: Callable[..., Any]) -> None:
    key = [{"name": "it's", "upstream": "${x}", "type": "int", "position": "${x}"}]

    assert values(key=key)["key"] == "array(struct('it\\'s', '\\u0024{x}', 'int', '\\u0024{x}'))"


# -- as JSON ----------------------------------------------------------------------------------


def test_a_plan_is_stored_as_json_of_values_that_are_cast(
    render: Callable[..., str], make_plan: Callable[..., Any]
) -> None:
    sql = render("get_plan_json_sql", make_plan())

    assert sql.startswith("to_json(struct( cast(3 as bigint) as epoch, cast('p3' as string) as ")
    for name, type_ in TYPES.items():
        assert f" as {type_}) as {name}" in sql
    names = re.findall(r"\) as (\w+)(?:, cast| \), map)", sql)
    assert names == list(TYPES)


def test_what_is_null_is_left_out_whatever_the_session_says(
    render: Callable[..., str], make_plan: Callable[..., Any]
) -> None:
    """A plan that is read back has the shape of one that was just made: an absent entry is none."""
    sql = render("get_plan_json_sql", make_plan(vnodes=None, range_row_count=None))

    assert "cast(null as array<int>) as vnodes, " in sql
    assert "cast(null as bigint) as range_row_count, " in sql
    assert sql.endswith("as planned_at ), map('ignoreNullFields', 'true'))")


def test_what_a_script_counts_is_a_variable_in_the_plan(
    render: Callable[..., str], make_plan: Callable[..., Any]
) -> None:
    sql = render("get_plan_json_sql", make_plan(range_row_count="checked.row_count"))

    assert "cast(checked.row_count as bigint) as range_row_count" in sql
