"""The format of a table is read from dbt's cache or from Spark."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.spark.relation import SparkRelation

from support.macros import Macros

THREE_PARTS = SparkRelation.create(schema="prod.lake", identifier="it's")


def _table(**known: Any) -> SparkRelation:
    return SparkRelation.create(schema="lake", identifier="up", type="table", **known)


HIVE = "Provider: hive\nTable Properties: [current-snapshot-id=7, table_type=ICEBERG]\n"


@pytest.mark.parametrize(
    ("known", "format_"),
    [
        ({"is_delta": True}, "delta"),
        ({"is_delta": True, "information": "Provider: delta"}, "delta"),
        ({"is_iceberg": True}, "iceberg"),
        ({"information": "Type: MANAGED\nProvider: iceberg\n"}, "iceberg"),
        ({"information": HIVE}, "iceberg"),  # as Iceberg's Hive catalog lists it
        ({"information": "Provider: hive\n"}, "hive"),
        ({"information": "Provider: parquet\nOwner: me"}, "parquet"),
    ],
)
def test_the_format_of_a_table_that_was_listed_is_known(
    macros: Macros, known: dict[str, Any], format_: str
) -> None:
    assert macros.call("get_table_format", _table(**known)) == format_
    assert macros.statements == []


@pytest.mark.parametrize("provider", ["delta", "iceberg", "parquet"])
def test_spark_is_asked_for_the_format_of_a_table_that_was_built_in_the_same_invocation(
    macros: Macros, provider: str
) -> None:
    """dbt's cache has the relation that the materialization returned.

    This relation lacks Spark's description.
    """
    macros.results = [[["id", "bigint", None], ["Provider", provider, ""], ["Owner", "me", ""]]]

    assert macros.call("get_table_format", _table()) == provider
    assert macros.statements[0].sql.strip().endswith("describe extended lake.up")


def test_a_table_is_described_by_the_name_that_it_is_read_by(macros: Macros) -> None:
    macros.call("get_table_format", _table(), THREE_PARTS)

    assert macros.statements[0].sql.strip().endswith("describe extended prod.lake.it's")


def test_a_table_that_spark_tells_no_format_of_has_none(macros: Macros) -> None:
    macros.results = [[["id", "bigint", None]]]

    assert macros.call("get_table_format", _table()) is None


@pytest.mark.parametrize(
    ("type_", "file_format", "kept"),
    [
        ("smallint", "iceberg", "int"),
        ("tinyint", "iceberg", "int"),
        ("bigint", "iceberg", "bigint"),
        ("smallint", "delta", "smallint"),
    ],
)
def test_iceberg_keeps_small_integers_as_larger_ones(
    macros: Macros, type_: str, file_format: str, kept: str
) -> None:
    assert macros.call("get_kept_type", type_, file_format) == kept
