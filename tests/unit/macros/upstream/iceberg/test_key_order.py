"""Keys that Iceberg orders in another way than Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

ID = {"name": "k", "upstream": "id", "type": "string"}
SHARD = {"name": "shard", "upstream": "shard", "type": "int"}
NAME = {"name": "name", "upstream": "name", "type": "string"}
TAKEN = (
    "Filter (id#1 > no uuid 1)\n"
    "+- BatchScan lake.up[id#1] IcebergScan(table=up, filters=id IS NOT NULL{}, runtimeFilters=)"
)


@pytest.fixture
def check(macros: Macros, up: Any) -> Callable[..., list[str]]:
    """Check the order of a key whose plan has the filters `filters`. Return the sent statements."""

    def check(*keys: dict[str, str], kind: str = "iceberg", filters: str = "", **more: Any) -> Any:
        backfill = {"upstream": {"kind": kind, "relation": up}, "feed": None, **more}
        analysis = {"key": list(keys), "key_order_checked": False}
        macros.results = [[[TAKEN.format(filters)]]] * 2
        analysis = macros.call("check_key_order", backfill, analysis)
        assert macros.call("check_key_order", backfill, analysis) == analysis  # once in a run
        return [" ".join(statement.sql.split()) for statement in macros.statements]

    return check


def test_a_comparison_that_iceberg_takes_is_of_a_string(check: Callable[..., Any]) -> None:
    statements = check(ID, SHARD, NAME, filters=", id > 'no uuid 1', name > 'no uuid 2'")

    assert len(statements) == 1
    assert statements[0].endswith(
        "explain select `id`, `name` from lake.up where `id` > 'no uuid 1' and `name` > 'no uuid 2'"
    )


@pytest.mark.parametrize(
    ("filters", "column"), [(", name > 'no uuid 2'", "id"), (", id > 'no uuid 1'", "name")]
)
def test_a_comparison_that_iceberg_leaves_to_spark_is_of_a_uuid(
    check: Callable[..., Any], refused: Any, filters: str, column: str
) -> None:
    with refused(
        f"the key {column} of lake.up is a uuid, but Iceberg and Spark order uuids differently. "
        "Read a table that has this key as a string, or name columns of another type in "
        "unique_key."
    ):
        check(ID, NAME, filters=filters)


def test_a_change_table_is_asked_too(check: Callable[..., Any], refused: Any) -> None:
    events = SparkRelation.create(schema="lake", identifier="events")
    feed = {"kind": "iceberg", "relation": events}

    with refused("the key id of lake.events is a uuid, but"):
        check(ID, kind="delta", feed=feed)


@pytest.mark.parametrize(("key", "kind"), [(SHARD, "iceberg"), (ID, "delta")])
def test_nothing_else_is_asked(check: Callable[..., Any], key: dict[str, str], kind: str) -> None:
    assert check(key, kind=kind) == []
