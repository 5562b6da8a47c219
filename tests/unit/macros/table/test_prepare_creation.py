"""Refusals before the tables of an MV are created."""

from __future__ import annotations

from typing import Any

import pytest

from support.macros import Macros, Table


@pytest.mark.parametrize("columns", [("k", "v", "v"), ("k", "v", "V")])
def test_a_query_with_two_columns_of_one_name_is_refused_before_anything_is_created(
    create: Any, refused: Any, macros: Macros, columns: tuple[str, ...]
) -> None:
    with refused("its query returns the column 'v' twice. Give the columns different names."):
        create(*columns)
    assert macros.statements == []


@pytest.mark.parametrize(
    "config",
    [
        *({"partition_by": ["k", "day"]}, {"clustered_by": "day"}, {"partition_by": "day"}),
        {"tblproperties": {"delta.dataSkippingStatsColumns": "`k`, v, day.x"}},
    ],
)
def test_a_column_of_a_clause_that_the_query_does_not_return_is_refused(
    create: Any, refused: Any, macros: Macros, config: dict[str, Any]
) -> None:
    macros.config.update(config)
    option = [*config, *config.get("tblproperties", ())][-1]
    with refused(f"{option} names the column 'day', which its query does not return. "):
        create("k", "v")
    assert macros.statements == []


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        (
            {"clustered_by": "k", "buckets": 4},
            "buckets is 4, but a Delta table has no buckets. Remove ",
        ),
        (
            {"clustered_by": "k", "partition_by": "v"},
            "partition_by and clustered_by are both set, ",
        ),
    ],
)
def test_a_layout_that_delta_does_not_have_is_refused_before_anything_is_created(
    create: Any, refused: Any, macros: Macros, config: dict[str, Any], fact: str
) -> None:
    macros.config.update(config)
    with refused(fact):
        create("k", "v")
    assert macros.statements == []

    macros.config["file_format"] = "iceberg"
    create("k", "v")


@pytest.mark.parametrize(
    ("root", "stands_at"),
    [
        ("/lake", "file:/lake/mv"),
        ("/lake/", "/lake/mv"),
        ("s3://b/lake", "s3a://b/lake/mv"),
        ("hdfs://host:1/lake", "hdfs://host:1/lake/mv/"),
        ("relative", "file:/warehouse/relative/mv"),
        ("../relative/", "file:/relative/mv"),
        ("/lake", None),
    ],
)
def test_a_table_may_be_rebuilt_where_it_stands(
    create: Any, macros: Macros, root: str, stands_at: str | None
) -> None:
    macros.config["location_root"] = root
    macros.tables["lake.other"] = Table()
    if stands_at:
        information = f"Type: EXTERNAL\nLocation: {stands_at}\nx"
        macros.tables["lake.mv"] = Table(information=information)
    create("k", "v")


def test_a_rebuild_elsewhere_is_refused_before_it_is_planned(
    create: Any, refused: Any, macros: Macros
) -> None:
    macros.config["location_root"] = "/elsewhere"
    macros.tables["lake.mv"] = Table(information="Location: file:/lake/mv\n")
    with refused("the table is at file:/lake/mv, but with this location_root it would be at /"):
        create("k", "v")

    macros.config["location_root"] = "other"
    with refused("the table is at file:/lake/mv, but with this location_root it would be at"):
        create("k", "v")

    macros.tables = {"lake.other": Table()}
    create("k", "v")


def test_columns_of_clauses_may_be_in_other_case_and_transformed(
    create: Any, macros: Macros
) -> None:
    macros.config.update(partition_by=["K", "days(at)"])
    create("k", "at")


def test_a_column_that_delta_cannot_merge_changes_into_is_refused_before_anything_is_created(
    create: Any, refused: Any, macros: Macros
) -> None:
    with refused("its query returns the column 'a`b', but the change data feed of a Delta table "):
        create("k", "a`b")
    assert macros.statements == []


@pytest.mark.parametrize(
    "config",
    [{"file_format": "iceberg"}, {"tblproperties": {"delta.enableChangeDataFeed": "false"}}],
)
def test_such_a_column_is_fine_in_a_table_without_that_feed(
    create: Any, macros: Macros, config: dict[str, Any]
) -> None:
    macros.config.update(config)
    assert create("k", "a`b")
