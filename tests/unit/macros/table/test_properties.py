"""The properties of a table as Spark shows them."""

from __future__ import annotations

from typing import Any

from support.macros import Macros


def test_the_properties_of_a_table_are_a_dict(macros: Macros, up: Any) -> None:
    macros.results = [[["dbt_backfill.id", "b1"], ["format-version", "3"]]]

    assert macros.call("read_table_properties", up) == {
        "dbt_backfill.id": "b1",
        "format-version": "3",
    }
    assert macros.statements[0].sql.strip().endswith("show tblproperties lake.up")


def test_properties_of_a_delta_table_that_spark_does_not_show_are_in_its_detail(
    macros: Macros, up: Any
) -> None:
    hidden, shown = ("dbt_backfill.mv", "*********(redacted)"), ("delta.minReaderVersion", "1")
    detail = {"id": "t1", "properties": {"dbt_backfill.mv": "lake.url"}}
    macros.results = [[hidden, shown], [detail], [hidden]]

    properties = macros.call("read_table_properties", up)
    assert properties == {"dbt_backfill.mv": "lake.url", "delta.minReaderVersion": "1"}
    assert macros.statements[1].sql.endswith("describe detail lake.up")
    assert macros.call("read_table_properties", up) == dict([hidden])
