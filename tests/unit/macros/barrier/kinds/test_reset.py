"""A full refresh empties the MV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.macros import Macros


def test_the_mv_is_replaced_by_an_empty_one_of_the_plans_query(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any], render: Callable[..., str]
) -> None:
    """Of the plan's, not of the model's: the plan may be another run's."""
    macros.stub("mv_clauses", lambda mv, columns, *ids: f"clauses of {ids}")
    macros.results = [[["k", "bigint"], ["shard", "int"]]]
    plan = make_plan(kind="reset", query="select id as k, shard from `up` where 1 = 1")

    macros.call("run_reset", backfill, plan)
    describe, replace = (" ".join(statement.sql.split()) for statement in macros.statements)

    assert describe.endswith(
        "describe query with `up` as ( select * from lake.up ) "
        "select * from ( select id as k, shard from `up` where 1 = 1 )"
    )
    fence = render("get_fence", backfill, plan)
    ids = ("b1", macros.call("get_reset_id", plan))
    assert replace.endswith(
        f"create or replace table lake.mv clauses of {ids} as "
        "select cast(null as bigint) as `k`, "
        f"cast(null as int) as `shard` from (select {fence} as fenced) where not fenced"
    )


def test_the_columns_are_known_where_the_run_has_planned_it(
    macros: Macros, backfill: Any, make_plan: Callable[..., Any]
) -> None:
    macros.stub("mv_clauses", lambda *arguments: "clauses")
    plan = make_plan(kind="reset", query=backfill["query"])

    macros.call("run_reset", backfill, plan, [{"name": "k", "type": "bigint"}])
    [replace] = macros.statements
    assert "cast(null as bigint) as `k` from" in " ".join(replace.sql.split())


@pytest.mark.parametrize(
    ("old", "steps"),
    [
        ([["k", "bigint"]], 1),
        ([["other", "bigint"], ["dropped", "string"]], 1),
        ([["k", "string"]], 2),
        # Iceberg takes it for the same column, which partitions may be by.
        ([["other", "bigint"], ["K", "string"]], 2),
    ],
)
def test_on_iceberg_a_column_of_another_type_comes_only_where_none_was(
    macros: Macros,
    backfill: Any,
    make_plan: Callable[..., Any],
    render: Callable[..., str],
    old: list[list[str]],
    steps: int,
) -> None:
    """A Hive metastore refuses to replace the table at once, and no run could ever go on."""
    macros.stub("get_file_format", lambda: "iceberg")
    macros.stub("mv_clauses", lambda *arguments: "clauses")
    macros.results = [old]
    plan = make_plan(kind="reset", query=backfill["query"])

    macros.call("run_reset", backfill, plan, [{"name": "k", "type": "bigint"}])
    describe, *replaced = (" ".join(statement.sql.split()) for statement in macros.statements)
    assert describe.endswith("describe query select * from lake.mv")
    assert len(replaced) == steps
    assert "cast(null as bigint) as `k` from" in replaced[-1]
    if steps == 2:
        fence = render("get_fence", backfill, plan)
        assert "create or replace table lake.mv using iceberg tblproperties (" in replaced[0]
        assert replaced[0].endswith(
            f"as select * except (fenced) from (select {fence} as fenced) where not fenced"
        )
