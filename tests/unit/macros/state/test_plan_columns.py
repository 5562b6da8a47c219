"""A plan as a row of `<mv>__barriers`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from support.macros import Macros

TYPES = {
    "epoch": "bigint",
    "plan_id": "string",
    "backfill_id": "string",
    "kind": "string",
    "reason": "string",
    "upstream": "string",
    "upstream_kind": "string",
    "upstream_id": "string",
    "upstream_version": "string",
    "upstream_committed_at": "string",
    "feed": "string",
    "feed_kind": "string",
    "feed_id": "string",
    "feed_version": "string",
    "feed_committed_at": "string",
    "upstream_row_count": "bigint",
    "range_low": "array<string>",
    "range_high": "array<string>",
    "last_range": "boolean",
    "vnodes": "array<int>",
    "vnode_row_counts": "map<int, bigint>",
    "range_row_count": "bigint",
    "touched": "array<array<string>>",
    "next_bounds": "array<array<string>>",
    "bounds_complete": "boolean",
    "query": "string",
    "query_hash": "string",
    "query_columns": "string",
    "settings": "map<string, string>",
    "unique_key": "array<string>",
    "upstream_key": "array<string>",
    "key_types": "array<string>",
    "vnode_count": "int",
    "backfill_mode": "string",
    "backfill_rate_limit": "bigint",
    "invocation_id": "string",
    "planned_at": "timestamp",
    "committed_at": "timestamp",
    "changed_row_count": "bigint",
    "deleted_row_count": "bigint",
    "mv_snapshot_id": "string",
}


def test_the_barriers_table_has_these_columns_in_this_order(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    """A table that was made by an earlier release has them too: change them with a migration."""
    columns = macros.call("plan_columns", make_plan())

    assert [(name, column[0]) for name, column in columns.items()] == list(TYPES.items())


def test_everything_that_executing_a_plan_needs_is_in_its_row(
    macros: Macros, make_plan: Callable[..., Any]
) -> None:
    plan = make_plan(
        reason="why", vnodes=[0, 3], vnode_row_counts="checked.vnode_row_counts", last_range=True,
        used_settings=["spark.sql.ansi.enabled"],
        feed="lake.changes", feed_kind="iceberg", feed_id="iceberg/3",
        feed_version="9", feed_committed_at="2024-05-01 09:00:00",
        next_bounds=[["7", "8"], ["9", "'x'"]],
    )  # fmt: skip
    values = {name: column[1] for name, column in macros.call("plan_columns", plan).items()}

    assert values == {
        "epoch": 3,
        "plan_id": "'p3'",
        "backfill_id": "'b1'",
        "kind": "'advance'",
        "reason": "'why'",
        "upstream": "'lake.up'",
        "upstream_kind": "'delta'",
        "upstream_id": "'u1'",
        "upstream_version": "'17'",
        "upstream_committed_at": "'2024-05-01 10:00:00.5'",
        "feed": "'lake.changes'",
        "feed_kind": "'iceberg'",
        "feed_id": "'iceberg/3'",
        "feed_version": "'9'",
        "feed_committed_at": "'2024-05-01 09:00:00'",
        "upstream_row_count": 100,
        "range_low": "array('1', '2')",
        "range_high": "array('5', '6')",
        "last_range": "true",
        "vnodes": "array(0, 3)",
        "vnode_row_counts": "checked.vnode_row_counts",
        "range_row_count": 4,
        "touched": "null",
        "next_bounds": "array(array('7', '8'), array('9', '\\'x\\''))",
        "bounds_complete": "true",
        "query": "'select id as k, shard from `up`'",
        "query_hash": "'h1'",
        "query_columns": "'k: bigint, shard: int'",
        "settings": macros.call("settings_expression", ["spark.sql.ansi.enabled"]),
        "unique_key": "array('k', 'shard')",
        "upstream_key": "array('id', 'shard')",
        "key_types": "array('bigint', 'int')",
        "vnode_count": 4,
        "backfill_mode": "'arrangement'",
        "backfill_rate_limit": 10,
        "invocation_id": "'00000000-0000-0000-0000-000000000000'",
        "planned_at": "current_timestamp()",
        "committed_at": "null",
        "changed_row_count": "null",
        "deleted_row_count": "null",
        "mv_snapshot_id": "null",
    }


def test_what_a_plan_does_not_have_is_null(render: Callable[..., str], make_plan: Any) -> None:
    row = render(
        "get_plan_row_sql",
        make_plan(
            range_low=None, range_high=None, vnodes=None, vnode_row_counts=None, next_bounds=None,
            range_row_count=None, upstream_version=None, upstream_id=None, last_range=None,
            bounds_complete=None, backfill_rate_limit=None, upstream_row_count=None,
            upstream_committed_at=None, backfill_mode=None, upstream_kind=None,
        ),
    )  # fmt: skip
    values = dict(
        (name, value)
        for value, name in re.findall(r"cast\((.*?) as [a-z<>, ]+\) as (\w+)(?:,|$)", row)
    )

    assert {name for name, value in values.items() if value == "null"} == {
        "reason", "upstream_kind", "upstream_id", "upstream_version", "upstream_committed_at",
        "feed", "feed_kind", "feed_id", "feed_version", "feed_committed_at", "upstream_row_count",
        "range_low", "range_high", "vnodes", "range_row_count", "touched", "backfill_mode",
        "backfill_rate_limit", "committed_at", "changed_row_count", "deleted_row_count",
        "mv_snapshot_id",
    }  # fmt: skip
    assert values["vnode_row_counts"] == "map()"
    assert values["next_bounds"] == "array()"
    assert values["last_range"] == values["bounds_complete"] == "false"


def test_what_a_script_counts_is_a_variable_in_the_row(
    render: Callable[..., str], make_plan: Callable[..., Any]
) -> None:
    row = render("get_plan_row_sql", make_plan(range_row_count="checked.row_count"))

    assert "cast(checked.row_count as bigint) as range_row_count" in row


def test_a_rate_limit_of_zero_is_not_null(macros: Macros, make_plan: Callable[..., Any]) -> None:
    columns = macros.call("plan_columns", make_plan(backfill_rate_limit=0, range_row_count=0))

    assert columns["backfill_rate_limit"][1] == columns["range_row_count"][1] == 0


def test_no_vnodes_are_not_all_vnodes(macros: Macros, make_plan: Callable[..., Any]) -> None:
    assert macros.call("plan_columns", make_plan(vnodes=[]))["vnodes"][1] == "array()"


def test_a_row_casts_every_value_to_its_columns_type(
    render: Callable[..., str], make_plan: Callable[..., Any]
) -> None:
    row = render("get_plan_row_sql", make_plan())

    assert row.startswith("select cast(3 as bigint) as epoch, cast('p3' as string) as plan_id, ")
    for name, type_ in TYPES.items():
        assert f" as {type_}) as {name}" in row


def test_a_query_with_quotes_stays_one_value(macros: Macros, make_plan: Callable[..., Any]) -> None:
    plan = make_plan(query="select 'it''s \\ ${x}'\nfrom `up`")
    value = macros.call("plan_columns", plan)["query"][1]

    assert value == "'select \\'it\\'\\'s \\\\ \\u0024{x}\\'\nfrom `up`'"


def test_the_key_of_a_plan_is_read_back_as_it_was_planned(
    macros: Macros, make_plan: Callable[..., Any], keys: list[dict[str, str]]
) -> None:
    assert macros.call("get_plan_keys", make_plan(key=None)) == keys
