"""The adapter's relations have their catalog in the schema."""

from __future__ import annotations

import pytest

from dbt.adapters.spark_backfill.relation import SparkBackfillRelation


@pytest.mark.parametrize(
    ("database", "schema", "rendered"),
    [
        (None, "raw", "raw.orders"),
        ("lake", "raw", "lake.raw.orders"),
        ("raw", "raw", "raw.raw.orders"),
        (None, "lake.raw", "lake.raw.orders"),
    ],
)
def test_a_database_is_the_first_part_of_the_name(
    database: str | None, schema: str, rendered: str
) -> None:
    relation = SparkBackfillRelation.create(database, schema, "orders")

    assert relation.render() == rendered
    assert relation.schema == rendered.removesuffix(".orders")
    assert isinstance(relation, SparkBackfillRelation)
    assert relation.incorporate(path={"identifier": "x"}).render() == f"{relation.schema}.x"
